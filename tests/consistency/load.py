"""The load of a history: readers and writers of few keys, in bursts and pauses."""

from __future__ import annotations

import base64
import itertools
import random
import uuid
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from burstcache.core.errors import BurstcacheError, ObjectNotFoundError, PreconditionFailedError
from burstcache.core.keys import key_hash
from burstcache.handlers.proxy import Proxy
from burstcache.handlers.writer import FrontWriter
from burstcache.serve.reader import Reader
from burstcache.serve.writer import Writer
from burstcache.web.request import Request
from burstcache.web.writing import WriteHeaders, sent_headers
from consistency.history import Kind, Operation, Recorder, Way
from consistency.programs import WRONG, Program, note
from consistency.stage import Stage
from support.roles import acting

_US_PER_S = 1_000_000
_MEMORY_BYTES = 1 << 20
_DELETES, _CONDITIONAL = 0.1, 0.2  # of all writes
_LOOK_S = 3.0  # at most, until a client notices a changed load
_SUCCEEDED, _NO_CONTENT, _NOT_FOUND, _PRECONDITION_FAILED = 200, 204, 404, 412
_ABSENT = ("", 0)
KEYS_OF_RANGES = ("large-a", "large-b")
_PROGRAMS = (("slices", 64 << 10, True), ("slices-memory", 8 << 10, False), ("slices-disk", 0, True))


@dataclass(frozen=True, slots=True)
class Load:
    """The load on a key for a while, from all clients together."""

    reads_per_s: float
    writes_per_s: float
    for_s: tuple[float, float]  # at least, at most


# A burst brings a key to Redis, after a rise during which S3 still serves.
_RISE, _BURST = Load(60, 3, (3, 4)), Load(400, 6, (8, 20))
# Drawn at random, one after the other: a burst, a trickle that keeps a key on a cache function until it hands over,
# conflicting writers, and a pause in which the key's execution ends.
_DRAWN = (_RISE, Load(1.2, 0.15, (60, 150)), Load(150, 40, (3, 6)), Load(0.02, 0.01, (30, 300)))
# Of all keys at the same time, so that nodes become idle.
_NIGHT = Load(0.002, 0.002, (300, 1800))
_DAY_S = (200, 600)


class Loads:
    """The loads of all keys over time."""

    def __init__(self, keys: Sequence[str], draw: random.Random) -> None:
        self.keys = keys
        self._draw = draw
        self._now: dict[str, tuple[float, Load]] = {}
        self._is_night, self._until_s = True, 0.0

    def of(self, key: str, now_s: float) -> Load:
        """Return the load of a key at a time."""
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
    """The answer to a read."""

    status: int
    body: bytes
    headers: Mapping[str, str]


Read = Callable[[str], Found]
# From a key, its new object or None, and a condition to the new ETag. Raises PreconditionFailedError or
# ObjectNotFoundError if the condition fails, another BurstcacheError if the write may have taken effect.
Write = Callable[[str, bytes | None, WriteHeaders], str]


