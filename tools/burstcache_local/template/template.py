"""What becomes of a SAM template: a plain CloudFormation template, and the parts of it that moto must not see."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Schedule:
    """A function that is invoked on a schedule."""

    name: str
    period_s: float
    output: str  # the stack output that holds the rule's ARN and the resolved target as JSON


@dataclass(slots=True)
class LocalTemplate:
    """The transformed template, and the parts of it that moto must not see."""

    body: dict[str, Any]
    roots: dict[str, Path]  # function's logical id → folder of its code
    schedules: list[Schedule] = field(default_factory=list)
    parameters: dict[str, Any] = field(default_factory=dict)  # values

    @property
    def resources(self) -> dict[str, Any]:
        return self.body["Resources"]  # type: ignore[no-any-return]

    @property
    def is_traced(self) -> bool:
        """Whether Lambda sends segments of the functions' invocations to X-Ray."""
        functions = self.of_type("AWS::Lambda::Function").values()
        modes = [function.get("TracingConfig", {}).get("Mode") for function in functions]
        return "Active" in (self.parameters[mode["Ref"]] if isinstance(mode, dict) else mode for mode in modes)

    def of_type(self, type_: str) -> dict[str, dict[str, Any]]:
        """Return logical id → properties of all resources of a type."""
        return {
            name: resource.get("Properties", {})
            for name, resource in self.resources.items()
            if resource["Type"] == type_
        }
