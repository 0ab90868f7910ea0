"""The proxy's handler: well-formed answers to whatever comes, and samples of what comes."""

from __future__ import annotations

import base64
import json
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from burstcache.handlers.proxy import Proxy
from burstcache.serve.read_meter import ReadMeter
from burstcache.web.conditions import passed_on, range_applies
from burstcache.web.freshness import max_age_s
from burstcache.web.request import Request
from burstcache.web.response import Response, object_response
from support.answers import error_of
from support.clock import ManualClock
from support.project import ROOT

SAMPLES = sorted((ROOT / "events" / "proxy").glob("*.json"))
BODY = b"0123456789"
ETAG = '"09ab9175b1ffe2e6366a4f398973d33f"'  # of the object that the samples ask for
META = {"etag": ETAG, "last-modified": "Sun, 06 Nov 1994 08:49:37 GMT", "content-length": "10", "content-type": "a/b"}


class Everything:
    """Stands for the tiers: every key exists. Keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[Request] = []

    def read(self, request: Request) -> Response:
        self.asked.append(request)
        body = b"" if request.method == "HEAD" else BODY
        return object_response(request, META, body).served_by("s3", is_hit=False)


class Broken:
    """Stands for a reader with a mistake in it."""

    def read(self, request: Request) -> Response:
        raise ZeroDivisionError("a mistake")


def answer(event: Any, reader: Everything | Broken | None = None, context: Any = None) -> dict[str, Any]:
    parts: Any = reader or Everything()
    clock = ManualClock()
    return Proxy(parts, clock, ReadMeter(clock)).handle(event, context)


def assert_well_formed(message: dict[str, Any]) -> None:
    headers = message["headers"] if "headers" in message else message["multiValueHeaders"]
    assert 200 <= message["statusCode"] < 500
    assert all(isinstance(value, (str, list)) and name == name.lower() for name, value in headers.items())
    assert isinstance(message["body"], str)
    json.dumps(message).encode()
    if message["isBase64Encoded"]:
        base64.b64decode(message["body"], validate=True)
    elif message["body"]:
        error = json.loads(message["body"])["error"]
        assert set(error) == {"code", "message"}
        assert "Traceback" not in error["message"]


def event_of(method: str, path: str, query: str, headers: dict[str, str], door: str) -> dict[str, Any]:
    if door == "alb":
        parameters = {"key": query} if query else {}
        common = {"requestContext": {"elb": {}}, "httpMethod": method, "path": path}
        return common | {"headers": headers, "queryStringParameters": parameters}
    context = {"http": {"method": method}, "requestId": "1", "stage": "$default"}
    common = {"version": "2.0", "rawPath": path, "rawQueryString": query}
    return common | {"headers": headers, "requestContext": context}


_TEXT = st.text(st.characters(exclude_categories=[]), max_size=30)
_PATHS = st.one_of(
    _TEXT,
    _TEXT.map(lambda text: "/objects/" + text),
    _TEXT.map(lambda text: "/objects" + text),
    st.lists(st.sampled_from(["..", ".", "", "a", "%2e%2e", "%FF", "%", "\udc80", "ü"])).map(
        lambda parts: "/objects/" + "/".join(parts)
    ),
)
_CONDITIONS = st.dictionaries(
    st.sampled_from(
        ["Range", "if-range", "If-Match", "if-none-match", "if-modified-since", "if-unmodified-since", "x"]
    ),
    st.one_of(
        _TEXT, _TEXT.map(lambda text: "bytes=" + text), st.sampled_from(["bytes=1-2", ETAG, META["last-modified"]])
    ),
)


@settings(deadline=None)
@given(
    method=st.sampled_from(["GET", "HEAD", "PUT", "", "get", "🐟"]),
    path=_PATHS,
    query=st.one_of(_TEXT, _TEXT.map(lambda text: "key=" + text)),
    headers=_CONDITIONS,
    door=st.sampled_from(["http_api", "alb"]),
)
def test_any_request_gets_a_well_formed_answer(
    method: str, path: str, query: str, headers: dict[str, str], door: str
) -> None:
    assert_well_formed(answer(event_of(method, path, query, headers, door)))


_LONG = 20_000  # characters: more than the API Gateway lets through, all headers together
# What repeats at length, and ends so that it is none of what is looked for.
_REPEATED = [("a", '"'), ("a", " b"), (" ", '"'), ("a ", '"'), ('"', "x"), ('"a" ', ""), (",", '"'), ('"",', '"')]
_REPEATED += [
    ("1", "x"),
    ("1-", ""),
    ("-", "x"),
    ("a=", "x"),
    ("a=1 ", "x"),
    ("/", "\0"),
    ("%", ""),
    ("&", "="),
    ("{", ""),
]


@pytest.mark.parametrize(
    "text", [(part * _LONG)[:_LONG] + end for part, end in _REPEATED], ids=lambda text: repr(text[:6])
)
@pytest.mark.parametrize("door", ["http_api", "alb"])
def test_a_long_text_of_a_client_costs_no_more_than_its_length(text: str, door: str) -> None:
    names = ["if-match", "if-none-match", "if-modified-since", "if-unmodified-since", "if-range", "range"]
    names += ["cache-control", "authorization", "x"]
    events = [event_of("GET", f"/objects/{text}", "", {}, door), event_of("GET", "/objects", f"key={text}", {}, door)]
    all_headers = [{name: prefix + text} for name in names for prefix in ("", "bytes=")]
    events += [event_of("GET", "/objects/a", "", headers, door) for headers in all_headers]

    for event in events:
        since_s = time.thread_time()
        answer(event)
        passed_on(event["headers"], at_us=1)
        range_applies(event["headers"], etag=ETAG, last_modified=META["last-modified"])
        max_age_s(event["headers"])

        # Of the processor's own time, whatever else it does: the length takes milliseconds, its square many seconds.
        assert time.thread_time() - since_s < 0.5


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | _TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXT, inner, max_size=3),
    max_leaves=8,
)


@settings(deadline=None)
@given(
    event=_JSON,
    parts=st.fixed_dictionaries(
        {},
        optional={
            "version": st.just("2.0") | _JSON,
            "requestContext": st.just({"elb": {}}) | st.just({"http": {}}) | _JSON,
            "rawPath": _JSON,
            "rawQueryString": _JSON,
            "headers": _JSON,
            "multiValueHeaders": _JSON,
            "queryStringParameters": _JSON,
            "multiValueQueryStringParameters": _JSON,
            "httpMethod": _JSON,
            "path": _JSON,
        },
    ),
)
@example(event=None, parts={"requestContext": {"elb": {}}, "multiValueHeaders": {"": 0}})
def test_any_event_gets_a_well_formed_answer(event: Any, parts: dict[str, Any]) -> None:
    assert_well_formed(answer({**event, **parts} if isinstance(event, dict) else parts))
    assert_well_formed(answer(event))


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.stem)
def test_sample_event_is_answered_as_its_name_says(sample: Path) -> None:
    everything = Everything()

    message = answer(json.loads(sample.read_text()), everything)

    assert_well_formed(message)
    status = int(sample.stem.rpartition("_")[2])
    assert message["statusCode"] == status
    assert bool(everything.asked) is (status < 400)


def test_samples_cover_both_front_doors() -> None:
    names = {sample.stem.partition("_")[0] for sample in SAMPLES}

    assert names == {"http", "alb"}


def test_unsupported_method_is_answered_with_what_is_allowed() -> None:
    message = answer(event_of("PUT", "/objects/a", "", {}, "http_api"))

    assert (message["statusCode"], message["headers"]["allow"]) == (405, "GET, HEAD")


def test_request_without_an_id_of_the_front_door_is_named_by_its_invocation() -> None:
    class Context:
        aws_request_id = "invocation-1"

    everything = Everything()

    answer(event_of("GET", "/objects/a", "", {}, "alb"), everything, Context())

    assert everything.asked[0].request_id == "invocation-1"


def test_refused_head_has_no_body() -> None:
    message = answer(event_of("HEAD", "/objects/a", "", {"range": "\xe9"}, "http_api"))

    assert (message["statusCode"], message["body"]) == (400, "")


def test_mistake_is_a_well_formed_answer_and_an_error_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    message = answer(event_of("GET", "/objects/a", "", {}, "http_api"), Broken())

    assert (message["statusCode"], error_of(message)) == (503, "ProxyFailed")
    assert "ZeroDivisionError" in caplog.text
    assert "Traceback" not in message["body"]
