"""The operations of Redis control: one typed operation, one call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol, assert_never

from burstcache.adapters.clock import Clock
from burstcache.adapters.digest_table import DigestTable
from burstcache.adapters.executions import Executions
from burstcache.adapters.instances import Instances
from burstcache.adapters.key_table import KeyTable
from burstcache.adapters.node_table import NodeTable
from burstcache.adapters.object_store import ObjectStore
from burstcache.adapters.pauses import Pauses
from burstcache.adapters.redis_objects import RedisObjects
from burstcache.adapters.use_table import UseTable
from burstcache.control.guests import Guests
from burstcache.control.key_on_node import KeyOnNode, Life
from burstcache.control.meter import Meter
from burstcache.control.node_copies import NodeCopies
from burstcache.control.node_judge import AlwaysOn, LeaseJudge, NodeJudge, WithinTheDay
from burstcache.control.node_life import NodeLife
from burstcache.control.node_looks import UseJudge
from burstcache.control.node_runs import NodeRuns
from burstcache.control.state_leases import HolderJudge
from burstcache.control.tier_copies import TierCopies
from burstcache.core.errors import RedisDownError, RelayDownError, SilentHolderError
from burstcache.core.keys import key_hash
from burstcache.core.messages.answers import Answer, CacheStopped, Done, Held, Pong, Refused
from burstcache.core.messages.encoding import encode
from burstcache.core.messages.operations import Join, Leave, Operation, Seed
from burstcache.core.messages.relay import Order, Stop, control_subject
from burstcache.core.node_hours import DAY_HOURS
from burstcache.core.policies import LivePolicy
from burstcache.core.rows import NodeRow
from burstcache.logs import logger

_ANSWER_WITHIN_S = 2.0
_ENDS_CACHES_FOR_S = 10.0  # as long as guests are loaded: with them and an answer, well within the 60 s of NodeReady


class Requests(Protocol):
    """What Redis control needs of the relay."""

    def request(self, subject: str, payload: bytes, *, timeout_s: float) -> bytes | None:
        """Return the answer of the process that holds `subject`, or None if none does; raise RelayDownError."""

    def tell(self, subject: str, payload: bytes, *, timeout_s: float) -> None:
        """Return when all that hold `subject` get a message before anything later; raise RelayDownError."""


@dataclass(frozen=True, slots=True)
class RedisControl:
    """What one environment of the Redis control function works with."""

    node_names: Sequence[str]
    state_names: Sequence[str]  # of the nodes of databases, which no key has its home on
    saves_state: bool  # databases are saved before they stop
    always_on: Sequence[str]  # those of the nodes that never stop
    nodes: NodeTable
    keys: KeyTable
    uses: UseTable
    digest: DigestTable
    executions: Executions
    instances: Instances
    pauses: Pauses
    objects: ObjectStore
    relay: Requests
    store: Callable[[str], RedisObjects]  # by the node's name; raises NodeAbsentError
    machine_arn: str
    max_object_bytes: int
    policy: LivePolicy
    clock: Clock
    meter: Meter
    hours_per_day: int = DAY_HOURS  # for which a node may run on one day, unless it never stops

    def run(self, operation: Operation) -> Answer:
        """Run one step of a state machine, or an operation by hand."""
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
            case "follow_write":
                return self.tier_copies.follow_write(operation["key"])
            case "hold":
                return self.hold(operation["node"], operation["for_s"])
            case "release":
                return self.node(operation["node"]).stop_by_hand()
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
        """Follow EC2's event that an instance has stopped; one that is no node's any more changes nothing."""
        node = self.instances.node_of(instance_id)
        return Done() if node is None else self.node(node).instance_stopped()

    def node(self, name: str) -> NodeLife:
        """Return the life of a node."""
        return NodeLife(
            node=name,
            runs=self.runs(name),
            nodes=self.nodes,
            keys=self.keys,
            digest=self.digest,
            executions=self.executions,
            instances=self.instances,
            pauses=self.pauses,
            judge=self._judge(name),
            clock=self.clock,
            meter=self.meter,
            load=self._fill,
            hours_per_day=DAY_HOURS if {name} & {*self.always_on, *self.state_names} else self.hours_per_day,
            is_always_on=name in self.always_on,
            is_saved=self.saves_state and name in self.state_names,
        )

    def _judge(self, node: str) -> NodeJudge:
        if node in self.state_names:
            return HolderJudge(self.policy.parameters.redis_check_us, self.clock)
        store = partial(self.store, node)
        judge: NodeJudge
        if self.policy.use is None:
            judge = LeaseJudge(self.nodes, store, self.policy.parameters, self.clock)
        else:
            judge = UseJudge(self.policy.use, self.uses, store, self.clock)
        if node in self.always_on:
            return AlwaysOn(judge)
        return WithinTheDay(judge, self.hours_per_day, self.clock) if self.hours_per_day < DAY_HOURS else judge

    def _fill(self, row: NodeRow) -> None:
        """Bring the guests of a node that is about to serve, and have the cache functions of its keys end.

        Such a function shows its key before it reads the node's row, which says `running` now: none is overlooked. One
        that cannot be told in time ends when its key no longer pays for it: the node does not wait for it any longer.
        """
        if not row.peers:
            return
        self.guests.load(row, is_always_on=row.node in self.always_on)
        give_up_s = self.clock.monotonic_s() + _ENDS_CACHES_FOR_S
        for hash_, routed in self.digest.read().routes.items():
            if routed.tier == "lambda" and row.is_home_of(hash_) and self.clock.monotonic_s() < give_up_s:
                try:
                    self.ask_cache(hash_, Stop(op="stop", epoch=routed.epoch))
                except RelayDownError as error:
                    logger().warning("a cache function goes on next to its node", reason=str(error), key_hash=hash_)
                    if not isinstance(error, SilentHolderError):
                        return  # the others would not be reached either

    def runs(self, node: str) -> NodeRuns:
        """Return the part that starts the runs of a node."""
        peers = self.node_names if self.policy.takes_guests and node in self.node_names else ()
        return NodeRuns(self.nodes, self.executions, self.machine_arn, self.clock, peers)

    def keys_on(self, node: str) -> KeyOnNode:
        """Return the steps of the keys of a node."""
        return KeyOnNode(
            node=node,
            runs=self.runs(node),
            nodes=self.nodes,
            keys=self.keys,
            executions=self.executions,
            objects=self.objects,
            store=lambda: self.store(node),
            ask_cache=self.ask_cache,
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
            tell_cache=self.tell_cache,
            max_object_bytes=self.max_object_bytes,
            clock=self.clock,
        )

    def _lose(self, row: NodeRow) -> NodeRow:
        return self.node(row.node).lose(row)

    @property
    def guests(self) -> Guests:
        """The part that looks after guests of running nodes."""
        return Guests(
            uses=self.uses,
            objects=self.objects,
            store=self.store,
            max_object_bytes=self.max_object_bytes,
            clock=self.clock,
            policy=self.policy.use,
        )

    def ping(self, node: str) -> Pong:
        """Return whether a node's Redis answers, and the state of its instance."""
        instance, phase = self.instances.state(node), self.nodes.read(node).phase
        try:
            self.store(node).ping()
        except RedisDownError as error:
            return Pong(instance=instance, phase=phase, pong=False, reason=str(error))
        return Pong(instance=instance, phase=phase, pong=True)

    def stop_cache(self, key: str) -> CacheStopped:
        """Make the cache function that holds a key end, if there is one."""
        return CacheStopped(stopped=self.ask_cache(key_hash(key), Stop(op="stop")) is not None)

    def tell_cache(self, hash_: str, order: Order) -> None:
        """Return when the order is the next that the cache functions of a key get, before any later GET."""
        self.relay.tell(control_subject(hash_), encode(order), timeout_s=_ANSWER_WITHIN_S)

    def ask_cache(self, hash_: str, order: Order) -> bytes | None:
        """Return what the cache function of a key answers; None if none holds the key."""
        return self.relay.request(control_subject(hash_), encode(order), timeout_s=_ANSWER_WITHIN_S)


def _life(operation: Join | Seed | Leave) -> Life:
    return Life(operation["key"], operation["key_hash"], operation["epoch"])
