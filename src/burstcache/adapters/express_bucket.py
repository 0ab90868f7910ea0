"""The S3 Express directory bucket: sets its lifecycle rules, and deletes all objects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from burstcache.adapters.calls import call_aws
from burstcache.adapters.express_copies import TOMBSTONE_BYTES
from burstcache.core.errors import ServiceError
from burstcache.core.express import MOST_DAYS, ExpressRule

if TYPE_CHECKING:
    from types_boto3_s3.client import S3Client


def lifecycle_rules(rule: ExpressRule) -> list[dict[str, Any]]:
    """Return the lifecycle rules: tombstones expire after one day, copies after a size-dependent number of days."""
    rules = [_expire("tombstones", 1, {"ObjectSizeLessThan": TOMBSTONE_BYTES + 1})]
    above_bytes, days = TOMBSTONE_BYTES, MOST_DAYS
    while days > 1:
        largest_bytes = rule.largest_kept(days)
        if largest_bytes > above_bytes:
            sizes = {"ObjectSizeGreaterThan": above_bytes, "ObjectSizeLessThan": largest_bytes + 1}
            rules.append(_expire(f"copies-{days}-days", days, {"And": sizes}))
            above_bytes = largest_bytes
        days //= 2
    return [*rules, _expire("copies-1-days", 1, {"ObjectSizeGreaterThan": above_bytes})]


def _expire(name: str, days: int, sizes: dict[str, Any]) -> dict[str, Any]:
    return {"ID": name, "Status": "Enabled", "Filter": sizes, "Expiration": {"Days": days}}


@dataclass(frozen=True, slots=True)
class ExpressBucket:
    """A directory bucket. Every method raises ServiceError if S3 fails."""

    name: str
    client: S3Client

    def set_expiry(self, rule: ExpressRule) -> None:
        """Configure the bucket's lifecycle rules."""
        configuration: Any = {"Rules": lifecycle_rules(rule)}
        call_aws(self.client.put_bucket_lifecycle_configuration, Bucket=self.name, LifecycleConfiguration=configuration)

    def empty(self) -> int:
        """Delete all objects and return their number. A missing bucket counts as empty."""
        count = 0
        while page := self._page():
            names: Any = [{"Key": each["Key"]} for each in page]
            call_aws(self.client.delete_objects, Bucket=self.name, Delete={"Objects": names, "Quiet": True})
            count += len(names)
        return count

    def _page(self) -> list[Any]:
        try:
            return call_aws(self.client.list_objects_v2, Bucket=self.name).get("Contents", [])
        except ServiceError as error:
            if error.code == "NoSuchBucket":
                return []
            raise
