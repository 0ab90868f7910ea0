"""A trace of one key or of many replayed by whichever simulator is done first; their results are the same."""

from __future__ import annotations

from burstcache_sim.traces.trace import Trace
from burstcache_sim.world.result import RunResult
from burstcache_sim.world.run import PolicyParameters, run

# Loading the compiled engines takes 0.5 s (`docs/evidence/measurements.md`); the readable simulator replays about this
# many requests in that time.
LEAST_COMPILED = 200_000


def replay(
    trace: Trace,
    parameters: PolicyParameters,
    *,
    nodes: int = 1,
    capacity_bytes: int | None = None,
    until_us: int | None = None,
    has_log: bool = False,
) -> RunResult:
    """Replay a trace.

    Args:
        trace: The requests.
        parameters: The policy and its parameters.
        nodes: How many nodes the keys share.
        capacity_bytes: What a node holds; None: no limit.
        until_us: The horizon; None: until nothing is left to happen [us].
        has_log: Whether the log of a run of one key is wanted, which only the readable simulator writes.

    Raises:
        InvalidSettingError: There is no node, no capacity, or a capacity without the objects' sizes.
    """
    if trace.key_ids is None and capacity_bytes is None:
        return _one_key(trace, parameters, until_us, has_log=has_log)
    if len(trace) >= LEAST_COMPILED:
        from burstcache_sim.engine.shared import run_shared

        return run_shared(trace, [parameters], nodes=nodes, capacity_bytes=capacity_bytes, until_us=until_us)[0]
    from burstcache_sim.world.many import run_many

    return run_many(trace, parameters, nodes=nodes, capacity_bytes=capacity_bytes, until_us=until_us)


def _one_key(trace: Trace, parameters: PolicyParameters, until_us: int | None, *, has_log: bool) -> RunResult:
    if len(trace) >= LEAST_COMPILED and not has_log:
        from burstcache_sim.engine.independent import run_fast

        return run_fast(trace.arrivals_us, parameters, until_us=until_us)
    return run(trace.arrivals_us.tolist(), parameters, until_us=until_us)
