"""Output, rejections and rereading of `burstcache research evaluate`."""

from __future__ import annotations

import json
import re
import shutil
from argparse import Namespace
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from burstcache.core.errors import InvalidSettingError
from burstcache_cli.cli import main
from burstcache_cli.service_use import ServiceUse
from burstcache_replay import evaluate as command
from burstcache_replay import measured as measuring
from burstcache_replay import recording
from burstcache_replay.evaluation import evaluate
from burstcache_replay.executions import NodeRun
from burstcache_replay.prediction import deployment_of, predict
from burstcache_replay.schedule import Answer
from burstcache_sim.world.timings import THESIS_TIMINGS
from support.project import ROOT

RECORDED = ROOT / "tests" / "golden" / "data" / "spikes" / "breakeven-50"


@pytest.fixture
def results(tmp_path: Path) -> Path:
    return Path(shutil.copytree(RECORDED, tmp_path / "results"))


def test_a_recording_is_evaluated_without_its_stack(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["research", "evaluate", str(results)]) == 0

    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "150 requests under breakeven, at the trace's own speed"
    assert lines[2].startswith("TIER   PREDICTED  MEASURED  PREDICTED MS  MEAN MS")
    assert lines[3].split()[:3] == ["redis", "125", "125"]
    assert "As predicted: 150 of 150 requests (100.00 %)" in lines
    assert "With functions and nodes ready at the measured times: 150" in lines


def test_what_services_counted_of_a_deployed_stack_is_held_against_the_prediction(
    results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    measured = measuring.read(results)
    assert measured is not None
    services = ServiceUse(table_reads=400.5, table_writes=90, events=3, log_bytes=60_000, door_requests=150)
    measuring.write(results, replace(measured, services=services))

    assert main(["research", "evaluate", str(results)]) == 0

    rows = {line[:15].strip(): line.split()[-3:] for line in capsys.readouterr().out.splitlines()}
    assert rows["HTTP API"] == ["0.000150", "0.000150", "+0.0"]  # 512 KB are metered as a request
    assert rows["DynamoDB writes"][1] == "0.000056"
    assert rows["EventBridge"][1] == "0.000003"
    measuring.write(results, replace(measured, services=replace(services, door_bytes=300 * 512 * 1024.0)))
    assert main(["research", "evaluate", str(results)]) == 0
    assert re.search(r"^HTTP API +0.000150 +0.000300 ", capsys.readouterr().out, re.MULTILINE)
    assert main(["research", "evaluate", str(RECORDED)]) == 0
    assert "DynamoDB" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("run", "billed_s"),
    [
        (NodeRun("node-1", boot_us=0, ready_us=30_000_000, stop_us=90_000_000), 14 + 60 + 1),
        (NodeRun("node-1", boot_us=1_000_000, ready_us=0, stop_us=601_000_000), 600 - 16 + 1),
        (NodeRun("node-1", boot_us=1_000_000, ready_us=0, stop_us=2_000_000), 60),
        (NodeRun("node-1", boot_us=1_000_000, ready_us=0, stop_us=0), 60),
    ],
    ids=["ready", "never ready", "given up at once", "no history of its end"],
)
def test_a_node_is_billed_from_when_it_runs_until_it_is_stopped(run: NodeRun, billed_s: int) -> None:
    measured, recorded = measuring.read(RECORDED), recording.read(RECORDED)
    assert measured is not None
    measured = replace(measured, executions=replace(measured.executions, node_runs=(run,)))

    items = evaluate(recorded, measured, THESIS_TIMINGS).items

    (node,) = (item for item in items if item.text.startswith("Redis node"))
    usd_per_h = float(deployment_of(measured, recorded).prices.usd("ec2:t4g.micro"))
    assert node.measured_usd == pytest.approx(billed_s / 3600 * usd_per_h)


