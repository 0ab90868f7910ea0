"""The directory bucket itself: what S3 deletes from it by age, and its end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from burstcache.adapters.calls import ask
from burstcache.adapters.express_copies import TOMBSTONE_BYTES
from burstcache.core.errors import ServiceError
from burstcache.core.express import MOST_DAYS, ExpressRule

if TYPE_CHECKING:
    from types_boto3_s3.client import S3Client


def lifecycle_rules(rule: ExpressRule) -> list[dict[str, Any]]:
    """Return when S3 deletes what: tombstones after a day, copies after the days that their size is kept."""
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
    """One directory bucket. Every method raises ServiceError if S3 fails."""

    name: str
    client: S3Client

    def let_expire(self, rule: ExpressRule) -> None:
        """Have S3 delete what the rule does not keep."""
        configuration: Any = {"Rules": lifecycle_rules(rule)}
        ask(self.client.put_bucket_lifecycle_configuration, Bucket=self.name, LifecycleConfiguration=configuration)

    def empty(self) -> int:
        """Delete everything; return the number of objects. A bucket that is gone is empty."""
        count = 0
        while found := self._some():
            names: Any = [{"Key": each["Key"]} for each in found]
            ask(self.client.delete_objects, Bucket=self.name, Delete={"Objects": names, "Quiet": True})
            count += len(names)
        return count

    def _some(self) -> list[Any]:
        try:
            return ask(self.client.list_objects_v2, Bucket=self.name).get("Contents", [])
        except ServiceError as error:
            if error.code == "NoSuchBucket":
                return []
            raise
