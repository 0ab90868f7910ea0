"""Step 4 of the pipeline, `resolve`, replaces parameters and network addresses that moto cannot resolve."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from burstcache_local.template.intrinsics import Network, walk


def resolve(
    body: dict[str, Any], values: Mapping[str, Any], *, vpc_block: str, relay_address: str, region: str
) -> dict[str, Any]:
    """Return the template with fixed parameters, a VPC in `vpc_block`, and no private DNS names."""
    _fix_parameters(body, values)
    _drop_ipv6(body["Resources"])
    body = _without_names(body, relay_address)
    return walk(body, Network(body["Resources"], values, vpc_block, region).resolve)  # type: ignore[no-any-return]


def _fix_parameters(body: dict[str, Any], values: Mapping[str, Any]) -> None:
    """Replace each parameter's default with its value, so that moto does not read Parameter Store."""
    for name, parameter in body.get("Parameters", {}).items():
        value = values[name]
        kind = "CommaDelimitedList" if isinstance(value, list) else "String"
        body["Parameters"][name] = {"Type": kind, "Default": ",".join(value) if isinstance(value, list) else value}
        parameter.clear()


def _drop_ipv6(resources: Mapping[str, Any]) -> None:
    """Remove IPv6 blocks, which moto does not support. IPv6-only subnets get IPv4 blocks with the same index."""
    for resource in resources.values():
        properties = resource.get("Properties", {})
        if resource["Type"] == "AWS::EC2::Subnet":
            block = properties.pop("Ipv6CidrBlock", None)
            properties.pop("AssignIpv6AddressOnCreation", None)
            if properties.pop("Ipv6Native", False):
                number = block["Fn::Select"][0]
                vpc_block = {"Fn::GetAtt": [properties["VpcId"]["Ref"], "CidrBlock"]}
                properties["CidrBlock"] = {"Fn::Select": [number, {"Fn::Cidr": [vpc_block, number + 1, 8]}]}
        if resource["Type"] == "AWS::EC2::SecurityGroup":
            for direction in ("SecurityGroupIngress", "SecurityGroupEgress"):
                rules = properties.get(direction, [])
                properties[direction] = [rule for rule in rules if "CidrIpv6" not in rule]


def _without_names(body: dict[str, Any], relay_address: str) -> dict[str, Any]:
    """Replace service DNS names in private namespaces with the relay's address."""
    resources = body["Resources"]
    names = [
        _prefixed(service["Properties"]["Name"], resources[service["Properties"]["NamespaceId"]["Ref"]])
        for service in resources.values()
        if service["Type"] == "AWS::ServiceDiscovery::Service"
    ]

    def replaced(value: Any) -> Any:
        return relay_address if value in names else value

    return walk(body, replaced)  # type: ignore[no-any-return]


def _prefixed(service: str, namespace: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Return the expression that the template uses for a service's DNS name."""
    text, values = namespace["Properties"]["Name"]["Fn::Sub"]
    return {"Fn::Sub": [f"{service}.{text}", values]}
