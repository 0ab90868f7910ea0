"""Schema of the table: primary keys, columns and write conditions. `core.rows` represents rows as values.

    KEY#<hash>  / ROUTE         one key: the tier that serves it, its life, its newest requests
    NODE#<name> / NODE          one Redis node
    NODE#<name> / LEASE#<hash>  a key's lease on a node. The lease of a database's holder (`NODE#state-<database>`) is
                                one without a key
    NODE#<name> / USE           the use that decides when a node with read-through entries boots and stops
    NODE#<name> / SEEN#<hash>   a key of such a node, requested within the last day
    HOT         / HOT           the keys with a started life, or the room for them that shards have borrowed
    HOT         / SHARD#<n>     a shard of the keys with a started life
    PAUSED      / PAUSED        the reason and the end of a pause; absent if the stack is not paused
    DIGEST      / ROUTE#<hash>  a key that a tier serves, or served until recently
    DIGEST      / NODE#<name>   a node, as readers see it
    DIGEST      / CHANGES       the log of recently changed keys
    DIGEST      / LATE          the late marks: keys whose invalidation is slow
    DIGEST      / RELAY         the fence of the copies in cache functions
    POOL        / STATE         the execution that keeps the pool's members alive, and the choice of its redundancy
    POOL        / MEMBERS       the last answer of each member of the pool
    POOL        / HUB#<id>      a hub and its totals

Every phase other than `s3` and `stopped` has a deadline. A row past its deadline counts as cold.
"""

from __future__ import annotations

from typing import Literal, TypedDict

from burstcache.core.phases import Entry, KeyPhase, NodePhase, Tier

KEY_PREFIX, NODE_PREFIX, LEASE_PREFIX, SEEN_PREFIX = "KEY#", "NODE#", "LEASE#", "SEEN#"
_ROUTE_ITEM, _NODE_ITEM, _USE_ITEM = "ROUTE", "NODE", "USE"


class ItemKey(TypedDict):
    """The primary key of one item."""

    pk: str
    sk: str


class KeyColumns(TypedDict, total=False):
    """The columns of a key's item, in plain values."""

    key: str
    phase: KeyPhase
    epoch: int
    entry: Entry
    tier: Tier
    node: str
    generation: int
    holder: str
    attempt: int
    ready_at_us: int
    lives_until_us: int
    served: int
    joined_at_us: int
    window: list[str]
    trigger: str
    changed_at_us: int
    deadline_at_us: int
    not_before_us: int
    failures: int
    etag: str
    size_bytes: int
    use: bytes
    expires_at: int
    life_expires_at: int  # `expires_at` as set by a life's newest write


KeyColumn = Literal[
    "tier",
    "holder",
    "attempt",
    "lives_until_us",
    "served",
    "node",
    "generation",
    "joined_at_us",
    "deadline_at_us",
    "failures",
    "not_before_us",
]  # columns that a write may remove


class NodeColumns(TypedDict, total=False):
    """The columns of a node's item, in plain values."""

    phase: NodePhase
    generation: int
    part: int
    joins: int
    ready_at_us: int
    metered_at_us: int
    deadline_at_us: int
    attended_at_us: int
    failures: int
    not_before_us: int
    lost_at_us: int
    lost_by: str
    day: int
    day_used_us: int
    unasked_in: int
    held_until_us: int
    peers: list[str]
    boot_token: str
    save_token: str
    task: str
    task_kind: str
    host: str
    notice: str


class LeaseColumns(TypedDict, total=False):
    """The columns of a lease's item, in plain values."""

    key: str
    epoch: int
    waiter: str
    running: str
    was_missing: int
    held_until_us: int


class UseColumns(TypedDict, total=False):
    """The columns of a node's use item, in plain values."""

    use: bytes  # `core.node_use.encode`
    version: int  # number of writes
    reports: bytes  # idempotency keys of the newest reports counted, 8 bytes each
    pending: set[bytes]  # reports not counted yet (`core.pending_reports.encode_report`)
    looked_at_us: int  # time of the last check while the node runs
    memory: bytes  # `core.node_memory.encode_memory`


