"""The S3 tier: what a body that breaks off leads to, and an S3 that is overloaded."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from burstcache.adapters.object_store import ObjectResponse
from burstcache.core.errors import OriginError, OriginUnavailableError
from burstcache.serve.s3_tier import Larger, S3Tier
from burstcache.web.ranges import ByteRange
from burstcache.web.request import Request
from support.clock import ManualClock

GET = Request("GET", "a", "0" * 32, {}, None, "request-1", 1)


class Stream:
    """A body, or a part of one and then nothing."""

    def __init__(self, data: bytes | None) -> None:
        self.data, self.is_closed = data, False

    def read(self) -> bytes:
        if self.data is None:
            raise OSError("reset")
        return self.data

    def close(self) -> None:
        self.is_closed = True


class Store:
    """Gives these answers, one after the other."""

    def __init__(self, *answers: ObjectResponse) -> None:
        self.answers = list(answers)

    def get(self, *_: Any, **__: Any) -> ObjectResponse:
        return self.answers.pop(0)

    def presign(self, key: str, *, valid_s: int) -> str:
        return f"https://s3/{key}?for={valid_s}"


class Publisher:
    """Counts reports begun and awaited."""

    def __init__(self) -> None:
        self.begun, self.awaited = 0, 0

    def start(self, _: Any) -> object:
        self.begun += 1
        return object()

    def finish(self, report: object) -> None:
        assert report is not None, "this is no report that was begun"
        self.awaited += 1


def object_of(data: bytes | None, length_bytes: int = 4) -> ObjectResponse:
    return ObjectResponse(200, {"content-length": str(length_bytes), "etag": '"e"'}, _stream=Stream(data))


def read(*answers: ObjectResponse) -> tuple[Any, Publisher]:
    publisher = Publisher()
    tier = S3Tier(Store(*answers), publisher, ManualClock(), max_object_bytes=10)  # type: ignore[arg-type]
    return tier.read(GET), publisher


def test_body_that_breaks_off_is_asked_for_again_and_reported_once() -> None:
    response, publisher = read(object_of(None), object_of(b"body"))

    assert (response.status, response.body, publisher.begun, publisher.awaited) == (200, b"body", 1, 1)


def test_second_answer_counts_for_itself() -> None:
    gone, _ = read(object_of(None), ObjectResponse(404, {}, "NoSuchKey"))
    grown, _ = read(object_of(None), object_of(b"", length_bytes=11))

    assert (gone.status, grown.status) == (404, 307)


def test_body_that_breaks_off_twice_is_a_503() -> None:
    response, publisher = read(object_of(None), object_of(None))

    assert (response.status, publisher.awaited) == (503, 1)


def test_object_that_is_too_large_is_hung_up_on_and_not_reported() -> None:
    answer = object_of(b"", length_bytes=11)

    response, publisher = read(answer)

    assert (response.status, answer._stream.is_closed, publisher.begun) == (307, True, 0)


def test_broken_stream_is_an_origin_error() -> None:
    with pytest.raises(OriginError, match="broke off: reset"):
        object_of(None).read()


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (ObjectResponse(404, {}, _stream=Stream(b"")), 404),
        (ObjectResponse(200, {"content-length": "11", "etag": '"e"'}, _stream=Stream(b"x" * 11)), 307),
    ],
    ids=["missing", "too large"],
)
def test_what_is_not_reported_is_answered_all_the_same(answer: ObjectResponse, status: int) -> None:
    response, publisher = read(answer)

    assert response.status == status
    assert publisher.begun == publisher.awaited == 0


@pytest.mark.parametrize("is_filled", [True, False])
def test_a_range_of_an_object_that_is_overwritten_while_s3_refuses_the_range_is_asked_for_again(
    is_filled: bool,
) -> None:
    ranged = replace(GET, headers={"if-none-match": '"x"'}, range=ByteRange(0, 0))
    refused = ObjectResponse(416, {}, "InvalidRange")
    part = ObjectResponse(
        206, {"etag": '"1"', "content-length": "1", "content-range": "bytes 0-0/4"}, _stream=Stream(b"b")
    )
    again = [part] if is_filled else [refused, sent(b"body")]  # a store that refuses every range

    response = tier_of(Store(refused, sent(b"body"), *again), ManualClock()).read(ranged)

    assert (response.status, response.headers["etag"]) == (206 if is_filled else 416, '"1"')


class RestingClock(ManualClock):
    """Notes each pause."""

    def __init__(self) -> None:
        super().__init__()
        self.pauses_s: list[float] = []

    def sleep(self, duration_s: float) -> None:
        self.pauses_s.append(duration_s)
        super().sleep(duration_s)


def tier_of(store: Store, clock: ManualClock, larger: Larger = "redirect") -> S3Tier:
    return S3Tier(store, None, clock, max_object_bytes=100, larger=larger)  # type: ignore[arg-type]


def sent(body: bytes) -> ObjectResponse:
    return ObjectResponse(200, {"etag": '"1"', "content-length": str(len(body))}, _stream=Stream(body))


@pytest.mark.parametrize(
    ("status", "code"), [(503, "SlowDown"), (500, "InternalError"), (429, ""), (400, "Throttling")]
)
def test_the_proxy_asks_s3_once_more_after_a_pause_where_it_fails_early(status: int, code: str) -> None:
    clock = RestingClock()
    store = Store(ObjectResponse(status, {}, code), sent(b"body"))

    assert tier_of(store, clock).read(GET).body == b"body"
    assert len(clock.pauses_s) == 1
    assert 0.05 <= clock.pauses_s[0] <= 0.15


def test_the_proxy_passes_on_what_s3_answers_twice() -> None:
    clock = RestingClock()
    store = Store(ObjectResponse(503, {}, "SlowDown"), ObjectResponse(503, {}, "SlowDown"), sent(b"body"))

    assert tier_of(store, clock).read(GET).status == 503
    assert len(store.answers) == 1


def test_the_proxy_does_not_ask_again_where_s3_fails_late() -> None:
    clock = RestingClock()
    store = Store(ObjectResponse(503, {}, "SlowDown"), sent(b"body"))

    class Slow(Store):
        def get(self, *_: Any, **__: Any) -> ObjectResponse:
            clock.sleep(5)
            return super().get()

    assert tier_of(Slow(*store.answers), clock).read(GET).status == 503
    assert clock.pauses_s == [5]


def test_a_programs_tier_leaves_retries_to_its_client() -> None:
    store = Store(ObjectResponse(503, {}, "SlowDown"), sent(b"body"))

    response = tier_of(store, RestingClock(), "send").read(GET)

    assert (response.status, type(response.cause)) == (503, OriginUnavailableError)
