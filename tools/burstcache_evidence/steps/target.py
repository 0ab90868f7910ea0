"""The target of a run's steps: a deployed stack, its front door and its node."""

from __future__ import annotations

import ssl
import time
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest

from burstcache.core.errors import BurstcacheError
from burstcache_cli.operate import ping_redis, start_redis, stop_redis
from burstcache_cli.stack import Stack
from burstcache_evidence.plan import StackPlan

HOT_KEY = "evidence/a+b%20c d.txt"  # S3's events have to bring it unencoded
BODY_BYTES = 4_096
SAMPLES = 20
PAUSE_S = 0.06  # between reads, below the front door's default throttle of 25 a second
TIER = "x-cache-tier"
_POLL_S = 0.5
_HOLD_S = 900
_TIMEOUT_S = 35.0


class NotReachedError(BurstcacheError):
    """A step did not reach in time what it waited for."""


@dataclass(frozen=True, slots=True)
class Reply:
    """A response of the front door."""

    status: int
    tier: str
    body: bytes
    headers: Mapping[str, str]
    ms: float


@dataclass(frozen=True)
class Target:
    """A deployed stack under test."""

    stack: Stack
    url: str
    plan: StackPlan
    limit_s: float  # of each wait

    @property
    def bucket(self) -> str:
        """The origin."""
        return self.stack.output("BucketName")

    @property
    def node(self) -> str:
        """The stack's only Redis node."""
        return self.stack.node_name("")

    def put(self, key: str, body: bytes) -> None:
        """Put an object straight into S3."""
        self.stack.client("s3").put_object(Bucket=self.bucket, Key=key, Body=body, ContentType="text/plain")

    def ask(self, key: str, method: str = "GET", body: bytes | None = None, *, signs: bool = False) -> Reply:
        """Send a request to the front door. A status of 400 or more is a reply, too."""
        url, headers = f"{self.url}/objects/{quote(key)}", {"Content-Type": "text/plain"}
        if signs:
            signed = AWSRequest(method=method, url=url, data=body, headers=headers)
            credentials, region = self.stack.session.get_credentials(), self.stack.session.region_name
            SigV4Auth(credentials, "execute-api", region).add_auth(signed)
            headers = dict(signed.headers.items())
        request = urllib.request.Request(url, data=body, headers=headers, method=method)
        began_s = time.perf_counter()
        try:
            with urllib.request.urlopen(request, timeout=_TIMEOUT_S, context=self._tls()) as answer:
                content, status, found = answer.read(), answer.status, answer.headers
        except HTTPError as error:
            content, status, found = error.read(), error.code, error.headers
        ms = (time.perf_counter() - began_s) * 1e3
        lowered = {name.lower(): value for name, value in found.items()}
        return Reply(status, lowered.get(TIER, ""), content, lowered, round(ms, 2))

    def _tls(self) -> ssl.SSLContext | None:
        """Return a context that accepts the self-signed certificate of the run's own load balancer."""
        if not self.url.startswith("https:") or self.plan.parameters.get("FrontDoor") != "alb":
            return None
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        return context

    def await_(self, what: str, is_so: Callable[[], bool], pause_s: float = _POLL_S) -> float:
        """Wait for a condition, and return how long that took [s]. Raises NotReachedError after the limit."""
        began_s = time.monotonic()
        while not is_so():
            if time.monotonic() - began_s > self.limit_s:
                raise NotReachedError(f"{what}: not within {self.limit_s:g} s")
            time.sleep(pause_s)
        return round(time.monotonic() - began_s, 2)

    def hold_node(self) -> float:
        """Start the node by hand, and wait until its row says so. Return how long that took [s].

        Redis answers before the row says `running`. A stop in between counts as a failed boot, with a cool-down.
        """
        start_redis(self.stack, self.node, _HOLD_S)
        return self.await_(f"PONG of {self.node}", lambda: self._has(phase="running", pong=True))

    def release_node(self) -> float:
        """Stop the node by hand, and wait for its machine's end. Return how long that took [s]."""
        stop_redis(self.stack, self.node)
        return self.await_(f"end of {self.node}", lambda: self._has(phase="stopped"))

    def _has(self, **wanted: Any) -> bool:
        answer = ping_redis(self.stack, self.node).answer
        return all(answer[name] == value for name, value in wanted.items())
