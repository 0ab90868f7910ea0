"""Progress of long computations, shown on standard error if it is a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

_LINES_SHOWN = 100_000
_SHOWN_AFTER_S = 1.0  # shorter computations show no progress
_is_hidden = False
_Item = TypeVar("_Item")


def hide_progress() -> None:
    """Disable progress bars in this process, because the parent process shows the progress of all its children."""
    global _is_hidden
    _is_hidden = True


def progress(
    iterable: Iterable[_Item], *, total: int | None = None, text: str = "", is_shown: bool | None = None
) -> Iterable[_Item]:
    """Return the items, drawing a progress bar as they are consumed.

    Args:
        iterable: The items.
        total: Number of items (None: the iterable's length, if it has one).
        text: Description in front of the bar.
        is_shown: Whether to draw a bar. If None, draw it after a second if standard error is a terminal.
    """
    delay_s = _SHOWN_AFTER_S if is_shown is None else 0.0
    if not (sys.stderr.isatty() and not _is_hidden if is_shown is None else is_shown):
        return iterable
    from tqdm import tqdm  # the import takes 0.1 s

    return tqdm(iterable, total=total, desc=text, leave=False, dynamic_ncols=True, file=sys.stderr, delay=delay_s)


@contextmanager
def line_counter() -> Iterator[Callable[[int], None] | None]:
    """Yield a callback that prints the number of read lines (None without a terminal). Erase the output at the end."""
    if not sys.stderr.isatty():
        yield None
        return
    read = 0

    def on_lines(lines: int) -> None:
        nonlocal read
        shown, read = read // _LINES_SHOWN, read + lines
        if shown == read // _LINES_SHOWN:
            return
        print(f"\r{read:,} lines read", end="", file=sys.stderr, flush=True)

    try:
        yield on_lines
    finally:
        print("\r\033[K", end="", file=sys.stderr, flush=True)
