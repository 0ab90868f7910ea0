"""Many keys on shared nodes: a change of these numbers is a change of the rules (`docs/understand/simulation.md`)."""

from __future__ import annotations

import numpy as np
import pytest

from burstcache_sim.policies.node_use import Breakeven
from burstcache_sim.policies.policy import Policy
from burstcache_sim.policies.thesis import Thesis
from burstcache_sim.traces.generate import zipf
from burstcache_sim.traces.trace import Trace
from burstcache_sim.units import run_cost_units
from support.runs import run_many

THESIS = Thesis.configured(3, 4)
BREAKEVEN = Breakeven.worth("1e-4")


def zipf_trace() -> Trace:
    """Return an hour of 60 requests a minute for 50 objects of 1 to 50 KB."""
    arrivals_us, key_ids = zipf(1, 60, 3600, 50)
    ids = np.array(key_ids, np.int32)
    return Trace(np.array(arrivals_us, np.int64), ids, 1_000 * (ids.astype(np.int64) + 1), tuple(map(str, range(50))))


@pytest.mark.parametrize(
    ("policy", "nodes", "capacity_bytes", "expected"),
    [  # served by S3, Lambda, Redis; invocations, boots, S3 requests, cost units
        (THESIS, 1, None, (1269, 22, 2287, 11, 1, 1596, 7204354332000)),
        (THESIS, 3, None, (1278, 50, 2250, 32, 4, 1601, 20598332208000)),
        (THESIS, 3, 100_000, (1326, 64, 2188, 34, 5, 1650, 21095244300000)),
        (BREAKEVEN, 1, None, (67, 4, 3507, 1, 1, 88, 4929264380000)),
        (BREAKEVEN, 3, None, (73, 4, 3501, 1, 3, 99, 14533407180000)),
        (BREAKEVEN, 3, 100_000, (1346, 4, 2228, 2, 5, 1359, 14590351012000)),
    ],
)
def test_totals_of_an_hour_have_not_moved(
    policy: Policy, nodes: int, capacity_bytes: int | None, expected: tuple[int, ...]
) -> None:
    result = run_many(zipf_trace(), policy, nodes=nodes, capacity_bytes=capacity_bytes)

    counted = (result.n_s3, result.n_lambda, result.n_redis, result.invocations, result.redis_starts)
    assert (*counted, result.s3_requests, run_cost_units(result)) == expected
