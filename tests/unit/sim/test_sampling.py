"""A sample of the keys of a log: which keys, how far its results are off, and what it stands for."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from random import Random

import numpy as np
import pytest

from burstcache.core.errors import InvalidSettingError
from burstcache_cli.cli import main
from burstcache_sim.bill.locality import Locality, locality_of
from burstcache_sim.traces.inspect import sample_text
from burstcache_sim.traces.read import read_log, read_trace
from burstcache_sim.traces.sampling import expected_error
from burstcache_sim.traces.trace import Trace
from support.trace_columns import keys_of

KEYS, REQUESTS, OBJECT_BYTES = 10_000, 60_000, 1000
SEEDS = range(4)


def zipf_log(path: Path, seed: int) -> Path:
    """Write a log of Zipf popularity; the seed also chooses the names, and with them the sample."""
    weights = np.arange(1, KEYS + 1) ** -0.9
    ranks = np.random.default_rng(seed).choice(KEYS, REQUESTS, p=weights / weights.sum()).tolist()
    rows = (f"{number * 0.05:.2f},{seed}-{rank},{OBJECT_BYTES}\n" for number, rank in enumerate(ranks))
    path.write_text("t,key,size\n" + "".join(rows))
    return path


def locality(trace: Trace) -> Locality:
    return locality_of(trace, object_bytes=OBJECT_BYTES, period_us=int(trace.arrivals_us[-1]) + 1)


def hit_share(caches: Locality, objects: int) -> float:
    return 1 - float(caches.misses(objects * OBJECT_BYTES, repeats=Fraction(1))) / REQUESTS


def sampled_log(folder: Path, seed: int) -> tuple[Trace, Trace]:
    """Return a whole log, and a tenth of its keys."""
    path = zipf_log(folder / f"{seed}.csv", seed)
    return read_trace(path), read_log(path, sample_keys=0.1).trace


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Trace, Trace]]:
    folder = tmp_path_factory.mktemp("zipf")
    return [sampled_log(folder, seed) for seed in SEEDS]


@pytest.mark.slow
def test_a_sample_has_all_requests_of_its_keys_and_no_others(tmp_path: Path) -> None:
    whole, sampled = sampled_log(tmp_path, 0)

    kept = set(sampled.keys)
    assert 0.08 * len(whole.keys) < len(kept) < 0.12 * len(whole.keys)
    assert keys_of(sampled) == [key for key in keys_of(whole) if key in kept]
    assert sampled.sample
    assert (sampled.sample.rate, sampled.sample.requests) == (pytest.approx(0.1), REQUESTS)
    assert f"{len(sampled):,} of 60,000 requests, those of 0.1 of the keys" in sample_text(sampled)
    assert whole.sample is None
    assert sample_text(whole) == ""


@pytest.mark.slow
def test_shares_of_hits_are_within_the_error_that_is_stated(logs: list[tuple[Trace, Trace]]) -> None:
    beyond, compared = 0, 0
    for whole, sampled in logs:
        error = expected_error(sampled)
        assert 0.005 < error < 0.08
        for objects in (250, 500, 1000, 2000, 4000, 8000):
            share = hit_share(locality(whole), objects)
            if share >= 0.5:
                compared += 1
                beyond += abs(hit_share(locality(sampled), objects) - share) > error

    assert compared >= 12
    assert beyond <= compared // 10


@pytest.mark.slow
def test_without_the_correction_the_shares_of_hits_would_be_far_off(logs: list[tuple[Trace, Trace]]) -> None:
    """The most requested keys decide how many requests a sample has; the number of all requests is known."""
    raw = [abs(len(sampled) / REQUESTS - 0.1) for _, sampled in logs]

    assert max(raw) > 0.02


@pytest.mark.slow
def test_a_long_log_is_sampled_by_itself_the_same_in_any_order_and_by_any_process(tmp_path: Path) -> None:
    random = Random(2)
    for number in range(4):
        rows = "".join(f"{number}.5,{'k' * 400}{random.randrange(20_000)},9\n" for _ in range(10_000))
        (tmp_path / f"{number}.csv").write_text("t,key,size\n" + rows)
    paths = sorted(tmp_path.iterdir())

    logs = [
        read_log(paths, sample_keys=None, most_requests=6000),
        read_log(paths[::-1], sample_keys=None, most_requests=6000),
        read_log(paths, sample_keys=None, most_requests=6000, processes=2),
    ]

    samples = {(log.trace.sample, len(log.trace), tuple(sorted(log.trace.keys))) for log in logs}
    assert len(samples) == 1
    trace = logs[0].trace
    assert trace.sample
    assert (trace.sample.rate, trace.sample.requests) == (0.125, 40_000)
    assert 4000 < len(trace) <= 6000
    assert read_log(paths, sample_keys=None).trace.sample is None


@pytest.mark.parametrize("share", ["0", "1.5", "-1", "some"])
def test_a_share_is_more_than_nothing_and_at_most_all(share: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sim", "inspect", "x.csv", "--sample-keys", share]) == 2
    assert f"--sample-keys {share!r}: expected" in capsys.readouterr().err
    if share != "some":
        with pytest.raises(InvalidSettingError, match="expected more than 0 and at most 1"):
            read_trace_of_share(float(share))


def read_trace_of_share(share: float) -> None:
    read_log("x.csv", sample_keys=share)


def test_a_share_without_a_request_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "log.csv"
    path.write_text("t,key\n1,a\n")

    assert main(["sim", "inspect", str(path), "--sample-keys", "1e-9"]) == 2
    assert "1e-09 of the keys: expected a share that has a request" in capsys.readouterr().err


@pytest.mark.slow
def test_commands_print_what_a_sample_stands_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = zipf_log(tmp_path / "log.csv", 1)

    assert main(["sim", "inspect", str(path), "--sample-keys", "0.1", "--json"]) == 0
    output = capsys.readouterr()
    assert "requests, those of 0.1 of the keys, stand for the log" in output.err
    told = json.loads(output.out)
    assert told["sample_rate"] == pytest.approx(0.1)
    assert 0.5 < told["sample_error_pct"] < 8
    found = []
    for share in ("1", "0.1"):
        assert main(["sim", "bill", str(path), "--sample-keys", share, "--json"]) == 0
        found.append(json.loads(capsys.readouterr().out))
    assert found[1]["n"] == found[0]["n"] == REQUESTS
    assert found[1]["usd"] == pytest.approx(found[0]["usd"], rel=0.15)
    assert found[1]["fixed_usd"] == pytest.approx(found[0]["fixed_usd"], rel=0.05)
