"""All walls of a load, and the wall that the load reaches first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from burstcache_sim.scale import control, reading
from burstcache_sim.scale.load import DIMENSIONS, StackLoad
from burstcache_sim.scale.wall import Effect, Wall

GROUPS: tuple[Callable[[StackLoad], Iterator[Wall]], ...] = (
    reading.door_walls,
    reading.lambda_walls,
    reading.digest_walls,
    reading.s3_walls,
    reading.node_walls,
    reading.relay_walls,
    control.event_walls,
    control.machine_walls,
    control.life_walls,
    control.row_walls,
    control.table_walls,
    control.change_walls,
    control.boot_walls,
    reading.quota_walls,
)


@dataclass(frozen=True, slots=True)
class Step:
    """One load of a sweep."""

    load: StackLoad
    value: int
    walls: Sequence[Wall]


def walls_of(load: StackLoad) -> list[Wall]:
    """Return all walls of a load. Of several stacks that share the load, the walls of one stand for each."""
    one = load.of_one_stack
    of_one = [wall for group in GROUPS for wall in group(one)]
    return [replace(wall, load=load.stacks * wall.load) if wall.scope == "account" else wall for wall in of_one]


def first_wall(walls: Iterable[Wall], effect: Effect | None = None) -> Wall | None:
    """Return the wall with the highest use, that is, the first one that a growing load reaches.

    Walls that no load moves count only if they are exceeded.

    Args:
        walls: The walls of one load.
        effect: The only kind of consequence to consider. None: any.
    """
    moved = [wall for wall in walls if (not wall.is_fixed or wall.is_reached) and effect in (None, wall.effect)]
    return max(moved, key=lambda wall: wall.used, default=None)


def sweep(load: StackLoad, dimension: str) -> list[Step]:
    """Return the walls of loads that grow tenfold from 10, stacks from 1.

    Args:
        load: The load whose other values stay.
        dimension: A name in `DIMENSIONS`. `load` lets keys and reads grow together.
    """
    steps, value = [], 1 if dimension == "stacks" else 10
    while value <= DIMENSIONS[dimension]:
        grown: dict[str, Any] = {"keys": value, "reads_per_s": value} if dimension == "load" else {dimension: value}
        loaded = replace(load, **grown)
        steps.append(Step(loaded, value, walls_of(loaded)))
        value *= 10
    return steps
