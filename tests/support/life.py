"""One life of a cache function on a virtual clock, with a relay and stubs for the stack."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

from burstcache.control.cache_life import KeyCache
from burstcache.control.cache_tools import CacheTask, CacheTools, End
from burstcache.core.errors import ServiceError
from burstcache.core.keys import key_hash
from burstcache.core.messages.encoding import encode
from burstcache.core.messages.relay import Get, control_subject, get_subject
from burstcache.core.parameters import US_PER_S, parameters_from_text
from burstcache.core.policies import thesis
from burstcache.core.policy import RecordedRequest
from burstcache.core.rows import KeyRow, NodeRow
from burstcache.web.entry import Entry
from support.memory_relay import MemoryRelay
from support.metrics import METER
from support.virtual_time import VirtualClock

PARAMETERS = parameters_from_text(rate="9", sensitivity="4")
_FAR_US = 1 << 62
_UNUSED: Any = None


class _Row:
    """Stub of the key's row, which the new life claims."""

    def __init__(self, row: KeyRow) -> None:
        self._row = row

    def read(self, hash_: str) -> KeyRow:
        return self._row

    def update(self, hash_: str, **_: Any) -> KeyRow:
        return self._row


class _Nodes:
    """Stub of nodes that never stop."""

    def __init__(self) -> None:
        self.reads: list[str] = []

    def read(self, node: str) -> NodeRow:
        self.reads.append(node)
        return NodeRow(node)


class _Executions:
    """Stub of Step Functions that completes tasks or throttles."""

    def __init__(self, clock: VirtualClock, *, refuses: bool) -> None:
        self.completed = 0  # attempts
        self.beats_at_s: list[float] = []
        self._clock, self._refuses = clock, refuses

    def succeed(self, token: str, output: object) -> bool:
        self.completed += 1
        if self._refuses:
            raise ServiceError("slow down", code="ThrottlingException")
        return True

    def heartbeat(self, token: str) -> bool:
        self.beats_at_s.append(self._clock.monotonic_s())
        return True


class _NoPause:
    """Pause switch that is never on."""

    def read(self) -> None:
        return None


NO_PAUSE: Any = _NoPause()


class LifeStage:
    """Stage for one life that was just announced, and its requests. The clock starts at 0."""

    def __init__(self, key: str, *, node: str = "node-1", refuses: bool = False) -> None:
        self.clock = VirtualClock()
        self.nodes, self.executions = _Nodes(), _Executions(self.clock, refuses=refuses)
        hash_ = key_hash(key)
        row = KeyRow(
            hash_, key, "lambda", 1, tier="lambda", node=node, holder="one", trigger=RecordedRequest(0, "trigger")
        )
        parts: dict[str, Any] = {"keys": _Row(row), "nodes": self.nodes, "executions": self.executions}
        tools = CacheTools(
            **parts,
            objects=_UNUSED,
            pauses=NO_PAUSE,
            max_object_bytes=4 << 20,
            policy=thesis(PARAMETERS),
            clock=self.clock,
            meter=METER,
        )
        entry = Entry({"etag": '"e"', "content-length": "4"}, b"body")
        self.life = KeyCache(CacheTask(key, hash_, 1, 0, "token", "one"), tools, lambda _: entry, 0, _FAR_US)
        self._hash, self._relay = hash_, MemoryRelay(self.clock)

    def get(self, at_us: int) -> None:
        """Request the object, as a reader does."""
        request = {"at_us": at_us, "request_id": str(at_us), "method": "GET"}
        assert self._relay.send_request(get_subject(self._hash), json.dumps(request).encode(), timeout_s=1)
        self._settle()

    def ask(self, *, within_s: float) -> bytes | None:
        """Request as a reader that falls back to S3 after `within_s`. Return even a late answer."""
        get = Get(at_us=0, request_id="r", method="GET", within_us=round(within_s * US_PER_S))
        return self._relay.send_request(get_subject(self._hash), encode(get), timeout_s=1)

    def stop(self) -> list[RecordedRequest]:
        """Order the life to stop. Return the requests it hands over."""
        answer = self._relay.send_request(control_subject(self._hash), json.dumps({"op": "stop"}).encode(), timeout_s=1)
        assert answer is not None
        return [RecordedRequest.decode(text) for text in json.loads(answer)["window"]]

    def ends(self) -> End:
        """Wait until the life ends and return its end."""
        return self.clock.wait_for(self._end)

    @contextmanager
    def running(self) -> Iterator[LifeStage]:
        """Run the life for the duration of a `with`, and wait for its end."""
        loop = self.clock.new_event_loop()

        def serve() -> End:
            try:
                return loop.run_until_complete(self.life.serve(self._relay.listener()))
            finally:
                loop.close()

        self._end: Future[End] = self.clock.start(serve)
        self._settle()
        yield self
        self.ends()

    def _settle(self) -> None:
        """Run everything that is due without time passing."""
        self.clock.sleep(0.001)
