"""The forecast of a log's second half, printed next to what that half had."""

from __future__ import annotations

from fractions import Fraction

import pytest

from benchmarks.halves import promises, report
from burstcache_sim.bill.locality import locality_of
from burstcache_sim.traces.read import read_log
from burstcache_sim.traces.trace import Trace
from support.project import ROOT


@pytest.fixture(scope="module")
def sample() -> Trace:
    return read_log([str(ROOT / "examples/logs/bursts.csv.gz")]).trace


@pytest.mark.slow
def test_shares_and_bills_stand_next_to_what_the_second_half_had(sample: Trace) -> None:
    lines = report(sample, Fraction("1e-5")).splitlines()

    assert lines[0].startswith("4,000 and 4,000 requests in its halves, 800 objects; ")
    no_limit = next(line.split() for line in lines if line.startswith("no limit"))
    assert no_limit[2:5] == ["100.0", "90.0", "90.0"]
    gets = {line.split()[0]: line.split()[1:3] for line in lines if line.startswith(("s3-", "reader-memory"))}
    assert gets["s3-only"] == ["4,000", "4,000"]
    assert gets["s3-express-all"] == ["400", "400"]


@pytest.mark.slow
def test_nearly_all_promises_are_kept(sample: Trace) -> None:
    found = promises(locality_of(sample, object_bytes=1, period_us=int(sample.arrivals_us[-1])))

    assert len(found) == 36
    assert sum(found) >= 0.9 * len(found)
