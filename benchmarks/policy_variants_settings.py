"""What the break-even policy could be instead: settings of `policy_variants_machine` for a hit value."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass, replace
from fractions import Fraction
from math import log2

import numpy as np

from benchmarks.policy_variants_machine import DRAWS, FORESEES, LEARNS, NEVER_US, PLAIN, SECOND_US, Integers
from burstcache.core.breakeven import ALWAYS_US, THESIS_PRICES, breakeven

REDIS_USD_PER_S = float(THESIS_PRICES.redis_usd_per_s)
LAMBDA_USD_PER_S = float(THESIS_PRICES.lambda_usd_per_s)
LEAST_RUN_USD = 60 * REDIS_USD_PER_S
LONGEST_IDLE_US = 7_200 * SECOND_US  # of the settings that follow the leader: a wrong one must end some day


@dataclass(frozen=True, slots=True)
class Setting:
    """When the machine starts and ends things. Times in microseconds; the order is the machine's."""

    boot_requests: int
    boot_within_us: int
    invoke_within_us: int  # a request so soon after its predecessor starts a cache function; 0: none does
    gap_us: int  # how long a cache function outlives its last request
    keep_us: int  # how long a cache function bridges the boot of Redis; 0: no longer than its gap
    idle_us: int
    habit: int = PLAIN


@dataclass(frozen=True, slots=True)
class Fitted:
    """The constants of break-even's formulas, as a random search left them."""

    gap: float
    requests: float
    request_value: float
    within: float
    idle: float
    idle_power: float
    lambda_from: float  # hit values in minimum runs of Redis: from here on a cache function is used …
    lambda_always_from: float  # … and from here on any request starts one
    keep_s: float


SEARCHED = (
    Fitted(0.747, 0.613, 1.648, 0.639, 2.289, 0.939, 0.319, 21.85, 120),
    Fitted(0.145, 0.834, 1.502, 0.398, 2.305, 1.5, 0.554, 0.637, 112.698),
)


@dataclass(frozen=True, slots=True)
class Variant:
    """A policy with break-even's knob; of several settings, the one that has been best so far decides."""

    name: str
    settings: Callable[[float], Sequence[Setting]]

    def table(self, knobs_usd: Sequence[float]) -> Integers:
        """Return the settings of each knob as the machine takes them."""
        rows = [[astuple(setting) for setting in self.settings(knob)] for knob in knobs_usd]
        return np.array(rows, np.int64)


def one(function: Callable[[float], Setting]) -> Callable[[float], Sequence[Setting]]:
    """Return a variant's settings if there is one for each knob."""
    return lambda knob_usd: [function(knob_usd)]


def plain(knob_usd: float) -> Setting:
    """Return break-even itself."""
    p = breakeven(Fraction(str(knob_usd)))
    invoke_within_us = NEVER_US if p.invoke_requests == 1 else p.lambda_gap_us
    return Setting(
        p.boot_requests,
        p.boot_within_us,
        invoke_within_us if p.uses_lambda else 0,
        p.lambda_gap_us,
        p.keep_running_us if p.uses_lambda else 0,
        p.redis_idle_us,
    )


def adaptive_bridge(knob_usd: float) -> Setting:
    """Let any two close requests start a cache function, which bridges a boot as long as its own requests want it."""
    setting = plain(knob_usd)
    return replace(setting, invoke_within_us=setting.gap_us, keep_us=0)


def random_stay(times: float) -> Callable[[float], Setting]:
    """Draw Redis's stay at each request from ski rental's density, up to a multiple of break-even's."""

    def setting(knob_usd: float) -> Setting:
        fixed = plain(knob_usd)
        return replace(fixed, idle_us=int(times * fixed.idle_us), habit=DRAWS)

    return setting


def fitted(constants: Fitted) -> Callable[[float], Setting]:
    """Take break-even's formulas with other constants."""
    c = constants

    def setting(knob_usd: float) -> Setting:
        runs = knob_usd / LEAST_RUN_USD
        redis_gap_s, lambda_gap_s = gaps_s(knob_usd)
        requests = max(1, round(1 + c.requests * log2(1 + c.request_value / runs)))
        gap_us = in_us(c.gap * lambda_gap_s)
        invoke_within_us = NEVER_US if runs >= c.lambda_always_from else gap_us
        return Setting(
            requests,
            ALWAYS_US if requests == 1 else in_us(c.within * redis_gap_s * (requests - 1)),
            invoke_within_us if runs >= c.lambda_from else 0,
            gap_us,
            in_us(c.keep_s) if runs >= c.lambda_from else 0,
            in_us(c.idle * 60 * (redis_gap_s / 60) ** c.idle_power),
        )

    return setting


