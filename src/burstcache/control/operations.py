"""The operations of Redis control: each typed operation maps to one call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, assert_never

from burstcache.adapters.clock import Clock
from burstcache.adapters.digest_table import DigestTable
from burstcache.adapters.executions import Executions
from burstcache.adapters.key_table import KeyTable
from burstcache.adapters.machines import NodeMachines
from burstcache.adapters.node_table import NodeTable
from burstcache.adapters.object_store import ObjectStore
from burstcache.adapters.pause_switch import PauseSwitch
from burstcache.adapters.redis_objects import RedisObjects
from burstcache.adapters.tasks import Tasks, TaskState
from burstcache.adapters.use_table import UseTable
from burstcache.control.key_on_node import KeyOnNode, LifeOnNode
from burstcache.control.meter import Meter
from burstcache.control.node_copies import NodeCopies
from burstcache.control.node_life import NodeLife
from burstcache.control.node_runs import NodeRuns
from burstcache.control.node_utilisation import AlwaysOn, DailyLimit, LeaseUtilisation, UtilisationCheck
from burstcache.control.read_through import ReadThroughLoader
from burstcache.control.state_leases import HolderUtilisation
from burstcache.control.tier_copies import TierCopies
from burstcache.control.use_utilisation import UseUtilisation
from burstcache.core.errors import RedisDownError, RelayDownError, SilentHolderError
from burstcache.core.keys import key_hash
from burstcache.core.messages.answers import Answer, CacheStopped, Done, Followed, Held, Pong, Refused
from burstcache.core.messages.encoding import encode
from burstcache.core.messages.operations import Join, Leave, Operation, Seed
from burstcache.core.messages.relay import Order, Stop, control_subject
from burstcache.core.node_hours import DAY_HOURS
from burstcache.core.policies import LivePolicy
from burstcache.core.rows import NodeRow
from burstcache.logs import logger

_ANSWER_WITHIN_S = 2.0
_STOP_CACHES_FOR_S = 10.0  # same as for loading entries; both limits and a last response fit into NodeReady's 60 s


class RelayCalls(Protocol):
    """Redis control's view of the relay."""

    def send_request(self, subject: str, payload: bytes, *, timeout_s: float) -> bytes | None:
        """Send a request to the process that serves `subject`. Return the answer, or None if there is no such process.

        Raise RelayDownError if the request fails.
        """

    def send_order(self, subject: str, payload: bytes, *, timeout_s: float) -> None:
        """Send an order that all processes on `subject` get before any later message.

        Raise RelayDownError if the order cannot be sent.
        """


