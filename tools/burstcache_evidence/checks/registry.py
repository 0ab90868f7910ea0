"""The registry of checks, in the order of the items. A check judges the findings of a run. It never runs anything."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from burstcache_evidence.checks import accounting, deployments, machines, network, requests
from burstcache_evidence.findings import Findings, Verdict


@dataclass(frozen=True, slots=True)
class ItemCheck:
    """The check of one item.

    Attributes:
        item: The item's number.
        decide: Judges the findings of the item's steps.
        only_aws: The part of the item that no local cloud has.
        shows_here: Whether the item's steps try the rest of it in a local cloud, with real programs.
    """

    item: int
    decide: Callable[[Findings], Verdict]
    only_aws: str
    shows_here: bool

    @property
    def name(self) -> str:
        """The name of the check, as in the list of items."""
        return self.decide.__name__.replace("_", "-")

    def judge(self, findings: Findings) -> Verdict:
        """Return the item's verdict. In local clouds the item stays open, but what its steps refute is refuted."""
        verdict = self.decide(findings)
        if findings.is_of_aws or verdict.outcome == "refuted":
            return verdict
        here = f"; here: {verdict.because}" if self.shows_here else ""
        return Verdict("only AWS", f"only AWS has {self.only_aws}{here}")


_SHOWN_HERE = {
    network.ipv6_from_the_vpc,
    network.relay_without_ipv4,
    requests.task_answers_without_resource,
    machines.hub_on_fargate,
    requests.keys_with_plus,
    accounting.starts_as_transitions,
    machines.databases_of_state,
    requests.writes_at_the_front_door,
    network.places_of_the_gateway,
    network.account_of_a_company,
    requests.queue_of_events,
}
CHECKS = tuple(
    ItemCheck(number, decide, only_aws, decide in _SHOWN_HERE)
    for number, (decide, only_aws) in enumerate(
        (
            (network.ipv6_from_the_vpc, "endpoints with IPv6"),
            (machines.packages_of_amazon_linux, "the packages of Amazon Linux"),
            (machines.instance_that_switches_itself_off, "CloudFormation's view of an instance"),
            (machines.image_by_parameter, "EC2's images by parameter"),
            (network.relay_without_ipv4, "subnets without IPv4"),
            (requests.task_answers_without_resource, "Step Functions' permissions"),
            (requests.length_of_head, "API Gateway"),
            (deployments.powertools_layer, "layers by region"),
            (machines.hub_on_fargate, "Fargate"),
            (machines.deleting_and_tasks, "networks that take time to delete, and Fargate"),
            (requests.keys_with_plus, "S3's own events"),
            (accounting.starts_as_transitions, "a bill"),
            (deployments.directory_bucket, "directory buckets"),
            (machines.promotion_in_the_first_boot, "instances with a first boot"),
            (deployments.region_without_types, "regions"),
            (accounting.metric_of_no_error, "Lambda's metrics"),
            (accounting.message_of_a_budget, "AWS Budgets"),
            (deployments.replacements, "updates of stacks"),
            (requests.trace_of_a_read, "X-Ray"),
            (accounting.tags_for_the_budget, "tags of its own"),
            (machines.databases_of_state, "Amazon Linux and Fargate under a database"),
            (requests.writes_at_the_front_door, "API Gateway and S3's permissions"),
            (network.places_of_the_gateway, "Lambda's environments with an extension"),
            (network.account_of_a_company, "a VPC with a NAT gateway"),
            (requests.queue_of_events, "Lambda's pollers"),
        ),
        1,
    )
)
