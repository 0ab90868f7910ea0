"""The stage of a fault: a local run in this process."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import cache
from random import Random
from typing import Any, Literal

import boto3

from burstcache_local.cloud import LocalCloud
from burstcache_local.faults import OBSERVER

Part = Literal["results", "pool", "hub"]  # used by a load in addition to reads of small objects

_MACHINES = ("KeyLifecycleArn", "RedisNodeArn", "PoolArn")


@dataclass(slots=True)
class Stage:
    """The local run."""

    policy: str
    cloud: LocalCloud
    chance: Random
    parts: frozenset[Part] = frozenset()
    proxies: int = 32  # environments of the proxy
    counts: Counter[str] = field(default_factory=Counter)  # effects of faults
    newest: Counter[str] = field(default_factory=Counter)  # versions of written keys

    def client(self, service: str) -> Any:
        """Return a client that is exempt from faults."""
        return _client(service, self.cloud.region, self.cloud.endpoint_url)

    @property
    def has_pool(self) -> bool:
        """Return whether large objects go through the pool."""
        return not self.parts.isdisjoint(("pool", "hub"))

    @property
    def machines(self) -> list[str]:
        """ARNs of the state machines that the stack has."""
        return [self.cloud.outputs[name] for name in _MACHINES if name in self.cloud.outputs]


@cache
def _client(service: str, region: str, endpoint_url: str) -> Any:
    return boto3.Session(OBSERVER, "local", region_name=region).client(service, endpoint_url=endpoint_url)
