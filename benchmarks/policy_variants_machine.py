"""A machine for variants of the break-even policy: one key's cache, compiled, at the thesis's prices and timings.

`docs/use/policies.md` has the variants; the order of events, the timings and the billing are the simulator's, and
`benchmarks.policy_variants` checks them against it.
"""

from __future__ import annotations

import math

import numba
import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

compiled = numba.njit(nogil=True, _nrt=False)  # nothing allocates; counting references takes longer than all else

NEVER_US, SECOND_US = 10**18, 1_000_000
BOOT_US = STOP_US = 30 * SECOND_US
LEAST_US = 60 * SECOND_US  # of a run of Redis: it is billed anyway
WARM_US, COLD_US, WARM_FOR_US = 20_000, 600_000, 600 * SECOND_US  # starts of a cache function

UNITS_PER_USD = 360_000_000_000_000
LAMBDA_UNITS_PER_US, REDIS_UNITS_PER_US, INVOCATION_UNITS, S3_GET_UNITS = 6_012, 1_340, 72_000_000, 154_800_000

# What a setting consists of; see `policy_variants_settings.Setting`.
BOOT_REQUESTS, BOOT_WITHIN, INVOKE_WITHIN, GAP, KEEP, IDLE, HABIT = range(7)
PLAIN, DRAWS, LEARNS, FORESEES = range(4)

# State and books of one cache; times in microseconds, DEADLINE is NEVER_US while no cache function lives.
READY, DEADLINE, IS_FIXED, LAST_END, REDIS, NEXT, SINCE, LAST = range(8)
STOPPED, IDLE_POWER, START, PERIOD, IS_REGULAR, IS_FORESEEN, HITS, UNITS, FIELDS = range(8, 17)
OFF, BOOTING, RUNNING, STOPPING = range(4)

LEAST_POWER, MOST_POWER = -2, 1  # how much of break-even's stay a learned one can be, as powers of 2
SILENCE_IDLES = 1  # a silence of more stays parts two bursts
HALF_LIFE_US = 6 * 3600 * SECOND_US  # how fast the leader's past is forgotten
HEAD_START_UNITS = UNITS_PER_USD // 10_000  # by which the first setting leads


@compiled
def reset(life: Integers) -> None:
    """Let a cache begin: nothing runs, nothing was requested."""
    life[:] = 0
    life[DEADLINE] = life[NEXT] = NEVER_US
    life[LAST] = life[LAST_END] = life[STOPPED] = life[START] = -NEVER_US // 10


@compiled
def settle(life: Integers, until_us: int, setting: Integers) -> None:
    """Let everything happen that is due, in order of time; a cache function's end comes first."""
    while min(life[DEADLINE], life[NEXT]) <= until_us:
        if life[DEADLINE] <= life[NEXT]:
            end_lambda(life, life[DEADLINE])
        else:
            turn_redis(life, setting)


