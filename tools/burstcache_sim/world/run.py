"""One policy over the requests of one key: readable, and what the compiled engine is held to."""

from __future__ import annotations

from collections.abc import Iterable

from burstcache.core.breakeven import BreakevenParameters
from burstcache.core.parameters import Parameters
from burstcache_sim.world.breakeven import BreakevenMachine
from burstcache_sim.world.machine import Machine
from burstcache_sim.world.result import RunResult
from burstcache_sim.world.thesis import ThesisMachine
from burstcache_sim.world.timings import THESIS_TIMINGS, Timings

PolicyParameters = Parameters | BreakevenParameters


def run(
    arrivals_us: Iterable[int],
    parameters: PolicyParameters,
    *,
    until_us: int | None = None,
    timings: Timings = THESIS_TIMINGS,
) -> RunResult:
    """Replay a trace of one key.

    Args:
        arrivals_us: When the requests come, sorted, doubles allowed [us].
        parameters: The policy and its parameters: the thesis's or the break-even policy's.
        until_us: The horizon: later requests and events do not happen, what still runs is billed up to here. Without
            it the run ends when nothing is left to happen [us].
        timings: How long starts and stops take.

    Source:
        `docs/understand/simulation.md`.
    """
    machine = machine_for(parameters, timings)
    for at_us in arrivals_us:
        if until_us is not None and at_us > until_us:
            break
        machine.serve(int(at_us))  # plain integers: those of a numpy array could overflow
    return machine.close(until_us)


def machine_for(parameters: PolicyParameters, timings: Timings = THESIS_TIMINGS) -> Machine:
    """Return the world of one key under the policy that the parameters belong to."""
    if isinstance(parameters, BreakevenParameters):
        return BreakevenMachine(parameters, timings)
    return ThesisMachine(parameters, timings)
