"""Caching of functions whose arguments are compared by identity: large ones that no program changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True, eq=False)
class Same(Generic[_Value]):
    """An argument that is the same only if it is the same object: hashing it would take longer than the answer."""

    value: _Value

    def __hash__(self) -> int:
        return id(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and other.value is self.value
