"""Where the services of this process's local cloud listen, and boto3 clients of them."""

from __future__ import annotations

import threading
from dataclasses import dataclass, fields, replace
from functools import cache
from typing import Any

import boto3
from botocore.config import Config

REGION = "eu-central-1"
# moto keeps its state per region: a cloud that starts while another runs in this process takes the next one.
_REGIONS = (REGION, "eu-west-1", "eu-west-2", "eu-west-3", "eu-north-1", "us-east-2", "us-west-1", "us-west-2")

# The state machine interpreter sends what a definition says, as AWS does; a task may take as long as it wants.
_CONFIG = Config(
    parameter_validation=False,
    retries={"total_max_attempts": 1},
    connect_timeout=10,
    read_timeout=100_000,
    max_pool_connections=1000,
    s3={"addressing_style": "path"},
)
_lock = threading.Lock()  # making a client is not thread-safe


@dataclass(slots=True)
class Endpoints:
    """URLs of the running services, empty for those that do not run."""

    cloud_url: str = ""  # moto
    lambda_url: str = ""  # the Lambda Invoke API
    front_url: str = ""  # the HTTP API or load balancer
    region: str = REGION
    relay_address: str = "127.0.0.1"  # what the load balancer's name resolves to


here = Endpoints()
_regions_used: set[str] = set()


def enter(cloud_url: str, region: str) -> Endpoints:
    """Make clients use this moto, and return the previous endpoints."""
    before = replace(here)
    _assign(Endpoints(cloud_url=cloud_url, region=region))
    _regions_used.add(region)
    return before


def leave(before: Endpoints) -> None:
    """Restore the previous endpoints."""
    _assign(before)
    if not before.cloud_url:
        _regions_used.clear()


def fresh_region() -> str:
    """Return a region that is unused in this process."""
    return next((region for region in _REGIONS if region not in _regions_used), REGION)


def _assign(values: Endpoints) -> None:
    for each in fields(values):
        setattr(here, each.name, getattr(values, each.name))


def client(service: str) -> Any:
    """Return the only client of `service`; a new one costs up to 60 ms of CPU."""
    url = here.lambda_url if service == "lambda" and here.lambda_url else here.cloud_url
    return _client(service, url)


def cloud_client(service: str) -> Any:
    """Return the only client of `service` that asks moto, for Lambda as well."""
    return _client(service, here.cloud_url)


def _client(service: str, url: str) -> Any:
    with _lock:
        return _made(service, url, here.region)


@cache
def _made(service: str, url: str, region: str) -> Any:
    return _session().client(service, region_name=region, endpoint_url=url, config=_CONFIG)


@cache
def _session() -> boto3.Session:
    """Return the only session: it keeps the service models, which are slow to read."""
    return boto3.Session("local", "local")
