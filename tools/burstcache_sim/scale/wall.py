"""A wall: one quota, or one limit of a part, with a load's use of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

# What readers notice beyond a wall: failed reads, reads from S3, tiers that come or follow late, a refused deployment.
Effect = Literal["refused", "S3 serves", "late", "not deployed"]
# The load that counts towards a limit: of one stack and its parts, or of all stacks in a region of the account.
Scope = Literal["stack", "account"]
IN_USE: tuple[Effect, ...] = ("refused", "S3 serves", "late")


@dataclass(frozen=True, slots=True)
class Wall:
    """One row of the table.

    Attributes:
        part: The quota or the part.
        unit: Unit of load and limit.
        load: The use at a load's peak.
        limit: The most that the part takes.
        effect: The kind of the consequence.
        beyond: The consequence beyond the limit.
        raise_by: The parameter, quota or change that raises the limit.
        scope: The load that counts towards the limit.
        is_fixed: Whether the parameters alone determine the use, whatever the load.
        is_assumed: Whether the limit is this project's assumption, neither documented by AWS nor measured.
    """

    part: str
    unit: str
    load: float
    limit: float
    effect: Effect
    beyond: str
    raise_by: str
    scope: Scope = "stack"
    is_fixed: bool = False
    is_assumed: bool = False

    @property
    def used(self) -> float:
        """The use as a share of the limit."""
        return self.load / self.limit

    @property
    def is_reached(self) -> bool:
        """Whether the load exceeds the limit."""
        return self.load > self.limit
