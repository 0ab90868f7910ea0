"""One word of the command line, and the module behind it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Command:
    """Its module, imported only when it is called, has `add_parser(subparsers)` and `run(args) -> int`."""

    name: str
    help: str
    module: str
