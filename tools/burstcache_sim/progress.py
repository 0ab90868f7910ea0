"""How far long work is: on standard error, at a terminal only."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

_Item = TypeVar("_Item")


def progress(
    iterable: Iterable[_Item], *, total: int | None = None, text: str = "", is_shown: bool | None = None
) -> Iterable[_Item]:
    """Return the items again, and show how many of them were taken.

    Args:
        iterable: What is worked through.
        total: How many items there are; None: as many as the iterable says, or unknown.
        text: What is being done, in front of the bar.
        is_shown: Whether a bar is drawn; None: only if standard error is a terminal.
    """
    if not (sys.stderr.isatty() if is_shown is None else is_shown):
        return iterable
    from tqdm import tqdm  # a tenth of a second

    return tqdm(iterable, total=total, desc=text, leave=False, dynamic_ncols=True, file=sys.stderr)


@contextmanager
def lines_told() -> Iterator[Callable[[int], None] | None]:
    """Yield what a reader of logs tells its lines to, or None where nobody looks; its line goes away at the end."""
    if not sys.stderr.isatty():
        yield None
        return
    read = 0

    def on_lines(lines: int) -> None:
        nonlocal read
        read += lines
        print(f"\r{read:,} lines read", end="", file=sys.stderr, flush=True)

    try:
        yield on_lines
    finally:
        print("\r\033[K", end="", file=sys.stderr, flush=True)
