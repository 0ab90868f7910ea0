"""`burstcache sim …`: finds the module that a simulation belongs to, so that only what is called is imported."""

from __future__ import annotations

import argparse
from importlib import import_module
from typing import Any

from burstcache_cli.command import Command

SIMULATIONS = (
    Command(
        "generate", "write a trace: poisson, spike, mmpp, diurnal, spikes-train, zipf", "burstcache_sim.commands.trace"
    ),
    Command("inspect", "show what an access log holds", "burstcache_sim.commands.trace"),
    Command("run", "replay a trace under a policy: tiers, billed times, cost", "burstcache_sim.commands.run"),
    Command("offline", "replay a trace under the thesis's offline algorithm", "burstcache_sim.commands.run"),
    Command("optimum", "find the cheapest possible plan for a trace", "burstcache_sim.commands.run"),
    Command("bill", "itemise what a run would be billed", "burstcache_sim.commands.bill"),
    Command("compare", "set a run beside what one could buy instead", "burstcache_sim.commands.bill"),
    Command("report", "tell and draw all about a run: table, page, pictures, CSV", "burstcache_sim.commands.report"),
    Command("tune", "search a policy's parameters for a share of hits or for a bill", "burstcache_sim.commands.tune"),
    Command("paper", "reproduce the thesis's evaluation: tables and pictures", "burstcache_sim.commands.paper"),
)


def add_parser(subparsers: Any) -> None:
    """Add the command to the parser of `burstcache`; its simulations' options are added when one is called."""
    lines = "\n".join(f"  {simulation.name:<10} {simulation.help}" for simulation in SIMULATIONS)
    parser = subparsers.add_parser(
        "sim",
        help="simulate: what a trace would cost, and how often it would hit",
        description="Know before you deploy: replay traces, price them, compare.",
        epilog=f"simulations:\n{lines}\n\n`burstcache sim SIMULATION --help` shows the options of one.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    names = [simulation.name for simulation in SIMULATIONS]
    parser.add_argument("sim_command", choices=names, metavar="SIMULATION", help=f"one of {', '.join(names)}")
    options = parser.add_argument("options", nargs=argparse.REMAINDER, help="what this simulation takes")
    options.required = False  # argparse would name it beside a missing SIMULATION
    parser.set_defaults(sim_parser=parser)


def run(args: argparse.Namespace) -> int:
    """Run one simulation and return its exit status."""
    chosen = next(simulation for simulation in SIMULATIONS if simulation.name == args.sim_command)
    module = import_module(chosen.module)
    parser = type(args.sim_parser)(prog=args.sim_parser.prog)
    module.add_parser(parser.add_subparsers(dest="sim_command"))
    return int(module.run(parser.parse_args([args.sim_command, *args.options])))
