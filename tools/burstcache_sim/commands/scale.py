"""`burstcache research scale`: a load's use of each quota, and the wall that it reaches first."""

from __future__ import annotations

import argparse
import json
from dataclasses import fields, replace

from burstcache.core.errors import InvalidSettingError
from burstcache.core.node_kinds import node_kind
from burstcache_sim.commands.measured import measured_of
from burstcache_sim.report.walls import (
    load_text,
    step_fields,
    sweep_markdown,
    sweep_text,
    wall_fields,
    walls_markdown,
    walls_text,
)
from burstcache_sim.scale.load import REGIONS, Quotas, StackLoad
from burstcache_sim.scale.walls import first_wall, sweep, walls_of
from burstcache_terminal.exit_codes import ExitCode
from burstcache_terminal.text import wrapped_text

_ORIGIN_MEMORY_MB = "128"  # of the origin function in the template


def run(args: argparse.Namespace) -> ExitCode:
    """Print the walls of a load, or the first wall of each load of a sweep."""
    load = _load(args)
    print(_sweep(load, args) if args.sweep else _walls(load, args))
    return ExitCode.SUCCESS


def _walls(load: StackLoad, args: argparse.Namespace) -> str:
    walls = walls_of(load)
    if args.json:
        first, refusing = first_wall(walls), first_wall(walls, "refused")
        return json.dumps(
            {
                "first_wall": first.part if first else None,
                "first_wall_that_refuses": refusing.part if refusing else None,
                "walls": [wall_fields(wall) for wall in walls],
            }
        )
    return walls_markdown(load, walls) if args.markdown else walls_text(load, walls)


def _sweep(load: StackLoad, args: argparse.Namespace) -> str:
    steps = sweep(load, args.sweep)
    if args.json:
        return json.dumps([step_fields(step) for step in steps])
    if args.markdown:
        return sweep_markdown(steps, args.sweep)
    return f"{wrapped_text(f'But for the first column: {load_text(load)}')}\n\n{sweep_text(steps, args.sweep)}"


def _load(args: argparse.Namespace) -> StackLoad:
    node_kind(args.node)  # raises an error if there is no such node
    quotas = Quotas(**{**REGIONS[args.region], "concurrency": args.concurrency})
    return StackLoad(
        keys=args.keys,
        reads_per_s=args.reads_per_s,
        readers=args.readers,
        writes_per_s=args.writes_per_s,
        object_bytes=args.object_bytes,
        top_share=args.top_share,
        policy=args.policy,
        relay=args.relay,
        nodes=args.nodes,
        node=args.node,
        max_hot_keys=args.max_hot_keys,
        origin_events=args.origin_events,
        stacks=args.stacks,
        throttle_per_s=args.throttle_per_s,
        **_delays(args),
        quotas=replace(quotas, **_named(args.quota)),
    )


def _delays(args: argparse.Namespace) -> dict[str, float]:
    """Return the delays of functions: measured ones, if there are any. An option replaces its measurement."""
    measured = measured_of(args)
    batches_ms = measured.get("origin_batch_ms", {})
    found = {"proxy_ms": args.proxy_ms or measured.get("s3_ms"), "origin_batch_ms": batches_ms.get(_ORIGIN_MEMORY_MB)}
    return {name: float(ms) for name, ms in found.items() if ms}


def _named(texts: list[str]) -> dict[str, int]:
    """Parse quotas such as `get_parameters=1000`."""
    names = [field.name for field in fields(Quotas)]
    parsed: dict[str, int] = {}
    for text in texts:
        name, _, value = text.partition("=")
        if name not in names or not value.isdecimal() or not int(value):
            raise InvalidSettingError(f"--quota {text}: expected NAME=NUMBER, NAME one of {', '.join(names)}")
        parsed[name] = int(value)
    return parsed
