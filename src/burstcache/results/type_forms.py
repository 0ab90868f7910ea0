"""Type forms: functions that write values of each supported type as JSON, and read them back.

`FORMS` lists the types that are supported in keys and results, by name. The tests cover every listed type.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

encode_sorted = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode
_FACTORIES = {kind.__name__: kind for kind in (bool, bytes, dict, float, frozenset, int, list, set, str, tuple)}

Write = Callable[[Any], Any]
Read = Callable[[Any], Any]


class NoFormError(Exception):
    """Raised if a value has no form. The message states the value's type, and any reason other than the type itself."""

    def __init__(self, value: object, why: str = "") -> None:
        super().__init__(f"type {type(value).__module__}.{type(value).__qualname__}{why and f', {why}'}")
        self.value = value


class Form(NamedTuple):
    """Functions that write and read values of one type. `module` defines the type, and is imported on read."""

    module: str
    write: Callable[[Any, Write], Any]
    read: Callable[[Any, Any, Read], Any]  # arguments: the form, the type, and a function that reads parts


def _text_form(module: str) -> Form:
    return Form(module, lambda value, _: str(value), lambda text, kind, _: kind(text))


def _bytes_form() -> Form:
    return Form(
        "builtins",
        lambda value, _: base64.b64encode(value).decode(),
        lambda text, kind, _: kind(base64.b64decode(text, validate=True)),
    )


def _parts_form(module: str, parts: Callable[[Any], Iterable[Any]]) -> Form:
    """Return the form of a type with a constructor that takes the parts in order."""
    return Form(
        module,
        lambda value, write: [write(part) for part in parts(value)],
        lambda parts, kind, read: kind(*map(read, parts)),
    )


def _set_form() -> Form:
    return Form(
        "builtins",
        lambda value, write: sorted((write(each) for each in value), key=encode_sorted),
        lambda parts, kind, read: kind(map(read, parts)),
    )


def _numpy_form(plain: Callable[[Any], Any]) -> Form:
    return Form("numpy", lambda value, write: write(plain(value)), lambda form, kind, read: kind(read(form)))


def _write_memoryview(value: memoryview, _: Write) -> str:
    if value.format != "B" or value.ndim != 1:
        raise NoFormError(value, "whose items are not bytes")
    return base64.b64encode(value.tobytes()).decode()


def _write_moment(value: Any, write: Write) -> list[Any]:
    """Return the form of a datetime or time. Fold and zone are separate, since `isoformat` may omit them."""
    return [value.replace(tzinfo=None).isoformat(), value.fold, write(value.tzinfo)]


def _read_moment(parts: list[Any], kind: Any, read: Read) -> Any:
    text, fold, zone = parts
    return kind.fromisoformat(text).replace(fold=fold, tzinfo=read(zone))


def _write_zone(value: Any, _: Write) -> str:
    if value.key is None or type(value)(value.key) is not value:
        raise NoFormError(value, "that is not the zone of its name")
    return str(value.key)


def _write_defaultdict(value: Any, write: Write) -> list[Any]:
    factory = value.default_factory
    name = getattr(factory, "__name__", None)
    if factory is not None and _FACTORIES.get(str(name)) is not factory:
        raise NoFormError(value, "whose default_factory is not a built-in type")
    return [name, write(dict(value))]


def _read_defaultdict(parts: list[Any], kind: Any, read: Read) -> Any:
    name, plain = parts
    return kind(None if name is None else _FACTORIES[name], read(plain))


_NUMPY = (
    "bool", "bool_", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32",
    "float64", "complex64", "complex128",
)  # fmt: skip

FORMS: Mapping[str, Form] = {
    "int": Form("builtins", lambda value, _: hex(value), lambda text, kind, _: kind(text, 16)),
    "float": Form("builtins", lambda value, _: repr(value), lambda text, kind, _: kind(text)),
    "complex": _parts_form("builtins", lambda value: (value.real, value.imag)),
    "bytes": _bytes_form(),
    "bytearray": _bytes_form(),
    "memoryview": _bytes_form()._replace(write=_write_memoryview),
    "tuple": _parts_form("builtins", lambda value: value)._replace(
        read=lambda parts, kind, read: kind(map(read, parts))
    ),
    "set": _set_form(),
    "frozenset": _set_form(),
    "range": _parts_form("builtins", lambda value: (value.start, value.stop, value.step)),
    "slice": _parts_form("builtins", lambda value: (value.start, value.stop, value.step)),
    "Decimal": _text_form("decimal"),
    "Fraction": _parts_form("fractions", lambda value: (value.numerator, value.denominator)),
    "UUID": _text_form("uuid"),
    "date": Form("datetime", lambda value, _: value.isoformat(), lambda text, kind, _: kind.fromisoformat(text)),
    "datetime": Form("datetime", _write_moment, _read_moment),
    "time": Form("datetime", _write_moment, _read_moment),
    "timedelta": _parts_form("datetime", lambda value: (value.days, value.seconds, value.microseconds)),
    "timezone": _parts_form("datetime", lambda value: value.__getinitargs__()),
    "ZoneInfo": Form("zoneinfo", _write_zone, lambda text, kind, _: kind(text)),
    "tzutc": Form("dateutil.tz", lambda value, _: None, lambda _, kind, __: kind()),  # the zone of boto3's times
    "Binary": _parts_form("boto3.dynamodb.types", lambda value: (value.value,)),
    "OrderedDict": _parts_form("collections", lambda value: ([list(item) for item in value.items()],)),
    "Counter": _parts_form("collections", lambda value: (dict(value),)),
    "defaultdict": Form("collections", _write_defaultdict, _read_defaultdict),
    "deque": _parts_form("collections", lambda value: (list(value), value.maxlen)),
    **{name: _text_form("pathlib") for name in ("PosixPath", "PurePosixPath", "PureWindowsPath", "WindowsPath")},
    **{
        f"IPv{version}{kind}": _text_form("ipaddress")
        for version in (4, 6)
        for kind in ("Address", "Interface", "Network")
    },
    **{name: _numpy_form(lambda value: value.item()) for name in _NUMPY},
    "str_": _numpy_form(str.__str__),  # `item` drops trailing NULs
    "bytes_": _numpy_form(bytes),
}
