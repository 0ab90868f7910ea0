"""JSON access logs: one object per line and request, with the usual member names or those of `--fields`.

Source:
    Names: see `traces/fields.py`. Nginx, ngx_http_log_module: `escape=json` writes the variables of `log_format`. A
    request's time is the end of its response. A line may begin with a syslog header (RFC 3164 and 5424).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from burstcache_sim.traces.errors import BadRowError
from burstcache_sim.traces.fields import (
    USUAL_NAMES,
    FieldNames,
    KeyKind,
    is_get,
    is_success,
    kind_of,
    name_in,
    normalised,
    time_field,
)
from burstcache_sim.traces.json_rows import json_object, text_of
from burstcache_sim.traces.log_format import FormatCandidate, LogFormat, LogParser, Request, parse_content
from burstcache_sim.traces.ranges import has_range
from burstcache_sim.traces.timestamps import any_time_us, reader_of_unit

_DEFAULT_NAMES: FieldNames = {}
_AMOUNTS = ("size", "sent", "object")
_OPTIONAL = (*_AMOUNTS, "range", "method", "status", "bucket")
_SHOWN_NAMES, _SHOWN_LETTERS = 30, 40  # limits in a message


def json_lines(names: FieldNames = _DEFAULT_NAMES) -> FormatCandidate:
    """Return the format of JSON lines. `names` overrides the usual member names."""
    return FormatCandidate.of(
        LogFormat(
            name="json",
            describes="JSON lines with the usual names of a server's log",
            recognises=partial(_recognises, names),
            new_parser=lambda first_line: LogParser(_JsonParser(names).parse),
            has_paths=True,
        )
    )


def _recognises(names: FieldNames, head: list[bytes]) -> bool:
    parser = _JsonParser(names)
    return any(b"{" in line and parser.is_request(line) for line in head)


class _JsonParser:
    """A parser for one log, which caches the fields' paths for each set of members."""

    def __init__(self, names: FieldNames) -> None:
        self._names = names
        self._time = time_field(names["time"]) if "time" in names else None
        self._time_us = reader_of_unit(self._time.unit) if self._time and self._time.unit else any_time_us
        self._paths_by_schema: dict[tuple[str, ...], dict[str, list[_MemberPath]]] = {}

    def is_request(self, line: bytes) -> bool:
        """Return whether a line has the fields of a request."""
        try:
            self.parse(line)
        except BadRowError:
            return False
        return True

    def parse(self, line: bytes) -> Request | None:
        """Return the request in a line, or None if a cache would not serve the request."""
        members = json_object(line)
        schema = tuple(members)
        if not (paths := self._paths_by_schema.get(schema)):
            if len(self._paths_by_schema) > 1000:
                self._paths_by_schema.clear()
            paths = self._paths_by_schema[schema] = self._paths(members)

        arrival_us = self._arrival_us(members, paths)
        texts = {field: text for field in _OPTIONAL if paths[field] and (text := _first(members, paths[field])[0])}
        range_, method = texts.get("range", b""), texts.get("method", b"")
        status = texts.get("status") or (b"206" if has_range(range_) else b"200")
        is_served = is_success(status)
        key, kind = _first(members, paths["key"])
        if kind is None:
            raise BadRowError(f"an object: {self._hint('key', members)}")
        if not is_served or (method and not is_get(method)):
            return None
        name = name_in(key, kind, texts.get("bucket", b""))
        size, sent, object_ = (texts.get(field, b"") for field in _AMOUNTS)
        return (
            None
            if name is None
            else (arrival_us, name, parse_content(status.removesuffix(b".0"), size, sent, object_, range_))
        )

    def _arrival_us(self, members: dict[str, Any], paths: dict[str, list[_MemberPath]]) -> int:
        if self._time and len(self._time.names) > 1:
            return self._time_us(b" ".join(_first(members, [_path(name)])[0] for name in self._time.names))
        time, kind = _first(members, paths["time"])
        if kind is None:
            raise BadRowError(f"a time: {self._hint('time', members)}")
        return self._time_us(time)

    def _paths(self, members: dict[str, Any]) -> dict[str, list[_MemberPath]]:
        """Return each field's candidate paths in objects with these members, best first."""
        top = {normalised(name): name for name in reversed(members)}
        by_field: dict[str, list[_MemberPath]] = {}
        for field, usual in USUAL_NAMES.items():
            if field in self._names:
                name = self._time.names[0] if field == "time" and self._time else self._names[field]
                by_field[field] = [_path(name)]
                continue
            paths = []
            for name in usual:
                first, _, rest = name.partition(".")
                if name in top:
                    paths.append(_MemberPath(top[name], (), kind_of(name)))
                elif rest and first in top:
                    paths.append(_MemberPath(top[first], tuple(rest.split(".")), kind_of(name)))
            by_field[field] = paths
        return by_field

    def _hint(self, field: str, members: dict[str, Any]) -> str:
        """Return a hint for an object that lacks a field, with the members to choose from."""
        if field in self._names:
            return f"there is no member {self._names[field]}"
        names = [name[:_SHOWN_LETTERS] for name in _all_names(members)]
        shown = ", ".join(names[:_SHOWN_NAMES]) + (", ..." if len(names) > _SHOWN_NAMES else "")
        return f"choose one of {shown} by --fields {field}=NAME" if names else "the object is empty"


class _MemberPath:
    """The path to a value: a member of the object, then nested members."""

    __slots__ = ("kind", "rest", "top")

    def __init__(self, top: str, rest: tuple[str, ...], kind: KeyKind) -> None:
        self.top, self.rest, self.kind = top, rest, kind


def _path(name: str) -> _MemberPath:
    """Return the path for a name in an option, which is a member or members separated by dots."""
    return _MemberPath(name, (), kind_of(name))


def _first(members: dict[str, Any], paths: list[_MemberPath]) -> tuple[bytes, KeyKind | None]:
    """Return the first value found on the paths, as text, and its kind of key.

    Null, objects and arrays do not count as values. If no value is found, the text is empty and the kind is None.
    """
    for path in paths:
        value = members.get(path.top)
        if value is None and "." in path.top and path.top not in members:
            first, *rest = path.top.split(".")
            value = _inside(members.get(first), rest)
        if path.rest:
            value = _inside(value, path.rest) if isinstance(value, dict) else None
        if isinstance(value, str | int | float):
            return text_of(value), path.kind
        if isinstance(value, list) and len(value) == 1 and isinstance(value[0], str):  # a header in Caddy's log
            return text_of(value[0]), path.kind
    return b"", None


def _inside(value: Any, names: tuple[str, ...] | list[str]) -> Any:
    for name in names:
        if not isinstance(value, dict):
            return None
        wanted = normalised(name)
        value = value.get(name, next((value[each] for each in value if normalised(each) == wanted), None))
    return value


def _all_names(members: dict[str, Any], before: str = "") -> Iterator[str]:
    for name, value in members.items():
        if isinstance(value, dict) and before.count(".") < 3:
            yield from _all_names(value, f"{before}{name}.")
        else:
            yield before + name
