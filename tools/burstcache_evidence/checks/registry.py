"""The registry of checks, in the order of the items. A check judges the findings of a run. It never runs anything."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from burstcache_evidence.checks import accounting, deployments, machines, network, requests
from burstcache_evidence.findings import Findings, Verdict, unreached

_AWS = "AWS"


@dataclass(frozen=True, slots=True)
class ItemCheck:
    """The check of one item."""

    item: int
    name: str
    decide: Callable[[Findings], Verdict]

    def judge(self, findings: Findings) -> Verdict:
        """Return the item's verdict."""
        if findings.content["where"] != _AWS:
            return unreached("local clouds show nothing of AWS")
        return self.decide(findings)


CHECKS = tuple(
    ItemCheck(number, function.__name__.replace("_", "-"), function)
    for number, function in enumerate(
        (
            network.ipv6_from_the_vpc,
            machines.packages_of_amazon_linux,
            machines.instance_that_switches_itself_off,
            machines.image_by_parameter,
            network.relay_without_ipv4,
            requests.task_answers_without_resource,
            requests.length_of_head,
            deployments.powertools_layer,
            machines.hub_on_fargate,
            machines.deleting_and_tasks,
            requests.keys_with_plus,
            accounting.starts_as_transitions,
            deployments.directory_bucket,
            machines.promotion_in_the_first_boot,
            deployments.region_without_types,
            accounting.metric_of_no_error,
            accounting.message_of_a_budget,
            deployments.replacements,
            requests.trace_of_a_read,
            accounting.tags_for_the_budget,
            machines.databases_of_state,
            requests.writes_at_the_front_door,
            network.places_of_the_gateway,
            network.account_of_a_company,
            requests.queue_of_events,
        ),
        1,
    )
)
