"""The query behind `burstcache explain`: a key's tier, the tier's rule with its numbers, costs and transitions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from burstcache.access import names_of
from burstcache.adapters.hot_keys import HotKeys
from burstcache.adapters.use_table import StoredUse
from burstcache.core import policy
from burstcache.core.comparison import Comparison
from burstcache.core.express import express_rule
from burstcache.core.keys import key_hash
from burstcache.core.parameters import US_PER_S
from burstcache.core.phases import NodePhase
from burstcache.core.placement import node_for
from burstcache.core.policy import RecordedRequest
from burstcache.core.rows import KeyRow, NodeRow, Pause
from burstcache.core.worth import Below, sheet_of_region
from burstcache.queries.history import Step
from burstcache.queries.key_costs import Cost, EndedLife, Month, costs_of, ended_of, month_of
from burstcache.queries.keys import key_view
from burstcache.queries.lives import KeyLife, lives_of
from burstcache.queries.node_memory import StackMemory, stack_memory
from burstcache.queries.places import Place, node_of, place_of
from burstcache.queries.slices import ObjectHead, ObjectSlices, SliceTiers
from burstcache.queries.system import System
from burstcache.queries.transitions import KeySnapshot, StackRules, Transition, run_blockers, transitions_of
from burstcache.settings.explain import PolicySettings
from burstcache.settings.policy import worth_in

ServedBy = Literal[
    "",  # no rule: no faster tier has the key
    "by_hand",  # a person has started the key's life
    "is_hot",
    "key_starts",
    "wants_promotion",
    "node_boots",
    "held_by_hand",  # a read-through entry of a node that a person holds
    "always_on",  # a read-through entry of a node that never stops
]


@dataclass(frozen=True, slots=True)
class Explanation:
    """The explanation of a key's tier at an instant."""

    key: str
    at_us: int
    policy: str
    state: str  # of the key's life, as the Step Functions console shows it
    is_expired: bool  # the state's deadline has passed, so readers treat the key as one on S3
    tier: Literal["s3", "lambda", "redis"]  # the tier that serves a read now, apart from readers' memory
    below: Below  # the tier that serves frequent reads without a cache function or Redis
    since_us: int  # when the key entered `tier`; 0 if unknown, or if the key has always been there
    rule: ServedBy
    compared: tuple[Comparison, ...]  # values of the rule's decision, as far as the table has them
    size_bytes: int  # 0 if unknown
    execution_name: str  # of the current or last life; empty before the first life
    node: str  # the key's home node; empty if the stack has no nodes
    node_phase: NodePhase | Literal[""]
    moves: tuple[Transition, ...]
    costs: tuple[Cost, ...]  # of the current life, and of the current run of the key's node
    ended: EndedLife | None  # the key's newest ended lives; None if unknown
    month: Month
    exists: bool | None = None  # whether S3 has the object; None if not checked, or if access is denied
    node_task: str = ""  # fargate or fargate-spot: what the node's newest task runs on; empty on EC2
    node_notice: str = ""  # the trouble with the node's newest tasks, in ECS's words, such as a lack of capacity
    node_silence: str = ""  # why the Redis that has the key does not answer; empty if it does, or was not asked
    slices: ObjectSlices | None = None  # of an object above the limit; None otherwise, or for an older stack
    memory: StackMemory | None = None  # of the stack's nodes; None under the thesis's policy
    pause: Pause | None = None  # of the stack


def stack_rules(variables: Mapping[str, str]) -> StackRules:
    """Return the rules of a stack's policy.

    Args:
        variables: Variables of the stack's output `PolicySettings`.

    Raises:
        InvalidSettingError: A variable is missing or invalid.
    """
    settings, worth, express = PolicySettings.read(variables), worth_in(variables), None
    if worth.prices.has_express:
        express = express_rule(sheet_of_region(variables["AWS_REGION"]), hit_value_usd=float(worth.wait_usd))
    return StackRules(settings, worth, express)


def explain(
    system: System,
    rules: StackRules,
    key: str,
    lives: Sequence[KeyLife] | None = None,
    *,
    head: ObjectHead | None = None,
    slice_tiers: SliceTiers | None = None,
) -> Explanation:
    """Explain the tier of a key. A key that has never been read is on S3.

    Args:
        system: The system to query.
        rules: The stack's rules.
        key: The key.
        lives: The key's newest lives (`lives_of`). If None, they are read.
        head: S3's response to a HEAD of the key. None: it was not asked.
        slice_tiers: The tiers that are asked for slices of a large object. None: they are not asked.

    Raises:
        ServiceError: DynamoDB or Step Functions fails.
    """
    hash_, now_us, settings = key_hash(key), system.clock.now_us(), rules.settings
    row = system.keys.read(hash_) or KeyRow(hash=hash_, key=key)
    head = head or ObjectHead()
    if head.size_bytes:
        row = replace(row, size_bytes=head.size_bytes)
    names = names_of(settings.redis_nodes)
    nodes = system.nodes.read_many(names) if names else []
    node = _node(row, nodes, now_us, names)
    uses, use, seen = system.uses, StoredUse(), None
    sharers = sum(bool(lease.key) for lease in system.nodes.leases(node.node)) if node else 0
    if node and settings.policy.takes_guests:
        use, seen = uses.read(node.node), uses.seen(node.node, [hash_]).get(hash_)
        if node.phase_at(now_us) != "stopped":
            sharers = len(uses.newest_seen(node.node, now_us=now_us))
    snapshot = KeySnapshot(
        now_us=now_us,
        row=row,
        node=node,
        is_served=place_of(row, node, now_us, max_object_bytes=settings.max_object_bytes) != "s3",
        use=use,
        seen=seen,
        hot=HotKeys(system.keys, settings.max_hot_keys, system.dynamodb, system.clock).live(now_us),
        pause=system.pauses.read(),
    )
    steps = system.key_history(row.execution_name).read_new() if row.is_live(now_us) else None
    lives = lives_of(system, hash_) if lives is None else lives
    explained = explanation(snapshot, rules, steps or (), sharers=sharers, lives=lives)
    slices = None
    if slice_tiers is not None and head.exists and head.size_bytes > settings.max_object_bytes:
        slices = slice_tiers.slices_of(key, head, nodes, now_us)
    return replace(explained, exists=head.exists, slices=slices, memory=stack_memory(system, rules))


