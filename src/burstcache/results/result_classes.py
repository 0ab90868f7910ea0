"""Result classes: the classes that a function's stored results may have.

A shared store must not choose the classes that a process imports. Therefore a class is found by name only if it is
reachable from the function's return annotation, or if the function has returned an instance in this process.
"""

from __future__ import annotations

import dataclasses
import re
import sys
import typing
from collections.abc import Callable
from contextlib import suppress
from enum import Enum
from typing import Any

from burstcache.results.forms import class_name, model_parameters

_MODULES = re.compile(r"[\w.]+:")  # in the names of classes


class ResultClasses:
    """Classes of one function's results, by name. Thread-safe."""

    def __init__(self, function: Callable[..., Any]) -> None:
        """Start with the classes in the function's return annotation, which is evaluated on first use."""
        self._function = function
        self._seen: dict[str, type[Any]] = {}
        self._annotated: dict[str, type[Any]] | None = None

    def name(self, kind: type[Any]) -> str:
        """Return the class name of a returned instance, and remember the class.

        Raises:
            LookupError: The class is not found in its module by its name.
        """
        name = class_name(kind)
        self._seen[name] = kind
        return name

    def find(self, name: str) -> type[Any]:
        """Return the class with this name.

        Raises:
            LookupError: The function is not known to return instances of such a class.
        """
        if (kind := self._seen.get(name)) is not None:
            return kind
        if self._annotated is None:
            self._annotated = _classes_of(_return_annotation(self._function))
        try:
            return self._annotated[name]
        except KeyError:
            raise LookupError(
                f"its class {name} is not in the function's return annotation, and was not returned in this process;"
                f" annotate it: -> {_MODULES.sub('', name)}"
            ) from None


def _return_annotation(function: Callable[..., Any]) -> Any:
    """Return a function's return annotation, or None if it is missing or cannot be evaluated."""

    def probe() -> None: ...

    with suppress(Exception):
        probe.__annotations__ = {"return": function.__annotations__["return"]}
        return typing.get_type_hints(probe, vars(sys.modules[function.__module__]))["return"]
    return None


def _classes_of(annotation: Any) -> dict[str, type[Any]]:
    """Return the classes in an annotation, their subclasses, and the classes in the annotations of their fields."""
    classes: dict[str, type[Any]] = {}
    rest, visited = [annotation], set()
    while rest:
        part = rest.pop()
        if id(part) in visited:
            continue
        visited.add(id(part))
        rest += typing.get_args(part)
        rest.append(getattr(part, "__value__", None))  # of a `type` alias
        if isinstance(part, type) and part.__module__ != "builtins":
            with suppress(LookupError):
                classes[class_name(part)] = part
            rest += model_parameters(part)[1]
            rest += part.__subclasses__() if _may_be_derived(part) else ()
            with suppress(Exception):
                rest += typing.get_type_hints(part).values()
    return classes


def _may_be_derived(kind: type[Any]) -> bool:
    return dataclasses.is_dataclass(kind) or issubclass(kind, Enum) or hasattr(kind, "model_fields")
