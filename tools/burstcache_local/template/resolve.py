"""The fourth step: parameters and network, which moto would resolve wrongly or not at all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from burstcache_local.template.intrinsics import Network, walk


def resolve(body: dict[str, Any], values: Mapping[str, Any], vpc_block: str, region: str) -> dict[str, Any]:
    """Return the template with its parameters fixed and its VPC moved to `vpc_block`."""
    _fix_parameters(body, values)
    _drop_ipv6(body["Resources"])
    return walk(body, Network(body["Resources"], vpc_block, region).resolve)  # type: ignore[no-any-return]


def _fix_parameters(body: dict[str, Any], values: Mapping[str, Any]) -> None:
    """Make the values the defaults: nothing is looked up in a parameter store."""
    for name, parameter in body.get("Parameters", {}).items():
        value = values[name]
        kind = "CommaDelimitedList" if isinstance(value, list) else "String"
        body["Parameters"][name] = {"Type": kind, "Default": ",".join(value) if isinstance(value, list) else value}
        parameter.clear()


def _drop_ipv6(resources: Mapping[str, Any]) -> None:
    """Leave out the subnets' IPv6 blocks: moto's networks have none, and nothing here needs them."""
    for resource in resources.values():
        if resource["Type"] == "AWS::EC2::Subnet":
            for part in ("Ipv6CidrBlock", "AssignIpv6AddressOnCreation"):
                resource["Properties"].pop(part, None)
