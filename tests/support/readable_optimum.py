"""The exact optimum once more, as plainly as its rules: every run over every stretch of requests, cubic in them."""

from __future__ import annotations

from collections.abc import Sequence

LAMBDA, REDIS, INVOCATION, S3_GET, SECOND = 6_012, 1_340, 72_000_000, 154_800_000, 1_000_000
Costs = tuple[int, int]  # objective, misses


def readable_optimum(
    t: Sequence[int], *, penalty: int | None = None, least_lambda_s: int = 5, is_bridged: bool = False
) -> Costs:
    """Return the least objective and the fewest misses at it; `t` in us, sorted."""
    # Per number of requests served, per end of the last Redis run (None: no run yet): the best so far.
    best: list[dict[int | None, Costs]] = [{} for _ in range(len(t) + 1)]
    best[0][None] = (0, 0)
    for i in range(len(t)):
        for ended, (cost, misses) in best[i].items():
            if penalty is not None:
                _offer(best[i + 1], ended, (cost + S3_GET + penalty, misses + 1))
            may_boot = ended is None or t[i] - ended >= (30 if is_bridged else 60) * SECOND
            for j in range(i, len(t)):
                length = t[j] - t[i]
                run = INVOCATION + LAMBDA * max(least_lambda_s * SECOND, length)
                _offer(best[j + 1], ended, (cost + run, misses))
                if may_boot:
                    _offer(best[j + 1], t[j], (cost + _redis_run(length, is_bridged), misses))
    return min(best[len(t)].values())


def _redis_run(length: int, is_bridged: bool) -> int:
    if not is_bridged:
        return S3_GET + REDIS * max(60 * SECOND, length)
    return INVOCATION + LAMBDA * 30 * SECOND + S3_GET + REDIS * max(60 * SECOND, length - 30 * SECOND)


def _offer(there: dict[int | None, Costs], ended: int | None, costs: Costs) -> None:
    there[ended] = min(there.get(ended, costs), costs)
