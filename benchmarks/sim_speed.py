"""Requests simulated per second on one core: all policies over one key and over 100,000 keys, and the exact optimum.

    python -m benchmarks.sim_speed [--requests N]

Compilation and reading are not counted; checking the arrivals and ordering many keys' requests are.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from benchmarks.support.common import environment
from burstcache.core.parameters import parameters_from_text
from burstcache_sim.engine.run import run_compiled
from burstcache_sim.optimum.exact import Variant, least_cost
from burstcache_sim.policies.node_use import Breakeven, Hazard
from burstcache_sim.policies.policy import Policy
from burstcache_sim.policies.thesis import Thesis
from burstcache_sim.traces.trace import Trace
from burstcache_sim.world.scenario import Scenario

SEED = 1
KEYS = 100_000
CANDIDATES = 1_000
ONE_KEY_AIM, MANY_KEYS_AIM, LRU_AIM, OPTIMUM_AIM = 70e6, 10e6, 5e6, 1e6  # requests per second
PUBLISHED = "libCacheSim states over 20 million requests/s for replaying a realistic trace (its README)"

THESIS: dict[str, Policy] = {
    "thesis, rate 4, sensitivity 4": Thesis.configured(4, 4),
    "thesis, rate 4, sensitivity 2": Thesis.configured(4, 2),
    "thesis, rate 9, sensitivity 4": Thesis.configured(9, 4),
}
BY_USE: dict[str, Policy] = {
    f"{k.name}, {p} USD a hit": k.worth(p) for k in (Breakeven, Hazard) for p in ("1e-5", "1e-4")
}


def poisson_us(requests: int, gap_s: float) -> NDArray[np.int64]:
    """Return a Poisson trace [us]."""
    return np.cumsum(np.random.default_rng(SEED).exponential(gap_s * 1e6, requests)).astype(np.int64)


def bursts_us(requests: int, gap_s: float, busy_s: float, idle_s: float) -> NDArray[np.int64]:
    """Return dense stretches of requests with silence between them [us]."""
    per_burst = int(busy_s / gap_s)
    begins_s = np.arange(requests // per_burst)[:, None] * (busy_s + idle_s)
    offsets_s = np.random.default_rng(SEED).uniform(0, busy_s, (len(begins_s), per_burst))
    return np.sort(((begins_s + offsets_s) * 1e6).astype(np.int64).ravel())


def zipf_ids(requests: int) -> NDArray[np.int32]:
    """Return keys of Zipf popularity with exponent 1, numbered independently of rank."""
    random = np.random.default_rng(SEED)
    summed = np.cumsum(1 / np.arange(1, KEYS + 1))
    ranks = np.searchsorted(summed, random.random(requests) * summed[-1])
    ids: NDArray[np.int32] = random.permutation(KEYS).astype(np.int32)[ranks]
    return ids


def measure(name: str, requests: int, call: Callable[[], object], aim_per_s: float | None = None) -> None:
    """Print the best of three speeds, by this process's processor time."""
    best_s = float("inf")
    for _ in range(3):
        begun = time.process_time()
        call()
        best_s = min(best_s, time.process_time() - begun)
    aim = "" if aim_per_s is None else f"  (aim {aim_per_s / 1e6:g})"
    print(f"{name:<52} {requests / best_s / 1e6:8.2f} million/s{aim}")


