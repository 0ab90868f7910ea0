"""Why a key is where it is: the tier, the rule, its numbers, what it costs, what would move it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from burstcache.access import names_of
from burstcache.adapters.hot_keys import HotKeys
from burstcache.adapters.node_table import NodeTable
from burstcache.adapters.use_table import StoredUse
from burstcache.core import policy
from burstcache.core.compared import Compared
from burstcache.core.express import express_rule
from burstcache.core.keys import key_hash
from burstcache.core.parameters import US_PER_S
from burstcache.core.phases import NodePhase
from burstcache.core.placement import node_for
from burstcache.core.policy import Request
from burstcache.core.rows import KeyRow, Lease, NodeRow
from burstcache.core.worth import Below, sheet_of_region
from burstcache.queries.history import Step
from burstcache.queries.key_costs import Cost, Ended, Month, costs_of, ended_of, month_of
from burstcache.queries.keys import key_view
from burstcache.queries.lives import KeyLife, lives_of
from burstcache.queries.moves import Known, Move, StackRules, moves_of, run_holds
from burstcache.queries.places import Place, node_of, place_of
from burstcache.queries.system import System
from burstcache.settings.explain import PolicySettings
from burstcache.settings.policy import worth_in

ServedBy = Literal[
    "",  # no rule: S3 serves what nothing faster does
    "by_hand",  # a person has started it
    "is_hot",
    "key_starts",
    "wants_promotion",
    "node_boots",
    "held_by_hand",  # a person holds the node that takes the key as a guest
    "always_on",  # that node never stops
]


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a key is where it is at an instant."""

    key: str
    at_us: int
    policy: str
    state: str  # of its life, as the Step Functions console shows it
    is_expired: bool  # the state's deadline has passed, so every reader takes the key for one of S3
    tier: Literal["s3", "lambda", "redis"]  # that serves a read now, apart from the memory of readers
    below: Below  # what serves it if neither a cache function nor Redis does, once it has been read often enough
    since_us: int  # in that tier; 0: nothing is known of another
    rule: ServedBy
    compared: tuple[Compared, ...]  # when the rule decided, as far as the table has it
    size_bytes: int  # 0: unknown
    execution_name: str  # of the current or last life; empty: none yet
    node: str  # that the key belongs to; empty: the stack has none
    node_phase: NodePhase | Literal[""]
    moves: tuple[Move, ...]
    costs: tuple[Cost, ...]  # of the present life, and of the present run of its node
    ended: Ended | None  # of its newest lives before; None: none is known
    month: Month
    exists: bool | None = None  # in S3; None: nobody has looked, or may


def stack_rules(variables: Mapping[str, str]) -> StackRules:
    """Return what a stack decides by.

    Args:
        variables: What its output `PolicySettings` has.

    Raises:
        InvalidSettingError: One is missing or not accepted.
    """
    settings, worth, express = PolicySettings.read(variables), worth_in(variables), None
    if worth.prices.has_express:
        express = express_rule(sheet_of_region(variables["AWS_REGION"]), hit_value_usd=float(worth.wait_usd))
    return StackRules(settings, worth, express)


def explain(system: System, rules: StackRules, key: str, lives: Sequence[KeyLife] | None = None) -> Explanation:
    """Return why a key is where it is; a key that has never been asked for is with S3.

    Args:
        system: What is asked.
        rules: What the stack decides by.
        key: The key.
        lives: Its newest ones (`lives_of`); None: they are read.

    Raises:
        ServiceError: DynamoDB or Step Functions fails.
    """
    hash_, now_us, settings = key_hash(key), system.clock.now_us(), rules.settings
    row = system.keys.read(hash_) or KeyRow(hash=hash_, key=key)
    node = _node(row, system.nodes, now_us, names_of(settings.redis_nodes))
    uses, use, seen = system.uses, StoredUse(), None
    leases: tuple[Lease, ...] = ()
    sharers = 0
    if node:
        leases = tuple(system.nodes.leases(node.node))
        sharers = sum(bool(lease.key) for lease in leases)
    if node and settings.policy.takes_guests:
        use, seen = uses.read(node.node), uses.seen(node.node, [hash_]).get(hash_)
        if node.phase_at(now_us) != "stopped":
            sharers = len(uses.newest_seen(node.node, now_us=now_us))
    known = Known(
        now_us=now_us,
        row=row,
        node=node,
        is_served=place_of(row, node, now_us, max_object_bytes=settings.max_object_bytes) != "s3",
        leases=leases,
        use=use,
        seen=seen,
        hot=HotKeys(system.keys, settings.max_hot_keys, system.dynamodb, system.clock).live(now_us),
        pause=system.pauses.read(),
    )
    steps = system.key_history(row.execution_name).read_new() if row.is_live(now_us) else None
    lives = lives_of(system, hash_) if lives is None else lives
    return explanation(known, rules, steps or (), sharers=sharers, lives=lives)


