"""The findings of a run, and the verdicts on them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

AWS = "AWS"  # where a run took place
Outcome = Literal["seen", "refuted", "only AWS", "not reached"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """The outcome of a check, with the finding that decides it."""

    OUTCOMES: ClassVar[tuple[Outcome, ...]] = ("seen", "refuted", "only AWS", "not reached")
    outcome: Outcome
    because: str


@dataclass(frozen=True)
class Findings:
    """The findings of a run, read from its journal."""

    content: Mapping[str, Any]

    @property
    def kinds(self) -> list[str]:
        """The kinds of the run's stacks."""
        return list(self.content["kinds"])

    @property
    def is_of_aws(self) -> bool:
        """Whether the run took place in an AWS account."""
        return bool(self.content["where"] == AWS)

    @property
    def region(self) -> str:
        """The run's region."""
        return str(self.content["region"])

    def found(self, kind: str, step: str) -> Mapping[str, Any]:
        """Return a step's findings in a stack, or none."""
        found: Mapping[str, Any] = self._step(f"{kind}/{step}").get("found", {})
        return found

    def problem(self, kind: str, step: str) -> str:
        """Return the error of a step in a stack, or an empty string."""
        return str(self._step(f"{kind}/{step}").get("problem", ""))

    def took_s(self, kind: str, step: str) -> float:
        """Return the duration of a step [s]."""
        return float(self._step(f"{kind}/{step}").get("took_s", 0))

    def is_deployed(self, kind: str) -> bool:
        """Return whether a stack was deployed."""
        return bool(self.found(kind, "deploy"))

    def parameter(self, kind: str, name: str) -> str:
        """Return a parameter of a deployed stack, empty for the template's default."""
        return str(self.found(kind, "deploy").get("parameters", {}).get(name, ""))

    def parts(self, kind: str) -> list[Mapping[str, Any]]:
        """Return the parts that a stack's self-test has tried."""
        return list(self.found(kind, "self-test").get("tried", ()))

    def tiers(self, kind: str) -> Mapping[str, Any]:
        """Return the tiers that served a stack's burst, with the time of the first response [s]."""
        first_s: Mapping[str, Any] = self.found(kind, "burst").get("first_s", {})
        return first_s

    @property
    def budget_messages(self) -> list[Mapping[str, str]] | None:
        """The messages of the run's budget, None if it has none."""
        if not self._step("budget").get("found"):
            return None
        return list(self._step("budget-messages").get("found", {}).get("messages", ()))

    @property
    def bill(self) -> Mapping[str, Any]:
        """The run's bill by Cost Explorer, or nothing."""
        found: Mapping[str, Any] = self._step("bill").get("found", {})
        return found

    def _step(self, name: str) -> Mapping[str, Any]:
        step: Mapping[str, Any] = self.content["steps"].get(name, {})
        return step


def seen(because: str) -> Verdict:
    return Verdict("seen", because)


def refuted(because: str) -> Verdict:
    return Verdict("refuted", because)


def unreached(because: str) -> Verdict:
    return Verdict("not reached", because)


def failed_parts(findings: Findings, kinds: list[str], word: str = "") -> Iterator[str]:
    for kind in kinds:
        for each in findings.parts(kind):
            if not each["ok"] and word in each["part"]:
                yield f"{kind}: {each['function']}: {each['part']}"


def deployed(findings: Findings, **parameters: str) -> list[str]:
    """Return the deployed stacks with these parameters."""
    return [
        kind
        for kind in findings.kinds
        if findings.is_deployed(kind)
        and all(findings.parameter(kind, name) == value for name, value in parameters.items())
    ]


def tested(findings: Findings) -> list[str]:
    return [kind for kind in findings.kinds if findings.parts(kind)]


def by_deployment(findings: Findings, because: str, **parameters: str) -> Verdict:
    if deployed(findings, **parameters):
        return seen(because)
    return unreached("no such stack was deployed: see the steps")
