"""CloudTrail's data events of S3: files of `Records` as CloudTrail delivers them, or JSON lines of single events.

Source:
    AWS CloudTrail User Guide, "CloudTrail record contents"; Amazon S3 User Guide, "Amazon S3 CloudTrail events":
    `eventTime` has whole seconds of UTC, keys are not encoded, `errorCode` is there only if the call failed. No
    field has the object's size: it is the bytes sent, unless a range was asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from burstcache_sim.traces.clock import iso_us
from burstcache_sim.traces.errors import BadRowError
from burstcache_sim.traces.json_rows import json_object, text_of
from burstcache_sim.traces.log_format import LogFormat, Parser, Request, lines_of, size_bytes
from burstcache_sim.traces.ranges import UNKNOWN_BYTES, answer_of

_RECORDS, _OPENING_BYTES = b'"Records"', 200
_EVENT, _SHOWN_BYTES = b'"eventSource"', 1 << 16


def _is_cloudtrail(line: bytes) -> bool:
    return line.startswith(b"{") and (_RECORDS in line[:_OPENING_BYTES] or _EVENT in line[:_SHOWN_BYTES])


def _rows(block: bytes) -> Iterator[bytes]:
    """Yield an event per row; a row that cannot be taken apart is yielded as it is."""
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
    asked: dict[str, Any] = event.get("requestParameters") or {}
    if "bucketName" not in asked or "key" not in asked:
        raise BadRowError("bucketName and key in requestParameters")
    more = event.get("additionalEventData") or {}
    range_ = _range({name.lower(): value for name, value in (more | asked).items()})
    sent = more.get("bytesTransferredOut")
    sent_bytes = UNKNOWN_BYTES if sent is None else size_bytes(text_of(sent).removesuffix(b".0"))
    answer = answer_of(b"206" if range_ else b"200", body_bytes=sent_bytes, range_=range_)
    return arrival_us, text_of(asked["bucketName"]) + b"/" + text_of(asked["key"]), answer


def _range(parameters: dict[str, Any]) -> bytes:
    """Return the range that a request names by its header or by a part's number; empty for the whole object."""
    if "partnumber" in parameters:
        return b"p" + text_of(parameters["partnumber"])
    return text_of(parameters.get("range"))


CLOUDTRAIL_LOG = LogFormat(
    name="cloudtrail",
    describes="CloudTrail's data events of S3",
    recognises=lambda head: any(map(_is_cloudtrail, head)),
    new_parser=lambda first_line: Parser(_parse),
    rows=_rows,
    has_buckets=True,
)
