"""A world: the deployed handlers on a virtual clock, with moto, an in-process Redis and relay, and our interpreter.

Nothing in it waits for real time. State machines either stop at their first task, so that a test takes every step
itself (`World`), or run as deployed (`World(runs_machines=True)`).
"""

from __future__ import annotations

import functools
import json
import uuid
from concurrent.futures import Future
from typing import Any

from burstcache.core.errors import BurstcacheError, FunctionFailedError
from burstcache.core.keys import key_hash
from burstcache.core.messages.events import OBJECT_REQUESTED, REQUESTS_SERVED, RequestsServed
from burstcache.core.messages.operations import FollowWrite
from burstcache.core.rows import KeyRow, NodeRow
from burstcache.core.table import LeaseColumns
from burstcache.handlers.proxy import Proxy
from burstcache.queries.system import System
from burstcache.serve.writer import Writer
from burstcache.web.entry import decode
from support.aws import BUCKET, TABLE
from support.functions import NODE, Functions
from support.roles import acting
from support.virtual_time import VirtualClock


class World(Functions):
    """World of the functions, with a test's actions and observations."""

    def put_object(self, key: str, body: bytes = b"body") -> None:
        self.clients.s3.put_object(Bucket=BUCKET, Key=key, Body=body)

    def delete_object(self, key: str) -> None:
        self.clients.s3.delete_object(Bucket=BUCKET, Key=key)

    def row(self, key: str) -> KeyRow:
        row = self.keys.read(key_hash(key))
        assert row is not None
        return row

    def node(self) -> NodeRow:
        return self.nodes.read(NODE)

    @property
    def system(self) -> System:
        """The stack, as queries see it."""
        return System(
            table_name=TABLE,
            key_machine_arn=self.key_machine,
            node_machine_arn=self.node_machine,
            node_names=tuple(self.node_names),
            dynamodb=self.clients.dynamodb,
            states=self.clients.states,
            clock=self.clock,
        )

    # requests

    def read(self, key: str) -> str:
        """Read an object through the proxy, deliver the proxy's reports, and return the tier that served."""
        answer = self.answer(key)
        assert answer["statusCode"] == 200, answer
        self.deliver()
        return str(answer["headers"]["x-cache-tier"])

    def answer(self, key: str) -> dict[str, Any]:
        """Return the proxy's answer to a GET."""
        context = {"http": {"method": "GET"}, "requestId": str(uuid.uuid4()), "stage": "$default"}
        event = {"version": "2.0", "rawPath": f"/objects/{key}", "headers": {}, "requestContext": context}
        with acting("proxy"):
            return Proxy(self.reader, self.clock, self.meter).handle(event, None)

    def reported(self) -> list[RequestsServed]:
        """Return the batches that are reported but not yet delivered."""
        return [event for event in self._bus.events if "keys" in event]

    def deliver(self) -> None:
        """Deliver the reader's reports."""
        while self._bus.events:
            detail = self._bus.events.pop(0)
            kind = REQUESTS_SERVED if "keys" in detail else OBJECT_REQUESTED
            self.invoke("scheduler", {"detail-type": kind, "detail": detail})

    def report(self, key: str, *, at_us: int | None = None, request_id: str = "", size_bytes: int = 4) -> str:
        """Report a GET that S3 served, as the proxy's event does. Return the scheduler's outcome."""
        at_us = at_us or self.clock.now_us()
        detail = {
            "key": key,
            "at_us": at_us,
            "request_id": request_id or f"r{at_us}",
            "size_bytes": size_bytes,
            "etag": '"e"',
        }
        return str(self.invoke("scheduler", {"detail-type": "ObjectRequested", "detail": detail})["outcome"])

    def get_twice(self, key: str, *, late_s: float = 0, size_bytes: int = 4) -> list[str]:
        """Report two GETs within the threshold, with a delay of `late_s`."""
        at_us = self.clock.now_us()
        self.clock.sleep(late_s)
        return [self.report(key, at_us=each_us, size_bytes=size_bytes) for each_us in (at_us - 1000, at_us)]

    def get(self, key: str) -> bytes | None:
        """Request a key from its holder in the Lambda tier, as the proxy does. None: no holder."""
        at_us = self.clock.now_us()
        request = {"at_us": at_us, "request_id": f"g{at_us}", "method": "GET"}
        return self.relay.send_request(f"get.{key_hash(key)}", json.dumps(request).encode(), timeout_s=2)

    def body_in_lambda_tier(self, key: str) -> bytes | None:
        """Return the body from a key's holder in the Lambda tier. None: no holder."""
        answer = self.get(key)
        return None if answer is None else decode(answer).body

    def writer(self) -> Writer:
        """Return the writer in the same process as `reader`."""

        def drop_copies(written: FollowWrite) -> object:
            try:
                return self.invoke("origin", {**written})
            except BurstcacheError as error:  # as the Lambda service reports it
                raise FunctionFailedError(f"origin failed: {error}") from error

        return Writer(self.objects, "", drop_copies, self.reader.forget)

    # steps of lives

    def started(self, key: str) -> KeyRow:
        """Make a key hot and return its row."""
        self.put_object(key)
        assert self.get_twice(key)[-1] == "started"
        return self.row(key)

    def key_step(self, op: str, key: str, **more: Any) -> Any:
        """Run a step of the key's life in Redis control."""
        row = self.row(key)
        payload = {"op": op, "key": key, "key_hash": row.hash, "epoch": row.epoch, "node": row.node or NODE}
        return self.invoke("redis_control", payload | more)

    def leave(self, key: str, *, is_failed: bool, failures: int = 0) -> Any:
        return self.key_step("leave", key, queue_us=[], is_failed=is_failed, failures=failures)

    def node_step(self, op: str, generation: int | None = None, **more: Any) -> Any:
        """Run a step of the node's run in Redis control."""
        payload = {"op": op, "node": NODE, "generation": generation or self.node().generation}
        return self.invoke("redis_control", payload | more)

    def check(self, at_us: int | None = None) -> Any:
        """Run the node's check, by default at a time when every key is idle."""
        at_us = at_us or self.clock.now_us() + 2 * self.parameters.redis_utilization_us
        return self.node_step("check_node", part=self.node().part, check_at_us=str(at_us), checks=0)

    def boot(self) -> Any:
        """Start the node's run. The event of a task that runs ends the token, with which the execution would end."""
        row = self.node()
        name = row.execution_name
        token = self.token(name if self.tasks is None else f"boot-{row.generation}")
        return self.node_step("boot_node", part=row.part, token=token, execution=name)

    def ready(self) -> Any:
        """Report that the node's Redis is ready."""
        return self.node_step("ready_node", part=self.node().part)

    def written(self, key: str) -> Any:
        """Notify the control plane of a write to the bucket, as S3's event does."""
        return self.invoke("origin", event_of_write(key))

    def join(self, key: str) -> str:
        """Make a hot key join the node. Return the name of its token for `outcome`."""
        name = f"join-{key_hash(key)}"
        self.key_step("join", key, token=self.token(name))
        return name

    def joined(self, key: str) -> str:
        """Make a key hot and make it join the node."""
        self.started(key)
        return self.join(key)

    def running(self, key: str) -> str:
        """Promote a key to Redis, and boot the node if it does not run. Return the name of the key's running token."""
        waiter = self.joined(key)
        if self.node().phase == "booting":
            self.boot()
            if self.tasks is not None:
                self.ecs.run(self.ecs.tasks[-1])
            self.ready()
        generation = self.node().generation
        assert self.outcome(waiter) == {"generation": generation}
        self.key_step("seed", key, generation=generation)
        name = f"run-{key_hash(key)}"
        lease = next(lease for lease in self.nodes.leases(NODE) if lease.hash == key_hash(key))
        self.nodes.change_lease(lease, LeaseColumns(running=self.token(name)), remove="waiter")
        return name

    def serve(self, key: str, *, holder: str = "one", attempt: int = 0, remaining_s: float = 900) -> Life:
        """Run a cache function that holds a hot key."""
        row = self.row(key)
        token = self.token(row.execution_name)
        task = {"key": key, "key_hash": row.hash, "epoch": row.epoch, "attempt": attempt, "token": token}
        run = functools.partial(self.invoke, "cache", task, request_id=holder, remaining_s=remaining_s)
        self._lives.append(self.clock.start(run))
        return Life(self.clock, self._lives[-1])

    def clean(self) -> Any:
        """Run the janitor."""
        return self.invoke("janitor", {})


def event_of_write(key: str) -> dict[str, Any]:
    """Return S3's event of a write to the bucket."""
    return {"source": "aws.s3", "detail": {"object": {"key": key}}}


class Life:
    """Running cache function."""

    def __init__(self, clock: VirtualClock, end: Future[Any]) -> None:
        self._clock, self._end = clock, end

    def join(self) -> str:
        """Wait until it ends and return its end."""
        return str(self._clock.wait_for(self._end)["end"])
