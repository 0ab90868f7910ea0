"""Every GET and HEAD is answered as S3 itself would answer it, whichever tier does."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from moto import mock_aws

from burstcache.core.keys import key_hash
from burstcache.handlers.proxy import Proxy
from burstcache.serve.read_meter import ReadMeter
from burstcache_local.front.http_events import (
    HttpRequest,
    Route,
    alb_answer,
    alb_event,
    http_api_answer,
    http_api_event,
)
from burstcache_local.moto import registry as moto_repairs
from support.s3_itself import (
    DIFFERENCES,
    Answer,
    Difference,
    Moto,
    S3Request,
    Stored,
    plain_requests,
    requests,
    right_answer,
)
from support.searches import search
from support.tiers import BUCKET, MAX_OBJECT_BYTES, STAGES, S3Stage, Stage

_ROUTE = Route.parse("GET /objects/{key+}", "proxy")
_OBJECTS: dict[str, tuple[bytes, dict[str, Any]]] = {
    "empty": (b"", {}),
    "one": (b"\xff", {"ContentType": "text/plain"}),
    "ten": (
        b"0123456789",
        {
            "ContentType": "text/html; charset=utf-8",
            "ContentEncoding": "identity",
            "ContentLanguage": "de, en",
            "ContentDisposition": 'attachment; filename="a b"',
            "CacheControl": "max-age=60, public",
            "Expires": datetime(2030, 1, 2, tzinfo=UTC),
            "Metadata": {"colour": "red", "with-dash": "a, b"},
        },
    ),
}
_KEYS = st.sampled_from(sorted(_OBJECTS))


@dataclass
class Doors:
    """Both front doors of a proxy whose tier holds the objects, and moto's S3 under it."""

    stage: Stage
    proxy: Proxy
    moto: Moto
    stored: dict[str, Stored]

    @property
    def now(self) -> datetime:
        return datetime.fromtimestamp(self.stage.clock.now_s, UTC)

    def answer(self, key: str, method: str, headers: dict[str, str], *, is_alb: bool) -> tuple[Answer, str]:
        """Return an answer as the client gets it, and its tier."""
        request = HttpRequest(method, f"/objects/{key}", "", tuple(headers.items()), b"", "127.0.0.1")
        if is_alb:
            event = alb_event(request, target_group_arn="arn", multi_value=True)
        else:
            event = http_api_event(request, _ROUTE, {"key": key}, api_id="api")
        message = json.dumps(self.proxy.handle(event, None)).encode()
        found = alb_answer(message, multi_value=True) if is_alb else http_api_answer(message)
        assert found is not None
        named = dict(found.headers)
        return Answer.of(found.status, named, found.body if method == "GET" else b""), named.get("x-cache-tier", "")


@pytest.fixture(scope="module", params=STAGES, ids=lambda stage: stage.__name__)
def doors(request: pytest.FixtureRequest) -> Iterator[Doors]:
    with opened(request.param) as doors:
        yield doors


@pytest.fixture(scope="module")
def s3() -> Iterator[Doors]:
    with opened(S3Stage) as doors:
        yield doors


@contextmanager
def opened(make_stage: type[Stage]) -> Iterator[Doors]:
    with pytest.MonkeyPatch.context() as environment, mock_aws():
        environment.setenv("AWS_DEFAULT_REGION", "us-east-1")
        moto_repairs.apply()
        stage = make_stage()
        stage.clock.now_s = time.time() + 60
        for key, (body, more) in _OBJECTS.items():
            stage.clients.s3.put_object(Bucket=BUCKET, Key=key, Body=body, **more)
            stage.take(key_hash(key), stage.store.fetch(key, max_bytes=MAX_OBJECT_BYTES))
        moto = Moto(stage.clients.s3, BUCKET)
        try:
            proxy = Proxy(stage.reader, stage.clock, ReadMeter(stage.clock))
            yield Doors(stage, proxy, moto, {key: moto.stored(key) for key in _OBJECTS})
        finally:
            moto.close()
            stage.close()


@search(300)
@given(key=_KEYS, read=requests(), is_alb=st.booleans())
def test_a_read_is_answered_as_by_s3(doors: Doors, key: str, read: S3Request, is_alb: bool) -> None:
    stored = doors.stored[key]
    right = right_answer(read, stored, now=doors.now)

    answer, tier = doors.answer(key, read.method, read.headers(stored), is_alb=is_alb)

    assert (answer.status, answer.body) == (right.status, right.body)
    assert _comparable(answer, tier) == _comparable(right, tier)
    assert tier == ("s3" if right.status in (412, 416) else doors.stage.name)


@pytest.mark.slow
@search(300)
@given(key=_KEYS, read=plain_requests())
def test_moto_answers_so_where_it_is_not_known_to_differ(s3: Doors, key: str, read: S3Request) -> None:
    stored = s3.stored[key]
    right = right_answer(read, stored, now=s3.now)

    answer = s3.moto.answer(key, read.method, read.headers(stored))

    assert not any(difference.applies(read) for difference in DIFFERENCES)
    assert (answer.status, answer.body) == (right.status, right.body)
    assert _comparable(answer, "s3") == _comparable(right, "s3")


@pytest.mark.parametrize("difference", DIFFERENCES, ids=lambda difference: difference.rule.partition(":")[0])
def test_moto_still_differs(s3: Doors, difference: Difference) -> None:
    read, stored = difference.example, s3.stored["ten"]

    assert difference.applies(read)
    assert s3.moto.answer("ten", read.method, read.headers(stored)) != right_answer(read, stored, now=s3.now)


def _comparable(answer: Answer, tier: str) -> Mapping[str, str]:
    """Return an answer's headers; moto's 304 lacks two that RFC 9110, section 15.4.5, asks for."""
    left_out = ("cache-control", "expires") if answer.status == 304 and tier == "s3" else ()
    return {name: value for name, value in answer.headers.items() if name not in left_out}
