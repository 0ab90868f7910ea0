"""S3 operations of requests, by the names that S3's server access logs and CloudTrail have for them.

Source:
    Amazon S3 User Guide, "Amazon S3 server access log format": REST.HTTP_method.resource_type.
"""

from __future__ import annotations

from burstcache.gateway.http_messages import HttpRequest
from burstcache.gateway.s3_requests import Target

UNKNOWN = "-"
GET_OBJECT, HEAD_OBJECT = "REST.GET.OBJECT", "REST.HEAD.OBJECT"
# Subresources of an object, and of a bucket: query parameter → resource type.
_OF_OBJECTS = {
    "acl": "ACL",
    "attributes": "OBJECT_ATTRIBUTES",
    "legal-hold": "LEGAL_HOLD",
    "restore": "RESTORE",
    "retention": "RETENTION",
    "select": "SELECT",
    "tagging": "OBJECT_TAGGING",
    "torrent": "TORRENT",
    "uploads": "UPLOADS",
}
_OF_BUCKETS = {
    "accelerate": "ACCELERATE",
    "acl": "ACL",
    "analytics": "ANALYTICS",
    "cors": "CORS",
    "delete": "MULTI_OBJECT_DELETE",
    "encryption": "ENCRYPTION",
    "inventory": "INVENTORY",
    "lifecycle": "LIFECYCLE",
    "location": "LOCATION",
    "logging": "LOGGING_STATUS",
    "metrics": "METRICS",
    "notification": "NOTIFICATION",
    "object-lock": "OBJECT_LOCK",
    "ownershipControls": "OWNERSHIP_CONTROLS",
    "policy": "BUCKETPOLICY",
    "policyStatus": "POLICY_STATUS",
    "publicAccessBlock": "PUBLIC_ACCESS_BLOCK",
    "replication": "REPLICATION",
    "requestPayment": "REQUEST_PAYMENT",
    "tagging": "TAGGING",
    "uploads": "UPLOADS",
    "versioning": "VERSIONING",
    "versions": "BUCKETVERSIONS",
    "website": "WEBSITE",
}


def operation_of(request: HttpRequest, target: Target) -> str:
    """Return the name of a request's operation, such as REST.GET.OBJECT."""
    method = request.method.decode("latin-1")
    if method == "OPTIONS":
        return "REST.OPTIONS.PREFLIGHT"
    if not target.bucket:
        return f"REST.{method}.SERVICE"
    if not target.key:
        return f"REST.{method}.{_resource(target, _OF_BUCKETS, 'BUCKET')}"
    if target.has("uploadId"):
        resource = "PART" if method == "PUT" else "UPLOAD"
    else:
        resource = _resource(target, _OF_OBJECTS, "OBJECT")
    if method == "PUT" and resource in ("OBJECT", "PART") and request.header(b"x-amz-copy-source") is not None:
        method = "COPY"
    return f"REST.{method}.{resource}"


def _resource(target: Target, names: dict[str, str], default: str) -> str:
    return next((names[name] for name, _ in target.query if name in names), default)
