"""The services of one local cloud, with URLs, boto3 clients, and callbacks for moto's instances and events."""

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

REGION = "us-east-2"  # supports all parameter combinations
_REGIONS = (REGION, "us-west-2", "eu-central-1", "eu-west-2", "eu-west-3", "eu-south-1", "ca-central-1", "us-west-1")

# As on AWS, state machines send their arguments unvalidated, and tasks have no read timeout.
_CONFIG = Config(
    parameter_validation=False,
    retries={"total_max_attempts": 1},
    connect_timeout=10,
    read_timeout=100_000,
    max_pool_connections=1000,
    s3=cast(Any, {"addressing_style": "path", "disable_s3_express_session_auth": True}),  # moto has no sessions
)

# Arguments: a rule's target, the function's payload, the rule's ARN, a trace header.
Sink = Callable[[Mapping[str, Any], bytes, str, str], None]


class Agent(Protocol):
    """The agent that manages instance states."""

    def created(self, instance: Any) -> None: ...

    def enter(self, instance: Any, state: str) -> None: ...


class TaskAgent(Protocol):
    """The agent that manages tasks started by RunTask."""

    def address(self) -> str: ...

    def refusal(self, provider: str) -> str: ...

    def created(self, task: Any) -> None: ...

    def end(self, task: Any, code: str, reason: str) -> None: ...


class Services:
    """The services of one local cloud in moto.

    moto keeps its state per process and region, so each cloud has its own region. Patches of moto find their cloud by
    region.

    Raises:
        LocalCloudError: All regions have been used since a cloud last ran alone in this process.
    """

    def __init__(self) -> None:
        self.cloud_url = ""  # URL of moto; all URLs are empty until their servers run
        self.lambda_url = ""  # URL of the Lambda Invoke API
        self.front_url = ""  # URL of the HTTP API or load balancer
        self.relay_address = "127.0.0.1"  # used as the network load balancer's DNS name
        self.instances: Agent | None = None  # None: moto manages the instances
        self.tasks: TaskAgent | None = None  # None: moto manages the tasks
        self.deliver: Sink | None = None  # receives events for functions in moto's threads, and must not block
        self.answers = Answers()  # from custom resources' functions
        self.errors: deque[BaseException] = deque(maxlen=1)  # last unexpected error in moto; clients get a 500
        self._clients: dict[tuple[str, str], Any] = {}
        self._lock = threading.Lock()  # creating boto3 clients is not thread-safe
        with _CLAIMS:
            if not _RUNNING:
                _USED.clear()
            self.is_alone = not _RUNNING  # whether no other cloud was running at the start
            self.region = next((region for region in _REGIONS if region not in _USED), "")
            if not self.region:
                raise LocalCloudError(
                    f"{len(_REGIONS)} local clouds have run concurrently in this process: use another process"
                )
            _USED.add(self.region)
            _RUNNING[self.region] = self

    def close(self) -> None:
        """Release the region, which can be reused once no other cloud runs in this process."""
        with _CLAIMS:
            _RUNNING.pop(self.region, None)

    def client(self, service: str) -> Any:
        """Return the shared client of `service`, because creating a client costs up to 60 ms of CPU."""
        return self._client(service, self.lambda_url if service == "lambda" and self.lambda_url else self.cloud_url)

    def cloud_client(self, service: str) -> Any:
        """Return the shared client of `service` that calls moto, even for Lambda."""
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
    """Return the services of a region's cloud, or None if moto runs without a local cloud."""
    return _RUNNING.get(region)


def new_client(service: str, url: str, region: str) -> Any:
    """Return a new client for a service at a local URL."""
    return _session().client(service, region_name=region, endpoint_url=url, config=_CONFIG)


@cache
def _session() -> boto3.Session:
    """Return the shared session, which caches the service models, because loading the models is slow."""
    return boto3.Session("local", "local")
