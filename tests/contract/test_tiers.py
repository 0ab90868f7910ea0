"""Contract of the tiers: the same request gets the same answer from every tier."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from moto import mock_aws

from support.tiers import MAX_OBJECT_BYTES, STAGES, Stage

BODY = b"0123456789"


@contextmanager
def opened(make_stage: type[Stage]) -> Iterator[Stage]:
    with pytest.MonkeyPatch.context() as environment, mock_aws():
        environment.setenv("AWS_DEFAULT_REGION", "us-east-1")
        stage = make_stage()
        try:
            yield stage
        finally:
            stage.close()


@pytest.fixture(scope="module", params=STAGES, ids=lambda stage: stage.__name__)
def stage(request: pytest.FixtureRequest) -> Iterator[Stage]:
    with opened(request.param) as stage:
        yield stage


@pytest.fixture(scope="module")
def large_etag(stage: Stage) -> str:
    """The ETag of the object `large`, which is larger than an answer may be."""
    written = stage.clients.s3.put_object(Bucket="origin", Key="large", Body=b"0" * (MAX_OBJECT_BYTES + 1))
    return str(written["ETag"])


def test_get_gives_the_object_with_s3s_headers_and_names_the_tier(stage: Stage) -> None:
    stage.holds("key", BODY, colour="red")

    answer = stage.read("key")

    s3s = stage.clients.s3.head_object(Bucket="origin", Key="key")["ResponseMetadata"]["HTTPHeaders"]
    same = ("etag", "last-modified", "content-type", "content-length", "x-amz-meta-colour")
    assert (answer.status, answer.body) == (200, BODY)
    assert [answer.headers[name] for name in same] == [s3s[name] for name in same]
    assert answer.headers["accept-ranges"] == "bytes"
    assert (answer.headers["x-cache-tier"], answer.headers["x-cache"] == "hit") == (stage.name, stage.name != "s3")


@pytest.mark.parametrize("size_bytes", [0, 1, MAX_OBJECT_BYTES])
def test_the_smallest_and_the_largest_object_come_whole(stage: Stage, size_bytes: int) -> None:
    body = b"\xff" * size_bytes
    stage.holds("key", body)

    answer = stage.read("key")

    assert answer.headers["x-cache-tier"] == stage.name
    assert (answer.status, answer.body, answer.headers["content-length"]) == (200, body, str(size_bytes))


def test_head_gives_the_headers_of_get_without_the_body(stage: Stage) -> None:
    stage.holds("key", BODY)
    of_get = stage.read("key")

    answer = stage.read("key", "HEAD")

    assert (answer.status, answer.body, answer.headers["content-length"]) == (200, b"", "10")
    assert answer.headers == of_get.headers


@pytest.mark.parametrize(
    ("range_", "status", "body", "content_range"),
    [
        ("bytes=2-4", 206, b"234", "bytes 2-4/10"),
        ("bytes=7-", 206, b"789", "bytes 7-9/10"),
        ("bytes=-3", 206, b"789", "bytes 7-9/10"),
        ("bytes=7-99", 206, b"789", "bytes 7-9/10"),
        ("bytes=0-0", 206, b"0", "bytes 0-0/10"),
    ],
)
def test_a_range_gives_that_part(stage: Stage, range_: str, status: int, body: bytes, content_range: str) -> None:
    stage.holds("key", BODY)

    answer = stage.read("key", range=range_)

    assert answer.headers["x-cache-tier"] == stage.name
    assert (answer.status, answer.body, answer.headers["content-range"]) == (status, body, content_range)
    assert answer.headers["content-length"] == str(len(body))


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_a_range_beyond_the_end_is_a_416_that_names_the_size(stage: Stage, method: str) -> None:
    stage.holds("key", BODY)

    answer = stage.read("key", method, range="bytes=10-")

    assert (answer.status, answer.headers["content-range"]) == (416, "bytes */10")


@pytest.mark.parametrize(
    ("conditions", "status"),
    [
        ({"if_none_match": "ETAG"}, 304),
        ({"if_none_match": '"another"'}, 200),
        ({"if_match": "ETAG"}, 200),
        ({"if_match": '"another"'}, 412),
        ({"if_modified_since": "LAST-MODIFIED"}, 304),
        ({"if_modified_since": "Sun, 06 Nov 1994 08:49:37 GMT"}, 200),
        ({"if_unmodified_since": "LAST-MODIFIED"}, 200),
        ({"if_unmodified_since": "Sun, 06 Nov 1994 08:49:37 GMT"}, 412),
        ({"if_range": "ETAG", "range": "bytes=2-4"}, 206),
        ({"if_range": '"another"', "range": "bytes=2-4"}, 200),
    ],
    ids=str,
)
def test_conditions_hold_or_fail_alike(stage: Stage, conditions: dict[str, str], status: int) -> None:
    stage.holds("key", BODY)
    headers = stage.read("key").headers
    known = {"ETAG": headers["etag"], "LAST-MODIFIED": headers["last-modified"]}

    answer = stage.read("key", **{name: known.get(value, value) for name, value in conditions.items()})

    assert (answer.status, answer.body) == (status, {200: BODY, 206: b"234", 304: b""}.get(status, answer.body))
    assert answer.headers["x-cache-tier"] == ("s3" if status == 412 else stage.name)
    assert answer.headers.get("etag", known["ETAG"]) == known["ETAG"]


def test_what_an_old_copy_would_refuse_s3_decides(stage: Stage) -> None:
    stage.holds("key", BODY)
    newer = stage.clients.s3.put_object(Bucket="origin", Key="key", Body=BODY * 2)["ETag"]

    answers = [stage.read("key", if_match=newer), stage.read("key", range="bytes=10-12")]

    assert [(answer.status, answer.body) for answer in answers] == [(200, BODY * 2), (206, b"012")]


def test_each_answer_says_how_old_it_is_and_of_which_version(stage: Stage) -> None:
    began_s = stage.clock.now_s
    stage.holds("key", BODY)
    etag = stage.clients.s3.head_object(Bucket="origin", Key="key")["ETag"]
    stage.clock.now_s = began_s + 42.5

    answers = [
        stage.read("key"),
        stage.read("key", "HEAD"),
        stage.read("key", range="bytes=0-1"),
        stage.read("key", if_none_match=etag),
    ]

    assert [answer.status for answer in answers] == [200, 200, 206, 304]
    for answer in answers:
        assert answer.headers["etag"] == etag
        age_s, bound_ms = int(answer.headers["age"]), int(answer.headers["x-cache-bound"])
        assert (41 <= age_s <= 43) if stage.name != "s3" else age_s == 0
        assert bound_ms == 0  # the digest that memory goes by has just been read
        assert "date" not in answer.headers


@pytest.mark.parametrize(
    ("key", "conditions", "status", "has_etag"),
    [
        ("large", {}, 307, True),
        ("gone", {}, 404, False),
        ("key", {"if_match": '"another"'}, 412, False),  # S3 decides, and need not name it
        ("key", {"if_match": '"another", "a third"'}, 412, True),
        ("key", {"range": "bytes=10-"}, 416, False),
        ("key", {"range": "bytes=10-", "if_match": "ETAG"}, 416, True),
    ],
)
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_an_answer_without_the_object_says_how_fresh_it_is_too(
    stage: Stage, large_etag: str, method: str, key: str, conditions: dict[str, str], status: int, has_etag: bool
) -> None:
    stage.holds("key", BODY)
    stage.clock.sleep(60)  # memory forgets that a key has no object
    etags = {"key": stage.clients.s3.head_object(Bucket="origin", Key="key")["ETag"], "large": large_etag}

    answer = stage.read(
        key, method, **{name: value.replace("ETAG", etags["key"]) for name, value in conditions.items()}
    )

    if (method, status) == ("HEAD", 307):  # it has no body that would be too large
        status = 200
    assert answer.status == status
    assert (answer.headers["x-cache-tier"], answer.headers["x-cache"]) == ("s3", "miss")
    assert (answer.headers["age"], answer.headers["x-cache-bound"]) == ("0", "0")
    etag = answer.headers.get("etag")
    assert etag == etags[key] if has_etag else etag in (None, etags.get(key))


@pytest.mark.parametrize(
    ("cache_control", "is_enough"),
    [
        ("no-cache", False),
        ("no-store", False),
        ("max-age=0", False),
        ("max-age=30", False),
        ('Max-Age="30"', False),
        ("max-age=60", True),
        ("max-age=60, no-cache", False),
        ("max-age=x, only-if-cached", True),
    ],
)
def test_a_request_says_how_old_its_answer_may_be(stage: Stage, cache_control: str, is_enough: bool) -> None:
    began_s = stage.clock.now_s
    stage.holds("key", BODY)
    stage.clients.s3.put_object(Bucket="origin", Key="key", Body=b"newer")
    stage.clock.now_s = began_s + 42

    answer = stage.read("key", cache_control=cache_control)

    is_copy = is_enough and stage.name != "s3"
    assert (answer.status, answer.body) == (200, BODY if is_copy else b"newer")
    assert answer.headers["x-cache-tier"] == (stage.name if is_copy else "s3")


def test_a_key_that_is_held_no_longer_is_what_s3_says_it_is(stage: Stage) -> None:
    stage.holds("key", BODY)
    stage.read("key")
    stage.lets_go("key")

    answer = stage.read("key")

    assert answer.headers["x-cache-tier"] == "s3"
    assert answer.status == (404 if stage.name == "s3" else 200)


def test_letting_go_of_one_key_leaves_the_others(stage: Stage) -> None:
    stage.holds("key", BODY)
    stage.holds("other", b"other")
    stage.lets_go("key")

    answer = stage.read("other")

    assert (answer.headers["x-cache-tier"], answer.body) == (stage.name, b"other")


@pytest.mark.parametrize("make_stage", STAGES, ids=lambda stage: stage.__name__)
def test_a_tier_that_is_dead_breaks_no_read(make_stage: type[Stage]) -> None:
    with opened(make_stage) as stage:
        stage.holds("key", BODY)
        stage.dies()

        answer = stage.read("key")

    assert answer.headers["x-cache-tier"] == "s3"
    assert answer.status == (503 if stage.name == "s3" else 200)
