"""The policies of the live system by name: nothing else knows which there are.

A policy is the rules that it decides by, and the live code asks these. The thesis policy has those of `core.policy`
alone: each key has a life and a lease of its own, and its node runs for its leases. The others judge a node by the use
that all its keys make of it, and the keys in it are its guests; their rules are imported when one of them is chosen.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from burstcache.core.errors import InvalidSettingError
from burstcache.core.parameters import Parameters

if TYPE_CHECKING:
    from burstcache.core.boot_loads import LoadRule
    from burstcache.core.gathering import GatherRule
    from burstcache.core.key_use import KeyRule
    from burstcache.core.node_use import UseRule
    from burstcache.core.worth import Worth


@dataclass(frozen=True, slots=True)
class UsePolicy:
    """What decides where a node is judged by its use."""

    worth: Worth
    node: UseRule  # when it boots and stops
    key: KeyRule  # when a cache function serves a key before
    load: LoadRule  # what a boot loads
    gather: GatherRule  # how long readers gather what they report


@dataclass(frozen=True, slots=True)
class LivePolicy:
    """One policy under the settings of a stack."""

    parameters: Parameters  # of the thesis policy: of leased keys
    use: UsePolicy | None = None  # None: only leased keys run a node

    @property
    def takes_guests(self) -> bool:
        """Whether readers ask a running node for any of its keys and fill it themselves."""
        return self.use is not None


def thesis(parameters: Parameters) -> LivePolicy:
    """Return the thesis policy."""
    return LivePolicy(parameters)


def live_policy(name: str, parameters: Parameters, worth: Callable[[], Worth]) -> LivePolicy:
    """Return the policy of that name.

    Args:
        name: The value of the template's parameter `Policy`.
        parameters: Of the thesis policy.
        worth: Returns what hits are worth in the stack; not asked for where nothing is weighed by it.

    Raises:
        InvalidSettingError: There is no such policy, or what it weighs is not accepted.
    """
    if name not in POLICIES:
        raise InvalidSettingError(f"policy {name!r}: expected one of {', '.join(POLICIES)}")
    make_use = POLICIES[name]
    return LivePolicy(parameters, make_use and make_use(worth()))


def _use_policy(worth: Worth, node: UseRule, key: KeyRule) -> UsePolicy:
    from burstcache.core.boot_loads import load_rule
    from burstcache.core.gathering import gather_rule

    return UsePolicy(worth, node, key, load_rule(worth), gather_rule(worth))


def _breakeven(worth: Worth) -> UsePolicy:
    from burstcache.core.key_use import breakeven_key
    from burstcache.core.node_use import breakeven_use

    return _use_policy(worth, breakeven_use(worth), breakeven_key(worth))


def _hazard(worth: Worth) -> UsePolicy:
    from burstcache.core.key_use import hazard_key
    from burstcache.core.node_use import hazard_use

    return _use_policy(worth, hazard_use(worth), hazard_key(worth))


POLICIES: dict[str, Callable[[Worth], UsePolicy] | None] = {
    "thesis": None,
    "breakeven": _breakeven,
    "hazard": _hazard,
}
