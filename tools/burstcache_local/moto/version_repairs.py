"""Patches that repair versioned buckets in moto: versions after deletions, and S3 events on deletions.

Source:
    Amazon S3 User Guide, "Using EventBridge" (the types of deletions), "Deleting object versions from a
        versioning-enabled bucket", "Working with objects in a versioning-suspended bucket".
"""

from __future__ import annotations

import threading
from typing import Any

from burstcache_local.moto.registry import repair

_NULL = "null"  # version id of objects written without versioning
_writing = threading.RLock()


@repair
def suspended_versioning_keeps_versions() -> None:
    """Replace only the null version while versioning is suspended. moto drops all versions on a write or deletion.

    Also create a delete marker if versioning is suspended or the object does not exist, since moto omits such markers.
    """
    from moto.s3.models import FakeDeleteMarker, S3Backend

    put, delete = S3Backend.put_object, S3Backend.delete_object

    def put_object(self: S3Backend, bucket_name: str, key_name: str, *arguments: Any, **more: Any) -> Any:
        bucket = self.get_bucket(bucket_name)
        if bucket.versioning_status != "Suspended":
            return put(self, bucket_name, key_name, *arguments, **more)
        with _writing:
            kept = [each for each in bucket.keys.getlist(key_name, []) if each.version_id != _NULL]
            key = put(self, bucket_name, key_name, *arguments, **more)
            bucket.keys.setlist(key_name, [*kept, key])
        return key

    def delete_object(
        self: S3Backend, bucket_name: str, key_name: str, version_id: str | None = None, bypass: bool = False
    ) -> Any:
        bucket = self.get_bucket(bucket_name)
        if not bucket.versioning_status:
            return delete(self, bucket_name, key_name, version_id=version_id, bypass=bypass)
        with _writing:
            if version_id is not None:
                status, bucket.versioning_status = bucket.versioning_status, "Enabled"
                try:
                    return delete(self, bucket_name, key_name, version_id=version_id, bypass=bypass)
                finally:
                    bucket.versioning_status = status
            versions = list(bucket.keys.getlist(key_name, []))
            marker = FakeDeleteMarker(versions[-1] if versions else _Nothing(key_name))
            if not bucket.is_versioned:
                marker._version_id = _NULL
                versions = [each for each in versions if each.version_id != _NULL]
            bucket.keys.setlist(key_name, [*versions, marker])
            return True, {"version-id": marker.version_id, "delete-marker": "true"}

    S3Backend.put_object = put_object
    S3Backend.delete_object = delete_object


@repair
def deletions_of_versions_send_events() -> None:
    """Send deletion events that moto omits: for delete markers, and for all but the last deleted version."""
    from moto.s3.models import S3Backend
    from moto.s3.notifications import S3NotificationEvent, send_event

    delete = S3Backend.delete_object

    def delete_object(
        self: S3Backend, bucket_name: str, key_name: str, version_id: str | None = None, bypass: bool = False
    ) -> Any:
        bucket = self.get_bucket(bucket_name)
        with _writing:
            had = list(bucket.keys.getlist(key_name, []))
            answer = delete(self, bucket_name, key_name, version_id=version_id, bypass=bypass)
            has = list(bucket.keys.getlist(key_name, []))
        if bucket.versioning_status and has:  # otherwise, moto has sent the event
            gone = [each for each in had if each not in has]
            if version_id is None:
                made = S3NotificationEvent.OBJECT_REMOVED_DELETE_MARKER_CREATED_EVENT
                send_event(self.account_id, made, bucket, has[-1])
            elif gone:
                send_event(self.account_id, S3NotificationEvent.OBJECT_REMOVED_DELETE_EVENT, bucket, gone[0])
        return answer

    S3Backend.delete_object = delete_object


class _Nothing:
    """A placeholder for the object that a delete marker deletes, if no such object existed."""

    def __init__(self, name: str) -> None:
        self.name = name
