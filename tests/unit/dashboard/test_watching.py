"""Watching a stack that cannot be read in part, or that has been replaced."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.support.variables import VARIABLES
from burstcache_cli.stack import find_stack
from burstcache_dashboard import key_page as pages
from burstcache_dashboard import source as sources
from burstcache_dashboard import watching
from burstcache_dashboard.key_page import key_page
from burstcache_dashboard.parts import Part
from burstcache_dashboard.source import Source, local_source, source_of
from burstcache_dashboard.watching import Watching
from burstcache_local import state_file
from burstcache_local.state_file import RunningCloud, start_of
from support.aws import mocked_aws
from support.stack_in_moto import BUCKET, REGION, TEMPLATE, Aws
from support.waiting import LIMIT_S

_PLACES = {"figures": {"on", "reads", "failed", "bill"}, "executions": {"failed"}, "queues": {"failed"}}
_ASKS = {"figures": "GetMetricData", "executions": "ListExecutions", "queues": "GetQueueAttributes"}


@pytest.fixture
def aws() -> Iterator[Aws]:
    """A stack with a key."""
    with mocked_aws():
        made = Aws()
        made.make_machine("mine-key-lifecycle")
        made.make_machine("mine-redis-node")
        made.put_key("a.json", size_bytes=7)
        yield made


@pytest.fixture
def denied() -> set[str]:
    """The operations that services refuse."""
    return set()


@pytest.fixture
def slow() -> dict[str, threading.Event]:
    """The operations that services do not answer before something happens."""
    return {}


@pytest.fixture
def source(aws: Aws, denied: set[str], slow: dict[str, threading.Event]) -> Source:
    """Return the source of that stack."""

    def refuse(model: Any, **_: Any) -> None:
        if model.name in slow:
            slow[model.name].wait(LIMIT_S)
        if model.name in denied:
            raise PermissionError(f"not authorized to perform {model.name}")

    stack = find_stack(stack_name="mine", region=REGION)
    stack.session.events.register("before-call", refuse)
    queue = aws.client("sqs").create_queue(QueueName="failed-events")["QueueUrl"]
    vars(stack)["outputs"] = {**stack.outputs, "FailedEventsQueueUrl": queue}
    return source_of(stack)


@pytest.mark.parametrize("part", _ASKS)
def test_a_part_that_cannot_be_read_leaves_all_others(
    part: str, source: Source, denied: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "_FAILED_EVERY_S", 0.0)
    denied.add(_ASKS[part])
    page = Watching(source)

    sections, _ = page._sections_now()
    denied.clear()
    later, _ = page._sections_now()

    (row,) = sections["keys"].values()
    assert row[0] == "a.json"
    assert (sections["figures"] is None) == (part == "figures")
    for place, troubles in sections["troubles"].items():
        said = [(each["name"], each["what"]) for each in troubles]
        told = [(part, f"PermissionError: not authorized to perform {_ASKS[part]}")]
        assert said == (told if place in _PLACES[part] else []), place
    assert set(later["troubles"]) == _PLACES["figures"]
    assert not any(later["troubles"].values())
    assert later["figures"]["reads"] == 0


def test_what_was_known_stays_with_since_when_it_has_not_been_read(
    source: Source, denied: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "_FAILED_EVERY_S", 0.0)
    page = Watching(source)
    former, _ = page._sections_now()
    denied.add("GetQueueAttributes")

    first, second = (page._sections_now()[0] for _ in range(2))

    assert former["troubles"]["failed"] == []
    assert first["troubles"] == second["troubles"]
    assert first["troubles"]["failed"][0]["sinceMs"] > 0
    assert page._events.value == {"FailedEvents": 0}


@pytest.mark.parametrize("part", _ASKS)
def test_a_part_that_is_slow_keeps_nobody_waiting_and_is_shown_when_it_has_come(
    part: str, source: Source, slow: dict[str, threading.Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "_FAILED_EVERY_S", 0.0)
    monkeypatch.setattr(watching, "_TIMEOUT_S", 0.01)
    answered = slow[_ASKS[part]] = threading.Event()
    page = Watching(source)

    sections, _ = page._sections_now()
    answered.set()
    monkeypatch.setattr(watching, "_TIMEOUT_S", LIMIT_S)
    later, _ = page._sections_now()

    (row,) = sections["keys"].values()
    assert row[0] == "a.json"
    (place, *_) = _PLACES[part]
    assert (part, "no answer within 0.01 s") in {(each["name"], each["what"]) for each in sections["troubles"][place]}
    assert not any(later["troubles"].values())
    assert later["figures"]["reads"] == 0


def test_what_is_slow_is_asked_for_once_until_it_answers() -> None:
    asked, answer = 0, threading.Event()

    def ask() -> int:
        nonlocal asked
        asked += 1
        answer.wait(LIMIT_S)
        return asked

    part = Part("figures", 0, ("on",))
    assert [part.read_within(0.01, ask) for _ in range(3)] == [0, 0, 0]
    answer.set()

    assert part.read_within(LIMIT_S, ask) == 1
    assert part.trouble is None
    assert part.read_within(LIMIT_S, ask) == 2


def test_key_whose_lives_cannot_be_read_is_shown_without_them(source: Source, denied: set[str]) -> None:
    denied.add("ListExecutions")

    found = key_page(source, source.rows(), "a.json")

    assert found is not None
    assert found["lives"] == []
    assert "not authorized to perform ListExecutions" in found["trouble"]["what"]
    assert "S3" in found["explained"]


def test_strip_of_a_key_ends_in_the_state_that_is_explained_whatever_has_changed_since_the_page_looked(
    source: Source, aws: Aws
) -> None:
    off = source.rows()
    now_us = source.system.clock.now_us()
    times = {"ready_at_us": now_us - 5_000_000, "deadline_at_us": now_us + 3_600_000_000}
    aws.put("NODE#node-1", "NODE", phase="running", generation=1, peers=["node-1"], **times)
    on = source.rows()

    found = key_page(source, off, "a.json")
    aws.put("NODE#node-1", "NODE", phase="stopped", generation=1, peers=["node-1"])
    later = key_page(source, on, "a.json")

    assert found is not None
    assert later is not None
    assert "state       Guest" in found["explained"]
    assert found["guestSinceMs"] == times["ready_at_us"] // 1000
    assert found["nowMs"] >= now_us // 1000
    assert "state       S3" in later["explained"]
    assert later["guestSinceMs"] == 0


def test_page_of_a_large_object_counts_its_slices_once_a_minute(
    source: Source, aws: Aws, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = VARIABLES | {"AWS_REGION": REGION, "BUCKET_NAME": BUCKET, "EXPRESS_BUCKET": BUCKET}
    vars(source.stack)["outputs"] = {**source.stack.outputs, "ReaderSettings": json.dumps(reader)}
    aws.put_object("small.json")
    aws.client("s3").put_object(Bucket=BUCKET, Key="large.bin", Body=bytes(5 << 20))

    first, again = (key_page(source, source.rows(), "large.bin") for _ in range(2))
    asked_at_us = source.explained_large["large.bin"].at_us
    monkeypatch.setattr(pages, "_SLICES_EVERY_US", -1)
    later = key_page(source, source.rows(), "large.bin")

    assert first is not None
    assert later is not None
    held = {"slices": 20, "stored": 0, "stored_bytes": 0, "problem": ""}
    assert first["slices"] == {"count": 20, "sampled": 20, "tiers": [{"tier": "S3 Express", **held}]}
    assert "Its slices\ncached in   20 slices of 256 KiB" in first["explained"]
    assert (again, later["slices"]) == ({**first, "nowMs": again and again["nowMs"]}, first["slices"])
    assert source.explained_large["large.bin"].at_us > asked_at_us
    assert key_page(source, source.rows(), "small.json") is None
    assert key_page(source, source.rows(), "absent.bin") is None


def test_stack_that_was_updated_is_read_anew_within_a_minute(
    source: Source, aws: Aws, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = Watching(source)
    before, _ = page._sections_now()
    outputs: Any = TEMPLATE["Outputs"]
    template = {**TEMPLATE, "Outputs": {**outputs, "RedisNodes": {"Value": "node-2=i-2@10.0.0.6:6379"}}}
    aws.update(template, Tracing="PassThrough")

    still, _ = page._sections_now()
    monkeypatch.setattr(watching, "_STACK_EVERY_S", 0.0)
    after, _ = page._sections_now()

    assert [[node["node"] for node in each["nodes"]] for each in (before, still, after)] == [
        ["node-1"], ["node-1"], ["node-2"],
    ]  # fmt: skip
    assert page.source.parameters["Tracing"] == "PassThrough"


def test_stack_that_is_the_same_keeps_what_was_read_of_it(source: Source) -> None:
    assert source.renewed() is source


def test_local_run_that_was_started_anew_is_followed(aws: Aws, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stack = find_stack(stack_name="mine", region=REGION)
    monkeypatch.setattr(sources, "local_stack", lambda _running: replace(stack))
    state_file.write(_running(os.getpid(), tmp_path / "first"), tmp_path)
    page = Watching(local_source(tmp_path))
    page._sections_now()
    first = page.source

    state_file.remove(tmp_path)
    page._sections_now()
    ended = page.source
    state_file.write(_running(os.getppid(), tmp_path / "second"), tmp_path)
    aws.put_key("b.json", size_bytes=7)
    sections, _ = page._sections_now()

    assert ended is first
    assert page.source.log_dir == tmp_path / "second"
    assert {row[0] for row in sections["keys"].values()} == {"a.json", "b.json"}


def _running(process_id: int, log_dir: Path) -> RunningCloud:
    log_dir.mkdir()
    return RunningCloud(
        process_id, start_of(process_id), front_url="", endpoint_url="", lambda_endpoint_url="", stack_name="mine",
        bucket_name="", region=REGION, log_dir=str(log_dir), outputs={}, variables={}, sam_variables={},
    )  # fmt: skip
