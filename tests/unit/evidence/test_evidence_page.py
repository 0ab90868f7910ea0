"""The journal survives its process, and the evidence of it names no account."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from burstcache.core.errors import InvalidSettingError
from burstcache_evidence.findings import Findings
from burstcache_evidence.journal import Journal
from burstcache_evidence.measured import measured_of
from burstcache_evidence.page import write_evidence
from burstcache_evidence.steps.measurements import duration_ms, init_of

_ARN = "arn:aws:states:eu-west-1:210987654321:stateMachine:x"
_REPORT = {"durationMs": 12.5, "initDurationMs": 321.0, "memorySizeMB": 512}


def journal(folder: Path, **changes: Any) -> Journal:
    usual: dict[str, Any] = {"where": "AWS", "kinds": ["one"], "region": "eu-west-1", "options": {}}
    return Journal.open(folder, **{**usual, **changes})


def fail() -> dict[str, Any]:
    raise ValueError(f"{_ARN} of account 210987654321 is refused")


def test_a_step_that_has_ended_is_not_repeated_by_the_next_process(tmp_path: Path) -> None:
    assert journal(tmp_path).run_step("one/read", lambda: {"status": 200})

    again = journal(tmp_path)

    assert again.run_step("one/read", fail)
    assert again.found("one/read") == {"status": 200}


def test_an_error_of_a_step_is_a_finding(tmp_path: Path) -> None:
    assert not journal(tmp_path).run_step("one/read", fail)

    assert "is refused" in journal(tmp_path).problem("one/read")


def test_a_run_elsewhere_is_not_mixed_up(tmp_path: Path) -> None:
    journal(tmp_path)

    with pytest.raises(InvalidSettingError, match="unfinished run on AWS in eu-west-1"):
        journal(tmp_path, region="us-east-1")


def test_a_new_run_begins_after_one_that_is_proven_to_be_gone(tmp_path: Path) -> None:
    first = journal(tmp_path)
    first.run_step("proof", lambda: {"is_clean": False})
    assert journal(tmp_path).run == first.run

    first.forget("proof")
    first.run_step("proof", lambda: {"is_clean": True})

    assert journal(tmp_path).run != first.run


def test_the_evidence_has_neither_arns_nor_account_numbers(tmp_path: Path) -> None:
    run = journal(tmp_path)
    run.run_step("one/deploy", lambda: {"parameters": {"CertificateArn": _ARN, "bucket": "mine-210987654321"}})
    run.run_step("one/self-test", fail)
    run.run_step("proof", lambda: {"is_clean": False, "left": {"one": {"buckets": ["mine-210987654321"]}}})

    texts = [path.read_text() for path in write_evidence(run)]

    assert "210987654321" in (tmp_path / "state.json").read_text()
    assert not any("210987654321" in text or "arn:" in text for text in texts)
    assert "**something may be left**" in texts[1]
    assert len(json.loads(texts[0])["checks"]) == 25


@pytest.mark.parametrize(
    "log",
    [
        "START\nREPORT RequestId: 1\tDuration: 12.50 ms\tBilled Duration: 13 ms\n",
        json.dumps({"type": "platform.report", "record": {"metrics": _REPORT}}),
    ],
)
def test_the_duration_is_lambdas_own(log: str) -> None:
    assert duration_ms(log) == 12.5
    assert duration_ms("START RequestId: 1") is None


def test_a_cold_start_has_its_memory() -> None:
    assert init_of("REPORT Duration: 2 ms Memory Size: 256 MB Max Memory Used: 90 MB Init Duration: 410.5 ms") == (
        256,
        410.5,
    )
    assert init_of(json.dumps({"type": "platform.report", "record": {"metrics": _REPORT}})) == (512, 321.0)
    assert init_of("REPORT Duration: 2 ms Memory Size: 256 MB") is None


def test_measurements_have_the_simulators_names() -> None:
    found = {
        "boot": {"machine": "task", "task_kind": "", "boot_s": 41.0, "stop_s": 12.0},
        "burst": {"proxy_ms": {"by": ["Lambda"], "redis": {"median": 2.5}, "s3": {"median": 30.0}}, "announced_s": 1.2},
        "measure": {
            "s3_proxy_ms": {"1024": {"by": ["Lambda"], "s3": {"median": 28.0}}},
            "cold_starts_ms": {"256": {"median": 400.0}},
        },
        "memory": {
            "proxy": {
                "128": {"init_ms": {"median": 900.0}, "warm_ms": {"median": 8.0}},
                "problems": {"256": "no memory"},
            },
            "origin_batch": {"128": {"warm_ms": {"median": 140.0}}, "512": {"warm_ms": {"median": 40.0}}},
        },
        "self-test": {"tried": [{"part": "table", "ms": 9, "ok": True}]},
    }
    steps: dict[str, Any] = {f"one/{name}": {"found": each} for name, each in found.items()}
    rows = [
        {"service": "s", "usage_type": "EUW1-StateTransition", "usd": 0.005, "usage": 200.0},
        {"service": "s", "usage_type": "EUW1-Request-ARM", "usd": 0.0, "usage": 100.0},
    ]
    steps["bill"] = {"found": {"rows": rows}}

    measured = measured_of(Findings({"where": "AWS", "region": "eu-west-1", "kinds": ["one"], "steps": steps}))

    assert measured["boot_s"] == {"fargate": 41.0}
    assert measured["stop_s"] == {"fargate": 12.0}
    assert (measured["redis_ms"], measured["s3_ms"], measured["table_ms"]) == (2.5, 30.0, 9)
    assert measured["s3_by_size_ms"] == {"1024": 28.0}
    assert measured["cold_start_ms"] == {"256": 400.0}
    assert measured["proxy_init_ms"] == {"128": 900.0}
    assert measured["proxy_warm_ms"] == {"128": 8.0}
    assert measured["origin_batch_ms"] == {"128": 140.0, "512": 40.0}
    assert measured["prices"] == {"transition": pytest.approx(0.000025)}  # a free tier paid the other
