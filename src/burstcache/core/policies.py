"""Registry of the live system's policies by name.

A policy is a set of rules that the live code calls. Under `thesis`, all rules are in `core.policy`: each key has its
own life and lease, and a node runs while it has leases. Under the other policies, the keys of a node are read-through
entries (guests), and their combined use decides when the node runs. These policies' rules are imported only if such a
policy is selected.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from burstcache.core.errors import InvalidSettingError
from burstcache.core.parameters import Parameters

if TYPE_CHECKING:
    from burstcache.core.batching import BatchRule
    from burstcache.core.boot_loads import LoadRule
    from burstcache.core.key_use import KeyRule
    from burstcache.core.node_use import UseRule
    from burstcache.core.worth import Worth


@dataclass(frozen=True, slots=True)
class UsePolicy:
    """The rules of a policy that decides by use."""

    worth: Worth
    node: UseRule  # when a node boots, and what its hits count
    on_demand: UseRule  # when a node stops that runs on demand since Fargate Spot had no capacity
    key: KeyRule  # when a cache function serves a key while no node runs
    load: LoadRule  # which keys a boot loads
    batch: BatchRule  # when readers send a report

    def running(self, task_kind: str) -> UseRule:
        """Return the rule that decides when a running node stops, by the kind of its task (`core.rows.NodeRow`)."""
        return self.on_demand if task_kind == "fargate" else self.node


@dataclass(frozen=True, slots=True)
class LivePolicy:
    """One policy with the settings of a stack."""

    parameters: Parameters  # of the thesis policy, for leased keys
    use: UsePolicy | None = None  # if None, nodes run only for leased keys

    @property
    def takes_guests(self) -> bool:
        """Whether nodes hold read-through entries, that is, readers may fill a running node with any of its keys."""
        return self.use is not None


def thesis(parameters: Parameters) -> LivePolicy:
    """Return the thesis policy."""
    return LivePolicy(parameters)


def live_policy(name: str, parameters: Parameters, worth: Callable[[], Worth]) -> LivePolicy:
    """Return the policy with that name.

    Args:
        name: The value of the template's parameter `Policy`.
        parameters: Parameters of the thesis policy.
        worth: Function that returns the value of hits in the stack. Called only for policies that decide by use.

    Raises:
        InvalidSettingError: There is no such policy, or the value of hits is not accepted.
    """
    if name not in POLICIES:
        raise InvalidSettingError(f"policy {name!r}: expected one of {', '.join(POLICIES)}")
    make_use = POLICIES[name]
    return LivePolicy(parameters, make_use and make_use(worth()))


def _use_policy(worth: Worth, node: UseRule, on_demand: UseRule, key: KeyRule) -> UsePolicy:
    from burstcache.core.batching import batch_rule
    from burstcache.core.boot_loads import load_rule

    return UsePolicy(worth, node, on_demand, key, load_rule(worth), batch_rule(worth))


def _breakeven(worth: Worth) -> UsePolicy:
    from burstcache.core.key_use import breakeven_key
    from burstcache.core.node_use import breakeven_use

    return _use_policy(worth, breakeven_use(worth), breakeven_use(worth, task_kind="fargate"), breakeven_key(worth))


def _hazard(worth: Worth) -> UsePolicy:
    from burstcache.core.key_use import hazard_key
    from burstcache.core.node_use import hazard_use

    return _use_policy(worth, hazard_use(worth), hazard_use(worth, task_kind="fargate"), hazard_key(worth))


POLICIES: dict[str, Callable[[Worth], UsePolicy] | None] = {
    "thesis": None,
    "breakeven": _breakeven,
    "hazard": _hazard,
}
