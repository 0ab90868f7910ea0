"""Readers and writers of few keys, whose load comes and goes, and the history of what they did."""

from __future__ import annotations

import base64
import itertools
import random
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from burstcache.core.errors import BurstcacheError
from burstcache.core.keys import key_hash
from burstcache.handlers.proxy import Proxy
from burstcache.serve.reader import Reader
from burstcache.serve.writer import Writer
from burstcache.web.request import Request
from consistency.history import Kind, Operation, Recorder, Way
from consistency.stage import Stage
from support.roles import acting

_US_PER_S = 1_000_000
_MEMORY_BYTES = 1 << 20
_DELETES = 0.1  # of all writes
_LOOK_S = 3.0  # how long a load that has changed may stay unnoticed
_SUCCEEDED, _NOT_FOUND = 200, 404


@dataclass(frozen=True, slots=True)
class Load:
    """How a key is asked for at a time, by all clients together."""

    reads_per_s: float
    writes_per_s: float
    for_s: tuple[float, float]  # at least, at most


# What brings a key to Redis, after a rise in which S3 serves still.
_RISE, _BURST = Load(60, 3, (3, 4)), Load(400, 3, (8, 20))
# One after the other, drawn by lot: a burst, what keeps a key with a cache function until that one hands over, and what
# lets the key's life end.
_DRAWN = (_RISE, Load(1.2, 0.15, (60, 150)), Load(0.02, 0.01, (30, 300)))
# Of all keys at the same time, so that nodes have nothing left to do.
_NIGHT = Load(0.002, 0.002, (300, 1800))
_DAY_S = (200, 600)


class Loads:
    """The loads of all keys as time goes on."""

    def __init__(self, keys: Sequence[str], draw: random.Random) -> None:
        self.keys = keys
        self._draw = draw
        self._now: dict[str, tuple[float, Load]] = {}
        self._is_night, self._until_s = True, 0.0

    def of(self, key: str, now_s: float) -> Load:
        """Return the load of a key."""
        if now_s >= self._until_s:
            self._is_night = not self._is_night
            self._until_s = now_s + self._draw.uniform(*(_NIGHT.for_s if self._is_night else _DAY_S))
        until_s, load = self._now.get(key, (now_s, _NIGHT))
        if until_s <= now_s:
            load = _BURST if load == _RISE else self._draw.choice(_DRAWN)
            until_s = now_s + self._draw.uniform(*load.for_s)
        self._now[key] = until_s, load
        return _NIGHT if self._is_night else load


@dataclass(frozen=True, slots=True)
class Found:
    """What a read gave."""

    status: int
    body: bytes
    tier: str


Read = Callable[[str], Found]
Write = Callable[[str, bytes | None], object]


class Clients:
    """What reads and writes, and what it has seen."""

    def __init__(self, stage: Stage, keys: Sequence[str], *, operations: int, way: Way) -> None:
        self.recorder = Recorder()
        self._stage, self._loads, self._operations, self._way = stage, Loads(keys, stage.draw), operations, way

    def run(self, *, fronts: int = 4, clients: int = 2, writers: int = 3) -> list[Operation]:
        """Read and write until there are as many operations as wanted; return them.

        Args:
            fronts: Environments of the proxy; each answers one request at a time.
            clients: Programs with a memory, of two threads each; as many more have none.
            writers: How many threads write.
        """
        stage = self._stage
        readers = {
            f"{name}-{number}": stage.open_client(memory_bytes=memory_bytes)
            for number in range(clients)
            for name, memory_bytes in (("memory", _MEMORY_BYTES), ("bare", 0))
        }
        reads = [(f"front-{number}", _by_front(stage.open_front())) for number in range(fronts)]
        reads += [(name, _by_client(stage, reader)) for name, reader in readers.items()] * 2
        threads = [stage.clock.start(self._read_on, name, read, 1 / len(reads)) for name, read in reads]
        for _, (name, reader) in zip(range(writers), itertools.cycle(readers.items()), strict=False):
            write = stage.write if self._way == "direct" else _by_library(stage.open_writer(reader))
            threads.append(stage.clock.start(self._write_on, name, write, 1 / writers))
        for thread in threads:
            stage.clock.wait_for(thread)
        return self.recorder.operations

    def _read_on(self, client: str, read: Read, share: float) -> None:
        while (key := self._next(lambda load: share * load.reads_per_s)) is not None:
            began_us = self._stage.clock.now_us()
            found = read(key)
            ended_us = self._stage.clock.now_us()
            is_known = found.status in (_SUCCEEDED, _NOT_FOUND)
            value = int(found.body) if found.status == _SUCCEEDED else None
            self.recorder.add(
                Operation(client, "read", key, value, began_us, ended_us, is_known, tier=found.tier, path=self._way)
            )
            self._stage.deliver()

    def _write_on(self, client: str, write: Write, share: float) -> None:
        while (key := self._next(lambda load: share * load.writes_per_s)) is not None:
            number = None if self._stage.draw.random() < _DELETES else self.recorder.number()
            kind: Kind = "delete" if number is None else "write"
            began_us, is_known = self._stage.clock.now_us(), True
            try:
                write(key, None if number is None else b"%08d" % number)
            except BurstcacheError:
                is_known = False
            ended_us = self._stage.clock.now_us()
            self.recorder.add(Operation(client, kind, key, number, began_us, ended_us, is_known, path=self._way))

    def _next(self, rate: Callable[[Load], float]) -> str | None:
        """Wait for the next time at which one of the keys is asked for, and return it; None: it is over."""
        clock, draw = self._stage.clock, self._stage.draw
        while len(self.recorder.operations) < self._operations:
            now_s = clock.now_us() / _US_PER_S
            rates = [rate(self._loads.of(key, now_s)) for key in self._loads.keys]
            wait_s = draw.expovariate(sum(rates))
            clock.sleep(min(wait_s, _LOOK_S))
            if wait_s <= _LOOK_S:
                return draw.choices(self._loads.keys, rates)[0]
        return None


def _by_front(front: Proxy) -> Read:
    def read(key: str) -> Found:
        context = {"http": {"method": "GET"}, "requestId": str(uuid.uuid4()), "stage": "$default"}
        event = {"version": "2.0", "rawPath": f"/objects/{key}", "headers": {}, "requestContext": context}
        with acting("proxy"):
            answer = front.handle(event, None)
        body = base64.b64decode(answer["body"]) if answer.get("isBase64Encoded") else answer.get("body", "").encode()
        return Found(answer["statusCode"], body, answer["headers"].get("x-cache-tier", ""))

    return read


def _by_client(stage: Stage, reader: Reader) -> Read:
    def read(key: str) -> Found:
        request = Request("GET", key, key_hash(key), {}, None, str(uuid.uuid4()), stage.clock.now_us())
        response = reader.read(request)
        return Found(response.status, response.body, response.headers.get("x-cache-tier", ""))

    return read


def _by_library(writer: Writer) -> Write:
    def write(key: str, body: bytes | None) -> None:
        if body is None:
            writer.delete(key)
        else:
            writer.put(key, body)

    return write