def explanation(
    known: Known, rules: StackRules, steps: Sequence[Step] = (), *, sharers: int = 0, lives: Sequence[KeyLife] = ()
) -> Explanation:
    """Return what follows from what the table has.

    Args:
        known: The table's rows.
        rules: What the stack decides by.
        steps: The states that the execution of a live key has entered.
        sharers: How many keys use the key's node, if it runs.
        lives: The key's newest lives.
    """
    row, node, now_us = known.row, known.node, known.now_us
    present = row.execution_name if row.is_live(now_us) else ""  # which may have ended since the row was read
    view = key_view(row, now_us, steps, node=node, max_object_bytes=rules.settings.max_object_bytes)
    place = place_of(row, node, now_us, max_object_bytes=rules.settings.max_object_bytes)
    rule, compared = _rule(known, rules, place)
    return Explanation(
        key=row.key,
        at_us=now_us,
        policy=rules.settings.policy_name,
        state=view.state,
        is_expired=view.is_expired,
        tier=view.tier,
        below=rules.worth.below(known.size_bytes),
        since_us=view.since_us,
        rule=rule,
        compared=compared,
        size_bytes=known.size_bytes,
        execution_name=view.execution_name,
        node=node.node if node else "",
        node_phase=node.phase_at(now_us) if node else "",
        moves=moves_of(known, rules),
        costs=costs_of(known, rules, steps, sharers=sharers),
        ended=ended_of([life for life in lives if life.execution_name != present], rules.worth.prices),
        month=month_of(known, rules),
    )


def _node(row: KeyRow, table: NodeTable, now_us: int, names: Sequence[str]) -> NodeRow | None:
    """Return the node of a key; of one that none takes, the node where it belongs."""
    if not names:
        return None
    by_name = {node.node: node for node in table.read_many(names)}  # those that have ever run
    name = node_for(row.hash, names)
    return node_of(row, by_name.values(), now_us) or by_name.get(name) or NodeRow(name)


def _rule(known: Known, rules: StackRules, place: Place) -> tuple[ServedBy, tuple[Compared, ...]]:
    """Return the rule by which a tier serves the key, and what it compared as far as the rows still have that."""
    row, parameters = known.row, rules.settings.policy.parameters
    if place == "s3":
        return "", ()
    if place == "guest":
        return _guest_rule(known, rules), ()
    if row.trigger and row.trigger.request_id == "by-hand":
        return "by_hand", ()
    if rules.settings.policy.use is not None:
        return "key_starts", ()
    if place == "redis" and row.entry != "redis":
        count = policy.count_since(row.trigger, row.window) if row.trigger else None
        return "wants_promotion", (Compared("requests_since_start", count, parameters.redis_threshold),)
    before = [request.at_us for request in row.window if _is_up_to(request, row.trigger)]
    span_us = policy.window_span_us(before, parameters)
    value_s = None if span_us is None else span_us / US_PER_S
    return "is_hot", (Compared("window_span_s", value_s, parameters.lambda_threshold_us / US_PER_S),)


def _guest_rule(known: Known, rules: StackRules) -> ServedBy:
    """Return why the node runs that takes a key as a guest: by what keeps it running now, else by its boot."""
    holds = [hold.reason for hold in run_holds(known, rules, known.node)] if known.node else []
    if "always_on" in holds:
        return "always_on"
    return "held_by_hand" if "held_by_hand" in holds else "node_boots"


def _is_up_to(request: Request, trigger: Request | None) -> bool:
    return trigger is not None and request <= trigger