class SeenColumns(TypedDict, total=False):
    """The columns of a seen key's item, in plain values."""

    key: str
    size_bytes: int
    seen_at_us: int
    expires_at: int


class HotColumns(TypedDict, total=False):
    """The columns of the items that list started keys, in plain values: the bank of room, and its shards."""

    live: set[str] | set[bytes]  # hashes: hexadecimal in the bank, 16 bytes each in a shard
    starts: int
    lent: int  # of the bank: room that shards have borrowed
    shards: int  # of the bank: number of shards that have ever borrowed
    room: int  # of a shard: keys that it may hold
    most: int  # of a shard: `MaxHotKeys` at its last loan


class PauseColumns(TypedDict, total=False):
    """The columns of a pause's item, in plain values."""

    reason: str
    since_us: int
    until_us: int
    expires_at: int


class DigestColumns(TypedDict, total=False):
    """The columns of the digest's items, in plain values: a key, a node, all changes, the relay."""

    life: int  # a key's epoch, a node's generation
    phase_rank: int
    tier: Tier
    node: str
    generation: int
    deadline_at_us: int
    is_running: int
    host: str  # of a node that runs as a task
    peers: list[str]
    sequence: int
    log: list[bytes]  # `core.change_log`
    cuts: int  # of the log
    backlog_since_us: int  # the time of S3's oldest event that waits, 0 if none does
    backlog_seen_at_us: int
    late: set[str]  # `core.digest.late_mark`
    fence_us: int
    expires_at: int


class PoolStateColumns(TypedDict, total=False):
    """The columns of the pool's state, in plain values."""

    generation: int
    part: int
    deadline_at_us: int
    ended_at_us: int
    warmed_at_us: int
    reader_at_us: int
    choice: str  # JSON, as is `totals`
    totals: str


class PoolMembersColumns(TypedDict, total=False):
    """The columns of the pool's members, in plain values. Both columns are JSON."""

    members: str
    reclaims: str


class PoolHubColumns(TypedDict, total=False):
    """The columns of a hub's item, in plain values."""

    host: str
    port: int
    token: str
    certificate: str
    takes_readers: bool
    reported_at_us: int
    used_at_us: int
    totals: str  # JSON, as are `used` and `counted`
    used: str
    counted: str
    control_requests: int
    control_ms: int
    expires_at: int


HOT_ITEM = ItemKey(pk="HOT", sk="HOT")
PAUSED_ITEM = ItemKey(pk="PAUSED", sk="PAUSED")
# Sorts before nodes and routes, so a Query reads this item first, and the routes are at least as new as the changes.
CHANGES_ITEM = ItemKey(pk="DIGEST", sk="CHANGES")
DIGEST_PARTITION = CHANGES_ITEM["pk"]
# Sorts after the changes, so a reader that sees a change also sees all earlier marks.
LATE_ITEM = ItemKey(pk=DIGEST_PARTITION, sk="LATE")
RELAY_ITEM = ItemKey(pk=DIGEST_PARTITION, sk="RELAY")
ALL_OF_DIGEST = ALL_OF_POOL = "pk = :pk"
POOL_STATE_ITEM, POOL_MEMBERS_ITEM = ItemKey(pk="POOL", sk="STATE"), ItemKey(pk="POOL", sk="MEMBERS")
POOL_PARTITION = POOL_STATE_ITEM["pk"]
HUB_PREFIX = "HUB#"
SHARD_PREFIX = "SHARD#"
ALL_LEASES = "pk = :pk AND begins_with(sk, :lease)"
ALL_SEEN = "pk = :pk AND begins_with(sk, :seen)"
SHOWN_ROUTE_PREFIX, SHOWN_NODE_PREFIX = f"{_ROUTE_ITEM}#", NODE_PREFIX
ALL_KEYS = "sk = :route OR begins_with(sk, :seen)"
ROUTE_SORT_KEY = _ROUTE_ITEM

