"""The explanation of a key in a world."""

from __future__ import annotations

from burstcache.access import RedisNode
from burstcache.queries.explain import Explanation, explain
from burstcache.queries.moves import Move, StackRules
from burstcache.queries.system import System
from burstcache.settings.explain import PolicySettings
from support.aws import TABLE
from support.functions import MAX_OBJECT_BYTES
from support.policies import policy_named
from support.world import World

MAX_HOT_KEYS = 3  # of a world


def rules_of(world: World, policy_name: str) -> StackRules:
    """Return what a world decides by."""
    use = world.policy.use or policy_named("breakeven").use
    assert use is not None
    settings = PolicySettings(
        policy_name=policy_name,
        policy=world.policy,
        redis_nodes=tuple(RedisNode(name, "", "127.0.0.1", 6379) for name in world.node_names),
        always_on_nodes=0,
        max_hot_keys=MAX_HOT_KEYS,
        has_relay=world.has_relay,
        max_object_bytes=MAX_OBJECT_BYTES,
        memory_mb=0,
        pool_members=0,
    )
    return StackRules(settings, use.worth, express=None)


def explained(world: World, key: str, policy_name: str = "thesis") -> Explanation:
    """Return why a key is where it is now."""
    system = System(
        table_name=TABLE,
        key_machine_arn=world.key_machine,
        node_machine_arn=world.node_machine,
        node_names=tuple(world.node_names),
        dynamodb=world.clients.dynamodb,
        states=world.clients.states,
        clock=world.clock,
    )
    return explain(system, rules_of(world, policy_name), key)


def move(explanation: Explanation, rule: str) -> Move:
    """Return the only move by a rule."""
    (found,) = (each for each in explanation.moves if each.rule == rule)
    return found
