"""The network of a company's account: a VPC without IPv6, whose private subnet reaches AWS through a NAT gateway."""

from __future__ import annotations

from typing import Any

SUFFIX = "-network"


def _route_table(name: str, **target: Any) -> dict[str, Any]:
    """Return a route table of a subnet, with a default route."""
    of_vpc = {"VpcId": {"Ref": "Vpc"}}
    table = {"Ref": f"{name}Routes"}
    route = {"RouteTableId": table, "DestinationCidrBlock": "0.0.0.0/0", **target}
    return {
        f"{name}Routes": {"Type": "AWS::EC2::RouteTable", "Properties": of_vpc},
        f"{name}Association": {
            "Type": "AWS::EC2::SubnetRouteTableAssociation",
            "Properties": {"RouteTableId": table, "SubnetId": {"Ref": f"{name}Subnet"}},
        },
        f"{name}Route": {"Type": "AWS::EC2::Route", "DependsOn": "Attachment", "Properties": route},
    }


def _subnet(cidr: str) -> dict[str, Any]:
    zone = {"Fn::Select": [0, {"Fn::GetAZs": ""}]}
    properties = {"VpcId": {"Ref": "Vpc"}, "CidrBlock": cidr, "AvailabilityZone": zone}
    return {"Type": "AWS::EC2::Subnet", "Properties": properties}


TEMPLATE: dict[str, Any] = {
    "Resources": {
        "Vpc": {
            "Type": "AWS::EC2::VPC",
            "Properties": {"CidrBlock": "10.30.0.0/16", "EnableDnsSupport": True, "EnableDnsHostnames": True},
        },
        "Gateway": {"Type": "AWS::EC2::InternetGateway"},
        "Attachment": {
            "Type": "AWS::EC2::VPCGatewayAttachment",
            "Properties": {"VpcId": {"Ref": "Vpc"}, "InternetGatewayId": {"Ref": "Gateway"}},
        },
        "PublicSubnet": _subnet("10.30.0.0/24"),
        "PrivateSubnet": _subnet("10.30.1.0/24"),
        "Address": {"Type": "AWS::EC2::EIP", "DependsOn": "Attachment", "Properties": {"Domain": "vpc"}},
        "Nat": {
            "Type": "AWS::EC2::NatGateway",
            "Properties": {
                "AllocationId": {"Fn::GetAtt": ["Address", "AllocationId"]},
                "SubnetId": {"Ref": "PublicSubnet"},
            },
        },
        **_route_table("Public", GatewayId={"Ref": "Gateway"}),
        **_route_table("Private", NatGatewayId={"Ref": "Nat"}),
    },
    "Outputs": {
        "VpcId": {"Value": {"Ref": "Vpc"}},
        "SubnetIds": {"Value": {"Ref": "PrivateSubnet"}},
        "RelaySubnetIds": {"Value": {"Ref": "PrivateSubnet"}},
    },
}
