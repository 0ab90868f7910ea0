"""The tables of the page on capacity: written anew from the commands that the page names.

    python -m benchmarks.support.capacity_page

A table stands between `<!-- burstcache research scale OPTIONS -->` and `<!-- end -->`.
"""

from __future__ import annotations

import re
import shlex
from contextlib import redirect_stdout
from io import StringIO

from benchmarks.support.common import PROJECT
from burstcache_cli.cli import main as burstcache

PAGE = PROJECT / "docs/operate/capacity.md"
_TABLE = re.compile(r"(<!-- burstcache (research scale[^\n]*) -->\n).*?(<!-- end -->)", re.S)


def table_of(words: str) -> str:
    """Return the table that a command prints."""
    with redirect_stdout(StringIO()) as printed:
        code = burstcache([*shlex.split(words), "--markdown"])
    if code:
        raise ValueError(f"burstcache {words}: exit code {code}")
    lines = printed.getvalue().splitlines()
    return "\n".join(line for line in lines if line.startswith("|"))


def renewed(page: str) -> str:
    """Return the page with the tables of today's code."""
    return _TABLE.sub(lambda match: f"{match[1]}\n{table_of(match[2])}\n\n{match[3]}", page)


def main() -> None:
    """Write the page anew."""
    PAGE.write_text(renewed(PAGE.read_text()))


if __name__ == "__main__":
    main()
