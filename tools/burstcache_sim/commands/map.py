"""`burstcache research map`: the loads for which Burstcache is the best buy, as a table and pictures."""

from __future__ import annotations

import argparse
import os
from concurrent.futures import ProcessPoolExecutor
from fractions import Fraction
from functools import partial

from burstcache.core.node_kinds import NodeKind
from burstcache.core.prices import PriceSheet, price_sheet
from burstcache_sim.choose.map.cells import VALUES_USD_PER_MILLION, Cell, all_loads, cells
from burstcache_sim.choose.map.draw import summary_lines, write_map
from burstcache_sim.choose.map.loads import Load
from burstcache_sim.output import made_folder
from burstcache_sim.progress import hide_progress, progress
from burstcache_sim.world.interruptions import Interruptions
from burstcache_terminal.exit_codes import ExitCode


def run(args: argparse.Namespace) -> ExitCode:
    """Compare systems on every load of the map, write the files, and print the totals."""
    folder, prices = made_folder("--out", args.out), price_sheet(args.prices)
    loads = all_loads()
    with ProcessPoolExecutor(os.cpu_count() or 1, initializer=hide_progress) as processes:
        interruptions = Interruptions(Fraction(args.interruptions_per_hour), args.interruption_seed)
        by_load = processes.map(partial(_cells, prices, tuple(args.node_kinds), interruptions), loads)
        every = [cell for of_load in progress(by_load, total=len(loads), text="loads") for cell in of_load]
    for line in [*summary_lines(every), *(f"wrote {path}" for path in write_map(every, folder))]:
        print(line)
    return ExitCode.SUCCESS


def _cells(
    prices: PriceSheet, node_kinds: tuple[NodeKind, ...], interruptions: Interruptions, load: Load
) -> list[Cell]:
    return list(cells(prices, [load], VALUES_USD_PER_MILLION, node_kinds, interruptions))