def thirteen(knob_usd: float) -> list[Setting]:
    """Return break-even, and three stays of Redis with and without bridging, each with two ways to boot."""
    redis_gap_s, lambda_gap_s = gaps_s(knob_usd)
    gap_us, usual_s = in_us(lambda_gap_s), 84 * (redis_gap_s / 60) ** 0.5
    settings = [capped(plain(knob_usd))]
    for idle_us in (in_us(usual_s / 2), in_us(2 * usual_s), LONGEST_IDLE_US):
        for bridges in (False, True):
            for requests, within_us in ((1, ALWAYS_US), (3, in_us(redis_gap_s))):
                lambda_times = (gap_us, gap_us, in_us(120)) if bridges else (0, gap_us, 0)
                settings.append(capped(Setting(requests, within_us, *lambda_times, idle_us)))
    return settings


def nine_knobs(knob_usd: float) -> list[Setting]:
    """Return break-even at nine values of its own knob, its own first."""
    return [capped(plain(round(knob_usd * 2.0**power, 15))) for power in (0, -4, -3, -2, -1, 1, 2, 3, 4)]


def learned_stay(knob_usd: float) -> Setting:
    """Double Redis's stay after a stop that a request soon regrets, halve it after any other, within bounds."""
    return replace(plain(knob_usd), habit=LEARNS)


def foreseeing(knob_usd: float) -> Setting:
    """Boot Redis ahead of a burst that two like intervals predict."""
    return replace(plain(knob_usd), habit=FORESEES)


def stricter(more_requests: int, idle_times: float) -> Callable[[float], Setting]:
    """Let more requests ask for a boot, at break-even's spacing, and let Redis stay longer by a factor."""

    def setting(knob_usd: float) -> Setting:
        usual = plain(knob_usd)
        requests = usual.boot_requests + more_requests
        within_us = ALWAYS_US if requests == 1 else in_us(gaps_s(knob_usd)[0] / 2 * (requests - 1))
        idle_us = int(idle_times * usual.idle_us)
        return replace(usual, boot_requests=requests, boot_within_us=within_us, idle_us=idle_us)

    return setting


def without_function(knob_usd: float) -> Setting:
    """Use no cache function at all."""
    return replace(plain(knob_usd), invoke_within_us=0, keep_us=0)


def capped(setting: Setting) -> Setting:
    """Return a setting whose Redis does not idle for ever."""
    return replace(setting, idle_us=min(setting.idle_us, LONGEST_IDLE_US))


def gaps_s(knob_usd: float) -> tuple[float, float]:
    """Return the gaps that pay for a hit, with Redis and with a cache function [s]."""
    worth_usd = knob_usd + float(THESIS_PRICES.s3_get_usd)
    return worth_usd / REDIS_USD_PER_S, worth_usd / LAMBDA_USD_PER_S


def in_us(time_s: float) -> int:
    """Return a time in microseconds, at most for ever."""
    return int(min(time_s * SECOND_US, ALWAYS_US))


VARIANTS = (
    Variant("break-even", one(plain)),
    Variant("adaptive bridge", one(adaptive_bridge)),
    *(Variant(f"random stay x {times:g}", one(random_stay(times))) for times in (1, 1.5, 2, 3)),
    *(Variant(f"fitted constants {i}", one(fitted(constants))) for i, constants in enumerate(SEARCHED, 1)),
    Variant("leader of 13 settings", thirteen),
    Variant("leader of 9 knobs", nine_knobs),
    Variant("learned stay", one(learned_stay)),
    Variant("boot ahead", one(foreseeing)),
    Variant("stay x 2", one(stricter(0, 2))),
    Variant("one more request to boot", one(stricter(1, 1))),
    Variant("one more request, stay x 2", one(stricter(1, 2))),
    Variant("no cache function", one(without_function)),
)
