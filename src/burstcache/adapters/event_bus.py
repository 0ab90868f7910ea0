"""The event bus, which accepts several events per call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

from burstcache.adapters.calls import call_aws
from burstcache.core.errors import ServiceError
from burstcache.core.messages.encoding import encode
from burstcache.core.messages.events import OBJECT_REQUESTED, PROXY, REQUESTS_SERVED, ObjectRequested, RequestsServed

if TYPE_CHECKING:
    from types_boto3_events.client import EventBridgeClient
    from types_boto3_events.type_defs import PutEventsRequestEntryTypeDef

_MOST_EVENTS = 10  # of one PutEvents call, which accepts 256 KB

_T = TypeVar("_T")


def in_batches(events: Sequence[_T]) -> list[Sequence[_T]]:
    """Split events into batches, one per call."""
    return [events[start : start + _MOST_EVENTS] for start in range(0, len(events), _MOST_EVENTS)]


def send_batch(bus_name: str, client: EventBridgeClient, batch: Sequence[ObjectRequested | RequestsServed]) -> None:
    """Send a batch of events. Raise ServiceError if the bus fails or rejects any of them."""
    entries: list[PutEventsRequestEntryTypeDef] = [
        {
            "EventBusName": bus_name,
            "Source": PROXY,
            "DetailType": REQUESTS_SERVED if "keys" in event else OBJECT_REQUESTED,
            "Detail": encode(event).decode(),
        }
        for event in batch
    ]
    response = call_aws(client.put_events, Entries=entries)
    if refused := [entry for entry in response.get("Entries", ()) if "ErrorCode" in entry]:
        code = refused[0]["ErrorCode"]
        raise ServiceError(f"the bus refused {len(refused)} of {len(entries)} events: {code}", code=code)
