"""Access logs as JSON lines: an object per request, with the usual names of servers or those that an option gives.

Source:
    The names: `traces/fields.py`. Nginx, ngx_http_log_module: `escape=json` writes what `log_format` says; times are of
    when the answer was finished. A line may begin with a syslog header (RFC 3164 and 5424).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from burstcache_sim.traces.clock import any_time_us, reader_of_unit
from burstcache_sim.traces.errors import BadRowError
from burstcache_sim.traces.fields import (
    USUAL_NAMES,
    FieldNames,
    KeyKind,
    counts,
    is_get,
    kind_of,
    name_in,
    normalised,
    time_field,
)
from burstcache_sim.traces.json_rows import json_object, text_of
from burstcache_sim.traces.log_format import Candidate, LogFormat, Parser, Request, answer_in
from burstcache_sim.traces.ranges import names_range

_DEFAULT_NAMES: FieldNames = {}
_AMOUNTS = ("size", "sent", "object")
_REST = (*_AMOUNTS, "range", "method", "status", "bucket")
_SHOWN_NAMES, _SHOWN_LETTERS = 30, 40  # in a message


def json_lines(names: FieldNames = _DEFAULT_NAMES) -> Candidate:
    """Return the format of JSON lines whose members have these names, or else the usual ones."""
    return Candidate.of(
        LogFormat(
            name="json",
            describes="JSON lines with the usual names of a server's log",
            recognises=partial(_recognises, names),
            new_parser=lambda first_line: Parser(_Rows(names).parse),
            has_paths=True,
        )
    )


def _recognises(names: FieldNames, head: list[bytes]) -> bool:
    rows = _Rows(names)
    return any(b"{" in line and rows.is_request(line) for line in head)


class _Rows:
    """The parser of one log's lines; remembers where objects with the same members have what."""

    def __init__(self, names: FieldNames) -> None:
        self._names = names
        self._time = time_field(names["time"]) if "time" in names else None
        self._time_us = reader_of_unit(self._time.unit) if self._time and self._time.unit else any_time_us
        self._found: dict[tuple[str, ...], dict[str, list[_Path]]] = {}

    def is_request(self, line: bytes) -> bool:
        """Return whether a line has what a request needs."""
        try:
            self.parse(line)
        except BadRowError:
            return False
        return True

    def parse(self, line: bytes) -> Request | None:
        """Return the request in a line; None if no cache would serve it."""
        members = json_object(line)
        schema = tuple(members)
        if not (paths := self._found.get(schema)):
            if len(self._found) > 1000:
                self._found.clear()
            paths = self._found[schema] = self._paths(members)

        arrival_us = self._arrival_us(members, paths)
        found = {field: text for field in _REST if paths[field] and (text := _first(members, paths[field])[0])}
        range_, method = found.get("range", b""), found.get("method", b"")
        status = found.get("status") or (b"206" if names_range(range_) else b"200")
        is_served = counts(status)
        key, kind = _first(members, paths["key"])
        if kind is None:
            raise BadRowError(f"an object: {self._lacks('key', members)}")
        if not is_served or (method and not is_get(method)):
            return None
        name = name_in(key, kind, found.get("bucket", b""))
        size, sent, object_ = (found.get(field, b"") for field in _AMOUNTS)
        return (
            None
            if name is None
            else (arrival_us, name, answer_in(status.removesuffix(b".0"), size, sent, object_, range_))
        )

    def _arrival_us(self, members: dict[str, Any], paths: dict[str, list[_Path]]) -> int:
        if self._time and len(self._time.names) > 1:
            return self._time_us(b" ".join(_first(members, [_path(name)])[0] for name in self._time.names))
        time, kind = _first(members, paths["time"])
        if kind is None:
            raise BadRowError(f"a time: {self._lacks('time', members)}")
        return self._time_us(time)

    def _paths(self, members: dict[str, Any]) -> dict[str, list[_Path]]:
        """Return where objects with these members may have each field, the best place first."""
        top = {normalised(name): name for name in reversed(members)}
        found: dict[str, list[_Path]] = {}
        for field, usual in USUAL_NAMES.items():
            if field in self._names:
                named = self._time.names[0] if field == "time" and self._time else self._names[field]
                found[field] = [_path(named)]
                continue
            paths = []
            for name in usual:
                first, _, rest = name.partition(".")
                if name in top:
                    paths.append(_Path(top[name], (), kind_of(name)))
                elif rest and first in top:
                    paths.append(_Path(top[first], tuple(rest.split(".")), kind_of(name)))
            found[field] = paths
        return found

    def _lacks(self, field: str, members: dict[str, Any]) -> str:
        """Return what an object without a field has instead."""
        if field in self._names:
            return f"there is no member {self._names[field]}"
        names = [name[:_SHOWN_LETTERS] for name in _all_names(members)]
        shown = ", ".join(names[:_SHOWN_NAMES]) + (", ..." if len(names) > _SHOWN_NAMES else "")
        return f"--fields {field}=NAME says which of {shown} it is" if names else "the object is empty"


class _Path:
    """Where an object has a value: a member, and members of what it holds."""

    __slots__ = ("kind", "rest", "top")

    def __init__(self, top: str, rest: tuple[str, ...], kind: KeyKind) -> None:
        self.top, self.rest, self.kind = top, rest, kind


def _path(name: str) -> _Path:
    """Return the path that an option gives: the member of this name, or dots between members."""
    return _Path(name, (), kind_of(name))


def _first(members: dict[str, Any], paths: list[_Path]) -> tuple[bytes, KeyKind | None]:
    """Return what there is at the first path that leads to a value, as text, and how it names an object.

    Null and what holds other values are not there: then the text is empty, and the kind None.
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
        if isinstance(value, list) and len(value) == 1 and isinstance(value[0], str):  # a header, as Caddy writes it
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
