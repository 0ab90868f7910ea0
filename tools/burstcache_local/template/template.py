"""The transformed template in plain CloudFormation, plus code folders and schedules, which moto does not run."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Schedule:
    """A schedule for invocations of a function."""

    name: str
    period_s: float
    output: str  # stack output with the rule's ARN and the resolved target as JSON


@dataclass(slots=True)
class LocalTemplate:
    """The transformed template, plus code folders and schedules, which moto does not run."""

    body: dict[str, Any]
    roots: dict[str, Path]  # a function's logical id → code folder
    schedules: list[Schedule] = field(default_factory=list)
    parameters: dict[str, Any] = field(default_factory=dict)  # name → value

    @property
    def resources(self) -> dict[str, Any]:
        return self.body["Resources"]  # type: ignore[no-any-return]

    @property
    def is_traced(self) -> bool:
        """Whether Lambda traces the functions' invocations with X-Ray."""
        functions = self.of_type("AWS::Lambda::Function").values()
        modes = [function.get("TracingConfig", {}).get("Mode") for function in functions]
        return "Active" in (self.parameters[mode["Ref"]] if isinstance(mode, dict) else mode for mode in modes)

    def of_type(self, type_: str) -> dict[str, dict[str, Any]]:
        """Return the properties of all resources of a type, by logical id."""
        return {
            name: resource.get("Properties", {})
            for name, resource in self.resources.items()
            if resource["Type"] == type_
        }
