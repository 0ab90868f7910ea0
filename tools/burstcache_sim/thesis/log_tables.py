"""Tables for an hour of a log: the reactive system next to the comparison systems in the thesis's figure 5.6."""

from __future__ import annotations

from fractions import Fraction

from burstcache_sim.latency import THESIS_AT_THE_CLIENT, summarise
from burstcache_sim.optimum.exact import least_cost
from burstcache_sim.policies.offline import offline
from burstcache_sim.report.table import Table
from burstcache_sim.thesis.bursts import ELASTICACHE, PRICES, SELF_HOSTED
from burstcache_sim.thesis.log_hour import LogHour
from burstcache_sim.thesis.published import LOG_SENSITIVITIES, MEAN_LATENCY_MS, S3_ONLY_REQUESTS, S3_ONLY_USD, TABLE_A1
from burstcache_sim.units import S3_GET_UNITS, run_cost_units, usd
from burstcache_sim.world.result import RunResult

_HEADER = (
    "", "in memory [%]", "Lambda [s]", "invocations", "Redis [s]", "Redis starts", "S3 requests", "total [USD]",
    "mean latency [ms]",
)  # fmt: skip


def published_table() -> Table:
    """Return the thesis's measurements for its own log."""
    rows = [(f"figure {figure}, sensitivity {s}", *_printed(figure)) for figure, s in LOG_SENSITIVITIES.items()]
    rows.append(("figure 5.6a, S3 only", "0.00", "", "", "", "", str(S3_ONLY_REQUESTS), f"{S3_ONLY_USD:.5f}", ""))
    rows.append(("figure 5.6b, ElastiCache", "99.43", "", "", "", "", "1", "0.01900", "24.03"))
    title = f"Figures 5.3 to 5.6 as published: {S3_ONLY_REQUESTS} requests"
    return Table(title, _HEADER, tuple(rows))


def log_table(hour: LogHour) -> Table:
    """Compare the thesis's policy with the comparison systems and perfect foresight, over one hour of a log."""
    n, trace_us = len(hour.arrivals_us), hour.arrivals_us
    runs = hour.runs()
    rows = [(f"as figure {figure}, sensitivity {LOG_SENSITIVITIES[figure]}", *_run(runs[figure])) for figure in runs]
    get_usd = usd(S3_GET_UNITS)
    rows += [
        _other("S3 only", n, 0, n * get_usd),
        _other("ElastiCache, a node hour", n, n - 1, float(PRICES.usd(ELASTICACHE)) + get_usd),
        _other("Redis node always on", n, n - 1, float(PRICES.usd(SELF_HOSTED)) + get_usd),
        _other("offline endpoint scheduler", n, n, usd(offline(trace_us).cost_units)),
        _other("exact optimum, no miss", n, n, usd(least_cost(trace_us)[0])),
    ]
    rate = f"the configurator gets rate {hour.rate_per_min}, the mean over the whole log"
    note = f"{hour.key or 'one key'}: {n} requests; {rate}."
    return Table(f"In place of figures 5.3 to 5.6: hour {hour.number} of the log", _HEADER, tuple(rows), note)


def _printed(figure: str) -> tuple[str, ...]:
    row = TABLE_A1[figure]
    counts = (f"{row.lambda_ms / 1000:.1f}", row.invocations, row.redis_s, row.redis_starts, row.s3_requests)
    latency = f"{MEAN_LATENCY_MS[figure]:.2f}" if figure in MEAN_LATENCY_MS else ""
    return (f"{row.in_memory_pct:.2f}", *map(str, counts), f"{row.total_usd:.5f}", latency)


def _run(result: RunResult) -> tuple[str, ...]:
    counts = (f"{result.lambda_ms / 1000:.1f}", result.invocations, result.redis_s, result.redis_starts)
    mean_ms = summarise(result.n_s3, result.n_lambda, result.n_redis, THESIS_AT_THE_CLIENT).mean_ms
    money = f"{usd(run_cost_units(result)):.5f}"
    return (f"{result.in_memory_pct:.2f}", *map(str, counts), str(result.s3_requests), money, f"{mean_ms:.2f}")


def _other(name: str, n: int, hits: int, total_usd: float) -> tuple[str, ...]:
    share = float(Fraction(100 * hits, n))
    mean_ms = f"{summarise(n - hits, 0, hits, THESIS_AT_THE_CLIENT).mean_ms:.2f}"
    misses = str(n - hits)
    return (name, f"{share:.2f}", "", "", "", "", misses, f"{total_usd:.5f}", mean_ms)