@dataclass(frozen=True, slots=True)
class RedisControl:
    """Redis control, in one environment of its function."""

    node_names: Sequence[str]
    state_names: Sequence[str]  # nodes of state databases, which are never a key's home node
    saves_state: bool  # databases are saved before they stop
    always_on: Sequence[str]  # nodes that never stop
    nodes: NodeTable
    keys: KeyTable
    uses: UseTable
    digest: DigestTable
    executions: Executions
    machines: NodeMachines
    pauses: PauseSwitch
    objects: ObjectStore
    relay: RelayCalls
    store: Callable[[str], RedisObjects]  # takes a node's name; raises NodeAbsentError
    machine_arn: str
    max_object_bytes: int
    policy: LivePolicy
    clock: Clock
    meter: Meter
    state_meter: Meter  # of state databases
    hours_per_day: int = DAY_HOURS  # limit of a node's running hours per day, unless it never stops

    def run(self, operation: Operation) -> Answer:
        """Run one step of a state machine, or a manual operation."""
        match operation["op"]:
            case "join":
                return self.keys_on(operation["node"]).join(_life(operation), operation["token"])
            case "seed":
                return self.keys_on(operation["node"]).seed(_life(operation), operation["generation"])
            case "leave":
                return self.keys_on(operation["node"]).leave(
                    _life(operation),
                    queue_us=operation["queue_us"],
                    is_failed=operation["is_failed"],
                    failures=operation["failures"],
                )
            case "boot_node":
                return self.node(operation["node"]).boot(
                    operation["generation"],
                    operation["part"],
                    operation["token"],
                    execution=operation["execution"],
                )
            case "ready_node":
                return self.node(operation["node"]).ready(operation["generation"], operation["part"])
            case "check_node":
                return self.node(operation["node"]).check(
                    operation["generation"],
                    operation["part"],
                    check_at_us=int(operation["check_at_us"]),
                    checks=operation["checks"],
                )
            case "save_node":
                return self.node(operation["node"]).save(operation["generation"], operation["token"])
            case "stop_node":
                return self.node(operation["node"]).stop(operation["generation"])
            case "abandon_node":
                return self.node(operation["node"]).abandon(operation["generation"])
            case "instance_stopped":
                return self.node(operation["node"]).instance_stopped()
            case "attend_node":
                return self.node(operation["node"]).attend()
            case "follow_writes":
                return Followed(writes=self.tier_copies.apply_writes(operation["keys"]))
            case "hold":
                return self.hold(operation["node"], operation["for_s"])
            case "release":
                return self.node(operation["node"]).stop_by_hand(keeps_hold=operation.get("keeps_hold", False))
            case "ping":
                return self.ping(operation["node"])
            case "stop_cache":
                return self.stop_cache(operation["key"])
            case _:
                assert_never(operation)

    def hold(self, node: str, for_s: int) -> Held | Refused:
        """Keep a node running for a while without a key, unless the stack is paused."""
        if pause := self.pauses.read():
            reason = f"{node} does not boot, the stack is paused: {pause.reason}; `burstcache resume` ends that"
            return Refused(refused=reason)
        return self.keys_on(node).hold(for_s)

    def follow_instance(self, instance_id: str) -> Answer:
        """Handle EC2's event that an instance has stopped. Ignore instances that belong to no node."""
        node = self.machines.instances.node_of(instance_id)
        return Done() if node is None else self.node(node).instance_stopped()

    def follow_task(self, detail: Mapping[str, Any]) -> Answer:
        """Handle ECS's event about a task. Ignore tasks that belong to no node."""
        task = TaskState.of(detail)
        if task is None or task.node not in {*self.node_names, *self.state_names}:
            return Done()
        return self.node(task.node).follow_task(task)

    def node(self, name: str) -> NodeLife:
        """Return the lifecycle of a node."""
        return NodeLife(
            node=name,
            runs=self.runs(name),
            nodes=self.nodes,
            keys=self.keys,
            digest=self.digest,
            executions=self.executions,
            machines=self.machines(name),
            store=partial(self.store, name),
            pauses=self.pauses,
            utilisation=self._utilisation(name),
            clock=self.clock,
            meter=self.state_meter if name in self.state_names else self.meter,
            load=self._warm_up,
            hours_per_day=DAY_HOURS if {name} & {*self.always_on, *self.state_names} else self.hours_per_day,
            is_always_on=name in self.always_on,
            is_saved=self.saves_state and name in self.state_names,
        )

    def _utilisation(self, node: str) -> UtilisationCheck:
        if node in self.state_names:
            return HolderUtilisation(self.policy.parameters.redis_check_us, self.clock)
        store = partial(self.store, node)
        check: UtilisationCheck
        if self.policy.use is None:
            check = LeaseUtilisation(self.nodes, store, self.policy.parameters, self.clock)
        else:
            check = UseUtilisation(self.policy.use, self.uses, store, self.clock)
        if node in self.always_on:
            return AlwaysOn(check)
        return DailyLimit(check, self.hours_per_day, self.clock) if self.hours_per_day < DAY_HOURS else check

    def _warm_up(self, row: NodeRow) -> None:
        """Load read-through entries into a node that is about to serve, and stop the cache functions of its keys.

        No cache function is missed, because each one adds its key to the digest before it reads the node's row, which
        now says `running`. A cache function that cannot be reached in time ends once its key no longer pays for it.
        """
        if not row.peers:
            return
        self.read_through.load(row, is_always_on=row.node in self.always_on)
        give_up_s = self.clock.monotonic_s() + _STOP_CACHES_FOR_S
        for hash_, routed in self.digest.read().routes.items():
            if routed.tier == "lambda" and row.is_home_of(hash_) and self.clock.monotonic_s() < give_up_s:
                try:
                    self.request_from_cache(hash_, Stop(op="stop", epoch=routed.epoch))
                except RelayDownError as error:
                    logger().warning(
                        "a cache function keeps serving next to its node", reason=str(error), key_hash=hash_
                    )
                    if not isinstance(error, SilentHolderError):
                        return  # the others cannot be reached either

    def runs(self, node: str) -> NodeRuns:
        """Return the runs of a node."""
        peers = self.node_names if self.policy.takes_guests and node in self.node_names else ()
        return NodeRuns(self.nodes, self.executions, self.machine_arn, self.clock, peers)

    def keys_on(self, node: str) -> KeyOnNode:
        """Return the lifecycle steps of keys on a node."""
        return KeyOnNode(
            node=node,
            runs=self.runs(node),
            nodes=self.nodes,
            keys=self.keys,
            executions=self.executions,
            objects=self.objects,
            store=lambda: self.store(node),
            request_from_cache=self.request_from_cache,
            max_object_bytes=self.max_object_bytes,
            clock=self.clock,
            meter=self.meter,
        )

    @property
    def tier_copies(self) -> TierCopies:
        """The copies in cache functions and nodes."""
        return TierCopies(
            on_nodes=NodeCopies(self.node_names, self.nodes, self.store, self._lose, self.clock),
            keys=self.keys,
            digest=self.digest,
            objects=self.objects,
            store=self.store,
            send_cache_order=self.send_cache_order,
            max_object_bytes=self.max_object_bytes,
            clock=self.clock,
        )

    def _lose(self, row: NodeRow) -> NodeRow:
        return self.node(row.node).lose(row)

    @property
    def read_through(self) -> ReadThroughLoader:
        """The loader of read-through entries."""
        return ReadThroughLoader(
            uses=self.uses,
            objects=self.objects,
            store=self.store,
            max_object_bytes=self.max_object_bytes,
            clock=self.clock,
            policy=self.policy.use,
        )

    def ping(self, node: str) -> Pong:
        """Ping a node's Redis. Return whether it answers, and the state of the node's instance or task."""
        problem: RedisDownError | None = None
        try:
            self.store(node).ping()
        except RedisDownError as error:
            problem = error
        # Read afterwards, the row has the address that answered.
        row, machines = self.nodes.read(node), self.machines(node)
        answer = Pong(
            instance=machines.state(row),
            machine="task" if isinstance(machines, Tasks) else "instance",
            task_kind=row.task_kind,
            host=row.host,
            phase=row.phase,
            pong=problem is None,
        )
        if problem is not None:
            answer["reason"] = str(problem)
        return answer

    def stop_cache(self, key: str) -> CacheStopped:
        """Stop a key's cache function, if there is one."""
        return CacheStopped(stopped=self.request_from_cache(key_hash(key), Stop(op="stop")) is not None)

    def send_cache_order(self, hash_: str, order: Order) -> None:
        """Send an order to a key's cache functions, which get it before any later GET."""
        self.relay.send_order(control_subject(hash_), encode(order), timeout_s=_ANSWER_WITHIN_S)

    def request_from_cache(self, hash_: str, order: Order) -> bytes | None:
        """Send an order to a key's cache function. Return the answer, or None if there is no such function."""
        return self.relay.send_request(control_subject(hash_), encode(order), timeout_s=_ANSWER_WITHIN_S)


def _life(operation: Join | Seed | Leave) -> LifeOnNode:
    return LifeOnNode(operation["key"], operation["key_hash"], operation["epoch"])