class Clients:
    """The clients that read and write, and their recorder."""

    def __init__(self, stage: Stage, keys: Sequence[str], *, operations: int, way: Way) -> None:
        self.recorder = Recorder()
        self.ways: Counter[str] = Counter()  # how programs have read objects in slices
        self._stage, self._operations, self._way = stage, operations, way
        self._loads = Loads(keys, stage.draw)
        self._loads_of_ranges = Loads(KEYS_OF_RANGES, stage.draw)
        self._known: dict[str, tuple[str, int]] = {}  # ETag and number of each key's last answer to any client

    def run(self, *, fronts: int = 4, clients: int = 2, writers: int = 6) -> list[Operation]:
        """Read and write up to the number of operations; return them.

        Args:
            fronts: Proxy environments, the last one with a memory; each answers one request at a time.
            clients: Programs with a memory, of two threads each; as many without.
            writers: Threads that write, half through the library and half through the front door, or all to the bucket.
                As many write objects of any size, which programs read in slices: with a memory, a disk, or both.
        """
        stage = self._stage
        readers = {
            f"{name}-{number}": stage.open_client(memory_bytes=memory_bytes)
            for number in range(clients)
            for name, memory_bytes in (("memory", _MEMORY_BYTES), ("bare", 0))
        }
        memories = [*[0] * (fronts - 1), _MEMORY_BYTES]
        reads = [
            (f"front-{number}", _by_front(stage.open_front(memory_bytes=memory_bytes)))
            for number, memory_bytes in enumerate(memories)
        ]
        reads += [(name, _by_client(stage, reader)) for name, reader in readers.items()] * 2
        threads = [stage.clock.start(self._read_on, name, read, 1 / len(reads)) for name, read in reads]
        programs = {
            name: stage.open_program(name, memory_bytes=memory_bytes, has_disk=has_disk)
            for name, memory_bytes, has_disk in _PROGRAMS
        }
        threads += [
            stage.clock.start(self._read_ranges_on, program, 0.5 / len(programs))
            for program in [*programs.values()] * 2
        ]
        for among, loads in ((readers, self._loads), (programs, self._loads_of_ranges)):
            libraries = itertools.cycle((name, _by_library(stage.open_writer(each))) for name, each in among.items())
            for number in range(writers):
                if self._way == "direct":
                    name, write = f"direct-{number}", _straight(stage)
                elif number % 2:
                    name, write = f"writer-{number}", _by_front_writer(stage.open_front_writer())
                else:
                    name, write = next(libraries)
                threads.append(stage.clock.start(self._write_on, name, write, 1 / writers, loads))
        for thread in threads:
            stage.clock.wait_for(thread)
        return self.recorder.operations

    def _read_on(self, client: str, read: Read, share: float) -> None:
        while (key := self._next(lambda load: share * load.reads_per_s, self._loads)) is not None:
            began_us = self._stage.clock.now_us()
            found = read(key)
            ended_us = self._stage.clock.now_us()
            is_known = found.status in (_SUCCEEDED, _NOT_FOUND)
            value = int(found.body) if found.status == _SUCCEEDED else None
            tier = found.headers.get("x-cache-tier", "")
            self.recorder.add(
                Operation(client, "read", key, value, began_us, ended_us, is_known, tier=tier, path=self._way)
            )
            if is_known:
                self._known[key] = _ABSENT if value is None else (found.headers["etag"], value)
            self._stage.deliver()

    def _read_ranges_on(self, program: Program, share: float) -> None:
        while (key := self._next(lambda load: share * load.reads_per_s, self._loads_of_ranges)) is not None:
            seen = program.read(key)
            if seen is not None:
                self.ways[seen.way] += 1
                self.recorder.add(seen.operation(key, self._stage.clock.now_us(), self._way))
                if seen.is_known and seen.number != WRONG:
                    self._known[key] = _ABSENT if seen.number is None else (seen.etag, seen.number)
            self._stage.deliver()

    def _write_on(self, client: str, write: Write, share: float, loads: Loads) -> None:
        body_of = note if loads is self._loads_of_ranges else _small
        while (key := self._next(lambda load: share * load.writes_per_s, loads)) is not None:
            number = None if self._stage.draw.random() < _DELETES else self.recorder.number()
            kind: Kind = "delete" if number is None else "write"
            condition, over = self._condition(key, number)
            began_us, is_known = self._stage.clock.now_us(), True
            try:
                etag = write(key, None if number is None else body_of(number), condition)
                self._known[key] = _ABSENT if number is None else (etag, number)
            except (PreconditionFailedError, ObjectNotFoundError):
                kind, number = "refused", None
            except BurstcacheError:
                is_known = False
            ended_us = self._stage.clock.now_us()
            self.recorder.add(
                Operation(client, kind, key, number, began_us, ended_us, is_known, path=self._way, only_over=over)
            )

    def _condition(self, key: str, number: int | None) -> tuple[WriteHeaders, int | None]:
        """Return the condition of a write, empty for most, and the number of the object that it may replace."""
        if self._way == "direct" or self._stage.draw.random() >= _CONDITIONAL:
            return {}, None
        etag, over = self._known.get(key, _ABSENT)
        if over:
            return {"if_match": etag}, over
        return ({}, None) if number is None else ({"if_none_match": "*"}, over)

    def _next(self, rate: Callable[[Load], float], loads: Loads) -> str | None:
        """Wait until the next operation is due and return its key; None: there are enough operations."""
        clock, draw = self._stage.clock, self._stage.draw
        while len(self.recorder.operations) < self._operations:
            now_s = clock.now_us() / _US_PER_S
            rates = [rate(loads.of(key, now_s)) for key in loads.keys]
            wait_s = draw.expovariate(sum(rates))
            clock.sleep(min(wait_s, _LOOK_S))
            if wait_s <= _LOOK_S:
                return draw.choices(loads.keys, rates)[0]
        return None


def _small(number: int) -> bytes:
    return b"%08d" % number


def _by_front(front: Proxy) -> Read:
    def read(key: str) -> Found:
        with acting("proxy"):
            answer = front.handle(_event("GET", key), None)
        body = base64.b64decode(answer["body"]) if answer.get("isBase64Encoded") else answer.get("body", "").encode()
        return Found(answer["statusCode"], body, answer["headers"])

    return read


def _by_client(stage: Stage, reader: Reader) -> Read:
    def read(key: str) -> Found:
        request = Request("GET", key, key_hash(key), {}, None, str(uuid.uuid4()), stage.clock.now_us())
        response = reader.read(request)
        return Found(response.status, response.body, response.headers)

    return read


def _by_library(writer: Writer) -> Write:
    def write(key: str, body: bytes | None, condition: WriteHeaders) -> str:
        if body is None:
            return writer.delete(key, if_match=condition.get("if_match", "")).etag
        return writer.put(key, body, **condition).etag

    return write


def _by_front_writer(front: FrontWriter) -> Write:
    def write(key: str, body: bytes | None, condition: WriteHeaders) -> str:
        event = _event("DELETE" if body is None else "PUT", key, sent_headers(condition))
        if body is not None:
            event |= {"body": base64.b64encode(body).decode(), "isBase64Encoded": True}
        with acting("writer"):
            answer = front.handle(event)
        status = answer["statusCode"]
        if status in (_NOT_FOUND, _PRECONDITION_FAILED):
            raise PreconditionFailedError(f"{key!r} is not written: {status}")
        if status not in (_SUCCEEDED, _NO_CONTENT):
            raise BurstcacheError(f"{key!r} may have been written or not: {status}")
        return str(answer["headers"].get("etag", ""))

    return write


def _straight(stage: Stage) -> Write:
    def write(key: str, body: bytes | None, condition: WriteHeaders) -> str:
        stage.write(key, body)
        return ""

    return write


def _event(method: str, key: str, headers: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return the HTTP API's event of a request."""
    context = {"http": {"method": method}, "requestId": str(uuid.uuid4()), "stage": "$default"}
    return {"version": "2.0", "rawPath": f"/objects/{key}", "headers": headers or {}, "requestContext": context}
