"""CloudTrail logs of S3 data events, as delivered (files with `Records`) or as JSON lines with one event each.

Source:
    AWS CloudTrail User Guide, "CloudTrail record contents". Amazon S3 User Guide, "Amazon S3 CloudTrail events":
    `eventTime` is UTC in whole seconds, keys are not URL-encoded, `errorCode` is present only for failed calls. No
    field has the object's size. If the request has no range, the number of bytes sent is the size.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from burstcache_sim.traces.errors import BadRowError
from burstcache_sim.traces.json_rows import json_object, text_of
from burstcache_sim.traces.log_format import LogFormat, LogParser, Request, lines_of, size_bytes
from burstcache_sim.traces.ranges import UNKNOWN_BYTES, response_content
from burstcache_sim.traces.timestamps import iso_us

_RECORDS, _OPENING_BYTES = b'"Records"', 200
_EVENT, _SHOWN_BYTES = b'"eventSource"', 1 << 16


def _is_cloudtrail(line: bytes) -> bool:
    return line.startswith(b"{") and (_RECORDS in line[:_OPENING_BYTES] or _EVENT in line[:_SHOWN_BYTES])


def _rows(block: bytes) -> Iterator[bytes]:
    """Yield one event per row. A row that cannot be split is yielded unchanged."""
    for line in lines_of(block):
        records = _records(line)
        if records is None:
            yield line
        else:
            yield from records


def _records(line: bytes) -> Iterable[bytes] | None:
    import orjson

    if _RECORDS not in line[:_OPENING_BYTES]:
        return None
    try:
        records = json_object(line).get("Records")
    except BadRowError:
        return None
    return map(orjson.dumps, records) if isinstance(records, list) else None


def _parse(line: bytes) -> Request | None:
    event = json_object(line)
    if "eventTime" not in event or "eventName" not in event:
        raise BadRowError("an event of CloudTrail: eventTime, eventSource, eventName, requestParameters ...")
    arrival_us = iso_us(text_of(event["eventTime"]))
    if event.get("eventSource") != "s3.amazonaws.com" or event["eventName"] != "GetObject" or event.get("errorCode"):
        return None
    parameters: dict[str, Any] = event.get("requestParameters") or {}
    if "bucketName" not in parameters or "key" not in parameters:
        raise BadRowError("bucketName and key in requestParameters")
    more = event.get("additionalEventData") or {}
    range_ = _range({name.lower(): value for name, value in (more | parameters).items()})
    sent = more.get("bytesTransferredOut")
    sent_bytes = UNKNOWN_BYTES if sent is None else size_bytes(text_of(sent).removesuffix(b".0"))
    content = response_content(b"206" if range_ else b"200", body_bytes=sent_bytes, range_=range_)
    return arrival_us, text_of(parameters["bucketName"]) + b"/" + text_of(parameters["key"]), content


def _range(parameters: dict[str, Any]) -> bytes:
    """Return the range of a request from its header or part number, or b"" for the whole object."""
    if "partnumber" in parameters:
        return b"p" + text_of(parameters["partnumber"])
    return text_of(parameters.get("range"))


CLOUDTRAIL_LOG = LogFormat(
    name="cloudtrail",
    describes="CloudTrail's data events of S3",
    recognises=lambda head: any(map(_is_cloudtrail, head)),
    new_parser=lambda first_line: LogParser(_parse),
    rows=_rows,
    has_buckets=True,
)
