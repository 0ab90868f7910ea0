"""Exceptions as results: stored by their class and arguments, made again from classes that the function has named."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from burstcache.core.errors import InvalidSettingError
from burstcache.results.codecs import Codec

_LONGEST_S = 1000 * 365 * 86400.0


def is_duration_s(value: object) -> bool:
    """Whether a value is a time for which something can be kept: of 0 to a thousand years [s]."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= _LONGEST_S


class CachedErrors:
    """Which exceptions of a function are results, and for how long."""

    def __init__(self, ttls_s: Mapping[type[Exception], float], codec: Codec) -> None:
        """Keep these classes, and what derives from them.

        Args:
            ttls_s: For how long each is served [s].
            codec: How the arguments of exceptions are stored.

        Raises:
            InvalidSettingError: One is no class of exceptions, or its time is not above 0.
        """
        for kind, ttl_s in ttls_s.items():
            if not (isinstance(kind, type) and issubclass(kind, Exception)) or not is_duration_s(ttl_s) or not ttl_s:
                raise InvalidSettingError(
                    f"exceptions: {kind!r}: {ttl_s!r}; accepted: an Exception's class and seconds"
                )
        self._ttls_s = dict(ttls_s)
        self._codec = codec

    def ttl_s(self, error: Exception) -> float | None:
        """Return for how long an exception is served [s], by its nearest class that is named; None if none is."""
        return next((self._ttls_s[kind] for kind in type(error).__mro__ if kind in self._ttls_s), None)

    def encode(self, error: Exception) -> bytes:
        """Return class and arguments, encoded.

        Raises:
            ValueError: The exception would not come back as it is.
            NotKeptError: Its arguments have a type that the codec does not take.
            TypeError: Its class takes other arguments.
        """
        payload = self._codec.encode([_name(type(error)), list(error.args)])
        if _shown(self.decode(payload)) != _shown(error):
            raise ValueError(f"{error!r} would not come back as it is")
        return payload

    def decode(self, payload: bytes) -> Exception:
        """Return a new exception of a class that is named or derives from one.

        Raises:
            ValueError: There is no such class in this process.
            TypeError: The class does not take the arguments.
        """
        name, arguments = self._codec.decode(payload)
        kinds: list[type[Exception]] = list(self._ttls_s)
        while kinds:
            kind = kinds.pop()
            if _name(kind) == name:
                return kind(*arguments)
            kinds += kind.__subclasses__()
        raise ValueError(f"no exception {name!r} is cached here")


def _shown(error: Exception) -> tuple[Any, ...]:
    """Return what may be seen of an exception; of an OSError its text alone has the file."""
    return type(error), error.args, vars(error), str(error)


def _name(kind: type[Any]) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"
