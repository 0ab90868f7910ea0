"""Outputs of a stack for readers: permissions, a network path, settings to paste."""

from __future__ import annotations

import json
from typing import Any, get_type_hints

import pytest

from burstcache.adapters.event_batches import EventBatches
from burstcache.adapters.event_publisher import EventPublisher
from burstcache.adapters.object_store import ObjectResponse
from burstcache.client.configuration import OUTPUT, VARIABLE
from burstcache.core.messages.events import PROXY, REQUESTS_SERVED, ObjectRequested
from burstcache.core.table import DIGEST_PARTITION
from burstcache.serve.s3_tier import S3Tier
from burstcache.settings.reader import ReaderSettings
from burstcache.web.request import Request
from support.clock import ManualClock

Resources = dict[str, dict[str, Any]]


@pytest.fixture
def statements(resources: Resources) -> dict[str, dict[str, Any]]:
    """Statements of the readers' policy by Sid."""
    document = resources["ReaderPolicy"]["Properties"]["PolicyDocument"]
    return {statement["Sid"]: statement for statement in map(without_condition, document["Statement"])}


def without_condition(statement: dict[str, Any]) -> dict[str, Any]:
    """Return a statement that may stand in an `Fn::If`."""
    found: dict[str, Any] = statement["Fn::If"][1] if "Fn::If" in statement else statement
    return found


def test_readers_may_do_what_the_proxy_may_and_find_their_stack(
    statements: dict[str, dict[str, Any]], functions: Resources
) -> None:
    (policy,) = functions["ProxyFunction"]["Policies"]
    stated = map(without_condition, policy["Statement"])
    proxy = {(str(statement["Action"]), str(statement["Resource"])) for statement in stated}

    readers = {(str(statement["Action"]), str(statement["Resource"])) for statement in statements.values()}

    pool = statements["WakeMembersAndReportToTheirControl"]
    ((action, resource),) = readers - proxy - {(pool["Action"], str(pool["Resource"]))}
    assert action == "cloudformation:DescribeStacks"
    assert resource.endswith(":stack/${AWS::StackName}/*'}")  # the stack's id does not match a call that has its name
    assert proxy - readers == set()


def test_readers_see_of_the_table_the_digest_alone(statements: dict[str, dict[str, Any]]) -> None:
    (condition,) = statements["ReadTheDigest"]["Condition"].values()

    assert condition == {"dynamodb:LeadingKeys": [DIGEST_PARTITION]}


def test_readers_report_reads_and_cannot_start_a_key(
    statements: dict[str, dict[str, Any]], resources: Resources
) -> None:
    condition = statements["ReportReadsAndNothingElse"]["Condition"]
    pattern = resources["SchedulerRule"]["Properties"]["EventPattern"]

    assert condition == {
        "ForAllValues:StringEquals": {"events:source": PROXY},
        "StringEquals": {"events:detail-type": REQUESTS_SERVED},
    }
    assert REQUESTS_SERVED in pattern["detail-type"]


class Bus:
    """Takes events and remembers of what kinds they were."""

    def __init__(self) -> None:
        self.sources: set[str] = set()
        self.detail_types: set[str] = set()

    def put_events(self, Entries: list[dict[str, Any]]) -> dict[str, Any]:
        self.sources |= {entry["Source"] for entry in Entries}
        self.detail_types |= {entry["DetailType"] for entry in Entries}
        return {"Entries": []}


class Store:
    """Has an object that was not changed."""

    def get(self, *_: Any, **__: Any) -> ObjectResponse:
        return ObjectResponse(304, {"etag": '"e"'})


def test_the_schedulers_rule_lists_what_readers_send_and_nothing_else(resources: Resources) -> None:
    pattern = resources["SchedulerRule"]["Properties"]["EventPattern"]
    bus, clock = Bus(), ManualClock()
    publisher, batches = EventPublisher("bus", bus, clock), EventBatches("bus", bus, clock)  # type: ignore[arg-type]

    tier = S3Tier(Store(), publisher, clock, max_object_bytes=1)  # type: ignore[arg-type]
    tier.read(Request("GET", "k", "0" * 32, {}, None, "request-1", 1))
    publisher.close()
    batches.start(ObjectRequested(key="k", at_us=1, request_id="request-1", size_bytes=0, etag=""))
    batches.close()

    assert sorted(pattern["source"]) == sorted(bus.sources)
    assert sorted(pattern["detail-type"]) == sorted(bus.detail_types)


@pytest.mark.parametrize(("group", "port"), [("RelayBalancerSecurityGroup", 4222), ("RedisSecurityGroup", 6379)])
def test_relay_and_redis_admit_readers(resources: Resources, group: str, port: int) -> None:
    admitted = [
        rule["FromPort"]
        for rule in resources[group]["Properties"]["SecurityGroupIngress"]
        if rule["SourceSecurityGroupId"] == {"Ref": "ReaderSecurityGroup"}
    ]
    rules = resources["ReaderSecurityGroup"]["Properties"]["SecurityGroupEgress"]
    ways_out = [rule["FromPort"] for rule in rules if "Fn::If" not in rule]  # those over IPv4

    assert admitted == [port]
    assert (port if port == 6379 else {"Ref": "RelayBalancerPort"}) in ways_out