@compiled
def turn_redis(life: Integers, setting: Integers) -> None:
    """Let the next thing happen to Redis: ready, stop, off, or a boot that was planned."""
    at_us = life[NEXT]
    if life[REDIS] == BOOTING:
        if life[DEADLINE] < NEVER_US:
            end_lambda(life, at_us)
        life[REDIS], life[SINCE] = RUNNING, at_us
        life[NEXT] = max(at_us + LEAST_US, life[LAST] + idle_us(life, setting))
        if life[IS_FORESEEN]:
            life[NEXT] = max(life[NEXT], life[START] + life[PERIOD] * 5 // 4)
    elif life[REDIS] == RUNNING:
        life[UNITS] += redis_units(life, at_us)
        life[IS_REGULAR] = life[IS_REGULAR] and not life[IS_FORESEEN]  # foreseen, and nobody came
        life[REDIS], life[STOPPED], life[NEXT] = STOPPING, at_us, at_us + STOP_US
    elif life[REDIS] == STOPPING:
        life[REDIS], life[NEXT], life[IS_FORESEEN] = OFF, NEVER_US, 0
        planned_us = life[START] + life[PERIOD] * 3 // 4
        if setting[HABIT] == FORESEES and life[IS_REGULAR] and planned_us > at_us:
            life[NEXT] = planned_us
    else:
        life[IS_FORESEEN] = 1
        begin_boot(life, at_us)


@compiled
def idle_us(life: Integers, setting: Integers) -> int:
    """Return how long Redis outlives its last request."""
    if setting[HABIT] == DRAWS:
        return int(setting[IDLE] * math.log(1 + np.random.random() * (math.e - 1)))
    if setting[HABIT] == LEARNS:
        return int(setting[IDLE] * 2.0 ** life[IDLE_POWER])
    return setting[IDLE]


@compiled
def end_lambda(life: Integers, at_us: int) -> None:
    """Bill a cache function, in whole milliseconds."""
    life[UNITS] += LAMBDA_UNITS_PER_US * 1_000 * -(-max(0, at_us - life[READY]) // 1_000)
    life[DEADLINE], life[LAST_END] = NEVER_US, at_us


@compiled
def redis_units(life: Integers, at_us: int) -> int:
    """Return the bill of a run of Redis that ends now, in whole seconds, at least 60."""
    return REDIS_UNITS_PER_US * SECOND_US * max(60, -(-(at_us - life[SINCE]) // SECOND_US))


@compiled
def invoke(life: Integers, at_us: int, lives_us: int) -> None:
    """Start a cache function."""
    is_cold = at_us - life[LAST_END] > WARM_FOR_US
    life[UNITS] += INVOCATION_UNITS + is_cold * S3_GET_UNITS
    life[READY] = at_us + (COLD_US if is_cold else WARM_US)
    life[DEADLINE], life[IS_FIXED] = life[READY] + lives_us, 0


@compiled
def begin_boot(life: Integers, at_us: int) -> None:
    """Boot Redis."""
    life[UNITS] += S3_GET_UNITS
    life[REDIS], life[NEXT] = BOOTING, at_us + BOOT_US


@compiled
def boot(life: Integers, at_us: int, setting: Integers) -> None:
    """Boot Redis because of a request, and bridge that with a cache function if the setting says so."""
    begin_boot(life, at_us)
    if not setting[KEEP]:
        return
    if life[DEADLINE] == NEVER_US:
        invoke(life, at_us, setting[KEEP])
    else:
        life[DEADLINE] += setting[KEEP]
    life[IS_FIXED] = 1


@compiled
def note_start(life: Integers, at_us: int) -> None:
    """Note that the requests came back: regularly, if that took about as long as last time."""
    period_us = at_us - life[START]
    life[IS_REGULAR] = abs(period_us - life[PERIOD]) < life[PERIOD] // 2
    life[START], life[PERIOD], life[IS_FORESEEN] = at_us, period_us, 0


@compiled
def note_return(life: Integers, at_us: int, setting: Integers) -> None:
    """Learn from the first request after a stop: stay twice as long if it came within break-even's stay, else half."""
    power = life[IDLE_POWER] + (1 if at_us - life[STOPPED] < setting[IDLE] else -1)
    life[IDLE_POWER] = max(LEAST_POWER, min(MOST_POWER, power))
    life[STOPPED] = -NEVER_US // 10


@compiled
def step(life: Integers, at_us: int, nth_last_us: int, setting: Integers) -> None:
    """Handle a request; `nth_last_us` is the first of the newest that the setting boots at."""
    settle(life, at_us, setting)
    gap_us, life[LAST] = at_us - life[LAST], at_us
    if gap_us > SILENCE_IDLES * setting[IDLE]:
        note_start(life, at_us)
    if life[REDIS] == RUNNING:
        life[HITS] += 1
        life[NEXT] = max(life[SINCE] + LEAST_US, at_us + idle_us(life, setting))
        return
    if life[STOPPED] >= 0:
        note_return(life, at_us, setting)
    is_alive = life[DEADLINE] < NEVER_US
    if is_alive and life[READY] <= at_us:
        life[HITS] += 1
        if not life[IS_FIXED]:
            life[DEADLINE] = at_us + setting[GAP]
    else:
        life[UNITS] += S3_GET_UNITS
    if not is_alive and life[REDIS] != BOOTING and gap_us < setting[INVOKE_WITHIN]:
        invoke(life, at_us, setting[GAP])
    if life[REDIS] == OFF and at_us - nth_last_us < setting[BOOT_WITHIN]:
        boot(life, at_us, setting)


@compiled
def nth_last(t: Integers, i: int, setting: Integers) -> int:
    """Return when the first of the newest requests came that the setting boots at; before all times if too few came."""
    first = i + 1 - setting[BOOT_REQUESTS]
    return t[first] if first >= 0 else -NEVER_US


@compiled
def finish(life: Integers, horizon_us: int, setting: Integers) -> None:
    """Let the rest happen and bill what runs at the horizon."""
    settle(life, horizon_us, setting)
    if life[DEADLINE] < NEVER_US:
        end_lambda(life, horizon_us)
    if life[REDIS] == RUNNING:
        life[UNITS] += redis_units(life, horizon_us)


@compiled
def units_so_far(life: Integers, at_us: int) -> int:
    """Return what a cache has cost, including what is running or already ordered."""
    units = life[UNITS]
    if life[DEADLINE] < NEVER_US:
        units += LAMBDA_UNITS_PER_US * max(0, at_us - life[READY])
    if life[REDIS] == RUNNING:
        units += REDIS_UNITS_PER_US * max(LEAST_US, at_us - life[SINCE])
    return units + REDIS_UNITS_PER_US * LEAST_US * (life[REDIS] == BOOTING)


@compiled
def replay(t: Integers, horizon_us: int, settings: Integers, hit_units: int, lives: Integers, books: Floats) -> None:
    """Replay a trace: the last of the lives is real; of several settings each has a life, and the best so far leads."""
    leader, real, scores, values = 0, lives[-1], books[0], books[1]
    followed = len(settings) if len(settings) > 1 else 0
    for i in range(len(t)):
        step(real, t[i], nth_last(t, i, settings[leader]), settings[leader])
        keep = 0.5 ** ((t[i] - t[i - 1]) / HALF_LIFE_US) if followed and i else 1.0
        for k in range(followed):
            step(lives[k], t[i], nth_last(t, i, settings[k]), settings[k])
            value = float(hit_units * lives[k, HITS] - units_so_far(lives[k], t[i]))
            scores[k] = scores[k] * keep + value - values[k]
            values[k] = value
        if followed:
            leader = best(scores)
            if real[REDIS] == RUNNING:
                real[NEXT] = max(real[SINCE] + LEAST_US, t[i] + settings[leader][IDLE])
    finish(real, horizon_us, settings[leader])


@compiled
def best(scores: Floats) -> int:
    """Return which setting leads; the first one has a head start."""
    leader, most = 0, scores[0] + HEAD_START_UNITS
    for k in range(1, len(scores)):
        if scores[k] > most:
            leader, most = k, scores[k]
    return leader


@compiled
def replay_knobs(
    t: Integers, horizon_us: int, table: Integers, hit_units: Integers, sums: Integers, lives: Integers, books: Floats
) -> None:
    """Replay a trace for each row of the table, a knob's settings, and add hits and cost units to the row's sums."""
    for row in range(len(table)):
        np.random.seed(hit_units[row] % 2**31)
        for life in lives:
            reset(life)
        books[:] = 0
        replay(t, horizon_us, table[row], hit_units[row], lives, books)
        sums[row, 0] += lives[-1, HITS]
        sums[row, 1] += lives[-1, UNITS]
