"""The stack's AWS account: the service-linked role for ECS, and quotas."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from burstcache.adapters.calls import call_aws
from burstcache.adapters.clock import Clock
from burstcache.core.errors import ServiceError
from burstcache.logs import logger

if TYPE_CHECKING:
    from types_boto3_ec2.client import EC2Client
    from types_boto3_lambda.client import LambdaClient

_ECS, _ECS_ROLE = "ecs.amazonaws.com", "AWSServiceRoleForECS"
# Until a new role has propagated in IAM, ECS cannot assume it and fails to create a cluster
# (1Password/scim-examples#356). A wait of 10 s has worked for others.
_PROPAGATION_S = 20
_NODE_VCPUS = ("ec2", "L-1216C47A")  # Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances
_SPOT_VCPUS = ("fargate", "L-36FBB829")  # Fargate Spot vCPU resource count
_ON_DEMAND_TASK_VCPUS = ("fargate", "L-3032A538")  # Fargate On-Demand vCPU resource count


@dataclass(frozen=True, slots=True)
class Account:
    """The AWS account in the stack's region. Every method raises ServiceError if AWS fails."""

    iam: Any
    quotas: Any
    ec2: EC2Client
    functions: LambdaClient
    clock: Clock

    def make_ecs_role(self) -> bool:
        """Create the service-linked role for ECS if the role is missing, and wait until ECS can assume it.

        Returns:
            True if the role was missing.
        """
        try:
            call_aws(self.iam.get_role, RoleName=_ECS_ROLE)
        except ServiceError as error:
            if error.code != "NoSuchEntity":
                raise
        else:
            return False
        try:
            call_aws(self.iam.create_service_linked_role, AWSServiceName=_ECS)
        except ServiceError as error:
            if error.code != "InvalidInput":  # another stack has just created the role
                raise
        self.clock.sleep(_PROPAGATION_S)
        return True

    def concurrency(self) -> int:
        """Return the account's concurrency limit for Lambda."""
        return call_aws(self.functions.get_account_settings)["AccountLimit"]["ConcurrentExecutions"]

    def node_vcpus(self) -> float | None:
        """Return the vCPU quota of On-Demand standard instances, including Graviton, or None if unknown."""
        return self._quota(*_NODE_VCPUS)

    def task_vcpus(self) -> float | None:
        """Return the vCPU quota of Fargate Spot, or None if unknown."""
        return self._quota(*_SPOT_VCPUS)

    def on_demand_task_vcpus(self) -> float | None:
        """Return the vCPU quota of Fargate on demand, or None if unknown."""
        return self._quota(*_ON_DEMAND_TASK_VCPUS)

    def zones_without(self, node_type: str, zones: Iterable[str]) -> list[str]:
        """Return the availability zones in which EC2 does not offer an instance type."""
        response = call_aws(
            self.ec2.describe_instance_type_offerings,
            LocationType="availability-zone",
            Filters=[{"Name": "instance-type", "Values": [node_type]}],
        )
        offered = {offering["Location"] for offering in response["InstanceTypeOfferings"]}
        return [zone for zone in zones if zone not in offered]

    def without_ipv6(self, subnets: Sequence[str]) -> list[str]:
        """Return the subnets that have no IPv6 block."""
        described = call_aws(self.ec2.describe_subnets, SubnetIds=subnets)["Subnets"]
        return [
            subnet["SubnetId"]
            for subnet in described
            if not any(
                block["Ipv6CidrBlockState"]["State"] == "associated"
                for block in subnet.get("Ipv6CidrBlockAssociationSet", ())
            )
        ]

    def _quota(self, service: str, code: str) -> float | None:
        """Return an applied quota, or None if Service Quotas does not list it."""
        try:
            response = call_aws(self.quotas.get_service_quota, ServiceCode=service, QuotaCode=code)
        except ServiceError as error:
            logger().warning("quota not known", quota=f"{service} {code}", reason=str(error))
            return None
        return float(response["Quota"]["Value"])
