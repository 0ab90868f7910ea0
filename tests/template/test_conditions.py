"""Every combination of answers makes a whole template: nothing refers to what its condition leaves out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import product
from typing import Any

import pytest

from burstcache_local.errors import TemplateError
from support.combinations import pairs_first
from support.deployed import decided, deployed, kept

_ANSWERS = {
    "FrontDoor": ("http-api", "alb"),
    "ApiAuth": ("none", "iam"),
    "OriginBucketName": ("", "my-bucket"),
    "AccessLogs": ("disabled", "enabled"),
    "Tracing": ("Disabled", "Active"),
    "ExpressZone": ("", "euc1-az1"),
    "AlarmEmail": ("", "me@example.com"),
    "Relay": ("nlb", "direct", "none"),
    "RedisNodeCount": ("0", "1", "8"),
}
_COMBINATIONS = [
    dict(zip(_ANSWERS, values, strict=True)) for values in product(*_ANSWERS.values()) if values[:2] != ("alb", "iam")
]
Translate = Callable[[Mapping[str, str]], dict[str, Any]]
Walk = Callable[[Any], Iterator[Any]]


def named(value: Any, walk: Walk) -> set[str]:
    """Logical ids in Ref, Fn::GetAtt and Fn::Sub."""
    found = set()
    for part in walk(value):
        if isinstance(part, dict) and len(part) == 1:
            ((name, operand),) = part.items()
            if name == "Ref":
                found.add(operand)
            elif name == "Fn::GetAtt":
                found.add(operand[0] if isinstance(operand, list) else operand.partition(".")[0])
            elif name == "Fn::Sub":
                sentence, values = (operand, {}) if isinstance(operand, str) else operand
                pieces = {piece.partition("}")[0].partition(".")[0] for piece in sentence.split("${")[1:]}
                found |= pieces - set(values)
    return found


@pytest.mark.parametrize(
    "answers", pairs_first(_COMBINATIONS), ids=lambda answers: "-".join(filter(None, answers.values()))
)
def test_a_combination_refers_to_nothing_that_it_leaves_out(
    cloudformation: dict[str, Any], walk: Walk, answers: dict[str, str]
) -> None:
    conditions = decided(cloudformation, answers)

    resources, outputs = (kept(cloudformation, section, conditions) for section in ("Resources", "Outputs"))

    absent = cloudformation["Resources"].keys() - resources.keys()
    awaited = {name for part in resources.values() for name in _listed(part.get("DependsOn", []))}
    assert (named([resources, outputs], walk) | awaited) & absent == set()
    # AWS refuses a statement without a resource, and most other empty lists.
    empty = {name for part in walk(resources) if isinstance(part, dict) for name, value in part.items() if value == []}
    assert empty <= {"Layers", "ManagedPolicyArns"}


def _listed(names: str | list[str]) -> list[str]:
    return [names] if isinstance(names, str) else names


@pytest.mark.parametrize(
    ("answers", "door", "other"),
    [({"FrontDoor": "http-api"}, "HttpApi", "Alb"), ({"FrontDoor": "alb"}, "Alb", "HttpApi")],
    ids=["http-api", "alb"],
)
def test_there_is_one_front_door(translate: Translate, answers: dict[str, str], door: str, other: str) -> None:
    body = translate(answers)

    resources = deployed(body, answers)

    assert f"{door}Permission" in resources
    assert [name for name in resources if name.startswith(other)] == []


def of_relay(resources: dict[str, Any]) -> set[str]:
    return {name for name in resources if name.startswith(("Relay", "Cache")) and name != "CacheTable"}


def test_a_balancer_or_a_name_leads_to_the_relay(cloudformation: dict[str, Any]) -> None:
    nlb, direct = (of_relay(deployed(cloudformation, {"Relay": relay})) for relay in ("nlb", "direct"))

    assert nlb - direct == {"RelayBalancer", "RelayBalancerSecurityGroup", "RelayListener", "RelayTargetGroup"}
    assert direct - nlb == {"RelayName", "RelayNamespace"}


def test_without_a_relay_there_is_no_cache_function(cloudformation: dict[str, Any]) -> None:
    resources = deployed(cloudformation, {"Relay": "none"})

    assert of_relay(resources) == set()
    assert "relay" not in str(resources["SchedulerFunction"]["Properties"]["Environment"]).lower().replace(
        "'has_relay': 'false'", ""
    )


def test_no_public_address_is_paid_for_without_an_alb(cloudformation: dict[str, Any], walk: Walk) -> None:
    resources = deployed(cloudformation, {})

    assert "InternetGateway" not in resources
    assert {
        part["AssignPublicIp"] for part in walk(resources) if isinstance(part, dict) and "AssignPublicIp" in part
    } == {"DISABLED"}


NEITHER = {"Relay": "none", "RedisNodeCount": "0"}


def test_without_tiers_there_is_no_network_and_nothing_that_looks_after_lives(cloudformation: dict[str, Any]) -> None:
    resources = deployed(cloudformation, NEITHER)

    types = {part["Type"] for part in resources.values()}
    functions = {name for name, part in resources.items() if part["Type"] == "AWS::Lambda::Function"}
    assert functions == {"ProxyFunction", "OriginFunction", "SelfTestFunction"}
    assert "VpcConfig" not in resources["ProxyFunction"]["Properties"]
    assert not any(type_.startswith("AWS::EC2::") for type_ in types)
    assert types & {"AWS::Events::EventBus", "AWS::StepFunctions::StateMachine"} == set()


def test_copies_in_express_need_no_network(cloudformation: dict[str, Any]) -> None:
    resources = deployed(cloudformation, {**NEITHER, "ExpressZone": "use1-az4"})

    assert "ExpressBucket" in resources
    assert not any(part["Type"].startswith("AWS::EC2::") for part in resources.values())


def test_a_load_balancer_in_front_has_a_network_without_tiers(cloudformation: dict[str, Any]) -> None:
    resources = deployed(cloudformation, {**NEITHER, "FrontDoor": "alb"})

    assert {"Vpc", "PublicSubnetA", "PublicSubnetB"} <= resources.keys()
    assert "PrivateSubnetA" not in resources


@pytest.mark.parametrize(("auth", "expected"), [("none", "NONE"), ("iam", "AWS_IAM")])
def test_every_route_asks_for_a_signature_or_none_does(translate: Translate, auth: str, expected: str) -> None:
    body = translate({"ApiAuth": auth})

    resources = deployed(body, {"ApiAuth": auth})

    routes = [part["Properties"] for part in resources.values() if part["Type"] == "AWS::ApiGatewayV2::Route"]
    assert {route["AuthorizationType"] for route in routes} == {expected}
    assert {route["RouteKey"] for route in routes} == {
        "GET /objects/{key+}",
        "HEAD /objects/{key+}",
        "GET /objects",
        "HEAD /objects",
        "$default",
    }


@pytest.mark.parametrize(("given", "is_reserved"), [("0", False), ("50", True)])
def test_concurrency_is_reserved_only_if_it_is_asked_for(
    cloudformation: dict[str, Any], given: str, is_reserved: bool
) -> None:
    proxy = deployed(cloudformation, {"ProxyConcurrency": given})["ProxyFunction"]["Properties"]

    assert ("ReservedConcurrentExecutions" in proxy) is is_reserved


@pytest.mark.parametrize(("given", "creates"), [("", True), ("my-bucket", False)])
def test_an_origin_is_made_only_if_none_is_given(translate: Translate, given: str, creates: bool) -> None:
    body = translate({"OriginBucketName": given})

    resources = deployed(body, {"OriginBucketName": given})

    assert ("OriginBucket" in resources) == creates
    if creates:
        assert resources["OriginBucket"]["DeletionPolicy"] == "RetainExceptOnCreate"


@pytest.mark.parametrize(("front_door", "most_bytes"), [("http-api", "4194304"), ("alb", "716800")])
def test_objects_fit_through_the_front_door(translate: Translate, front_door: str, most_bytes: str) -> None:
    body = translate({"FrontDoor": front_door})

    resources = deployed(body, {"FrontDoor": front_door})

    limits = {
        part["Properties"]["Environment"]["Variables"].get("MAX_OBJECT_BYTES", most_bytes)
        for part in resources.values()
        if part["Type"] == "AWS::Lambda::Function"
    }
    assert limits == {most_bytes}


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        ({"FrontDoor": "alb", "CertificateArn": ""}, "needs CertificateArn"),
        ({"FrontDoor": "alb", "ApiAuth": "iam"}, "http-api only"),
        ({"AWS::Region": "il-central-1"}, "no IPv6 endpoint"),
        ({"AWS::Region": "eu-west-1"}, "use Relay none"),
        ({"ExpressZone": "euc1-az1", "AWS::Region": "eu-central-1"}, "no S3 Express One Zone"),
        ({"RedisNodeCount": "0"}, "RedisNodeCount 1 or more"),
    ],
    ids=[
        "alb-without-certificate",
        "alb-with-iam",
        "region-without-dual-stack",
        "relay-without-ipv6",
        "region-without-express",
        "cache-functions-alone",
    ],
)
def test_a_rule_refuses(template: dict[str, Any], answers: dict[str, str], message: str) -> None:
    with pytest.raises(TemplateError, match=message):
        decided(template, answers).check_rules(template["Rules"])


def test_a_region_without_dual_stack_does_for_a_stack_without_a_network(template: dict[str, Any]) -> None:
    decided(template, {**NEITHER, "AWS::Region": "il-central-1"}).check_rules(template["Rules"])


def test_the_rules_accept_the_defaults(template: dict[str, Any]) -> None:
    decided(template, {}).check_rules(template["Rules"])