# Conditions of writes, in DynamoDB's language.
IS_SAME_LIFE = "epoch = :epoch"
IS_SAME_HOLD = "epoch = :epoch AND held_until_us = :held"  # the holder has neither renewed nor replaced the hold
NEVER = "attribute_exists(pk) AND attribute_not_exists(pk)"  # for a dry run
IS_LIVE = "phase <> :s3"
# The newest attempt of a life holds the key. Within an attempt, the first invocation that announces itself holds the
# key.
IS_UNHELD = "(attribute_not_exists(holder) OR #holder = :holder OR #attempt < :attempt)"
IS_SERVED_BY = "#tier = :served_by"
IS_HELD_BY = "#holder = :held_by"
IS_HELD_IN_BOOTUP = "epoch = :epoch AND phase = :bootup AND #tier = :lambda AND #attempt = :attempt"
REPLACE_HOLDER = "SET #attempt = :next, ready_at_us = :now REMOVE holder"
HAD_NO_LIFE = "(attribute_not_exists(epoch) OR epoch = :former)"
IS_FORMER_LIFE = "epoch = :former"
IS_COLD = "(attribute_not_exists(phase) OR phase = :s3 OR deadline_at_us < :now)"
IS_NEW_NODE = "attribute_not_exists(generation)"
IS_NODE_AS_SEEN = "phase = :seen_phase AND generation = :seen_generation AND #part = :seen_part"
IS_TASK_AS_SEEN = "(attribute_not_exists(#task) OR #task = :seen_task OR #task = :task)"
HAS_NO_NEW_JOIN, HAS_NO_JOIN = "joins = :seen_joins", "attribute_not_exists(joins)"
IS_PAUSED_FOR_A_TIME_OR_NOT = "attribute_not_exists(pk) OR attribute_exists(until_us)"
IS_HELD = "held_until_us > :now"  # an expired lease may be dropped at any time, so it is never renewed
HAS_ROOM = "(attribute_not_exists(live) OR contains(live, :hash) OR size(live) < :room)"  # room is not 0
IS_LENT_AS_SEEN = "(lent = :lent OR attribute_not_exists(lent))"  # absent: 0, and it is never removed
HAS_SHARDS_AS_SEEN = "(shards = :seen_shards OR attribute_not_exists(shards))"
HAS_ROOM_TO_LEND = "(attribute_not_exists(live) OR size(live) <= :room)"
SHARD_HAS_ROOM = (
    "most = :most AND room > :none AND (attribute_not_exists(live) OR contains(live, :hash) OR size(live) < room)"
)
IS_SHARD_AS_SEEN, IS_NEW_SHARD = "room = :seen_room AND most = :seen_most", "attribute_not_exists(most)"
HAS_NO_NEW_START, HAS_NO_START = "starts = :seen", "attribute_not_exists(starts)"
IS_USE_AS_SEEN = "version = :seen"
IS_NEW_USE = "attribute_not_exists(version)"
IS_NOT_BEHIND = "attribute_not_exists(life) OR life < :life OR (life = :life AND phase_rank <= :phase_rank)"
IS_SHOWN_AS_SEEN = "life = :life AND phase_rank = :phase_rank"
IS_LOG_AS_CUT, IS_LOG_UNCUT = "cuts = :seen", "attribute_not_exists(cuts)"
IS_POOL_AS_SEEN = "generation = :seen_generation AND #part = :seen_part AND deadline_at_us = :seen_deadline"
IS_POOL_NEW = "attribute_not_exists(generation)"
IS_ROUND_AS_SEEN, IS_FIRST_ROUND = "warmed_at_us = :seen_warmed", "attribute_not_exists(warmed_at_us)"
HAS_NO_CHOICE = "attribute_not_exists(choice)"
IS_HUB_AS_SEEN = "reported_at_us = :seen"

