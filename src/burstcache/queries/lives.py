"""The newest lives of a key, by their executions."""

from __future__ import annotations

from dataclasses import dataclass

from burstcache.adapters.calls import ask
from burstcache.core.keys import is_life_of
from burstcache.queries.history import Step
from burstcache.queries.system import System

_MOST = 6
_LISTED = 1_000  # executions of all keys: what one call returns


@dataclass(frozen=True, slots=True)
class KeyLife:
    """One life of a key."""

    execution_name: str
    steps: tuple[Step, ...]  # the states that it has entered; none: Step Functions has no such execution any more

    @property
    def is_over(self) -> bool:
        """Whether it has ended, well or badly."""
        return bool(self.steps) and not self.steps[-1].state


def lives_of(system: System, hash_: str) -> list[KeyLife]:
    """Return the newest lives of a key, the newest first: at most six, of the newest thousand of all keys.

    Raises:
        ServiceError: Step Functions fails.
    """
    if not system.key_machine_arn:
        return []
    listed = ask(system.states.list_executions, stateMachineArn=system.key_machine_arn, maxResults=_LISTED)
    names = [each["name"] for each in listed["executions"] if is_life_of(each["name"], hash_)]
    return [KeyLife(name, tuple(system.key_history(name).read_new() or ())) for name in names[:_MOST]]
