"""Walls of the control plane as text, as Markdown and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from burstcache_sim.scale.load import StackLoad
from burstcache_sim.scale.wall import IN_USE, Wall
from burstcache_sim.scale.walls import Step, first_wall
from burstcache_terminal.text import NOTHING, WIDTH, number_text, table_text, wrapped_text

_DIMENSION_TEXT = {
    "keys": "keys",
    "reads_per_s": "reads/s",
    "readers": "readers",
    "writes_per_s": "writes/s",
    "load": "keys and reads/s",
    "stacks": "stacks",
}
_ASSUMED = "*"
_ASSUMED_NOTE = f"{_ASSUMED} The limit is assumed: neither documented by AWS nor measured."
_HEADER = ("part", "unit", "load", "limit", "used")
_LIMIT_HEADER = ("part", "limit", "used [%]", "beyond it", "raise it by")
_EFFECT_HEADER = ("reads are refused", "S3 serves", "control is late")


def wall_fields(wall: Wall) -> dict[str, Any]:
    """Return a wall for JSON."""
    return {
        "part": wall.part,
        "unit": wall.unit,
        "load": wall.load,
        "limit": wall.limit,
        "used": wall.used,
        "is_reached": wall.is_reached,
        "effect": wall.effect,
        "beyond": wall.beyond,
        "raise_by": wall.raise_by,
        "scope": wall.scope,
        "is_assumed": wall.is_assumed,
    }


def step_fields(step: Step) -> dict[str, Any]:
    """Return one load of a sweep for JSON."""
    first: dict[str, Wall | None] = {effect: first_wall(step.walls, effect) for effect in IN_USE}
    first["any"] = first_wall(step.walls)
    return {"value": step.value, "first": {name: wall_fields(wall) for name, wall in first.items() if wall}}


def load_text(load: StackLoad) -> str:
    """Return a sentence about a load and its stack."""
    readers = "the HTTP API" if load.is_proxied else f"{load.readers:,} readers with the library"
    stacks = f"{load.stacks:,} stacks by prefix, each with p" if load.stacks > 1 else "P"
    return (
        f"{load.keys:,} keys, {number_text(load.reads_per_s)} reads/s by {readers},"
        f" {number_text(load.writes_per_s)} writes/s. {stacks}olicy {load.policy}, relay {load.relay}, {load.nodes} x"
        f" {load.node}, {load.quotas.concurrency:,} units of concurrency. At the peak no node runs, and all readers"
        " start within 10 s."
    )


def walls_text(load: StackLoad, walls: Sequence[Wall]) -> str:
    """Return the table of all walls, most used first, and the first wall in full."""
    rows = [_cells(wall) for wall in _sorted(walls)]
    lines = [wrapped_text(load_text(load)), "", table_text(_HEADER, rows, right=(2, 3, 4), most=WIDTH)]
    if any(wall.is_assumed for wall in walls):
        lines.append(_ASSUMED_NOTE)
    return "\n".join([*lines, "", *map(wrapped_text, _first_lines(walls))])


def walls_markdown(load: StackLoad, walls: Sequence[Wall]) -> str:
    """Return the table of all walls as Markdown, most used first."""
    rows = [(wall.part, _limit(wall), _percent(wall), wall.beyond, wall.raise_by) for wall in _sorted(walls)]
    return f"{load_text(load)}\n\n{_markdown(_LIMIT_HEADER, rows)}"


def sweep_text(steps: Sequence[Step], dimension: str) -> str:
    """Return the first wall of each load by its effect."""
    rows: list[tuple[str, ...]] = []
    for step in steps:
        value = f"{step.value:,}"
        for effect in IN_USE:
            wall = first_wall(step.walls, effect)
            rows.append((value, effect, *((_share(wall), wall.part) if wall else (NOTHING, NOTHING))))
            value = ""
    return table_text((_DIMENSION_TEXT[dimension], "beyond it", "used", "first wall"), rows, right=(0, 2), most=WIDTH)


def sweep_markdown(steps: Sequence[Step], dimension: str) -> str:
    """Return the first wall of each load by its effect as Markdown.

    A wall that the load exceeds is bold. An empty cell repeats the cell above.
    """
    rows = [(f"{step.value:,}", *(_cell(first_wall(step.walls, effect)) for effect in IN_USE)) for step in steps]
    above = [("",) * len(rows[0]), *rows]
    shown = [
        ["" if cell == former else cell for cell, former in zip(row, last, strict=True)]
        for row, last in zip(rows, above, strict=False)
    ]
    return _markdown((_DIMENSION_TEXT[dimension], *_EFFECT_HEADER), shown)


def _sorted(walls: Sequence[Wall]) -> list[Wall]:
    return sorted(walls, key=lambda wall: -wall.used)


def _cells(wall: Wall) -> tuple[str, str, str, str, str]:
    return wall.part, wall.unit, _number(wall.load), _number(wall.limit) + _ASSUMED * wall.is_assumed, _share(wall)


def _limit(wall: Wall) -> str:
    return f"{_number(wall.limit)} {wall.unit}{_ASSUMED * wall.is_assumed}"


def _cell(wall: Wall | None) -> str:
    if wall is None:
        return NOTHING
    text = f"{wall.part}: {_share(wall)}"
    return f"**{text}**" if wall.is_reached else text


def _first_lines(walls: Sequence[Wall]) -> list[str]:
    first, refusing = first_wall(walls), first_wall(walls, "refused")
    lines = [f"First wall: {_sentence(first)}"] if first else []
    if refusing and refusing is not first:
        lines.append(f"First wall that refuses reads: {_sentence(refusing)}")
    return lines


def _sentence(wall: Wall) -> str:
    state = "exceeded" if wall.is_reached else f"reached at {number_text(1 / wall.used, digits=2)} times this load"
    state = state if wall.used else "not loaded"
    return f"{wall.part}, {state}. Beyond it: {wall.beyond}. Raise it by: {wall.raise_by}."


def _number(value: float) -> str:
    return number_text(value, digits=3)


def _share(wall: Wall) -> str:
    return f"{_percent(wall)} %"


def _percent(wall: Wall) -> str:
    return number_text(100 * wall.used, digits=2 if wall.used < 1 else 3)


def _markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
