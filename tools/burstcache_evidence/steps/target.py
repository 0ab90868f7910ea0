"""The target of a run's steps: a deployed stack, its front door and its node."""

from __future__ import annotations

import ssl
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import quote

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest

from burstcache.access import parse_nodes
from burstcache.core.errors import BurstcacheError
from burstcache.core.messages.answers import Pong
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
    logs: Path | None = None  # folder of a local cloud's logs; None on AWS
    tags: Mapping[str, str] = field(default_factory=dict)  # those of the run

    @property
    def bucket(self) -> str:
        """The origin."""
        return self.stack.output("BucketName")

    @property
    def node(self) -> str:
        """The stack's only Redis node."""
        return self.stack.node_name("")

    @property
    def is_on_aws(self) -> bool:
        """Whether the stack is in an AWS account."""
        return self.stack.is_deployed

    @property
    def instance(self) -> str:
        """The node's instance, empty if the node runs as a task."""
        nodes = parse_nodes(self.stack.outputs.get("RedisNodes", ""))
        return next((each.instance_id for each in nodes if each.name == self.node and not each.is_task), "")

    def lines(self, function: str = "", *, containing: str = "") -> Iterator[str]:
        """Yield log lines that contain a text: of one function, by its logical id, or of all functions."""
        if self.logs is not None:
            names = [self.stack.functions[function]] if function else list(self.stack.functions.values())
            paths = [path for path in (self.logs / f"{name}.log" for name in names) if path.exists()]
            lines = (line for path in paths for line in path.read_text("utf-8", "replace").splitlines())
            yield from (line for line in lines if containing in line)
            return
        wanted = f"{function.removesuffix('Function')}Logs" if function else ""
        groups = [each for each in self.stack.resources if each.type == "AWS::Logs::LogGroup"]
        pages = self.stack.client("logs").get_paginator("filter_log_events")
        pattern = {"filterPattern": f'"{containing}"'} if containing else {}
        for group in groups:
            if wanted in ("", group.logical_id):
                for page in pages.paginate(logGroupName=group.physical_id, **pattern):
                    yield from (event["message"] for event in page["events"])

    def put(self, key: str, body: bytes) -> None:
        """Put an object straight into S3."""
        self.stack.client("s3").put_object(Bucket=self.bucket, Key=key, Body=body, ContentType="text/plain")

    def ask(
        self,
        key: str,
        method: str = "GET",
        body: bytes | None = None,
        *,
        signs: bool = False,
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        """Send a request to the front door. An error's status is a reply, too, and that of no response is 0."""
        url, headers = f"{self.url}/objects/{quote(key)}", {"Content-Type": "text/plain", **(headers or {})}
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
        except OSError:  # a refused or lost connection, or a time-out
            return Reply(0, "", b"", {}, round((time.perf_counter() - began_s) * 1e3, 2))
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

        Raises:
            NotReachedError: The boot failed, with the reason of its execution, or took too long.
        """
        start_redis(self.stack, self.node, _HOLD_S)
        return self.await_(f"boot of {self.node}", self._is_booted)

    def release_node(self) -> float:
        """Stop the node by hand, and wait for its machine's end. Return how long that took [s]."""
        stop_redis(self.stack, self.node)
        return self.await_(f"end of {self.node}", lambda: self._node()["phase"] == "stopped")

    def _is_booted(self) -> bool:
        node = self._node()
        if node["phase"] == "stopped":  # the hold ended with its boot, so no wait would see the node run
            raise NotReachedError(f"the boot of {self.node} failed: {self._failure() or node.get('reason', 'unknown')}")
        return node["phase"] == "running" and node["pong"]

    def _node(self) -> Pong:
        answer: Pong = ping_redis(self.stack, self.node).answer  # type: ignore[assignment]
        return answer

    def _failure(self) -> str:
        """Return error and cause of the newest failed execution of a node, or an empty text."""
        states = self.stack.client("stepfunctions")
        listed = states.list_executions(stateMachineArn=self.stack.output("RedisNodeArn"), statusFilter="FAILED")
        newest = max(listed["executions"], key=lambda each: each["startDate"], default=None)
        if newest is None:
            return ""
        described = states.describe_execution(executionArn=newest["executionArn"])
        return f"{described.get('error', '')}: {described.get('cause', '')}"
