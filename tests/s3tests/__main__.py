"""Run Ceph's conformance tests of S3 straight against a store, and compare tables of their outcomes.

    PYTHONPATH=tests python -m s3tests run TABLE [--store moto] [--endpoint URL] [--only TEXT …] [--rounds 2]
    PYTHONPATH=tests python -m s3tests compare STRAIGHT THROUGH

The suite is cloned from `--suite`, a path or a URL of its repository, at a fixed commit. Its environment, the outcomes
and `versitygw` are kept in build/s3tests. `compare` ends with exit code 1 if a test fails that does not fail straight.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from s3tests.explanations import EXPLANATIONS
from s3tests.stores import STORES, Store
from s3tests.suite import SOURCE, Suite, check_out, make_environment
from s3tests.tables import Comparison, compare, merge_rounds, read_table, write_table

_BUILD = Path("build/s3tests")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run or compare; return the exit code."""
    chosen = _parser().parse_args(arguments)
    if chosen.command == "compare":
        return _compare(chosen.straight, chosen.through)
    return _run(chosen)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m s3tests", description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="run the suite and write a table")
    run.add_argument("table", type=Path, help="file to write, tab-separated")
    run.add_argument("--suite", default=SOURCE, help=f"repository of the suite (default: {SOURCE})")
    run.add_argument("--store", choices=STORES, default="moto", help="store to start (default: moto)")
    run.add_argument("--endpoint", default="", help="a running endpoint instead of a store")
    run.add_argument("--owner", default="", help="canonical id of the main user of a running endpoint")
    run.add_argument("--only", nargs="+", default=[""], metavar="TEXT", help="tests whose id has one of these")
    run.add_argument("--rounds", type=int, default=1, help="how often to run: a test with two outcomes is flaky")
    comparison = commands.add_parser("compare", help="compare two tables")
    comparison.add_argument("straight", type=Path, help="outcomes straight against the store")
    comparison.add_argument("through", type=Path, help="outcomes through the endpoint")
    return parser


def _run(chosen: argparse.Namespace) -> int:
    with TemporaryDirectory() as folder:
        suite = Suite(check_out(chosen.suite, Path(folder) / "suite"), make_environment(_BUILD / "venv"), _BUILD)
        tests = [test for test in suite.tests() if any(text in test for text in chosen.only)]
        rounds = []
        for _ in range(chosen.rounds):
            with ExitStack() as running:
                store = Store(chosen.endpoint, chosen.owner)
                if not chosen.endpoint:
                    store = running.enter_context(STORES[chosen.store](_BUILD))
                rounds.append(suite.run(store.endpoint_url, tests, owner=store.owner))
    table = merge_rounds(rounds)
    write_table(chosen.table, table)
    counts = Counter(outcome.result for outcome in table.values())
    print(f"{chosen.table}: {', '.join(f'{result} {count}' for result, count in counts.most_common())}")
    return 0


def _compare(straight: Path, through: Path) -> int:
    comparison = compare(read_table(straight), read_table(through), EXPLANATIONS)
    _report(comparison)
    return int(bool(comparison.faults))


def _report(comparison: Comparison) -> None:
    for test, outcome in comparison.faults.items():
        print(f"{test}: {outcome.result}: {outcome.reason}")
    for reason, count in comparison.explained.most_common():
        print(f"{count} tests fail by design: {reason}")
    print(f"{len(comparison.mended)} tests fail straight alone")
    print(f"{len(comparison.faults)} tests fail through the endpoint alone, without an explanation")


if __name__ == "__main__":
    sys.exit(main())
