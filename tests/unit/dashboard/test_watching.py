"""What the page has when a part of it cannot be read, and when the stack is another by now."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from burstcache_cli.stack import find_stack
from burstcache_dashboard import watching
from burstcache_dashboard.key_page import key_page
from burstcache_dashboard.source import Source, source_of
from burstcache_dashboard.watching import Watching
from support.aws import mocked_aws
from support.stack_in_moto import REGION, TEMPLATE, Aws

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
def source(aws: Aws, denied: set[str]) -> Source:
    """What is known of that stack."""

    def refuse(model: Any, **_: Any) -> None:
        if model.name in denied:
            raise PermissionError(f"not authorized to perform {model.name}")

    stack = find_stack(stack_name="mine", region=REGION)
    stack.session.events.register("before-call", refuse)
    queue = aws.client("sqs").create_queue(QueueName="failed-events")["QueueUrl"]
    vars(stack)["outputs"] = {**stack.outputs, "FailedEventsQueueUrl": queue}
    return source_of(stack, None)


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


def test_key_whose_lives_cannot_be_read_is_shown_without_them(source: Source, denied: set[str]) -> None:
    denied.add("ListExecutions")

    found = key_page(source, source.rows(), "a.json")

    assert found is not None
    assert found["lives"] == []
    assert "not authorized to perform ListExecutions" in found["trouble"]["what"]
    assert "S3" in found["explained"]


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
