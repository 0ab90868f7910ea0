"""The monthly cost of an idle stack, computed from the resources in its template."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from burstcache.core.errors import PriceMissingError
from burstcache.core.node_kinds import with_address
from burstcache.core.prices import PriceSheet, price_sheet
from burstcache.core.worth import node_price_usd_per_h, sheet_of_region
from burstcache_local.template import parameters
from burstcache_local.template.intrinsics import Conditions
from burstcache_sim.bill.usage import QUEUE_POLLS_PER_H

MONTH_H = 730
_OTHER_REGIONS = "today-us-east-1"  # for prices missing from a region's sheet
_RELAY_VCPU, _RELAY_GB, _NODE_GB = Fraction(1, 4), Fraction(1, 2), 3
_JANITOR_USD = Fraction("0.0153")  # 8,760 runs per month, one every five minutes


@dataclass(frozen=True, slots=True)
class Item:
    """One item of an idle stack's monthly bill."""

    name: str
    usd: Fraction  # per month


@dataclass(frozen=True, slots=True)
class Prices:
    """A region's prices, with Northern Virginia's prices as a fallback."""

    region: str

    @property
    def sheet(self) -> PriceSheet:
        """The region's latest price sheet, or Northern Virginia's if the region has none."""
        return sheet_of_region(self.region)

    def usd(self, item: str) -> Fraction:
        """Return the price of one unit of an item [USD], or raise PriceMissingError if no sheet has it."""
        try:
            return self.sheet.usd(item)
        except PriceMissingError:
            return price_sheet(_OTHER_REGIONS).usd(item)

    def node_usd_per_h(self, name: str) -> Fraction:
        """Return the price of an hour of a node, such as `t4g.micro` or `fargate-spot:2GB` [USD]."""
        return node_price_usd_per_h(self.sheet, name)

    def month(self, item: str, units: Fraction | int = 1) -> Fraction:
        """Return the monthly price of an item that is billed by the hour [USD]."""
        return self.usd(item) * units * MONTH_H


def node_name(template: Mapping[str, Any], values: Mapping[str, Any], region: str) -> str:
    """Return the name by which a stack's nodes are priced. The arguments are those of `idle_items`."""
    return parameters.node_name(template, _conditions(template, values, region))


def database_name(template: Mapping[str, Any], values: Mapping[str, Any], region: str) -> str:
    """Return the name by which a stack's databases of state are priced. The arguments are those of `idle_items`."""
    conditions = _conditions(template, values, region)
    if not conditions.holds("StateIsTask"):
        return str(values["RedisInstanceType"])
    name = f"{values['StateOn']}:{values['RedisTaskMemoryGb']}GB"
    return with_address(name) if conditions.holds("RelayIsPublic") else name


def idle_items(template: Mapping[str, Any], values: Mapping[str, Any], region: str) -> list[Item]:
    """Return an idle stack's bill for a month. Resources of the same kind share one item.

    Args:
        template: The template.
        values: Values of all parameters.
        region: The stack's region.
    """
    conditions, prices = _conditions(template, values, region), Prices(region)
    node_usd = prices.node_usd_per_h(node_name(template, values, region)) * MONTH_H
    sums: dict[str, Fraction] = {}
    for name, part in template["Resources"].items():
        if "Condition" not in part or conditions.holds(part["Condition"]):
            for item in _items(name, part, conditions, values, prices, node_usd):
                sums[item.name] = sums.get(item.name, Fraction(0)) + item.usd
    return [Item(name, usd) for name, usd in sums.items()]


def _conditions(template: Mapping[str, Any], values: Mapping[str, Any], region: str) -> Conditions:
    return Conditions(template, {**values, "AWS::Region": region, "AWS::Partition": "aws"})


def _items(
    name: str,
    part: Mapping[str, Any],
    conditions: Conditions,
    values: Mapping[str, Any],
    prices: Prices,
    node_usd: Fraction,
) -> Iterator[Item]:
    """Yield the bill items for one resource. `node_usd` is the price of a node for a month [USD]."""
    properties = part.get("Properties", {})
    match part["Type"]:
        case "AWS::ElasticLoadBalancingV2::LoadBalancer" if properties["Type"] == "network":
            yield Item("Network Load Balancer", prices.month("nlb"))
        case "AWS::ElasticLoadBalancingV2::LoadBalancer":
            yield Item("Application Load Balancer", prices.month("alb"))
            if conditions.holds("AlbIsPublic"):
                yield Item("public addresses", prices.month("ipv4", 2))
        case "AWS::ECS::Service" if properties["DesiredCount"]:  # not the pool's hub, which runs on demand
            task = prices.month("fargate-spot-vcpu:arm", _RELAY_VCPU) + prices.month(
                "fargate-spot-memory:arm", _RELAY_GB
            )
            yield Item("relay on Fargate Spot", task)
            if conditions.holds("RelayIsPublic"):
                yield Item("public addresses", prices.month("ipv4"))
        case "AWS::ServiceDiscovery::PrivateDnsNamespace":
            yield Item("private DNS zone", prices.month("private-zone"))
        case "AWS::EC2::Instance":
            yield Item("volumes of nodes and databases", prices.month("ebs-gp3", _volume_gb(properties, conditions)))
            if name.startswith("RedisInstance") and int(name[-1]) <= int(values["RedisAlwaysOnNodes"]):
                yield Item("nodes that never stop", node_usd)
        case "Custom::RedisTasks" if name == "RedisTasks":  # not those of databases, which always sleep
            nodes = min(int(values["RedisAlwaysOnNodes"]), int(values["RedisNodeCount"]))
            yield Item("nodes that never stop", node_usd * nodes)
        case "AWS::EC2::Volume":
            size_gb = int(conditions.value(properties["Size"]))
            yield Item("volumes of nodes and databases", prices.month("ebs-gp3", size_gb))
        case "AWS::CloudWatch::Alarm":
            yield Item("alarms", prices.month("alarm-metric"))  # each watches one metric
        case "AWS::Events::Rule" if name == "JanitorRule":
            yield Item("janitor", _JANITOR_USD)
        case "AWS::Lambda::EventSourceMapping":
            yield Item("queue of S3's events (1M requests free)", prices.month("sqs-request", QUEUE_POLLS_PER_H))


def _volume_gb(properties: Mapping[str, Any], conditions: Conditions) -> int:
    for device in properties.get("BlockDeviceMappings", ()):  # only databases define a volume
        return int(conditions.value(device["Ebs"]["VolumeSize"]))
    return _NODE_GB
