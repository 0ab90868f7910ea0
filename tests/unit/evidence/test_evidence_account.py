"""The evidence's dealings with an account: estimate, deployment by SAM CLI, leftovers, certificate, bill."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import boto3
import pytest
from botocore.stub import Stubber
from moto import mock_aws

from burstcache_cli.cli import main
from burstcache_evidence import deployment
from burstcache_evidence.arguments import KINDS
from burstcache_evidence.bill import billed
from burstcache_evidence.budget import budget_messages, create_budget, delete_budget
from burstcache_evidence.certificate import delete_certificates, import_certificate
from burstcache_evidence.deployment import TAG, NotDeployedError, SamDeployment
from burstcache_evidence.helpers import create_helper
from burstcache_evidence.journal import Journal
from burstcache_evidence.leftovers import leftovers
from burstcache_evidence.plan import MOST_USD, StackPlan, estimated_items, plans_of, usd_of
from burstcache_evidence.visitor import template_of

if TYPE_CHECKING:
    from burstcache_cli.stack import Stack

_REGION, _NAME, _TAGS = "us-east-1", "bc-evidence-default-abc123", {TAG: "abc123"}
_EMPTY_STACK = json.dumps({"Resources": {"Topic": {"Type": "AWS::SNS::Topic"}}})


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.delenv("AWS_PROFILE", raising=False)
    with mock_aws():
        yield boto3.Session(region_name=_REGION)


@pytest.mark.parametrize("region", [_REGION, "eu-central-1", "ap-south-1"])
def test_a_whole_run_costs_less_than_a_dollar(region: str) -> None:
    items = estimated_items(plans_of(KINDS, express_zone="use1-az4"), region)

    assert all(item.usd > 0 for item in items if not item.name.startswith("default: idle"))
    assert 0.05 < usd_of(items) < MOST_USD


def test_the_stacks_have_every_kind_of_part() -> None:
    parameters = [plan.parameters for plan in plans_of(KINDS)]

    assert {each.get("Relay", "none") for each in parameters} == {"none", "direct", "nlb"}
    assert {each.get("RedisOn", "fargate-spot") for each in parameters} == {"ec2", "fargate", "fargate-spot"}
    assert {each.get("FrontDoor", "http-api") for each in parameters} == {"http-api", "alb"}
    assert {each.get("StateOn") for each in parameters if "StateDatabases" in each} == {"ec2", "fargate-spot"}
    assert {each.get("PoolMembers", "0") for each in parameters} == {"0", "8"}


def test_a_stack_is_deployed_by_sam_cli_with_the_tag_of_the_run(session: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[list[str]] = []

    def run(command: list[str], *, check: bool) -> SimpleNamespace:
        commands.append(command)
        session.client("cloudformation").create_stack(StackName=_NAME, TemplateBody=_EMPTY_STACK)
        return SimpleNamespace(returncode=0)

    monkeypatch.setattr(deployment, "subprocess", SimpleNamespace(run=run))
    sam, plan = SamDeployment(session, "abc123"), StackPlan("default", {"FrontDoor": "alb"})
    sam.deploy(_NAME, plan)
    sam.deploy(_NAME, plan)  # as after an interruption

    (command,) = commands
    assert command[:2] == ["sam", "deploy"]
    assert f"{TAG}=abc123" in command
    overrides = command[command.index("--parameter-overrides") + 1]
    assert 'FrontDoor="alb"' in overrides
    assert 'CertificateArn="arn:aws:acm:' in overrides


def test_a_failed_deployment_names_what_failed(session: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(command: list[str], *, check: bool) -> SimpleNamespace:
        session.client("cloudformation").create_stack(StackName=_NAME, TemplateBody=_EMPTY_STACK)
        return SimpleNamespace(returncode=1)

    reasons = ["SelfTest: the relay does not answer"]
    monkeypatch.setattr(deployment, "subprocess", SimpleNamespace(run=run))
    monkeypatch.setattr(deployment, "failed_resources", lambda client, name, verb: reasons)

    with pytest.raises(NotDeployedError, match="the relay does not answer"):
        SamDeployment(session, "abc123").deploy(_NAME, StackPlan("default"))


def test_an_update_names_what_it_replaced(session: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    cloudformation, commands = session.client("cloudformation"), list[list[str]]()
    cloudformation.create_stack(StackName=_NAME, TemplateBody=_EMPTY_STACK)

    def run(command: list[str], *, check: bool) -> SimpleNamespace:
        commands.append(command)
        renamed = {"Resources": {"Topic": {"Type": "AWS::SNS::Topic", "Properties": {"TopicName": "other"}}}}
        cloudformation.update_stack(StackName=_NAME, TemplateBody=json.dumps(renamed))
        return SimpleNamespace(returncode=0)

    monkeypatch.setattr(deployment, "subprocess", SimpleNamespace(run=run))
    plan = StackPlan("nlb", {"Relay": "nlb", "Writes": "iam"}, update={"Writes": "none"})

    found = SamDeployment(session, "abc123").update(_NAME, plan)

    assert found == {"replaced": ["Topic"]}
    overrides = commands[0][commands[0].index("--parameter-overrides") + 1]
    assert 'Relay="nlb"' in overrides
    assert 'Writes="none"' in overrides


def test_a_stack_with_ipv4_alone_gets_a_network_that_goes_with_it(
    session: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands: list[list[str]] = []

    def run(command: list[str], *, check: bool) -> SimpleNamespace:
        commands.append(command)
        return SimpleNamespace(returncode=0)

    monkeypatch.setattr(deployment, "subprocess", SimpleNamespace(run=run))
    sam, ec2 = SamDeployment(session, "abc123"), session.client("ec2")
    others = {each["VpcId"] for each in ec2.describe_vpcs()["Vpcs"]}

    sam.deploy(_NAME, StackPlan("company", {"Network": "ipv4"}))

    (vpc,) = {each["VpcId"] for each in ec2.describe_vpcs()["Vpcs"]} - others
    overrides = commands[0][commands[0].index("--parameter-overrides") + 1]
    assert f'VpcId="{vpc}"' in overrides
    (gateway,) = ec2.describe_nat_gateways()["NatGateways"]
    routes = [route for table in ec2.describe_route_tables()["RouteTables"] for route in table["Routes"]]
    assert gateway["NatGatewayId"] in {route.get("NatGatewayId") for route in routes}
    left = leftovers(session, _NAME, _TAGS)
    assert left["stacks"] == [f"{_NAME}-network (CREATE_COMPLETE)"]
    assert left["networks"] == [vpc]
    assert left["NAT gateways"] == [gateway["NatGatewayId"]]


@pytest.mark.parametrize("suffix", ["-network", "-visitor"])
def test_helpers_are_deleted_with_their_stack(session: Any, suffix: str) -> None:
    create_helper(session, _NAME + suffix, json.loads(_EMPTY_STACK), _TAGS)
    assert leftovers(session, _NAME, _TAGS)["stacks"] == [f"{_NAME}{suffix} (CREATE_COMPLETE)"]

    SamDeployment(session, "abc123").delete(_NAME)

    assert leftovers(session, _NAME, _TAGS)["stacks"] == []


def test_the_visitor_is_in_the_stacks_network_with_its_program() -> None:
    outputs = {
        "BucketName": "origin",
        "HolderPolicyArn": "arn:aws:iam::123456789012:policy/holder",
        "HolderSecurityGroupId": "sg-1",
        "StateSettings": "{}",
    }
    stack = SimpleNamespace(
        output=outputs.__getitem__,
        functions={"ProxyFunction": "proxy"},
        configuration=lambda name: {"VpcConfig": {"SubnetIds": ["subnet-1"]}},
    )

    properties = template_of(cast("Stack", stack))["Resources"]["Visitor"]["Properties"]

    assert properties["VpcConfig"]["SubnetIds"] == ["subnet-1"]
    assert properties["VpcConfig"]["SecurityGroupIds"] == ["sg-1"]
    assert "def handler(" in properties["Code"]["ZipFile"]


def test_a_budget_keeps_its_message_until_it_is_deleted(session: Any) -> None:
    created = create_budget(session, "abc123", _TAGS)
    assert create_budget(session, "abc123", _TAGS) == created  # as after an interruption
    assert budget_messages(session, created) == []

    session.client("sns").publish(TopicArn=created["topic"], Subject="AWS Budgets: threshold", Message="Dear customer")

    assert budget_messages(session, created) == [{"subject": "AWS Budgets: threshold", "text": "Dear customer"}]
    for _ in range(2):
        delete_budget(session, created)
    assert session.client("sns").list_topics()["Topics"] == []
    assert session.client("sqs").list_queues().get("QueueUrls", []) == []


def test_the_bill_of_a_run_has_the_message_of_its_budget_which_is_then_deleted(
    session: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = {"express_zone": "", "budget": True}
    run = Journal.open(tmp_path, where="AWS", kinds=["default"], region=_REGION, options=options)
    run.run_step("budget", lambda: create_budget(session, run.run, _TAGS))
    run.run_step("proof", lambda: {"is_clean": True})
    words = ["research", "aws-evidence", "--folder", str(tmp_path), "--region", _REGION]

    def verdict() -> str:
        content = json.loads((tmp_path / "evidence.json").read_text())
        (check,) = (each for each in content["checks"] if each["name"] == "message-of-a-budget")
        return str(check["verdict"])

    assert main([*words, "--yes"]) == 2  # a new run would forget the budget
    assert "--bill reads it" in capsys.readouterr().err
    main([*words, "--bill"])
    assert verdict() == "not reached"
    topic = run.found("budget")["topic"]
    session.client("sns").publish(TopicArn=topic, Subject="AWS Budgets: your threshold", Message="Dear customer")
    for _ in range(2):
        main([*words, "--bill"])
    assert verdict() == "seen"
    assert session.client("sns").list_topics()["Topics"] == []


def test_nothing_is_left_in_an_empty_account(session: Any) -> None:
    assert not any(leftovers(session, _NAME, _TAGS).values())


def test_whatever_is_left_is_found_and_nothing_of_others(session: Any) -> None:
    for name in (_NAME, "another"):
        session.client("cloudformation").create_stack(StackName=name, TemplateBody=_EMPTY_STACK)
        session.client("s3").create_bucket(Bucket=f"{name}-origin")
        session.client("logs").create_log_group(logGroupName=f"/ecs/{name}-relay")
        session.client("ssm").put_parameter(Name=f"/burstcache/{name}/relay/1/proxy", Value="x", Type="String")
        session.client("ecs").create_cluster(clusterName=f"{name}-cluster")
        import_certificate(session.client("acm"), name, _TAGS)

    left = leftovers(session, _NAME, _TAGS)

    assert left["stacks"] == [f"{_NAME} (CREATE_COMPLETE)"]
    assert left["buckets"] == [f"{_NAME}-origin"]
    assert left["log groups"] == [f"/ecs/{_NAME}-relay"]
    assert left["parameters"] == [f"/burstcache/{_NAME}/relay/1/proxy"]
    assert left["tasks"] == [f"{_NAME}-cluster"]
    assert left["certificates"] == [f"{_NAME}.burstcache.invalid"]


def test_machines_and_interfaces_of_the_stack_are_found(session: Any) -> None:
    ec2 = session.client("ec2")
    tags = [{"Key": "aws:cloudformation:stack-name", "Value": _NAME}]
    volume = ec2.create_volume(
        AvailabilityZone=f"{_REGION}a", Size=1, TagSpecifications=[{"ResourceType": "volume", "Tags": tags}]
    )["VolumeId"]
    subnet = ec2.describe_subnets()["Subnets"][0]["SubnetId"]
    description = f"AWS Lambda VPC ENI-{_NAME}-ProxyFunction-1"
    interface = ec2.create_network_interface(SubnetId=subnet, Description=description)["NetworkInterface"]
    image = ec2.describe_images()["Images"][0]["ImageId"]
    instance = ec2.run_instances(
        ImageId=image, MinCount=1, MaxCount=1, TagSpecifications=[{"ResourceType": "instance", "Tags": tags}]
    )["Instances"][0]["InstanceId"]

    left = leftovers(session, _NAME, _TAGS)

    assert (left["volumes"], left["instances"]) == ([volume], [instance])
    assert left["interfaces"] == [interface["NetworkInterfaceId"]]
    ec2.terminate_instances(InstanceIds=[instance])
    assert leftovers(session, _NAME, _TAGS)["instances"] == []


def test_what_has_only_the_tag_of_the_run_is_found_unless_it_is_a_ghost(session: Any) -> None:
    tags = [{"Key": key, "Value": value} for key, value in _TAGS.items()]
    s3, ecs = session.client("s3"), session.client("ecs")
    s3.create_bucket(Bucket=f"{_NAME}-tagged")
    s3.put_bucket_tagging(Bucket=f"{_NAME}-tagged", Tagging={"TagSet": tags})
    of_task = [{"key": key, "value": value} for key, value in _TAGS.items()]
    ecs.register_task_definition(family=f"{_NAME}-task", containerDefinitions=[], tags=of_task)

    assert leftovers(session, _NAME, _TAGS)["tagged"] == [f"{_NAME}-tagged"]


def test_a_certificate_is_imported_once_and_deleted(session: Any) -> None:
    acm = session.client("acm")
    first = import_certificate(acm, _NAME, _TAGS)

    assert import_certificate(acm, _NAME, _TAGS) == first

    delete_certificates(acm, _NAME)
    assert acm.list_certificates()["CertificateSummaryList"] == []


def test_the_bill_is_summed_over_days_and_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    costs = boto3.client("ce", region_name=_REGION, aws_access_key_id="x", aws_secret_access_key="x")
    session = SimpleNamespace(client=lambda service, region_name: costs)
    content = {"began_s": 0.0, "region": _REGION, "steps": {"one/delete": {"began_s": 90_000.0, "took_s": 10.0}}}

    def page(usd: str, **further: str) -> dict[str, Any]:
        amounts = {"UnblendedCost": {"Amount": usd, "Unit": "USD"}, "UsageQuantity": {"Amount": "2", "Unit": "N/A"}}
        group = {"Keys": ["AWS Step Functions", "StateTransition"], "Metrics": amounts}
        day = {"TimePeriod": {"Start": "1970-01-01", "End": "1970-01-02"}, "Groups": [group], "Estimated": True}
        return {"ResultsByTime": [day, day], **further}

    with Stubber(costs) as stub:
        stub.add_response("get_cost_and_usage", page("0.001", NextPageToken="more"))
        stub.add_response("get_cost_and_usage", page("0.002"))
        bill = billed(session, content)

    row = {"service": "AWS Step Functions", "usage_type": "StateTransition", "usd": 0.006, "usage": 8.0}
    assert bill == {"days": ["1970-01-01", "1970-01-02"], "usd": 0.006, "rows": [row]}
