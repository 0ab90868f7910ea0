"""Bodies of a wrapped client behave as botocore's own in every public method: misses, hits and shared answers.

The methods are found by introspection, so one that botocore adds is tried as well.
"""

from __future__ import annotations

import io
import itertools
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.response import StreamingBody

import burstcache
from support.hostile_s3 import HostileS3, hostile_s3
from support.waiting import LIMIT_S

_BODY = b"01234567\n9\n\nabc\r\ndef"
_LONG = b"line %d\n" * 700


def _into(body: Any) -> object:
    buffer = bytearray(7)
    return [(body.readinto(buffer), bytes(buffer)) for _ in range(4)]


# How each public name of botocore's class is used; a name that is missing here is called without arguments.
_USES: dict[str, Callable[[Any], object]] = {
    "__enter__": lambda body: body.__enter__().read(),
    "__exit__": lambda body: (body.read(3), body.__exit__(None, None, None), body.closed),
    "__iter__": lambda body: list(body),
    "__next__": lambda body: (next(body), next(body, b"end")),
    "close": lambda body: (body.read(2), body.close(), body.close(), body.closed),
    "closed": lambda body: body.closed,
    "detach": lambda body: hasattr(body, "detach"),
    "fileno": lambda body: _kind(body.fileno) is io.UnsupportedOperation or "a socket",
    "iter_chunks": lambda body: (list(body.iter_chunks(4)), list(body.iter_chunks(4))),
    "iter_lines": lambda body: list(body.iter_lines(3)),
    "next": lambda body: (body.next(), _kind(body.next)),
    "read": lambda body: (body.read(0), body.read(3), body.read(), body.read(), body.read(5)),
    "readinto": _into,
    "seek": lambda body: _kind(lambda: body.seek(0)),
    "set_socket_timeout": lambda body: (body.set_socket_timeout(60), body.read()),
    "tell": lambda body: (body.tell(), body.read(3), body.tell(), body.read(), body.tell()),
    "truncate": lambda body: _kind(lambda: body.truncate(0)),
    "write": lambda body: hasattr(body, "write"),
    "writelines": lambda body: _kind(lambda: body.writelines([b"x"])),
}
_MORE: dict[str, Callable[[Any], object]] = {
    "read a negative number": lambda body: body.read(-1),
    "read None": lambda body: body.read(None),
    "read a lot": lambda body: (body.read(10**9), body.read(10**9)),
    "read after close": lambda body: (body.close(), _kind(lambda: body.read(3))),
    "read all after a part and close": lambda body: (body.read(3), body.close(), _kind(body.read)),
    "lines with their ends": lambda body: list(body.iter_lines(keepends=True)),
    "chunks and lines": lambda body: (next(body.iter_chunks(2)), list(body.iter_lines(2))),
    "lines of the raw stream": lambda body: body.readlines(),
    "a with": lambda body: _in_a_with(body),
    "as text": lambda body: io.TextIOWrapper(body, encoding="ascii", newline="").read(),
    "buffered": lambda body: io.BufferedReader(body).readline(),
    "into nothing": lambda body: (body.readinto(bytearray()), body.read()),
    "into a view": lambda body: (body.readinto(memoryview(bytearray(4))), body.read()),
    "a time-out after a part": lambda body: (body.read(2), body.set_socket_timeout(1), body.read(2)),
}


def _kind(call: Callable[[], object]) -> object:
    """Return a call's result, or the type of its exception."""
    try:
        return call()
    except Exception as error:
        return type(error)


def _in_a_with(body: Any) -> object:
    with body as raw:
        data = raw.read(4), raw.read()
    return data, body.closed


def uses() -> dict[str, Callable[[Any], object]]:
    """Return all uses of a body, those of names that only this version of botocore has among them."""
    hidden = {name for name in dir(io.IOBase) if name.startswith("_")} - {
        "__enter__",
        "__exit__",
        "__iter__",
        "__next__",
    }
    names = [name for name in dir(StreamingBody) if name not in hidden and not name.startswith(("_abc", "_D", "__"))]
    names += ["__enter__", "__exit__", "__iter__", "__next__"]

    def plainly(name: str) -> Callable[[Any], object]:
        def use(body: Any) -> object:
            value = getattr(body, name)
            return value() if callable(value) else value

        return use

    public = [name for name in names if not name.startswith("_") or name.startswith("__")]
    return {name: _USES.get(name, plainly(name)) for name in public} | _MORE


@pytest.fixture(scope="module")
def store() -> Iterator[HostileS3]:
    with hostile_s3() as server:
        yield server


@pytest.fixture(scope="module")
def plain(store: HostileS3) -> Iterator[Any]:
    session = boto3.Session("id", "secret", region_name="us-east-1")
    config = Config(s3={"addressing_style": "path"}, max_pool_connections=30)
    client = session.client("s3", endpoint_url=store.url, config=config)
    yield client
    client.close()


