"""Recording of a replay: it can be read again, with the same figures."""

from __future__ import annotations

from pathlib import Path

import pytest

from burstcache.core.errors import InvalidSettingError
from burstcache_replay import recording
from burstcache_replay.recording import Replay
from burstcache_replay.schedule import Answer, Outcome
from burstcache_replay.summary import summarise, summary_text

_KEYS = ["a", 'with "quotes", and\na line', "c"]
_OUTCOMES = [
    Outcome(2, 0.0, 0.25, Answer(0, error="TimeoutError")),
    Outcome(0, 0.001, 0.011, Answer(200, "s3", 10)),
    Outcome(1, 0.002, 0.004, Answer(200, "redis", 10)),
]
_REPLAY = Replay(["trace.csv"], "http://127.0.0.1/objects", "", 60.0, 1_000_000, 5.0, 3)


def test_what_was_written_is_read_in_the_order_of_the_trace(tmp_path: Path) -> None:
    with recording.recording(tmp_path / "new", [5.0, 6.5, 7.0], _KEYS) as recorder:
        for outcome in _OUTCOMES:
            recorder(outcome)
    recording.write(tmp_path / "new", _REPLAY)

    found = recording.read(tmp_path / "new")

    assert found.replay == _REPLAY
    assert found.outcomes == sorted(_OUTCOMES, key=lambda outcome: outcome.number)
    assert (found.keys, found.due_s.tolist()) == (_KEYS, [5.0, 6.5, 7.0])


def test_an_earlier_replay_is_not_overwritten(tmp_path: Path) -> None:
    with recording.recording(tmp_path, [], []):
        pass

    with (
        pytest.raises(InvalidSettingError, match=r"has requests\.csv of an earlier replay"),
        recording.recording(tmp_path, [], []),
    ):
        pass


def test_a_folder_without_a_replay_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidSettingError, match=r"expected requests\.csv and replay\.json"):
        recording.read(tmp_path)


def test_failed_requests_have_no_tier_and_no_latency() -> None:
    summary = summarise([*_OUTCOMES, Outcome(3, 0.0, 0.001, Answer(503, "s3"))])

    assert [(each.tier, each.requests, each.latency.max_ms) for each in summary.tiers] == [
        ("redis", 1, 4),
        ("s3", 1, 11),
    ]
    assert summary.failed == {"TimeoutError": 1, "status 503": 1}
    assert summary.late is not None
    assert summary.late.max_ms == 2


def test_a_summary_names_shares_lateness_and_failures() -> None:
    assert summary_text(summarise(_OUTCOMES)).splitlines() == [
        "tier   requests      %  p50 ms  p90 ms  p99 ms  max ms",
        "redis         1  33.33    4.00    4.00    4.00    4.00",
        "s3            1  33.33   11.00   11.00   11.00   11.00",
        "",
        "Sending delay, included in latencies: p50 1.00 ms, p99 2.00 ms, max 2.00 ms.",
        "Failed: 1 request: TimeoutError",
    ]
    assert summary_text(summarise([])) == "No requests were sent."
