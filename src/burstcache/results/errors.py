"""Cached errors: exceptions stored as class name and arguments, restored only for classes that the decorator allows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from burstcache.core.errors import InvalidSettingError
from burstcache.results.codecs import Codec

_LONGEST_S = 1000 * 365 * 86400.0


def is_duration_s(value: object) -> bool:
    """Whether a value is a duration between 0 and a thousand years [s]."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= _LONGEST_S


class CachedErrors:
    """A function's cacheable exceptions, and their lifetimes."""

    def __init__(self, ttls_s: Mapping[type[Exception], float], codec: Codec) -> None:
        """Cache instances of these classes and of their subclasses.

        Args:
            ttls_s: Lifetime per class [s].
            codec: Encodes the arguments of exceptions.

        Raises:
            InvalidSettingError: A key is not an exception class, or its lifetime is not above 0.
        """
        for kind, ttl_s in ttls_s.items():
            if not (isinstance(kind, type) and issubclass(kind, Exception)) or not is_duration_s(ttl_s) or not ttl_s:
                raise InvalidSettingError(
                    f"exceptions: {kind!r}: {ttl_s!r}; accepted: an Exception's class and seconds"
                )
        self._ttls_s = dict(ttls_s)
        self._codec = codec

    def ttl_s(self, error: Exception) -> float | None:
        """Return the lifetime of an exception's most specific listed class [s], or None if there is no such class."""
        return next((self._ttls_s[kind] for kind in type(error).__mro__ if kind in self._ttls_s), None)

    def encode(self, error: Exception) -> bytes:
        """Return the encoded class name and arguments.

        Raises:
            ValueError: The decoded exception would differ from the original.
            NotKeptError: The codec does not support the type of an argument.
            TypeError: The class cannot be constructed from the exception's arguments.
        """
        payload = self._codec.encode([_name(type(error)), list(error.args)])
        if _visible_state(self.decode(payload)) != _visible_state(error):
            raise ValueError(f"{error!r} would differ once decoded")
        return payload

    def decode(self, payload: bytes) -> Exception:
        """Return a new exception of a listed class or one of its subclasses.

        Raises:
            ValueError: There is no such class in this process.
            TypeError: The class does not accept the arguments.
        """
        name, arguments = self._codec.decode(payload)
        kinds: list[type[Exception]] = list(self._ttls_s)
        while kinds:
            kind = kinds.pop()
            if _name(kind) == name:
                return kind(*arguments)
            kinds += kind.__subclasses__()
        raise ValueError(f"no exception {name!r} is cached here")


def _visible_state(error: Exception) -> tuple[Any, ...]:
    """Return an exception's comparable state. It includes the text, since an OSError's `args` omit the file name."""
    return type(error), error.args, vars(error), str(error)


def _name(kind: type[Any]) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"
