"""Tables of outcomes: files of them, several rounds merged into one, and two of them compared."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
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
class Explanation:
    """A kind of failure that an endpoint with one identity has by design.

    Attributes:
        kind: Why the endpoint fails.
        reason: Pattern of the failure's reason. Another failure of the same test is not explained.
        tests: Names of the tests.
    """

    kind: str
    reason: re.Pattern[str]
    tests: frozenset[str]

    def fits(self, test: str, outcome: Outcome) -> bool:
        """Return whether it explains an outcome of a test."""
        return test.rpartition("::")[2] in self.tests and bool(self.reason.search(outcome.reason))


@dataclass(frozen=True)
class Comparison:
    """Tests that fail through an endpoint and do not fail straight.

    Attributes:
        faults: Tests that nothing explains, with their outcomes.
        explained: Numbers of tests by the kind that explains their failure.
    """

    faults: Table
    explained: Counter[str]


def compare(straight: Table, through: Table, explanations: Sequence[Explanation]) -> Comparison:
    """Compare outcomes straight against S3 with those through an endpoint in front of it.

    Args:
        straight: Outcomes straight.
        through: Outcomes through the endpoint. A test without one counts as a fault.
        explanations: Kinds of failures by design.
    """
    faults: Table = {}
    explained: Counter[str] = Counter()
    for test, outcome in _worse(straight, through):
        kind = next((each.kind for each in explanations if each.fits(test, outcome)), "")
        if kind:
            explained[kind] += 1
        else:
            faults[test] = outcome
    return Comparison(faults, explained)


def _worse(straight: Table, through: Table) -> Iterator[tuple[str, Outcome]]:
    missing = Outcome("not run")
    for test, outcome in straight.items():
        if outcome.is_good and not (there := through.get(test, missing)).is_good:
            yield test, there
