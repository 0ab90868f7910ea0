"""The services of one local cloud: where they listen, boto3 clients of them, and who does what moto only records."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Protocol, cast

import boto3
from botocore.config import Config

from burstcache_local.errors import LocalCloudError
from burstcache_local.moto.answers import Answers

REGION = "us-east-2"  # the template deploys there with any parameters
_REGIONS = (REGION, "us-west-2", "eu-central-1", "eu-west-2", "eu-west-3", "eu-south-1", "ca-central-1", "us-west-1")

# The state machine interpreter sends what a definition says, as AWS does; a task may take as long as it wants.
_CONFIG = Config(
    parameter_validation=False,
    retries={"total_max_attempts": 1},
    connect_timeout=10,
    read_timeout=100_000,
    max_pool_connections=1000,
    s3=cast(Any, {"addressing_style": "path", "disable_s3_express_session_auth": True}),  # moto has no sessions
)

# A rule's target, its function's payload, the rule's ARN, a trace's header.
Sink = Callable[[Mapping[str, Any], bytes, str, str], None]


class Agent(Protocol):
    """The agent in charge of the instances."""

    def created(self, instance: Any) -> None: ...

    def enter(self, instance: Any, state: str) -> None: ...


class Services:
    """What one local cloud has of moto.

    moto keeps its state per process and region, so each cloud has a region of its own; by it, moto's parts find the
    cloud that they belong to.

    Raises:
        LocalCloudError: All regions have been used since a cloud last ran alone in this process.
    """

    def __init__(self) -> None:
        self.cloud_url = ""  # moto; as all others empty until it runs
        self.lambda_url = ""  # the Lambda Invoke API
        self.front_url = ""  # the HTTP API or load balancer
        self.relay_address = "127.0.0.1"  # what the load balancer's name resolves to
        self.instances: Agent | None = None  # None: moto itself is in charge of them
        self.deliver: Sink | None = None  # gets events for functions, in moto's threads, and must not block
        self.answers = Answers()  # of custom resources' functions
        self.errors: deque[BaseException] = deque(maxlen=1)  # the last that moto did not expect; a client sees a 500
        self._clients: dict[tuple[str, str], Any] = {}
        self._lock = threading.Lock()  # making a client is not thread-safe
        with _CLAIMS:
            if not _RUNNING:
                _USED.clear()
            self.is_alone = not _RUNNING  # when it began
            self.region = next((region for region in _REGIONS if region not in _USED), "")
            if not self.region:
                raise LocalCloudError(
                    f"{len(_REGIONS)} local clouds have run next to each other in this process: use another process"
                )
            _USED.add(self.region)
            _RUNNING[self.region] = self

    def close(self) -> None:
        """Let the region be used again as soon as no other cloud runs in this process."""
        with _CLAIMS:
            _RUNNING.pop(self.region, None)

    def client(self, service: str) -> Any:
        """Return the only client of `service`; a new one costs up to 60 ms of CPU."""
        return self._client(service, self.lambda_url if service == "lambda" and self.lambda_url else self.cloud_url)

    def cloud_client(self, service: str) -> Any:
        """Return the only client of `service` that asks moto, for Lambda as well."""
        return self._client(service, self.cloud_url)

    def _client(self, service: str, url: str) -> Any:
        with self._lock:
            if (service, url) not in self._clients:
                self._clients[service, url] = new_client(service, url, self.region)
            return self._clients[service, url]


_RUNNING: dict[str, Services] = {}  # by region
_USED: set[str] = set()  # regions whose state may not be empty
_CLAIMS = threading.Lock()


def of_region(region: str) -> Services | None:
    """Return the services of the cloud that has a region; None where moto runs for a test of its own."""
    return _RUNNING.get(region)


def new_client(service: str, url: str, region: str) -> Any:
    """Return a client of a service that listens on this machine."""
    return _session().client(service, region_name=region, endpoint_url=url, config=_CONFIG)


@cache
def _session() -> boto3.Session:
    """Return the only session: it keeps the service models, which are slow to read."""
    return boto3.Session("local", "local")
