"""Tables of outcomes: files of them, several rounds merged into one, and two of them compared."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

_COLUMNS = ("test", "outcome", "reason")
_GOOD = ("passed", "skipped")


@dataclass(frozen=True)
class Outcome:
    """Outcome of a test: passed, skipped, failed, failed in set-up or teardown, hangs, or flaky.

    Attributes:
        result: The word for it.
        reason: First line of what went wrong.
    """

    result: str
    reason: str = ""

    @property
    def is_good(self) -> bool:
        """Whether the test did not fail."""
        return self.result in _GOOD


Table = dict[str, Outcome]


def write_table(path: Path, table: Table) -> None:
    """Write a table as tab-separated values. A table that is there is replaced as a whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f"{path.name}.new")
    with new.open("w", newline="") as file:
        writer = csv.writer(file, dialect="excel-tab")
        writer.writerow(_COLUMNS)
        writer.writerows((test, outcome.result, outcome.reason) for test, outcome in table.items())
    new.replace(path)


def read_table(path: Path) -> Table:
    """Read a table that `write_table` wrote."""
    with path.open(newline="") as file:
        rows = csv.DictReader(file, dialect="excel-tab")
        return {row["test"]: Outcome(row["outcome"], row["reason"]) for row in rows}


def merge_rounds(rounds: Sequence[Table]) -> Table:
    """Merge rounds of the same tests. A test that failed in some rounds only is flaky."""
    tests = {test for each in rounds for test in each}
    return {test: _merge([each[test] for each in rounds if test in each]) for test in sorted(tests)}


def _merge(outcomes: Sequence[Outcome]) -> Outcome:
    bad = [outcome for outcome in outcomes if not outcome.is_good]
    if not bad:
        return outcomes[0]
    return bad[0] if len(bad) == len(outcomes) else Outcome("flaky", bad[0].reason)


@dataclass(frozen=True)
class Comparison:
    """Tests that fail through an endpoint and do not fail straight.

    Attributes:
        faults: Tests that nothing explains, with their outcomes.
        explained: Numbers of tests by the reason why an endpoint with one identity cannot pass them.
    """

    faults: Table
    explained: Counter[str]


def compare(straight: Table, through: Table, explanations: Mapping[str, str]) -> Comparison:
    """Compare outcomes straight against S3 with those through an endpoint in front of it.

    Args:
        straight: Outcomes straight.
        through: Outcomes through the endpoint. A test without one counts as a fault.
        explanations: Reasons by patterns of test names.
    """
    faults: Table = {}
    explained: Counter[str] = Counter()
    for test, outcome in _worse(straight, through):
        if reason := explain(test, explanations):
            explained[reason] += 1
        else:
            faults[test] = outcome
    return Comparison(faults, explained)


def explain(test: str, explanations: Mapping[str, str]) -> str:
    """Return the reason of the first pattern that a test's name matches, or an empty string."""
    name = test.rpartition("::")[2]
    return next((reason for pattern, reason in explanations.items() if fnmatch(name, pattern)), "")


def _worse(straight: Table, through: Table) -> Iterator[tuple[str, Outcome]]:
    missing = Outcome("not run")
    for test, outcome in straight.items():
        if outcome.is_good and not (there := through.get(test, missing)).is_good:
            yield test, there
