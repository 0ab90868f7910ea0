"""How each part is tried: the trials that the self-tests of functions are made of."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from burstcache.access import RedisAccess, RedisNode, RelayAccess, instance_ids
from burstcache.adapters import probes
from burstcache.adapters.clients import Clients
from burstcache.adapters.clock import Clock
from burstcache.adapters.digest_reader import read_digest
from burstcache.adapters.event_publisher import EventPublisher
from burstcache.adapters.executions import Executions
from burstcache.adapters.express_copies import ExpressCopies
from burstcache.adapters.instances import Instances
from burstcache.adapters.key_table import KeyTable
from burstcache.adapters.node_table import NodeTable
from burstcache.adapters.object_store import ObjectStore
from burstcache.adapters.redis_objects import RedisObjects
from burstcache.adapters.relay_listener import RelayListener, Respond
from burstcache.adapters.relay_requests import RelayRequests
from burstcache.adapters.secrets import Secrets
from burstcache.control.trials import Trial
from burstcache.core.digest import RunningNode
from burstcache.core.errors import (
    AccessDeniedError,
    BurstcacheError,
    NodeFailedError,
    ObjectNotFoundError,
    OriginError,
    RelayDownError,
)
from burstcache.core.messages.events import RequestsServed
from burstcache.core.messages.relay import control_subject, get_subject
from burstcache.core.messages.self_test import SELF_TEST, hash_of_run
from burstcache.core.rows import Lease
from burstcache.core.table import key_item

# Functions that start cold meet over the relay within this time, which the proxy has even if other parts hang.
_MEET_WITHIN_S = 15.0
_ASK_AGAIN_S = 0.2
_ANSWER_WITHIN_S = 2.0
_BUCKET = "the bucket must exist, in the stack's region"
_INSTANCES = "raise RedisNodeIssue and deploy, which makes new ones"
_NODES = "its password and that of the functions belong together: raise CredentialsIssue and deploy"
_RELAY = "its passwords and those of the functions belong together: raise CredentialsIssue and deploy"


@dataclass(frozen=True, slots=True)
class Parts:
    """Makes the trials of one function. What each method describes is what its trial does."""

    clients: Clients
    clock: Clock
    run: str

    @property
    def _hash(self) -> str:
        return hash_of_run(self.run)

    def digest(self, table_name: str) -> Trial:
        """Read the digest."""
        client = self.clients.dynamodb
        return Trial("table", probes.endpoint_of(client), lambda: read_digest(client, table_name))

    def rows(self, table_name: str) -> Trial:
        """Read the row of a key that is not there."""
        client = self.clients.dynamodb
        keys = KeyTable(table_name, client, self.clock)
        return Trial("table", probes.endpoint_of(client), lambda: keys.read(self._hash))

    def table(self, table_name: str) -> Trial:
        """Read the row of a key that is not there, and write to it."""
        client = self.clients.dynamodb
        keys = KeyTable(table_name, client, self.clock)

        def attempt() -> None:
            keys.read(self._hash)
            probes.update(client, table_name, key_item(self._hash))

        return Trial("table", probes.endpoint_of(client), attempt)

    def leases(self, table_name: str, node_names: Sequence[str]) -> Trial:
        """Read the rows of databases, and write to a lease that nobody has."""
        nodes = NodeTable(table_name, self.clients.dynamodb, self.clock)

        def attempt() -> None:
            for node in node_names:
                nodes.read(node)
                nodes.extend(Lease(node, self._hash), held_until_us=0, now_us=0)

        return Trial("table", probes.endpoint_of(self.clients.dynamodb), attempt)

    def origin(self, bucket_name: str, prefix: str) -> Trial:
        """Read an object that is not there."""
        store = ObjectStore(bucket_name, self.clients.s3)

        def attempt() -> None:
            answer = store.get(f"{prefix}{SELF_TEST}/{self.run}")
            answer.discard()
            if answer.code != "NoSuchKey":
                kind = AccessDeniedError if answer.code == "AccessDenied" else OriginError
                raise kind(f"S3 answers {answer.status} {answer.code} where there is no object")

        return Trial(f"bucket {bucket_name}", probes.endpoint_of(self.clients.s3), attempt, _BUCKET)

    def written(self, bucket_name: str, prefix: str) -> Trial:
        """Write an object on a condition that does not hold."""
        store = ObjectStore(bucket_name, self.clients.s3)

        def attempt() -> None:
            with suppress(ObjectNotFoundError):  # of the condition, which comes after the right to write
                store.put(f"{prefix}{SELF_TEST}/{self.run}", b"", if_match='"none"')

        return Trial(f"bucket {bucket_name}", probes.endpoint_of(self.clients.s3), attempt, _BUCKET)

    def express(self, bucket_name: str) -> Trial:
        """Read a copy that is not there."""
        copies = ExpressCopies(bucket_name, self.clients.express)
        endpoint = probes.endpoint_of(self.clients.express)
        return Trial(f"bucket {bucket_name}", endpoint, lambda: copies.read(self._hash))

    def bus(self, bus_name: str) -> Trial:
        """Send an event about no key."""
        publisher = EventPublisher(bus_name, self.clients.events, self.clock)

        def attempt() -> None:
            if report := publisher.start(RequestsServed(keys=[])):
                report.result()

        return Trial(f"bus {bus_name}", probes.endpoint_of(self.clients.events), attempt)

    def tokens(self) -> Trial:
        """Complete a task that does not exist."""
        states = self.clients.states
        token = f"{SELF_TEST}/{self.run}"
        no_task = BurstcacheError("this is no task's end")
        return Trial("tasks", probes.endpoint_of(states), lambda: Executions(states).fail(token, no_task))

    def machine(self, name: str, arn: str) -> Trial:
        """Start an execution under a name that Step Functions does not take."""
        states = self.clients.states
        return Trial(f"machine {name}", probes.endpoint_of(states), lambda: probes.start_execution(states, arn))

    def lives(self, machine_arn: str) -> Trial:
        """Ask whether an execution runs that does not exist, and which ones run."""
        executions = Executions(self.clients.states)

        def look() -> None:
            executions.is_running(machine_arn, SELF_TEST)
            executions.running(machine_arn)

        return Trial("executions", probes.endpoint_of(self.clients.states), look)

    def function(self, name: str) -> Trial:
        """Invoke another function without running it."""
        functions = self.clients.functions
        return Trial(f"function {name}", probes.endpoint_of(functions), lambda: probes.invoke(functions, name))

    def instances(self, nodes: Iterable[RedisNode], *, switches: bool) -> Trial:
        """Look at the instances of nodes; where the function `switches` them, start and stop them by dry runs."""
        ids, ec2 = instance_ids(tuple(nodes)), self.clients.ec2
        instances = Instances(ids, ec2)

        def attempt() -> None:
            for node, id_ in ids.items():
                if (state := instances.state(node)) in ("shutting-down", "terminated"):
                    raise NodeFailedError(f"instance {id_} of {node} is {state}")
                if switches:
                    probes.switch(ec2, id_)

        return Trial("instances", probes.endpoint_of(ec2), attempt, _INSTANCES)

    def parameter(self, name: str) -> Trial:
        """Read a parameter of Systems Manager."""
        client = self.clients.secrets
        return Trial(f"parameter {name}", probes.endpoint_of(client), lambda: Secrets(client).read(name))

    def asked_over_relay(self, access: RelayAccess, subject: str) -> Iterator[Trial]:
        """Log in to the relay with its certificate, and ask the cache function until it answers."""
        if not access.url:
            return
        yield self.parameter(access.password_parameter)

        def attempt() -> None:
            relay = RelayRequests(access, Secrets(self.clients.secrets), self.clock)
            try:
                self._ask(relay, subject)
            finally:
                relay.close()

        yield Trial("relay", lambda: probes.host_and_port(access.url), attempt, _RELAY)

    def _ask(self, relay: RelayRequests, subject: str) -> None:
        give_up_s = self.clock.monotonic_s() + _MEET_WITHIN_S
        while relay.request(subject, b"", timeout_s=_ANSWER_WITHIN_S) is None:
            if self.clock.monotonic_s() > give_up_s:
                raise RelayDownError(f"the relay hears this function, but in {_MEET_WITHIN_S:g} s no cache function")
            self.clock.sleep(_ASK_AGAIN_S)

    def redis(self, nodes: tuple[RedisNode, ...], access: RedisAccess, table_name: str) -> Iterator[Trial]:
        """Read the password, and ask the nodes that run; at rest none does."""
        if not nodes:
            return
        yield self.parameter(access.password_parameter)
        asked: list[str] = []

        def attempt() -> None:
            shown: Mapping[str, RunningNode] = {}
            with suppress(BurstcacheError):  # which the trial of the table reports
                shown = read_digest(self.clients.dynamodb, table_name).nodes
            for node in nodes:
                if node.name in shown and shown[node.name].is_running:
                    asked.append(f"{node.host}:{node.port}")
                    RedisObjects(node, Secrets(self.clients.secrets), access).ping()

        yield Trial("nodes that run", lambda: ", ".join(asked) or "none", attempt, _NODES)

    def answers_over_relay(self, access: RelayAccess) -> Iterator[Trial]:
        """Log in to the relay with its certificate, and answer the proxy and Redis control."""
        yield self.parameter(access.password_parameter)

        def attempt() -> None:
            loop = self.clock.new_event_loop()
            try:
                loop.run_until_complete(self._answer(RelayListener(access, Secrets(self.clients.secrets))))
            finally:
                loop.close()

        yield Trial("relay", lambda: probes.host_and_port(access.url), attempt, _RELAY)

    async def _answer(self, relay: RelayListener) -> None:
        """Return when the proxy and Redis control have asked; what they do not get they report themselves."""
        waits_for = {get_subject(self._hash), control_subject(self._hash)}
        have_asked = asyncio.Event()

        async def listen(subject: str) -> None:
            async def answer(_: bytes, respond: Respond, __: float) -> None:
                await respond(b"")
                waits_for.discard(subject)
                if not waits_for:
                    have_asked.set()

            await relay.listen(subject, queue=self._hash, answer=answer)

        await relay.open()
        try:
            for subject in tuple(waits_for):
                await listen(subject)
            with suppress(TimeoutError):
                await asyncio.wait_for(have_asked.wait(), _MEET_WITHIN_S)
            await relay.flush(timeout_s=_ANSWER_WITHIN_S)
        finally:
            await relay.close()
