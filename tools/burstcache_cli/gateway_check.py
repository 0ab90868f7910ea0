"""Checks of a gateway for `burstcache doctor --gateway URL`: health, a signature, ranged reads, the clock."""

from __future__ import annotations

import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from burstcache.core.errors import BurstcacheError, in_one_line
from burstcache.gateway.registration import HEALTH_PATH, registered_gateways

if TYPE_CHECKING:
    from types_boto3_s3 import S3Client

_TIMEOUT_S = 10.0
_DIRECTLY = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # HTTP_PROXY may be the gateway itself
_MOST_SKEW_S = 900  # larger differences make S3 refuse signatures
_RANGE = "bytes=0-99"
_READS = 3  # the second range of a small object loads it whole, and the third one is a hit
_REMEDIES = {
    "InvalidAccessKeyId": "the gateway does not know this access key: start it with the same credentials, or with"
    " --keys-file",
    "SignatureDoesNotMatch": "the gateway has another secret for this access key: compare both sides' credentials",
    "RequestTimeTooSkewed": "this machine's clock and the gateway's differ by more than 15 minutes: set both by NTP",
    "403": "the gateway or S3 refuses these credentials: compare them with the gateway's, and check its role's policy",
    "404": "S3 has no such bucket: check --bucket",
}


class GatewayCheckError(BurstcacheError):
    """A check that fails, with the remedy."""


@dataclass(frozen=True, slots=True)
class GatewayCheck:
    """The outcome of a check.

    Attributes:
        part: What was tried.
        found: What it found. Empty: it failed.
        duration_ms: How long it took [ms].
        problem: What is wrong, with the remedy. Empty: it works.
    """

    part: str
    found: str
    duration_ms: int
    problem: str = ""


def gateway_client(url: str, *, region: str, profile: str) -> S3Client:
    """Return a client of a gateway with this machine's credentials. It sends each request once."""
    session = boto3.Session(region_name=region or None, profile_name=profile or None)
    config = Config(
        connect_timeout=_TIMEOUT_S,
        read_timeout=_TIMEOUT_S,
        retries={"total_max_attempts": 1},
        s3={"addressing_style": "path"},
    )
    client: S3Client = session.client(
        "s3", endpoint_url=url, region_name=session.region_name or "us-east-1", config=config
    )
    return client


def check_gateway(url: str, s3: S3Client, bucket: str, key: str) -> list[GatewayCheck]:
    """Check a gateway, and stop at the first problem.

    Args:
        url: The gateway's endpoint.
        s3: A client of this endpoint with the caller's credentials.
        bucket: The bucket to read. Empty: the one that this machine's gateway has registered.
        key: The object to read. Empty: any one of the bucket.
    """
    registered = {each.url: each.bucket for each in registered_gateways()}
    name = bucket or registered.get(url.replace("localhost", "127.0.0.1").rstrip("/"), "")
    checks: list[GatewayCheck] = []

    def check(part: str, run: Callable[[], str]) -> bool:
        began_s = time.monotonic()
        try:
            found, problem = run(), ""
        except GatewayCheckError as error:
            found, problem = "", str(error)
        except ClientError as error:
            found, problem = "", _refusal(error)
        except (BotoCoreError, OSError) as error:
            found, problem = "", f"it does not answer: {in_one_line(error)}"
        checks.append(GatewayCheck(part, found, round(1000 * (time.monotonic() - began_s)), problem))
        return not problem

    def bucket_head() -> str:
        if not name:
            raise GatewayCheckError("this gateway is not of this machine and user: name its bucket with --bucket")
        return f"{name} in {s3.head_bucket(Bucket=name).get('BucketRegion', 'its region')}"

    def object_reads() -> str:
        return _read_again(s3, name, key)

    if check("health", lambda: _health(url)) and check("clock", lambda: _skew(url)) and check("bucket", bucket_head):
        check("range", object_reads)
    return checks


def _health(url: str) -> str:
    try:
        with _DIRECTLY.open(url.rstrip("/") + HEALTH_PATH, timeout=_TIMEOUT_S) as response:
            return str(response.read(100).decode("latin-1").strip())
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == 503:
            raise GatewayCheckError("it is stopping: start it again, or wait for the next one") from error
        raise GatewayCheckError(f"something else than a gateway answers there ({error.code}): check the URL") from error


def _skew(url: str) -> str:
    sent_s = time.time()
    try:
        with _DIRECTLY.open(url.rstrip("/") + HEALTH_PATH, timeout=_TIMEOUT_S) as response:
            date = response.headers.get("date", "")
    except urllib.error.HTTPError as error:
        error.close()
        date = error.headers.get("date", "")
    try:
        ahead_s = parsedate_to_datetime(date).timestamp() - sent_s
    except (TypeError, ValueError):
        raise GatewayCheckError("its response has no Date header: something between it and you removes it") from None
    if abs(ahead_s) > _MOST_SKEW_S:
        raise GatewayCheckError(f"its clock differs by {abs(ahead_s):.0f} s, and signatures fail above 900: use NTP")
    return f"{max(0, round(abs(ahead_s)) - 1)} s apart"  # the header has whole seconds


def _read_again(s3: S3Client, bucket: str, key: str) -> str:
    if not key:
        listed = s3.list_objects_v2(Bucket=bucket, MaxKeys=100).get("Contents", [])
        key = next((each["Key"] for each in listed if each["Size"]), "")
        if not key:
            return "the bucket has no object to read"
    reads = [_read(s3, bucket, key) for _ in range(_READS)]
    if len({(read["body"], read["etag"]) for read in reads}) > len({read["etag"] for read in reads}):
        raise GatewayCheckError(f"{key!r}: reads of one version have different bytes. Report that, please")
    if not all(read["tier"] for read in reads):
        raise GatewayCheckError(
            f"{key!r}: the response does not name a tier, so S3 or a gateway for another bucket has sent it"
        )
    return f"{key!r}: {', then '.join(read['tier'] for read in reads)}"


def _read(s3: S3Client, bucket: str, key: str) -> dict[str, Any]:
    response = s3.get_object(Bucket=bucket, Key=key, Range=_RANGE)
    headers = response["ResponseMetadata"]["HTTPHeaders"]
    return {"body": response["Body"].read(), "etag": response["ETag"], "tier": headers.get("x-cache-tier", "")}


def _refusal(error: ClientError) -> str:
    code, message = error.response["Error"]["Code"], error.response["Error"].get("Message", "")
    return _REMEDIES.get(code, f"{code}: {message}")
