"""The setup of a deployment: the settings that affect its bill."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, get_args

from burstcache.core.node_kinds import has_address, node_kind, with_address, without_address
from burstcache_sim.world.interruptions import ASSUMED_PER_H
from burstcache_sim.world.timings import NodeTimes

# Size limits of cached objects: MAX_OBJECT_BYTES in template.yaml. Larger objects are redirected to S3.
LARGEST_OBJECT_BYTES = {"http-api": 4_194_304, "alb": 716_800}

# Where readers run: in the VPC with the client library and without a front door, or on the internet.
Readers = Literal["aws", "internet"]
# How readers reach the relay: through an NLB, by a name in a private DNS zone, or not at all (no Lambda tier).
Relay = Literal["nlb", "direct", "none"]
# How S3's events of writes reach the origin function: by a queue, or each by an invocation of its own.
OriginEvents = Literal["queue", "direct"]
TEMPLATE_RELAY: Relay = "none"  # template.yaml's defaults, compared by a test
TEMPLATE_NODE = "fargate-spot:2GB"


@dataclass(frozen=True, slots=True)
class Setup:
    """Settings of a deployment that affect its bill. Defaults are the template's, but for relay and node.

    As the thesis's system, it has a relay and a node on EC2.
    """

    architecture: str = "arm"
    instance_type: str = "t4g.micro"  # kind and size of the nodes (`core.node_kinds`)
    cache_memory_mb: int = 256
    front_door: Literal["http-api", "alb"] = "http-api"
    readers: Readers = "aws"
    object_bytes: int = 10_000  # mean size of an object
    nodes: int = 1
    reader_processes: int = 1  # in the VPC, where processes share the requests and each reads the digest
    relay: Relay = "nlb"
    relay_ipv4: bool = False  # whether tasks on Fargate have public addresses, as in eu-north-1 and eu-west-1
    far_readers: Fraction | int = 0  # share of reads from outside the tiers' availability zone
    express: bool = False  # whether there is a directory bucket
    always_on_nodes: int = 0  # nodes that never stop
    reader_memory_bytes: int = 0  # local cache of each reader, not billed
    node_times: NodeTimes = "usual"  # boots and stops of the nodes
    interruptions_per_h: Fraction | int = ASSUMED_PER_H  # of each node on Spot that a policy runs
    interruption_seed: int = 1
    writes_per_h: Fraction | int = 0  # writes to the bucket's objects, each with an invalidation
    origin_events: OriginEvents = "queue"

    @property
    def has_tasks(self) -> bool:
        """Whether the nodes are tasks on Fargate, which have no volume."""
        return node_kind(self.instance_type) != "ec2"

    @property
    def node_name(self) -> str:
        """Name of the nodes by which they are priced, including a task's public address."""
        return with_address(self.instance_type) if self.has_tasks and self.relay_ipv4 else self.instance_type

    @property
    def decides(self) -> bool:
        """Whether demand starts and stops any resources: cache functions, or nodes that are not always on."""
        return self.relay != "none" or self.nodes > self.always_on_nodes


def deployed_setup(parameters: Mapping[str, str], *, node_name: str = "") -> Setup:
    """Return the setup that determines a stack's bill.

    Args:
        parameters: The stack's parameters.
        node_name: The name by which its functions price the nodes. Empty: the parameters have kind and size, and the
            nodes have no public addresses.
    """
    usual, relay = Setup(), parameters.get("Relay", "nlb")
    events = parameters.get("OriginEvents", "direct")  # a stack without the parameter has no queue
    assert relay in get_args(Relay), "the template accepts no other"
    assert events in get_args(OriginEvents), "the template accepts no other"
    door: Literal["alb", "http-api"] = "alb" if parameters.get("FrontDoor") == "alb" else "http-api"
    return Setup(
        instance_type=without_address(node_name) or _deployed_node(parameters, usual.instance_type),
        cache_memory_mb=int(parameters.get("CacheMemoryMb", usual.cache_memory_mb)),
        front_door=door,
        readers="internet",
        nodes=int(parameters.get("RedisNodeCount", 1)),
        always_on_nodes=int(parameters.get("RedisAlwaysOnNodes", 0)),
        relay=relay,  # type: ignore[arg-type]  # as asserted
        relay_ipv4=has_address(node_name),
        express=bool(parameters.get("ExpressZone")),
        origin_events=events,  # type: ignore[arg-type]  # as asserted
    )


def _deployed_node(parameters: Mapping[str, str], usual: str) -> str:
    """Return the name of a stack's nodes."""
    kind = parameters.get("RedisOn", "ec2")
    if kind == "ec2":
        return parameters.get("RedisInstanceType", usual)
    return f"{kind}:{parameters['RedisTaskMemoryGb']}GB"
