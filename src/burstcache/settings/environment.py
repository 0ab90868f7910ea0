"""Typed settings, read from environment variables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self, get_type_hints

from burstcache.core.errors import InvalidSettingError


class Settings:
    """Base class of settings. Each field's annotation has its reader, followed by its variables."""

    @classmethod
    def read(cls, environ: Mapping[str, str]) -> Self:
        """Read the settings from `environ`, or raise an InvalidSettingError that names the variable."""
        values = {}
        for name, hint in get_type_hints(cls, include_extras=True).items():
            reader, *variables = hint.__metadata__
            values[name] = reader(environ, *variables)
        return cls(**values)


def text_or_empty(environ: Mapping[str, str], name: str) -> str:
    """Return a variable's value. The variable must exist, but may be empty."""
    if name not in environ:
        raise InvalidSettingError(f"the environment has no variable {name}; template.yaml says what it holds")
    return environ[name]


def text(environ: Mapping[str, str], name: str) -> str:
    """Return a variable's value, which must not be empty."""
    if not (value := text_or_empty(environ, name)):
        raise InvalidSettingError(f"{name} is empty; template.yaml says what it holds")
    return value


def names(environ: Mapping[str, str], name: str) -> tuple[str, ...]:
    """Return the items of a comma-separated variable."""
    return tuple(text(environ, name).split(","))


def is_true(environ: Mapping[str, str], name: str) -> bool:
    """Parse a boolean variable: `true` or `false`."""
    if (value := text_or_empty(environ, name)) not in ("true", "false"):
        raise InvalidSettingError(f"{name}: {value!r} is neither true nor false")
    return value == "true"


def is_yes(environ: Mapping[str, str], name: str) -> bool:
    """Parse a boolean variable: `yes` or `no`."""
    if (value := text_or_empty(environ, name)) not in ("yes", "no"):
        raise InvalidSettingError(f"{name}: {value!r} is neither yes nor no")
    return value == "yes"


def whole_number(environ: Mapping[str, str], name: str) -> int:
    """Parse a variable as a non-negative integer."""
    value = text_or_empty(environ, name)
    if not value.isdecimal():
        raise InvalidSettingError(f"{name}: {value!r} is not a whole number of at least 0")
    return int(value)
