"""The newest lives of a key, from their executions."""

from __future__ import annotations

import json
from dataclasses import dataclass

from burstcache.adapters.calls import call_aws
from burstcache.core.keys import is_life_of
from burstcache.queries.history import Step
from burstcache.queries.system import System

_MAX_LIVES = 6
_MAX_LISTED = 1_000  # maximum number of executions, of all keys, that one call returns


@dataclass(frozen=True, slots=True)
class KeyLife:
    """One life of a key."""

    execution_name: str
    steps: tuple[Step, ...]  # the entered states; empty if Step Functions no longer has the execution

    @property
    def is_over(self) -> bool:
        """Whether the life has ended, successfully or not."""
        return bool(self.steps) and not self.steps[-1].state

    @property
    def task_kind(self) -> str:
        """Kind of the node's task in an ended life (`core.rows.NodeRow`). Empty: EC2, or what its nodes ask for."""
        output = json.loads(self.steps[-1].output or "{}") if self.is_over else {}
        return str(output.get("task_kind", ""))


def lives_of(system: System, hash_: str) -> list[KeyLife]:
    """Return the newest lives of a key, newest first: at most six, found among the newest 1,000 lives of all keys.

    Raises:
        ServiceError: Step Functions fails.
    """
    if not system.key_machine_arn:
        return []
    listed = call_aws(system.states.list_executions, stateMachineArn=system.key_machine_arn, maxResults=_MAX_LISTED)
    names = [each["name"] for each in listed["executions"] if is_life_of(each["name"], hash_)]
    histories = {name: system.key_history(name, with_data=True) for name in names[:_MAX_LIVES]}
    return [KeyLife(name, tuple(history.read_new() or ())) for name, history in histories.items()]
