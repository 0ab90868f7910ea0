"""Where the services of this process's local cloud listen, and boto3 clients of them."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from functools import cache
from typing import Any

import boto3
from botocore.config import Config

REGION = "eu-central-1"

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
    """URLs of what runs. Empty: does not run."""

    cloud_url: str = ""  # moto
    lambda_url: str = ""  # the Lambda Invoke API
    front_url: str = ""  # the HTTP API or load balancer
    relay_address: str = "127.0.0.1"  # what the load balancer's name resolves to


here = Endpoints()


def client(service: str) -> Any:
    """Return the one client of `service`: making a new one costs up to 60 ms of CPU."""
    url = here.lambda_url if service == "lambda" and here.lambda_url else here.cloud_url
    return _client(service, url)


def cloud_client(service: str) -> Any:
    """Return the one client that asks moto, for Lambda too."""
    return _client(service, here.cloud_url)


def _client(service: str, url: str) -> Any:
    with _lock:
        return _made(service, url)


@cache
def _made(service: str, url: str) -> Any:
    return _session().client(service, endpoint_url=url, config=_CONFIG)


@cache
def _session() -> boto3.Session:
    """Return the one session: it keeps the service models, which take long to read."""
    return boto3.Session("local", "local", region_name=REGION)
