"""With two Redis nodes: a life stays on the node that it began with, and each node is judged by itself."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from burstcache.adapters.machines import NodeMachines
from burstcache.control.janitor import Janitor
from burstcache.control.operations import RedisControl
from burstcache.control.scheduler import Scheduler
from burstcache.core.digest import Digest, RoutedKey
from burstcache.core.errors import RelayDownError, SilentHolderError
from burstcache.core.keys import key_hash
from burstcache.core.messages.operations import Leave, Operation
from burstcache.core.messages.relay import control_subject
from burstcache.core.parameters import parameters_from_text
from burstcache.core.placement import node_for
from burstcache.core.policies import thesis
from burstcache.core.policy import RecordedRequest
from burstcache.core.rows import KeyRow, Lease, NodeRow
from support.clock import ManualClock
from support.life import NO_PAUSE, LifeStage
from support.metrics import METER

_PARAMETERS = parameters_from_text(rate="9", sensitivity="4")
_UNUSED: Any = None
_NOW_S = 1_000_000.0
# A key that lives on node-1 while it is alone, and would live on node-2 as soon as that is there.
KEY = next(key for key in map(str, range(99)) if node_for(key_hash(key), ["node-1", "node-2"]) == "node-2")


@dataclass
class Nodes:
    """Rows of nodes: each `read` gives the next one, the last one again and again."""

    rows: dict[str, list[NodeRow]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    dropped: list[Lease] = field(default_factory=list)

    def read(self, node: str) -> NodeRow:
        self.asked.append(node)
        rows = self.rows.get(node, [NodeRow(node)])
        return rows.pop(0) if len(rows) > 1 else rows[0]

    def drop(self, lease: Lease) -> bool:
        self.dropped.append(lease)
        return True


class Keys:
    """Rows of keys: the one row, as it is read and written."""

    def __init__(self, row: KeyRow) -> None:
        self.row = row

    def append(self, *_: Any, **__: Any) -> KeyRow:
        return self.row

    def update(self, *_: Any, **__: Any) -> KeyRow:
        return self.row

    def started(self) -> set[str]:
        return set()

    def read_many(self, hashes: Any) -> dict[str, KeyRow]:
        return {}


class DigestOfNothing:
    """A digest in which nothing is shown, unless a test says so."""

    def __init__(self) -> None:
        self.routes: dict[str, RoutedKey] = {}

    def read(self) -> Digest:
        return Digest(routes=self.routes)

    def show_node(self, row: NodeRow) -> bool:
        return True


_DIGEST: Any = DigestOfNothing()


class HotKeys:
    """Admits every life."""

    def is_full_for(self, hash_: str) -> bool:
        return False

    def start(self, life: KeyRow, **_: Any) -> str:
        self.life = life
        return "started"


class Executions:
    """Step Functions without any execution."""

    def __init__(self) -> None:
        self.inputs: list[Any] = []

    def start(self, machine_arn: str, name: str, input_: Any) -> bool:
        self.inputs.append(input_)
        return True

    def is_running(self, machine_arn: str, name: str) -> bool:
        return False


class Relay:
    """No cache function answers."""

    def send_request(self, subject: str, payload: bytes, *, timeout_s: float) -> bytes | None:
        return None

    def send_order(self, subject: str, payload: bytes, *, timeout_s: float) -> None:
        pass


class Instances:
    """Instances that run."""

    def state_since(self, node: str) -> tuple[str, int]:
        return "running", 0

    def has_stopped(self, node: str) -> bool:
        return False


class Store:
    """A Redis that forgets."""

    def remove(self, hash_: str) -> None:
        pass


def _hot_row(**columns: Any) -> KeyRow:
    at_us = int(_NOW_S * 1e6)
    row = KeyRow(key_hash(KEY), KEY, window=(RecordedRequest(at_us - 2, "a"), RecordedRequest(at_us - 1, "b")))
    return replace(row, **columns)


def _control(nodes: Nodes) -> RedisControl:
    keys: Any = Keys(_hot_row())
    stores: Any = {"node-1": Store(), "node-2": Store()}
    any_nodes: Any = nodes
    return RedisControl(
        always_on=[],
        digest=_DIGEST,
        node_names=["node-1", "node-2"],
        state_names=[],
        saves_state=False,
        nodes=any_nodes,
        uses=_UNUSED,
        keys=keys,
        executions=_UNUSED,
        machines=NodeMachines(_UNUSED),
        pauses=NO_PAUSE,
        objects=_UNUSED,
        relay=Relay(),
        store=stores.__getitem__,
        machine_arn="",
        max_object_bytes=1,
        policy=thesis(_PARAMETERS),
        clock=ManualClock(_NOW_S),
        meter=METER,
        state_meter=METER,
    )


def test_scheduler_decides_on_the_node_and_hands_it_to_the_execution() -> None:
    keys: Any = Keys(_hot_row())
    nodes: Any = Nodes({"node-2": [NodeRow("node-2", "running", 7, deadline_at_us=1 << 62)]})
    hot_keys: Any = HotKeys()
    executions: Any = Executions()
    scheduler = Scheduler(
        keys=keys,
        nodes=nodes,
        hot_keys=hot_keys,
        pauses=NO_PAUSE,
        executions=executions,
        start_cache=list,
        machine_arn="",
        node_names=["node-1", "node-2"],
        has_relay=True,
        max_object_bytes=1,
        parameters=_PARAMETERS,
        clock=ManualClock(_NOW_S),
    )

    assert scheduler.observe(KEY, [RecordedRequest(1, "c")], etag="", size_bytes=1) == "started"

    assert nodes.asked == ["node-2"]
    assert (hot_keys.life.node, hot_keys.life.entry) == ("node-2", "redis")
    assert executions.inputs[0]["node"] == "node-2"


def test_life_leaves_the_node_that_it_joined_though_a_node_was_added_since() -> None:
    nodes = Nodes()
    leave = Leave(
        op="leave",
        key=KEY,
        key_hash=key_hash(KEY),
        epoch=7,
        node="node-1",
        failures=0,
        is_failed=False,
        queue_us=[],
    )

    _control(nodes).run(leave)

    assert nodes.dropped == [Lease("node-1", key_hash(KEY), epoch=7)]


def test_promotion_asks_the_node_of_the_row() -> None:
    with LifeStage(KEY, node="node-1").running() as stage:
        for at_us in range(_PARAMETERS.redis_threshold + 1):
            stage.get(at_us)

    assert stage.nodes.reads == ["node-1"]
    assert stage.life.life.is_promoted


def test_janitor_spares_a_node_whose_new_run_has_the_number_of_a_run_of_another_node() -> None:
    """Both nodes have lost their executions; while the janitor looks again, node-1 boots anew."""
    nodes: Any = Nodes(
        {
            "node-1": [NodeRow("node-1", "running", 5), NodeRow("node-1", "booting", 7, part=1)],
            "node-2": [NodeRow("node-2", "running", 7)],
        }
    )
    keys: Any = Keys(_hot_row())
    executions: Any = Executions()
    instances: Any = Instances()
    released: list[Operation] = []
    janitor = Janitor(
        digest=_DIGEST,
        keys=keys,
        nodes=nodes,
        executions=executions,
        machines=NodeMachines(instances),
        pauses=NO_PAUSE,
        key_lifecycle_arn="",
        redis_node_arn="",
        node_names=["node-1", "node-2"],
        always_on=[],
        redis_control=released.append,
        clock=ManualClock(_NOW_S),
    )

    cleaned = janitor.clean()

    assert cleaned == {"keys": [], "nodes": ["node-2"], "paused": []}
    assert [operation["node"] for operation in released if operation["op"] == "release"] == ["node-2"]


class SlowRelay(Relay):
    """A relay that answers nothing: it is dead, or those who hold its keys are."""

    def __init__(self, clock: ManualClock, error: RelayDownError) -> None:
        self.clock, self.error = clock, error
        self.asked: list[str] = []

    def send_request(self, subject: str, payload: bytes, *, timeout_s: float) -> bytes | None:
        self.asked.append(subject)
        self.clock.now_s += timeout_s
        raise self.error


@pytest.mark.parametrize(
    ("error", "asked"), [(RelayDownError("dead"), 1), (SilentHolderError("silent"), 5)], ids=["relay", "holders"]
)
def test_a_node_waits_so_long_for_the_cache_functions_that_it_replaces(error: RelayDownError, asked: int) -> None:
    names, hashes = ("node-1", "node-2"), [key_hash(str(number)) for number in range(99)]
    clock, digest = ManualClock(_NOW_S), DigestOfNothing()
    digest.routes = {hash_: RoutedKey(epoch=7, phase_rank=1, tier="lambda") for hash_ in hashes}
    relay: Any = SlowRelay(clock, error)
    any_digest: Any = digest
    control = replace(_control(Nodes()), digest=any_digest, relay=relay, clock=clock)

    control.node("node-1").load(NodeRow("node-1", "running", 7, peers=names))

    mine = [control_subject(hash_) for hash_ in hashes if node_for(hash_, names) == "node-1"]
    assert len(mine) > 30
    assert relay.asked == mine[:asked]
