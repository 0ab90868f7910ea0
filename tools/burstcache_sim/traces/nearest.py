"""The nearest format for a file that no format matches, and the reason for the mismatch."""

from __future__ import annotations

from collections.abc import Mapping

from burstcache_sim.traces.errors import BadRowError
from burstcache_sim.traces.fields import USUAL_NAMES, normalised, time_field
from burstcache_sim.traces.log_format import FormatCandidate
from burstcache_sim.traces.table_log import DELIMITERS, split_row

_ARCHIVES = {
    b"PK\x03\x04": "a zip archive: unpack it first",
    b"PAR1": "a Parquet file: write it as CSV first",
    b"7z\xbc\xaf": "a 7-Zip archive: unpack it first",
    b"\x04\x22\x4d\x18": "compressed by LZ4: unpack it first",
}
_SHOWN_COLUMNS = 20
_OPENINGS = (b"{", b"[", b"[{")  # first lines of pretty-printed JSON
_MANY_LINES = (
    "an object of JSON a line, as `jq -c .` writes it, or `jq -c '.[]'` those of an array (nearest format: json)"
)
_NOTHING_NEAR = "a line of an access log, a table with columns for a time and a key, or the header arrival_s (one key)"
_EXAMPLE = "time=1,key=2,size=3"


def nearest(among: list[FormatCandidate], head: list[bytes], names: Mapping[str, str]) -> tuple[int, str]:
    """Return the mismatched line's number, counted from 1, and the expected text."""
    for magic, archive in _ARCHIVES.items():
        if head[0].startswith(magic):
            return 1, f"text, or text compressed by gzip, zstd, bzip2 or xz; this is {archive}"
    number = next((number for number, line in enumerate(head, start=1) if line.strip() and line[:1] != b"#"), 1)
    line = head[number - 1]
    by_name = {candidate.name: candidate for candidate in among}
    if line.strip() in _OPENINGS and "json" in by_name:
        return number, _MANY_LINES
    for name, is_near in _NEAR:
        if name in by_name and is_near(line):
            return number, _failure(by_name[name], head, line)
    if b"\0" in line:
        return number, "text in UTF-8, or in UTF-16 with a byte order mark"
    if "csv" in by_name:
        return number, _table_mismatch(line, names)
    return number, f"the first line of a {among[0].describes}"


def _is_json(line: bytes) -> bool:
    return b"{" in line[:500] and b'":' in line.replace(b'" :', b'":')


def _is_combined(line: bytes) -> bool:
    return b'"' in line and b"[" in line and (b"HTTP/" in line or b'"GET ' in line)


_NEAR = (("json", _is_json), ("combined", _is_combined))


def _failure(candidate: FormatCandidate, head: list[bytes], line: bytes) -> str:
    if candidate.fixed:
        try:
            candidate.fixed.new_parser(head[0]).row(line)
        except BadRowError as error:
            return f"{error} (nearest format: {candidate.name})"
    return f"a line of {candidate.describes}"


def _table_mismatch(line: bytes, names: Mapping[str, str]) -> str:
    """Return the expected text for a table with this first line."""
    delimiter, columns = max(
        ((word, _columns(line, separator)) for word, separator in DELIMITERS.items()),
        key=lambda split: (len(split[1]), split[0] != "blank"),
    )
    if len(columns) < 2:
        return _NOTHING_NEAR
    shown = ", ".join(columns[:_SHOWN_COLUMNS])
    named = [part for name in names.values() for part in time_field(name).names]
    if missing := [name for name in named if not _has(columns, name)]:
        return f"a table with a column {missing[0]} (nearest format: csv; separated by {delimiter}s it has {shown})"
    lacking = [field for field in ("time", "key") if field not in names and not _is_usual(field, columns)]
    if any(column[:1].isdigit() for column in columns):
        numbers = f"--fields {_EXAMPLE} with the numbers of columns"
        return f"a header, or {numbers} (nearest format: csv, separated by {delimiter}s)"
    if not lacking:
        return f"the header in the first line (nearest format: csv, separated by {delimiter}s)"
    option = ",".join(f"{field}=NAME" for field in lacking)
    fields = " and the ".join(lacking)
    return f"a column for the {fields}: choose from {shown} by --fields {option} (nearest format: csv)"


def _columns(line: bytes, separator: bytes) -> list[str]:
    try:
        return [value.decode("utf-8", "backslashreplace") for value in split_row(line, separator)]
    except BadRowError:
        return []


def _has(columns: list[str], name: str) -> bool:
    return name in columns or (name.isdecimal() and len(name) < 6 and 1 <= int(name) <= len(columns))


def _is_usual(field: str, columns: list[str]) -> bool:
    return any(normalised(column) in USUAL_NAMES[field] for column in columns)
