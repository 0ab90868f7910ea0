"""The proxy's metrics: in batches, written alongside reads."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from burstcache.core.errors import OriginError, RedisDownError, RelayDownError, SilentHolderError
from burstcache.serve.read_meter import ReadMeter
from support.clock import ManualClock
from support.metrics import STACK, Sample

Told = Callable[[], list[Sample]]


def by_name(told: list[Sample], **dimension: str) -> dict[str, list[float]]:
    wanted = frozenset({("Stack", STACK), *dimension.items()})
    found: dict[str, list[float]] = {}
    for sample in told:
        if sample.metric.dimensions == wanted:
            found.setdefault(sample.metric.name, []).append(sample.value)
    return found


def test_a_batch_goes_out_with_the_first_read_ten_seconds_after_it_began(told: Told) -> None:
    clock = ManualClock()
    meter = ReadMeter(clock)
    began_ms = clock.now_us() // 1000
    meter.served("redis", 1.04, 10)
    clock.sleep(9)
    meter.served("redis", 2.0, 20)
    assert told() == []

    clock.sleep(1)
    meter.served("redis", 3.0, 30)

    written = told()
    assert by_name(written, Tier="redis") == {"LatencyMs": [1.0, 2.0], "ReadBytes": [10, 20]}
    assert {sample.at_ms for sample in written} == {began_ms}  # not that of a read that may come hours later


def test_a_fallback_in_an_environment_that_was_frozen_has_the_time_of_the_fallback(told: Told) -> None:
    clock = ManualClock()
    meter = ReadMeter(clock)
    meter.served("redis", 1.0, 10)
    clock.sleep(3600)
    thawed_ms = clock.now_us() // 1000

    meter.fell_back(None)
    meter.served("s3", 50.0, 10)
    meter.write()

    at_ms = {sample.metric.name: sample.at_ms for sample in told() if sample.metric.name == "Fallbacks"}
    assert at_ms == {"Fallbacks": thawed_ms}


def test_a_batch_of_one_tier_goes_out_when_it_is_full(told: Told) -> None:
    meter = ReadMeter(ManualClock())

    for _ in range(101):
        meter.served("lambda", 1.0, 1)

    assert len(by_name(told(), Tier="lambda")["LatencyMs"]) == 100


def test_tiers_have_metrics_of_their_own(told: Told) -> None:
    meter = ReadMeter(ManualClock())
    meter.served("s3", 50.0, 4)
    meter.served("redis", 1.0, 4)
    meter.write()

    written = told()

    assert by_name(written, Tier="s3")["LatencyMs"] == [50.0]
    assert by_name(written, Tier="redis")["LatencyMs"] == [1.0]


def test_a_failed_read_is_reported_at_once_with_all_that_waits(told: Told) -> None:
    meter = ReadMeter(ManualClock())
    meter.served("s3", 50.0, 4)

    meter.failed()

    written = told()
    assert by_name(written) == {"FailedReads": [1]}
    assert by_name(written, Tier="s3")["LatencyMs"] == [50.0]


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (RedisDownError("x"), "redis_down"),
        (RelayDownError("x"), "relay_down"),
        (SilentHolderError("x"), "silent"),
        (OriginError("x"), "other"),
        (None, "left_alone"),
    ],
    ids=str,
)
def test_a_fallback_is_reported_with_its_reason(told: Told, error: Exception | None, reason: str) -> None:
    meter = ReadMeter(ManualClock())
    meter.fell_back(error)
    meter.served("s3", 50.0, 4)

    meter.write()

    assert by_name(told(), Reason=reason) == {"Fallbacks": [1]}


def test_a_meter_that_has_written_begins_anew(told: Told) -> None:
    meter = ReadMeter(ManualClock())
    meter.fell_back(None)
    meter.failed()
    told()

    meter.write()

    assert told() == []


def test_outside_a_stack_nothing_is_reported(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("STACK_NAME", raising=False)
    meter = ReadMeter(ManualClock())

    meter.failed()

    assert capsys.readouterr().out == ""