def main() -> None:
    """Print all speeds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=10_000_000, help="per engine run (default: 10 million)")
    requests = parser.parse_args().requests
    print(environment(), f"\n{PUBLISHED}\n")
    warm_up()
    engines(requests)
    shared_nodes(requests)
    optima(requests // 10)


def warm_up() -> None:
    """Compile, or load what an earlier run compiled."""
    begun = time.perf_counter()
    one_key = Trace(np.zeros(1, np.int64))
    for trace in (one_key, replace(one_key, key_ids=np.zeros(1, np.int32), keys=("key",))):
        run_compiled([*THESIS.values(), *BY_USE.values()], Scenario(trace), details=False)
    least_cost([0])
    print(f"import and compilation, or loading from the cache: {time.perf_counter() - begun:.2f} s\n")


def engines(requests: int) -> None:
    """Measure the policies."""
    scenario = Scenario(Trace(poisson_us(requests, 15)))
    print("one key, 4 requests a minute")
    for name, policy in THESIS.items():
        measure(name, requests, partial(run_compiled, [policy], scenario, details=False), ONE_KEY_AIM)
    for name, policy in BY_USE.items():
        measure(name, requests, partial(run_compiled, [policy], scenario, details=False))
    thesis = THESIS["thesis, rate 9, sensitivity 4"]
    measure("thesis 9/4 with tiers and spans", requests, lambda: run_compiled([thesis], scenario))
    candidates = list(THESIS.values()) * (CANDIDATES // len(THESIS))
    day = Scenario(Trace(scenario.trace.arrivals_us[:5_760]))
    measure(
        f"{len(candidates)} candidates over a day",
        len(day.trace) * len(candidates),
        lambda: run_compiled(candidates, day, details=False),
    )


def shared_nodes(requests: int) -> None:
    """Measure keys that share a node: without and with a limit of a fifth of all objects, and their homes."""
    key_ids = zipf_ids(requests)
    sizes_bytes = np.random.default_rng(SEED).lognormal(9, 1.5, KEYS).astype(np.int64) + 1
    names = tuple(map(str, range(KEYS)))
    trace = Trace(poisson_us(requests, 15 / KEYS), key_ids, sizes_bytes[key_ids], names)
    roomy, full = Scenario(trace), Scenario(trace, capacity_bytes=int(sizes_bytes.sum()) // 5)
    print(f"\n{KEYS:,} keys that share a node, {requests:,} requests, 4 a minute and key, Zipf 1")
    for name, policy in THESIS.items():
        measure(name, requests, partial(run_compiled, [policy], roomy, details=False), MANY_KEYS_AIM)
        measure(
            "  a fifth of all bytes fits",
            requests,
            partial(run_compiled, [policy], full, details=False),
            LRU_AIM,
        )
    for name, policy in BY_USE.items():
        measure(name, requests, partial(run_compiled, [policy], roomy, details=False))
    long_leases(requests // 50)
    begun = time.process_time()
    Scenario(trace, 8).homes()
    print(f"homes of {KEYS:,} keys among 8 nodes, once a trace: {time.process_time() - begun:.2f} s")


def long_leases(requests: int) -> None:
    """Measure a log like a mirror's: seldom requested keys keep their leases for hours, and nodes are checked often."""
    gap_s = 3 * 86_400 / 62_400  # the requests of a mirror of CRAN in three days
    scenario = Scenario(Trace(poisson_us(requests, gap_s), zipf_ids(requests), None, tuple(map(str, range(KEYS)))))
    print(f"{KEYS:,} keys that share a node, {requests:,} requests, one each {gap_s:.1f} s, leases of eleven hours")
    for check_s in (300, 60, 5):
        text = f"lambda_threshold_s=16000,redis_threshold=0,redis_utilization_s=40000,redis_check_s={check_s}"
        policy = Thesis(parameters_from_text(rate="9", sensitivity="4", overrides=text))
        name = f"thesis, a check each {check_s} s"
        measure(name, requests, partial(run_compiled, [policy], scenario, details=False))


def optima(requests: int) -> None:
    """Measure the exact optimum: at 4 requests a minute, and where it is at its slowest."""
    print(f"\nexact optimum, {requests:,} requests")
    t = poisson_us(requests, 15)
    for variant in Variant:
        for penalty_units in (None, 3_600_000_000, 36_000_000_000):
            name = f"4/min, {variant.name.lower()}, penalty {penalty_units}"
            measure(
                name,
                requests,
                partial(least_cost, t, penalty_units, variant=variant),
                OPTIMUM_AIM,
            )
    for gap_s in (60, 5, 1, 0.1):
        t = poisson_us(requests, gap_s)
        measure(f"Poisson, a request each {gap_s:g} s", requests, partial(least_cost, t))
    for gap_s, busy_s, idle_s in ((0.1, 30, 60), (0.01, 30, 60), (0.01, 100, 40)):
        t = bursts_us(requests, gap_s, busy_s, idle_s)
        measure(f"{busy_s} s with {1 / gap_s:g}/s, {idle_s} s of silence", len(t), partial(least_cost, t))


if __name__ == "__main__":
    main()