@pytest.mark.parametrize(("is_deployed", "earlier_us"), [(True, 5_000_000), (False, 0)])
def test_what_a_stack_began_by_a_clock_that_is_behind_is_measured(
    monkeypatch: pytest.MonkeyPatch, is_deployed: bool, earlier_us: int
) -> None:
    asked_us: list[int] = []
    stack: Any = SimpleNamespace(clients=SimpleNamespace(states=None), outputs={}, is_deployed=is_deployed)

    def nothing_runs(*_: Any, since_us: int) -> list[str]:
        asked_us.append(since_us)
        return []

    monkeypatch.setattr(command, "running", nothing_runs)
    monkeypatch.setattr(measuring, "measure", lambda *_, since_us, until_us: asked_us.append(since_us))
    recorded = recording.read(RECORDED)

    command._measured(stack, Namespace(state_dir=RECORDED), recorded, lambda _: None)

    assert asked_us == [recorded.replay.began_us - earlier_us] * 2


def test_a_quicker_boot_is_an_option(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["research", "evaluate", str(results), "--boot-s", "25"]) == 0

    lines = capsys.readouterr().out.splitlines()
    assert "As predicted: 145 of 150 requests (96.67 %)" in lines
    assert "  5: Redis came later" in lines


def test_a_file_that_is_no_measurement_is_named(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (results / "measured.json").write_text('{"settings": {}}')

    assert main(["research", "evaluate", str(results)]) == 2

    assert "measured.json: not written by `burstcache research evaluate`: KeyError" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("setting", "message"),
    [({"EXPRESS_BUCKET": "copies"}, "S3 Express"), ({"REDIS_ALWAYS_ON_NODES": "1"}, "always-on nodes")],
)
def test_a_stack_that_cannot_be_held_to_the_simulator_is_refused(setting: dict[str, str], message: str) -> None:
    measured, recorded = measuring.read(RECORDED), recording.read(RECORDED)
    assert measured is not None
    changed = replace(measured, settings={**measured.settings, **setting})

    with pytest.raises(InvalidSettingError, match=message):
        deployment_of(changed, recorded)


def test_what_no_tier_was_asked_for_is_not_predicted() -> None:
    measured, recorded = measuring.read(RECORDED), recording.read(RECORDED)
    assert measured is not None
    answers = [Answer(200, "memory", 125), Answer(404, "s3"), Answer(503, "")]
    outcomes = [replace(each, answer=answer) for each, answer in zip(recorded.outcomes[-3:], answers, strict=True)]
    changed = replace(recorded, outcomes=[*recorded.outcomes[:-3], *outcomes])

    found = predict(deployment_of(measured, changed), changed)

    assert found.tiers[-3:] == ("memory", "s3", "redis")
    assert (found.result.n, found.result.n_memory) == (150, 1)
    assert len(found.result.tiers) == 148
    evaluation = evaluate(changed, measured, THESIS_TIMINGS)
    assert (evaluation.requests, evaluation.predicted, evaluation.same_tier) == (150, 148, 147)
    assert evaluation.same_tier_pct == pytest.approx(100 * 147 / 148)


def test_starts_and_boots_are_those_of_a_rehearsal(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rehearsal = RECORDED.with_name("thesis-50-seed-2")

    assert main(["research", "evaluate", str(results), "--rehearsal", str(rehearsal), "--json"]) == 0

    found = json.loads(capsys.readouterr().out)
    assert found["timings"]["source"] == f"as long as in {rehearsal}"
    assert found["timings"]["warm_start_us"] == 302_457
    assert found["timings"]["cold_start_us"] == 302_457 + 2_253_000
    assert found["timings"]["redis_boot_us"] == 33_020_000
    assert found["same_tier"] == 150


def test_a_rehearsal_without_functions_changes_boots_alone(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["research", "evaluate", str(results), "--rehearsal", str(RECORDED), "--json"]) == 0

    timings = json.loads(capsys.readouterr().out)["timings"]
    assert (timings["warm_start_us"], timings["cold_start_us"]) == (20_000, 600_000)
    assert timings["redis_boot_us"] == 33_222_000


def test_a_rehearsal_that_was_not_evaluated_is_refused(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (results / "measured.json").unlink()

    assert main(["research", "evaluate", str(RECORDED), "--rehearsal", str(results)]) == 2

    assert f"--rehearsal {results}: has no measured.json" in capsys.readouterr().err
