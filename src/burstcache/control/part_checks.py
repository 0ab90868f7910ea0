"""The checks of the parts of a stack, from which functions compose their self-tests."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from burstcache.access import RedisAccess, RedisNode, RelayAccess, TaskPlace, instance_ids, node_named
from burstcache.adapters import health_probes
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
from burstcache.adapters.tasks import Tasks
from burstcache.control.health_checks import Check
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
from burstcache.core.rows import Lease, NodeRow
from burstcache.core.table import key_item

# Two functions that start cold reach each other over the relay within this time. The proxy has this time left even if
# other parts hang.
_MEET_WITHIN_S = 15.0
_ASK_AGAIN_S = 0.2
_ANSWER_WITHIN_S = 2.0
_BUCKET = "the bucket must exist, in the stack's region"
_INSTANCES = "raise RedisNodeIssue and deploy, which makes new ones"
_RELAY = "its passwords and those of the functions belong together: raise CredentialsIssue and deploy"


@dataclass(frozen=True, slots=True)
class PartChecks:
    """The checks of one function. Each method returns the check that its docstring describes."""

    clients: Clients
    clock: Clock
    run: str

    @property
    def _hash(self) -> str:
        return hash_of_run(self.run)

    def digest(self, table_name: str) -> Check:
        """Read the digest."""
        client = self.clients.dynamodb
        return Check("table", health_probes.endpoint_of(client), lambda: read_digest(client, table_name))

    def rows(self, table_name: str) -> Check:
        """Read the row of a missing key."""
        client = self.clients.dynamodb
        keys = KeyTable(table_name, client, self.clock)
        return Check("table", health_probes.endpoint_of(client), lambda: keys.read(self._hash))

    def table(self, table_name: str) -> Check:
        """Read the row of a missing key, and update it under a false condition."""
        client = self.clients.dynamodb
        keys = KeyTable(table_name, client, self.clock)

        def attempt() -> None:
            keys.read(self._hash)
            health_probes.update(client, table_name, key_item(self._hash))

        return Check("table", health_probes.endpoint_of(client), attempt)

    def leases(self, table_name: str, node_names: Sequence[str]) -> Check:
        """Read the rows of state databases, and extend a lease that does not exist."""
        nodes = NodeTable(table_name, self.clients.dynamodb, self.clock)

        def attempt() -> None:
            for node in node_names:
                nodes.read(node)
                nodes.extend(Lease(node, self._hash), held_until_us=0, now_us=0)

        return Check("table", health_probes.endpoint_of(self.clients.dynamodb), attempt)

    def origin(self, bucket_name: str, prefix: str) -> Check:
        """Read a missing object."""
        store = ObjectStore(bucket_name, self.clients.s3)

        def attempt() -> None:
            answer = store.get(f"{prefix}{SELF_TEST}/{self.run}")
            answer.discard()
            if answer.code != "NoSuchKey":
                kind = AccessDeniedError if answer.code == "AccessDenied" else OriginError
                raise kind(f"S3 answers {answer.status} {answer.code} where there is no object")

        return Check(f"bucket {bucket_name}", health_probes.endpoint_of(self.clients.s3), attempt, _BUCKET)

    def writable(self, bucket_name: str, prefix: str) -> Check:
        """Write an object under a false condition."""
        store = ObjectStore(bucket_name, self.clients.s3)

        def attempt() -> None:
            with suppress(ObjectNotFoundError):  # S3 evaluates the condition after the permission
                store.put(f"{prefix}{SELF_TEST}/{self.run}", b"", if_match='"none"')

        return Check(f"bucket {bucket_name}", health_probes.endpoint_of(self.clients.s3), attempt, _BUCKET)

    def express(self, bucket_name: str) -> Check:
        """Read a missing copy."""
        copies = ExpressCopies(bucket_name, self.clients.express)
        endpoint = health_probes.endpoint_of(self.clients.express)
        return Check(f"bucket {bucket_name}", endpoint, lambda: copies.read(self._hash))

    def bus(self, bus_name: str) -> Check:
        """Send an event without a key."""
        publisher = EventPublisher(bus_name, self.clients.events, self.clock)

        def attempt() -> None:
            if report := publisher.start(RequestsServed(keys=[])):
                report.result()

        return Check(f"bus {bus_name}", health_probes.endpoint_of(self.clients.events), attempt)

    def tokens(self) -> Check:
        """Complete a task that does not exist."""
        states = self.clients.states
        token = f"{SELF_TEST}/{self.run}"
        no_task = BurstcacheError("a self-test ends no task")
        return Check("tasks", health_probes.endpoint_of(states), lambda: Executions(states).fail(token, no_task))

    def machine(self, name: str, arn: str) -> Check:
        """Start an execution with an invalid name."""
        states = self.clients.states
        return Check(
            f"machine {name}", health_probes.endpoint_of(states), lambda: health_probes.start_execution(states, arn)
        )

    def executions(self, machine_arn: str) -> Check:
        """Query an execution that does not exist, and list running executions."""
        executions = Executions(self.clients.states)

        def attempt() -> None:
            executions.is_running(machine_arn, SELF_TEST)
            executions.running(machine_arn)

        return Check("executions", health_probes.endpoint_of(self.clients.states), attempt)

    def function(self, name: str) -> Check:
        """Invoke another function in a dry run."""
        functions = self.clients.functions
        return Check(
            f"function {name}", health_probes.endpoint_of(functions), lambda: health_probes.invoke(functions, name)
        )

    def instances(self, nodes: Iterable[RedisNode], *, switches: bool) -> Check:
        """Describe the instances of nodes. With `switches`, also start and stop them in dry runs."""
        ids, ec2 = instance_ids(tuple(nodes)), self.clients.ec2
        instances = Instances(ids, ec2)

        def attempt() -> None:
            for node, id_ in ids.items():
                if (state := instances.state(NodeRow(node))) in ("shutting-down", "terminated"):
                    raise NodeFailedError(f"instance {id_} of {node} is {state}")
                if switches:
                    health_probes.switch(ec2, id_)

        return Check("instances", health_probes.endpoint_of(ec2), attempt, _INSTANCES)

    def tasks(self, place: TaskPlace) -> Check:
        """Describe and stop a task that does not exist, and list those of no node. ECS has no dry run of a start."""
        ecs = self.clients.make("ecs")
        return Check("tasks of ECS", health_probes.endpoint_of(ecs), Tasks(place, ecs, self.clock).check_permissions)

    def task_states(self, place: TaskPlace) -> Check:
        """Describe a task that does not exist."""
        ecs = self.clients.make("ecs")
        tasks = Tasks(place, ecs, self.clock)
        return Check("tasks of ECS", health_probes.endpoint_of(ecs), tasks.check_reading)

    def parameter(self, name: str) -> Check:
        """Read a Systems Manager parameter."""
        client = self.clients.secrets
        return Check(f"parameter {name}", health_probes.endpoint_of(client), lambda: Secrets(client).read(name))

    def requests_over_relay(self, access: RelayAccess, subject: str) -> Iterator[Check]:
        """Verify the relay's certificate, log in, and send requests until the cache function answers."""
        if not access.url:
            return
        yield self.parameter(access.password_parameter)

        def attempt() -> None:
            relay = RelayRequests(access, Secrets(self.clients.secrets), self.clock)
            try:
                self._request(relay, subject)
            finally:
                relay.close()

        yield Check("relay", lambda: health_probes.host_and_port(access.url), attempt, _RELAY)

    def _request(self, relay: RelayRequests, subject: str) -> None:
        give_up_s = self.clock.monotonic_s() + _MEET_WITHIN_S
        while relay.send_request(subject, b"", timeout_s=_ANSWER_WITHIN_S) is None:
            if self.clock.monotonic_s() > give_up_s:
                raise RelayDownError(f"the relay answers, but in {_MEET_WITHIN_S:g} s no cache function did")
            self.clock.sleep(_ASK_AGAIN_S)

    def redis(self, nodes: tuple[RedisNode, ...], access: RedisAccess, table_name: str) -> Iterator[Check]:
        """Read the password, and ping all running nodes, if any."""
        if not nodes:
            return
        yield self.parameter(access.password_parameter)
        pinged: list[str] = []

        def attempt() -> None:
            shown: Mapping[str, RunningNode] = {}
            with suppress(BurstcacheError):  # reported by the table check
                shown = read_digest(self.clients.dynamodb, table_name).nodes
            for node in nodes:
                if node.name in shown and shown[node.name].is_running:
                    reached = node_named(node.name, nodes, host=shown[node.name].host)
                    pinged.append(f"{reached.host}:{reached.port}")
                    RedisObjects(reached, Secrets(self.clients.secrets), access).ping()

        yield Check("nodes that run", lambda: ", ".join(pinged) or "none", attempt)

    def answers_over_relay(self, access: RelayAccess) -> Iterator[Check]:
        """Verify the relay's certificate, log in, and answer the proxy and Redis control."""
        yield self.parameter(access.password_parameter)

        def attempt() -> None:
            loop = self.clock.new_event_loop()
            try:
                loop.run_until_complete(self._answer(RelayListener(access, Secrets(self.clients.secrets))))
            finally:
                loop.close()

        yield Check("relay", lambda: health_probes.host_and_port(access.url), attempt, _RELAY)

    async def _answer(self, relay: RelayListener) -> None:
        """Answer one request each from the proxy and Redis control. Both report a missing answer themselves."""
        missing = {get_subject(self._hash), control_subject(self._hash)}
        all_answered = asyncio.Event()

        async def listen(subject: str) -> None:
            async def answer(_: bytes, respond: Respond, __: float) -> None:
                await respond(b"")
                missing.discard(subject)
                if not missing:
                    all_answered.set()

            await relay.listen(subject, queue=self._hash, answer=answer)

        await relay.open()
        try:
            for subject in tuple(missing):
                await listen(subject)
            with suppress(TimeoutError):
                await asyncio.wait_for(all_answered.wait(), _MEET_WITHIN_S)
            await relay.flush(timeout_s=_ANSWER_WITHIN_S)
        finally:
            await relay.close()