def body_of(s3: Any, key: str, **more: Any) -> Any:
    return s3.get_object(Bucket="bucket", Key=key, **more)["Body"]


def _read(s3: Any, key: str) -> bytes:
    data: bytes = body_of(s3, key).read()
    return data


def shared(s3: Any, store: HostileS3, key: str) -> list[Any]:
    """Return the bodies of two calls of which the second waits for the first, the leader's first."""
    begun, may_go = threading.Event(), threading.Event()

    def hold(_: str) -> None:
        begun.set()
        may_go.wait(LIMIT_S)

    bucket = s3._burstcache["bucket"]
    with ThreadPoolExecutor(2) as threads:
        store.meanwhile = hold
        first = threads.submit(body_of, s3, key)
        begun.wait(LIMIT_S)
        (flight,) = bucket._flights._under_way.values()
        second = threads.submit(body_of, s3, key)
        while not flight.is_followed:
            threading.Event().wait(0.001)
        may_go.set()
        bodies = [first.result(LIMIT_S), second.result(LIMIT_S)]
    store.meanwhile = lambda _: None
    return bodies


def outcome(use: Callable[[Any], object], body: Any) -> object:
    try:
        return use(body)
    except Exception as error:
        return type(error), str(error)
    finally:
        body.close()


@pytest.mark.parametrize("name", uses())
@pytest.mark.parametrize("kind", ["good", "good-crc32"])
def test_a_body_behaves_as_botocores_own(store: HostileS3, plain: Any, kind: str, name: str) -> None:
    key, use = f"{kind}/{name}", uses()[name]
    store.objects[key] = _LONG if name in ("__next__", "next") else _BODY
    right = outcome(use, body_of(plain, key))
    wrapped = burstcache.wrap(plain, bucket="bucket", freshness="immutable")

    from_s3 = outcome(use, body_of(wrapped, key))
    body_of(wrapped, key).read()
    hit = outcome(use, body_of(wrapped, key))
    leader, follower = shared(burstcache.wrap(plain, bucket="bucket", freshness="immutable"), store, key)

    assert (from_s3, hit) == (right, right)
    assert (outcome(use, leader), outcome(use, follower)) == (right, right)
    assert isinstance(leader, StreamingBody)
    assert isinstance(follower, StreamingBody)


@pytest.mark.parametrize("kind", ["cut", "bad-crc32"])
def test_a_body_that_others_wait_for_fails_as_botocores_own(store: HostileS3, plain: Any, kind: str) -> None:
    key = f"{kind}/shared"
    right = outcome(lambda body: body.read(), body_of(plain, key))
    leader, follower = shared(burstcache.wrap(plain, bucket="bucket"), store, key)

    assert outcome(lambda body: body.read(), leader) == right
    assert outcome(lambda body: body.read(), follower) == right


@pytest.mark.parametrize("freshness", ["bounded", "strong"])
def test_sixty_threads_of_a_wrapped_client_make_two_reads_of_s3(
    store: HostileS3, plain: Any, freshness: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrapped, key = burstcache.wrap(plain, bucket="bucket", freshness=freshness), f"good/herd-{freshness}"
    flights, all_joined, joined = wrapped._burstcache["bucket"]._flights, threading.Event(), itertools.count(1)
    join = flights.join

    def counted(*arguments: Any) -> Any:
        answer = join(*arguments)
        if next(joined) == 60:
            all_joined.set()
        return answer

    monkeypatch.setattr(flights, "join", counted)
    # The sixty may take longer to come than a read waits for another.
    monkeypatch.setattr(flights, "_next_after_s", LIMIT_S)
    monkeypatch.setattr("burstcache.adapters.single_flight.LEFT_AFTER_S", LIMIT_S)
    monkeypatch.setattr(store, "meanwhile", lambda _: all_joined.wait(LIMIT_S))

    with ThreadPoolExecutor(60) as threads:
        bodies = {each.result(LIMIT_S) for each in [threads.submit(_read, wrapped, key) for _ in range(60)]}

    assert len(bodies) == 1
    assert 1 <= store.requests["GET", key] <= 2


def test_what_threads_share_is_s3s_whole_answer(store: HostileS3, plain: Any) -> None:
    key = "version/shared"
    results = []
    wrapped = burstcache.wrap(plain, bucket="bucket")
    wrapped.meta.events.register("after-call.s3.GetObject", lambda parsed, **_: results.append(parsed))
    for body in shared(wrapped, store, key):
        body.close()

    first, second = ({name: each[name] for name in each if name != "Body"} for each in results)
    assert first == second
    assert first["VersionId"] == "v1"
    assert first["ResponseMetadata"] is not second["ResponseMetadata"]
