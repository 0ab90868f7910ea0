"""The generators of `burstcache sim generate`: kinds of traces and their options."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from burstcache_sim.traces import generate
from burstcache_terminal.options import number, whole


@dataclass(frozen=True, slots=True)
class Option:
    """One parameter of a generator. The flag ends with the parameter's unit, if there is one."""

    flag: str
    name: str  # name of the generator's argument
    help: str
    type: Callable[[str], float] = number(least=0)  # noqa: RUF009 (an immutable function)
    default: float | None = None  # None if required


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of trace, a subcommand of `sim generate`."""

    help: str
    generate: Callable[..., Any]
    options: tuple[Option, ...]
    has_keys: bool = False  # whether requests have keys


_POSITIVE, _COUNT = number(above=0), whole(least=1)
_RATE = Option("--rate-per-min", "rate_per_min", "mean rate [requests a minute]", _POSITIVE)
_SPREAD = Option("--std-s", "std", "standard deviation of a spike's arrivals [s]")
_N = Option("--requests", "n", "number of requests of a spike", _COUNT)


def _duration(name: str) -> Option:
    return Option("--duration-s", name, "length of the trace [s]", _POSITIVE)


KINDS = {
    "poisson": Kind("requests at random, at a constant mean rate", generate.poisson, (_RATE, _duration("duration_s"))),
    "spike": Kind("one burst, normally distributed in time", generate.spike, (_SPREAD, _N)),
    "mmpp": Kind(
        "quiet and busy periods of random length, starting quiet",
        generate.mmpp,
        (
            Option("--on-per-min", "on", "rate while busy [requests a minute]"),
            Option("--off-per-min", "off", "rate while quiet [requests a minute]"),
            Option("--mean-on-s", "mean_on", "mean length of a busy period [s]", _POSITIVE),
            Option("--mean-off-s", "mean_off", "mean length of a quiet period [s]", _POSITIVE),
            _duration("dur"),
        ),
    ),
    "diurnal": Kind(
        "a rate that follows the time of day",
        generate.diurnal,
        (
            Option("--mean-per-min", "mean", "mean rate [requests a minute]", _POSITIVE),
            Option("--depth", "depth", "swing of the rate, 0 to 1", number(least=0, most=1)),
            Option("--period-s", "period", "length of a day [s]", _POSITIVE),
            _duration("dur"),
        ),
    ),
    "spikes-train": Kind(
        "several bursts, one after the other",
        generate.spikes_train,
        (
            _SPREAD,
            _N,
            Option("--spikes", "count", "number of spikes", _COUNT),
            Option("--spacing-s", "spacing", "mean distance of two spikes [s]"),
        ),
    ),
    "zipf": Kind(
        "many keys, most requests for a few of them; written as t,key,size",
        generate.zipf,
        (
            _RATE,
            _duration("duration_s"),
            Option("--keys", "keys", "number of keys", _COUNT),
            Option("--exponent", "exponent", "popularity falls as 1 / rank^exponent (default: 1)", default=1.0),
        ),
        has_keys=True,
    ),
}
