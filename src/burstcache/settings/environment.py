"""How settings read an environment, variable by variable."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self, get_type_hints

from burstcache.core.errors import InvalidSettingError


class Settings:
    """What an environment sets; behind the type of each field stands what reads it, and from which variable."""

    @classmethod
    def read(cls, environ: Mapping[str, str]) -> Self:
        """Return the settings in `environ`, or raise InvalidSettingError that names the variable."""
        values = {}
        for name, hint in get_type_hints(cls, include_extras=True).items():
            reader, *variables = hint.__metadata__
            values[name] = reader(environ, *variables)
        return cls(**values)


def given(environ: Mapping[str, str], name: str) -> str:
    """Return a variable that may be empty."""
    if name not in environ:
        raise InvalidSettingError(f"the environment has no variable {name}; template.yaml says what it holds")
    return environ[name]


def text(environ: Mapping[str, str], name: str) -> str:
    """Return a variable that may not be empty."""
    if not (value := given(environ, name)):
        raise InvalidSettingError(f"{name} is empty; template.yaml says what it holds")
    return value


def names(environ: Mapping[str, str], name: str) -> tuple[str, ...]:
    """Return what a variable has with commas between."""
    return tuple(text(environ, name).split(","))


def is_true(environ: Mapping[str, str], name: str) -> bool:
    """Whether a variable is `true`, and not `false`."""
    if (value := given(environ, name)) not in ("true", "false"):
        raise InvalidSettingError(f"{name}: {value!r} is neither true nor false")
    return value == "true"


def is_yes(environ: Mapping[str, str], name: str) -> bool:
    """Whether a variable is `yes`, and not `no`."""
    if (value := given(environ, name)) not in ("yes", "no"):
        raise InvalidSettingError(f"{name}: {value!r} is neither yes nor no")
    return value == "yes"


def whole(environ: Mapping[str, str], name: str) -> int:
    """Return a number of at least 0."""
    value = given(environ, name)
    if not value.isdigit():
        raise InvalidSettingError(f"{name}: {value!r} is not a whole number of at least 0")
    return int(value)
