"""How the system is deployed, as far as its bill depends on it."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

# Larger objects are answered with a redirect to S3 and never cached: MAX_OBJECT_BYTES in template.yaml.
LARGEST_OBJECT_BYTES = {"http-api": 4_194_304, "alb": 716_800}

# Where those who read are: in the VPC, with the client library and without a front door, or on the internet.
Readers = Literal["aws", "internet"]
# What lets cache functions answer: a balancer, a name in a private zone, or nothing: then there is no Lambda tier.
Relay = Literal["nlb", "direct", "none"]
TEMPLATE_RELAY: Relay = "none"  # what template.yaml deploys; a test compares


@dataclass(frozen=True, slots=True)
class Setup:
    """How the system is deployed, as far as the bill depends on it. Defaults are the template's."""

    architecture: str = "arm"
    instance_type: str = "t4g.micro"
    cache_memory_mb: int = 256
    front_door: Literal["http-api", "alb"] = "http-api"
    readers: Readers = "aws"
    object_bytes: int = 10_000  # mean size
    nodes: int = 1
    reader_processes: int = 1  # in the VPC, that share the requests; each reads the digest
    relay: Relay = "nlb"
    relay_ipv4: bool = False  # whether the relay's task has a public address, as in eu-north-1 and eu-west-1
    far_readers: Fraction | int = 0  # the share of the reads whose reader is in another zone than the tiers
    express: bool = False  # whether there is a directory bucket
    always_on_nodes: int = 0  # how many of the nodes never stop
    reader_memory_bytes: int = 0  # that each reader keeps objects in; nobody bills it
    writes_per_h: Fraction | int = 0  # of objects in the bucket, each followed

    @property
    def decides(self) -> bool:
        """Whether anything starts and stops by what is requested: cache functions, or nodes that are not always on."""
        return self.relay != "none" or self.nodes > self.always_on_nodes
