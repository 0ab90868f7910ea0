"""Eleven bugs, planted one at a time in a copy of the project: a mutation test of the checkers.

    python -m consistency.bugs --checker PROGRAM [NAME …]     (`make consistency-bugs`)

Prints the shortest violating history of each. Exit codes: 0 all bugs found, 1 a bug missed, 2 usage error.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from consistency.setting import SETTINGS, Setting
from support.project import ROOT

_SOURCES = ("cloudformation", "src", "statemachines", "template.yaml", "tests", "tools")
_EACH = 8_000
_TRIES = 24


@dataclass(frozen=True, slots=True)
class Bug:
    """One bug: the right source text, its wrong replacement, and a setting in which histories show it.

    `only_ill` is the only part that may fail in those histories; empty: any part may.
    """

    name: str
    what: str
    file: str
    right: str
    wrong: str
    setting: Setting
    only_ill: str = ""


BUGS = (
    Bug(
        "skipped-invalidation",
        "a write does not invalidate read-through entries on nodes",
        "src/burstcache/control/node_copies.py",
        "(_has_life_on(node, row, now_us) or node.is_home_of(hash_))",
        "_has_life_on(node, row, now_us)",
        Setting("breakeven", False, "api"),
    ),
    Bug(
        "reversed-comparison",
        "a reader serves a copy only if its version differs from its last answer",
        "src/burstcache/serve/monotonic_reads.py",
        "(last.version == version and last.in_doubt_since_s is None)",
        "(last.version != version and last.in_doubt_since_s is None)",
        Setting("breakeven", False, "direct", has_faults=False),
    ),
    Bug(
        "fill-without-etag",
        "a copy is put into S3 Express unconditionally",
        "src/burstcache/adapters/express_copies.py",
        'condition: Any = {"IfMatch": replaces} if replaces else {"IfNoneMatch": "*"}',
        "condition: Any = {}",
        Setting("thesis", True, "api"),
    ),
    Bug(
        "drain-without-grace",
        "a draining cache function unsubscribes from writes a second before it stops serving reads",
        "src/burstcache/control/cache_life.py",
        "for subscription in subscriptions:",
        "for subscription in reversed(subscriptions):\n                await asyncio.sleep(subscription is not orders)",
        Setting("thesis", False, "api"),
    ),
    Bug(
        "route-remembered-too-long",
        "a reader takes its digest for a tenth of its age",
        "src/burstcache/adapters/digest_reader.py",
        "return seconds_since(self._clock, self._read_at)",
        "return seconds_since(self._clock, self._read_at) / 10",
        Setting("breakeven", False, "api"),
    ),
    Bug(
        "unfenced-seed",
        "a load is stored in Redis although a write took its lease",
        "src/burstcache/adapters/redis_objects.py",
        'if redis.call("GET", KEYS[2]) ~= ARGV[1] then return 0 end\n',
        "",
        Setting("breakeven", False, "api"),
    ),
    Bug(
        "unseen-fence",
        "a cache function keeps its copy although it missed a write",
        "src/burstcache/control/cache_life.py",
        'self.copy.see_fence(request.get("fence_us", 0))',
        "pass",
        Setting("thesis", False, "api"),
        only_ill="orders",
    ),
    Bug(
        "ignored-condition",
        "a conditional write ignores its If-Match",
        "src/burstcache/adapters/object_store.py",
        "for name, value in headers.items() if value}",
        'for name, value in headers.items() if value and name != "if_match"}',
        Setting("thesis", False, "api"),
    ),
    Bug(
        "slice-without-etag",
        "slices are named without their version's ETag",
        "src/burstcache/core/slices.py",
        r"\n{version.etag}",
        "",
        Setting("breakeven", False, "api"),
    ),
    Bug(
        "ignored-backlog",
        "a reader uses tiers and its memory, however long an event of S3 waits",
        "src/burstcache/adapters/digest_reader.py",
        "return self.backlog_s > self._max_backlog_s",
        "return False",
        Setting("breakeven", False, "direct"),
    ),
    Bug(
        "early-announcement",
        "a batch of S3's events is announced before the copies are invalidated",
        "src/burstcache/control/origin_changes.py",
        "invalidate, tell_early = partial(self._invalidate, by_hash), partial",
        "self._announce(by_hash, None)\n"
        "        invalidate, by_hash = partial(self._invalidate, by_hash), {}\n"
        "        tell_early = partial",
        Setting("breakeven", True, "direct"),
    ),
)


def planted(text: str, bug: Bug) -> str:
    """Return a source text with a bug planted.

    Raises:
        ValueError: The text to replace does not occur exactly once.
    """
    if text.count(bug.right) != 1:
        raise ValueError(f"{bug.file} has {text.count(bug.right)} times what {bug.name} replaces; expected: once")
    return text.replace(bug.right, bug.wrong)


def main(arguments: Sequence[str]) -> int:
    """Plant bugs and look for them; return the exit code."""
    parser = argparse.ArgumentParser(prog="consistency.bugs", description=__doc__)
    parser.add_argument("--checker", type=Path, required=True, help="program that checks API writes")
    parser.add_argument("names", nargs="*", choices=[*(bug.name for bug in BUGS), []], help="default: all")
    options = parser.parse_args(arguments)
    missed = []
    for bug in BUGS:
        if options.names and bug.name not in options.names:
            continue
        began_s = time.monotonic()
        tries, history = look_for(bug, options.checker.resolve())
        print(f"## {bug.name}: {bug.what}\n", flush=True)
        found = f"found in piece {tries}, after {time.monotonic() - began_s:.0f} s"
        print(f"{found}\n\n{history}\n" if history else f"NOT FOUND in {tries} pieces\n", flush=True)
        if not history:
            missed.append(bug.name)
    return 1 if missed else 0


def look_for(bug: Bug, checker: Path) -> tuple[int, str]:
    """Return the number of pieces tried, and the history that shows the bug; empty: none did."""
    number = SETTINGS.index(bug.setting)
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "project"
        for name in _SOURCES:
            source = ROOT / name
            ignored = shutil.ignore_patterns("__pycache__")
            copy.mkdir(exist_ok=True)
            if source.is_dir():
                shutil.copytree(source, copy / name, ignore=ignored)
            else:
                shutil.copy(source, copy / name)
        place = copy / bug.file
        place.write_text(planted(place.read_text(), bug))
        for tried in range(1, _TRIES + 1):
            piece = number + tried * len(SETTINGS)  # another seed each time
            if history := _violation(copy, piece, checker, bug.only_ill):
                return tried, history
    return _TRIES, ""


def _violation(project: Path, piece: int, checker: Path, only_ill: str) -> str:
    """Return the violation that the checkers find in a piece of a project; empty: none."""
    paths = [str(project / name) for name in ("tests", "tools", "src", "cloudformation")]
    command = [sys.executable, "-m", "consistency", "--operations", "1", "--each", str(_EACH), "--first", str(piece)]
    command += ["--folder", str(project / "out" / str(piece)), "--checker", str(checker)]
    command += ["--only-ill", only_ill] if only_ill else []
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    ran = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, check=False)
    at = ran.stdout.find("VIOLATION")
    if at < 0 and ran.returncode:
        raise RuntimeError(f"piece {piece} broke off: {ran.stdout[-500:]}{ran.stderr[-2000:]}")
    return ran.stdout[at:].strip() if at >= 0 else ""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
