"""Run Ceph's conformance tests of S3 straight against a store and through the gateway, and compare the outcomes.

    PYTHONPATH=tests python -m s3tests all [--store moto]
    PYTHONPATH=tests python -m s3tests run TABLE [--store moto] [--endpoint URL] [--way straight] [--like TABLE]
    PYTHONPATH=tests python -m s3tests compare STRAIGHT THROUGH

The suite is cloned from `--suite`, a path or a URL of its repository, at a fixed commit. Its environment, the outcomes
and `versitygw` are kept in build/s3tests. `all` and `compare` end with exit code 1 if a test fails that does not fail
straight. There are three ways to a store: `straight`, `through` the gateway, and `cached`, where each test's first
bucket is the one that the gateway caches, and each read is sent twice, so that the second one is a hit.

Outcomes are written every fifty tests. A command that was interrupted resumes: remove `*-round-*.tsv` to begin anew.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from s3tests.explanations import EXPLANATIONS
from s3tests.stores import STORES, Store, gateway
from s3tests.suite import SOURCE, Suite, check_out, make_environment
from s3tests.tables import Comparison, Table, compare, merge_rounds, read_table, write_table
from support.project import ROOT

_BUILD = ROOT / "build" / "s3tests"
_BUCKET = "s3tests-cached-1"
_STRAIGHT, _THROUGH, _CACHED = WAYS = ("straight", "through", "cached")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, compare, or both; return the exit code."""
    chosen = _parser().parse_args(arguments)
    if chosen.command == "compare":
        return _compare(chosen.straight, chosen.through)
    with TemporaryDirectory() as folder:
        runs = _Runs(check_out(chosen.suite, Path(folder) / "suite"), chosen)
        if chosen.command == "run":
            runs.write(chosen.table, chosen.way, read_table(chosen.like) if chosen.like else None)
            runs.finish()
            return 0
        tables = {way: _BUILD / f"{chosen.store}-{way}.tsv" for way in WAYS}
        runs.write(tables[_STRAIGHT], _STRAIGHT, None)
        straight = read_table(tables[_STRAIGHT])
        for way in (_THROUGH, _CACHED):
            runs.write(tables[way], way, straight)
        runs.finish()
    return max(_compare(tables[_STRAIGHT], tables[way]) for way in (_THROUGH, _CACHED))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m s3tests", description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    every = commands.add_parser("all", help="run the suite in each way, and compare")
    run = commands.add_parser("run", help="run the suite in one way, and write a table")
    run.add_argument("table", type=Path, help="file to write, tab-separated")
    run.add_argument("--way", choices=WAYS, default=_STRAIGHT, help=f"default: {_STRAIGHT}")
    run.add_argument("--like", type=Path, metavar="TABLE", help="run only what did not fail in this table")
    for each in (every, run):
        each.add_argument("--suite", default=SOURCE, help=f"repository of the suite (default: {SOURCE})")
        each.add_argument("--store", choices=STORES, default="moto", help="store to start (default: moto)")
        each.add_argument("--endpoint", default="", help="a running store instead")
        each.add_argument("--owner", default="", help="canonical id of the main user of a running store")
        each.add_argument("--only", nargs="+", default=[""], metavar="TEXT", help="tests whose id has one of these")
        each.add_argument("--rounds", type=int, default=1, help="how often to run: a test with two outcomes is flaky")
    comparison = commands.add_parser("compare", help="compare two tables")
    comparison.add_argument("straight", type=Path, help="outcomes straight against the store")
    comparison.add_argument("through", type=Path, help="outcomes through the gateway")
    return parser


class _Runs:
    """Runs of a checkout of the suite, as the arguments want them."""

    def __init__(self, checkout: Path, chosen: argparse.Namespace) -> None:
        self._checkout, self._chosen = checkout, chosen
        self._rounds: list[Path] = []
        self._python = make_environment(_BUILD / "venv")

    def write(self, path: Path, way: str, like: Table | None) -> None:
        """Run the suite in one way, and write the table. With `like`, run only what did not fail there."""
        rounds = [path.with_name(f"{path.stem}-round-{number}.tsv") for number in range(1, self._chosen.rounds + 1)]
        self._rounds += rounds
        table = merge_rounds([self._round(way, like, each) for each in rounds])
        write_table(path, table)
        counts = Counter(outcome.result for outcome in table.values())
        print(f"{path}: {', '.join(f'{result} {count}' for result, count in counts.most_common())}", flush=True)

    def finish(self) -> None:
        """Remove the tables of rounds, from which an interrupted command resumes."""
        for path in self._rounds:
            path.unlink(missing_ok=True)

    def _round(self, way: str, like: Table | None, path: Path) -> Table:
        bucket = _BUCKET if way == _CACHED else ""
        suite = Suite(self._checkout, self._python, path.with_suffix(""), bucket=bucket)
        tests = [test for test in _good(suite.tests(), like) if any(text in test for text in self._chosen.only)]
        with ExitStack() as running:
            store = Store(self._chosen.endpoint, self._chosen.owner)
            if not store.endpoint_url:
                store = running.enter_context(STORES[self._chosen.store](_BUILD))
            if way != _STRAIGHT:
                store = running.enter_context(gateway(store, _BUCKET))
            return suite.run(store.endpoint_url, tests, path, owner=store.owner)


def _good(tests: Iterable[str], table: Table | None) -> Iterable[str]:
    return (test for test in tests if table is None or (test in table and table[test].is_good))


def _compare(straight: Path, through: Path) -> int:
    comparison = compare(read_table(straight), read_table(through), EXPLANATIONS)
    print(f"{through} against {straight}")
    _report(comparison)
    return int(bool(comparison.faults))


def _report(comparison: Comparison) -> None:
    for test, outcome in comparison.faults.items():
        print(f"{test}: {outcome.result}: {outcome.reason}")
    for reason, count in comparison.explained.most_common():
        print(f"{count} tests fail by design: {reason}")
    print(f"{len(comparison.faults)} tests fail through the gateway alone, without an explanation", flush=True)


if __name__ == "__main__":
    sys.exit(main())