def explanation(
    snapshot: KeySnapshot,
    rules: StackRules,
    steps: Sequence[Step] = (),
    *,
    sharers: int = 0,
    lives: Sequence[KeyLife] = (),
) -> Explanation:
    """Build the explanation from the table's rows.

    Args:
        snapshot: The table's rows.
        rules: The stack's rules.
        steps: The states that a live key's execution has entered.
        sharers: Number of keys on the key's node, if the node runs.
        lives: The key's newest lives.
    """
    row, node, now_us = snapshot.row, snapshot.node, snapshot.now_us
    present = row.execution_name if row.is_live(now_us) else ""  # its execution may have ended since the row was read
    view = key_view(row, now_us, steps, node=node, max_object_bytes=rules.settings.max_object_bytes)
    place = place_of(row, node, now_us, max_object_bytes=rules.settings.max_object_bytes)
    rule, compared = _rule(snapshot, rules, place)
    return Explanation(
        key=row.key,
        at_us=now_us,
        policy=rules.settings.policy_name,
        state=view.state,
        is_expired=view.is_expired,
        tier=view.tier,
        below=rules.worth.below(snapshot.size_bytes)
        if snapshot.size_bytes <= rules.settings.max_object_bytes
        else "s3",
        since_us=view.since_us,
        rule=rule,
        compared=compared,
        size_bytes=snapshot.size_bytes,
        execution_name=view.execution_name,
        node=node.node if node else "",
        node_phase=node.phase_at(now_us) if node else "",
        node_task=node.task_kind if node and node.phase_at(now_us) != "stopped" else "",
        node_notice=node.notice if node else "",
        moves=transitions_of(snapshot, rules),
        costs=costs_of(snapshot, rules, steps, sharers=sharers),
        ended=ended_of([life for life in lives if life.execution_name != present], rules.worth.prices),
        month=month_of(snapshot, rules),
        pause=snapshot.pause,
    )


def _node(row: KeyRow, nodes: Sequence[NodeRow], now_us: int, names: Sequence[str]) -> NodeRow | None:
    """Return the node that has the key, or else its home node. `nodes` have run before, `names` include all nodes."""
    if not names:
        return None
    by_name = {node.node: node for node in nodes}
    name = node_for(row.hash, names)
    return node_of(row, by_name.values(), now_us) or by_name.get(name) or NodeRow(name)


def _rule(snapshot: KeySnapshot, rules: StackRules, place: Place) -> tuple[ServedBy, tuple[Comparison, ...]]:
    """Return the rule by which a tier serves the key, with the comparisons that can be derived from the rows."""
    row, parameters = snapshot.row, rules.settings.policy.parameters
    if place == "s3":
        return "", ()
    if place == "guest":
        return _guest_rule(snapshot, rules), ()
    if row.trigger and row.trigger.request_id == "by-hand":
        return "by_hand", ()
    if rules.settings.policy.use is not None:
        return "key_starts", ()
    if place == "redis" and row.entry != "redis":
        count = policy.count_since(row.trigger, row.window) if row.trigger else None
        return "wants_promotion", (Comparison("requests_since_start", count, parameters.redis_threshold),)
    before = [request.at_us for request in row.window if _is_up_to(request, row.trigger)]
    span_us = policy.window_span_us(before, parameters)
    value_s = None if span_us is None else span_us / US_PER_S
    return "is_hot", (Comparison("window_span_s", value_s, parameters.lambda_threshold_us / US_PER_S),)


def _guest_rule(snapshot: KeySnapshot, rules: StackRules) -> ServedBy:
    """Return the rule for a read-through entry: the reason that keeps its node running now, or else its boot."""
    reasons = [blocker.reason for blocker in run_blockers(snapshot, rules, snapshot.node)] if snapshot.node else []
    if "always_on" in reasons:
        return "always_on"
    return "held_by_hand" if "held_by_hand" in reasons else "node_boots"


def _is_up_to(request: RecordedRequest, trigger: RecordedRequest | None) -> bool:
    return trigger is not None and request <= trigger