def test_nothing_but_functions_and_readers_reaches_redis(resources: Resources) -> None:
    of_nodes = resources["RedisLaunchTemplate"]["Properties"]["LaunchTemplateData"]["SecurityGroupIds"]
    instances = [part["Properties"] for part in resources.values() if part["Type"] == "AWS::EC2::Instance"]
    rules = [
        *resources["RedisSecurityGroup"]["Properties"]["SecurityGroupIngress"],
        *(
            part["Properties"]
            for part in resources.values()
            if part["Type"] == "AWS::EC2::SecurityGroupIngress" and "RedisSecurityGroup" in str(part["Properties"])
        ),
    ]
    sources = [rule.get("SourceSecurityGroupId", rule) for rule in rules]

    assert of_nodes == [{"Ref": "RedisSecurityGroup"}]
    groups = [instance["SecurityGroupIds"] for instance in instances if "SecurityGroupIds" in instance]
    assert groups == [[{"Ref": "StateSecurityGroup"}]] * 4  # databases of state, which no reader reaches
    assert all("NetworkInterfaces" not in instance for instance in instances)
    assert [(rule["IpProtocol"], rule["FromPort"], rule["ToPort"]) for rule in rules] == [("tcp", 6379, 6379)] * 2
    assert sources == [{"Ref": "FunctionSecurityGroup"}, {"Ref": "ReaderSecurityGroup"}]


def settings_of(outputs: dict[str, Any]) -> dict[str, str]:
    """Return the output's JSON with what CloudFormation puts in left as it is."""
    sentence, _ = outputs[OUTPUT]["Value"]["Fn::Sub"]
    settings: dict[str, str] = json.loads(sentence)
    return settings


def test_the_settings_to_paste_are_those_that_a_reader_reads(template: dict[str, Any]) -> None:
    names = {
        variable
        for hint in get_type_hints(ReaderSettings, include_extras=True).values()
        for variable in hint.__metadata__[1:]
    }
    names |= {"RELAY_URL", "RELAY_USER", "RELAY_PASSWORD_PARAMETER", "RELAY_CA_PEM", "REDIS_NODES", "AWS_REGION"}
    names |= {"REDIS_USER", "REDIS_PASSWORD_PARAMETER", "REDIS_CA_PEM", "REDIS_INSTANCE_TYPE", "REDIS_ZONE"}
    names |= {"EXPRESS_BUCKET", "HIT_VALUE_USD_PER_MILLION", "TAKES_GUESTS", "ORIGIN_FUNCTION_NAME"}

    assert settings_of(template["Outputs"]).keys() == names


def test_the_settings_to_paste_are_the_proxys(template: dict[str, Any], functions: Resources) -> None:
    proxy = functions["ProxyFunction"]["Environment"]["Variables"]
    _, parts = template["Outputs"][OUTPUT]["Value"]["Fn::Sub"]
    settings = settings_of(template["Outputs"])

    for name in ("RELAY_PASSWORD_PARAMETER", "REDIS_PASSWORD_PARAMETER"):
        assert {"Fn::Sub": settings[name]} == proxy[name]
    assert {"Ref": settings["TABLE_NAME"][2:-1]} == proxy["TABLE_NAME"]
    assert parts["Bus"] == proxy["BUS_NAME"]
    assert (settings["RELAY_USER"], settings["REDIS_USER"]) == (proxy["RELAY_USER"], proxy["REDIS_USER"])
    assert parts["RelayUrl"] == proxy["RELAY_URL"]
    assert parts["RedisNodeNames"] == proxy["REDIS_NODES"]
    assert proxy["REDIS_CA_PEM"]["Fn::If"][:2] == ["HasNode1", {"Fn::GetAtt": ["RedisCertificate", "CaPem"]}]
    assert parts["Bucket"] == proxy["BUCKET_NAME"]
    assert parts["MaxObjectBytes"] == proxy["MAX_OBJECT_BYTES"]
    assert parts["Express"] == proxy["EXPRESS_BUCKET"]
    assert parts["NodesTakeGuests"] == proxy["TAKES_GUESTS"]
    assert {"Ref": settings["HIT_VALUE_USD_PER_MILLION"][2:-1]} == proxy["HIT_VALUE_USD_PER_MILLION"]


def test_writers_may_write_and_have_copies_let_go_and_nothing_else(resources: Resources) -> None:
    statements = resources["WriterPolicy"]["Properties"]["PolicyDocument"]["Statement"]
    stated = {statement["Sid"]: statement["Action"] for statement in map(without_condition, statements)}

    assert stated == {
        "WriteOriginObjects": ["s3:PutObject", "s3:DeleteObject"],
        "EncryptOriginObjects": "kms:GenerateDataKey",
        "HaveCopiesLetGo": "lambda:InvokeFunction",
    }


@pytest.mark.parametrize("name", ["RelayCaPem", "RedisCaPem"])
def test_a_certificate_in_the_settings_is_on_one_line(template: dict[str, Any], name: str) -> None:
    _, parts = template["Outputs"][OUTPUT]["Value"]["Fn::Sub"]
    _, given, without = parts[name]["Fn::If"]
    delimiter, lines = given["Fn::Join"]

    assert json.loads(f'"{delimiter}"') == lines["Fn::Split"][0] == "\n"
    assert without == ""


def test_the_outputs_name_what_to_attach_and_where_to_paste(template: dict[str, Any]) -> None:
    outputs = template["Outputs"]

    assert VARIABLE in outputs[OUTPUT]["Description"]
    assert outputs["ReaderPolicyArn"]["Value"] == {"Ref": "ReaderPolicy"}
    assert outputs["WriterPolicyArn"]["Value"] == {"Ref": "WriterPolicy"}
    assert outputs["ReaderSecurityGroupId"]["Value"] == {"Fn::GetAtt": ["ReaderSecurityGroup", "GroupId"]}