# Update expressions for more than plain columns.
APPEND_REQUEST = (
    "SET #key = :key, etag = :etag, size_bytes = {size}, phase = if_not_exists(phase, :s3),"
    " expires_at = if_not_exists(life_expires_at, :expires),"
    " #window = list_append(if_not_exists(#window, :none), :added)"
)
LEARN_REQUEST = (
    "SET #key = :key, etag = :etag, size_bytes = :size, phase = if_not_exists(phase, :s3),"
    " expires_at = if_not_exists(life_expires_at, :expires),"
    " #window = :window, #use = :use"
)
IS_KEY_USE_AS_SEEN, IS_NEW_KEY_USE = "#use = :seen", "attribute_not_exists(#use)"
KNOWN_SIZE, SIZE_IF_NEW = ":size", "if_not_exists(size_bytes, :size)"
EXTEND_WINDOW = "#window = list_append(if_not_exists(#window, :none), :added)"
REPLACE_WINDOW, IS_WINDOW_AS_SEEN = "SET #window = :newest", "#window = :seen"
COUNT_JOIN = "ADD joins :one"
COUNT_START = "ADD live :this, starts :one"
REPLACE_STARTED = "SET live = :rest ADD starts :one"  # drops cold keys in the write that adds a key
FORGET_STARTED = "DELETE live :cold"
LEND, RECLAIM, COUNT_LENT = "SET room = :room, most = :most", "SET room = :room", "SET lent = :after, shards = :shards"
REPLACE_USE = "SET #use = :use, version = :version, reports = :reports, looked_at_us = :looked_at_us, #memory = :memory"
ADD_PENDING, DELETE_PENDING = "ADD pending :report", "DELETE pending :counted"
# The log of earlier versions is removed, so that their readers fail on the item and use S3.
APPEND_CHANGES = (
    "SET #sequence = if_not_exists(#sequence, :first) + :count,"
    " #log = list_append(if_not_exists(#log, :none), :added){} REMOVE changes"
)
ALSO_BACKLOG = ", backlog_since_us = :since, backlog_seen_at_us = :seen"
CUT_LOG = "SET cuts = :next REMOVE {}"
MARK_LATE, REMOVE_MARKS = "SET expires_at = :expires ADD late :marks", "DELETE late :marks"
RAISE_FENCE, RAISE_FENCE_BY_ONE = "SET fence_us = :now", "SET fence_us = fence_us + :one"
IS_FENCE_OLDER = "attribute_not_exists(fence_us) OR fence_us < :now"
SET_HELD = "SET held_until_us = :until"
SET_COLUMNS = "SET {}"
# Columns of the previous life, removed by a life's first write.
REMOVED_AT_START: tuple[KeyColumn, ...] = (
    "tier", "holder", "attempt", "lives_until_us", "served", "generation", "joined_at_us", "not_before_us",
)  # fmt: skip


def key_item(hash_: str) -> ItemKey:
    """Return the primary key of a key's item."""
    return ItemKey(pk=f"{KEY_PREFIX}{hash_}", sk=_ROUTE_ITEM)


def node_item(node: str) -> ItemKey:
    """Return the primary key of a node's item."""
    return ItemKey(pk=f"{NODE_PREFIX}{node}", sk=_NODE_ITEM)


def lease_item(node: str, hash_: str) -> ItemKey:
    """Return the primary key of the item for a key's lease on a node."""
    return ItemKey(pk=f"{NODE_PREFIX}{node}", sk=f"{LEASE_PREFIX}{hash_}")


def use_item(node: str) -> ItemKey:
    """Return the primary key of a node's use item."""
    return ItemKey(pk=f"{NODE_PREFIX}{node}", sk=_USE_ITEM)


def seen_item(node: str, hash_: str) -> ItemKey:
    """Return the primary key of the item for a seen key of a node."""
    return ItemKey(pk=f"{NODE_PREFIX}{node}", sk=f"{SEEN_PREFIX}{hash_}")


def hot_shard_item(number: int) -> ItemKey:
    """Return the primary key of a shard of the started keys."""
    return ItemKey(pk=HOT_ITEM["pk"], sk=f"{SHARD_PREFIX}{number}")


def shown_route_item(hash_: str) -> ItemKey:
    """Return the primary key of a key's item in the digest."""
    return ItemKey(pk=DIGEST_PARTITION, sk=f"{SHOWN_ROUTE_PREFIX}{hash_}")


def shown_node_item(node: str) -> ItemKey:
    """Return the primary key of a node's item in the digest."""
    return ItemKey(pk=DIGEST_PARTITION, sk=f"{SHOWN_NODE_PREFIX}{node}")


def hub_item(hub: str) -> ItemKey:
    """Return the primary key of a hub's item."""
    return ItemKey(pk=POOL_PARTITION, sk=f"{HUB_PREFIX}{hub}")
