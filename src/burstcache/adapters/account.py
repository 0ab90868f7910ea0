"""What belongs to the account and not to the stack: the service-linked role of ECS, and limits."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from burstcache.adapters.calls import ask
from burstcache.adapters.clock import Clock
from burstcache.core.errors import ServiceError
from burstcache.logs import logger

if TYPE_CHECKING:
    from types_boto3_ec2.client import EC2Client
    from types_boto3_lambda.client import LambdaClient

_ECS, _ECS_ROLE = "ecs.amazonaws.com", "AWSServiceRoleForECS"
# Until IAM has a new role everywhere, ECS cannot assume it and refuses to make a cluster (1Password/scim-examples#356);
# others wait for 10 s with success.
_SPREAD_S = 20
_NODE_VCPUS = ("ec2", "L-1216C47A")  # Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances
_SPOT_VCPUS = ("fargate", "L-36FBB829")  # Fargate Spot vCPU resource count


@dataclass(frozen=True, slots=True)
class Account:
    """The account in the stack's region. Every method raises ServiceError if AWS fails."""

    iam: Any
    quotas: Any
    ec2: EC2Client
    functions: LambdaClient
    clock: Clock

    def make_ecs_role(self) -> bool:
        """Make the role with which ECS works for the account, and return when ECS can assume it.

        Returns:
            Whether it was missing.
        """
        try:
            ask(self.iam.get_role, RoleName=_ECS_ROLE)
        except ServiceError as error:
            if error.code != "NoSuchEntity":
                raise
        else:
            return False
        try:
            ask(self.iam.create_service_linked_role, AWSServiceName=_ECS)
        except ServiceError as error:
            if error.code != "InvalidInput":  # another stack has made it meanwhile
                raise
        self.clock.sleep(_SPREAD_S)
        return True

    def concurrency(self) -> int:
        """Return how many Lambda functions may run at once."""
        return ask(self.functions.get_account_settings)["AccountLimit"]["ConcurrentExecutions"]

    def node_vcpus(self) -> float | None:
        """Return how many vCPUs the On-Demand instances of Graviton families may have; None if AWS does not say."""
        return self._quota(*_NODE_VCPUS)

    def task_vcpus(self) -> float | None:
        """Return how many vCPUs Fargate Spot gives; None if AWS does not say."""
        return self._quota(*_SPOT_VCPUS)

    def zones_without(self, node_type: str, zones: Iterable[str]) -> list[str]:
        """Return the zones in which EC2 has no instances of a type."""
        answer = ask(
            self.ec2.describe_instance_type_offerings,
            LocationType="availability-zone",
            Filters=[{"Name": "instance-type", "Values": [node_type]}],
        )
        offered = {offering["Location"] for offering in answer["InstanceTypeOfferings"]}
        return [zone for zone in zones if zone not in offered]

    def _quota(self, service: str, code: str) -> float | None:
        """Return an applied quota. What cannot be read stops no deployment: Service Quotas does not have every one."""
        try:
            answer = ask(self.quotas.get_service_quota, ServiceCode=service, QuotaCode=code)
        except ServiceError as error:
            logger().warning("quota not known", quota=f"{service} {code}", reason=str(error))
            return None
        return float(answer["Quota"]["Value"])
