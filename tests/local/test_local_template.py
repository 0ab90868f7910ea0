"""The transform: what becomes of template.yaml before moto sees it, and the errors of one that cannot be used."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from burstcache_local.errors import TemplateError
from burstcache_local.template.parameters import STAND_IN_AMI, accepted, declared_values
from burstcache_local.template.pipeline import load_template
from burstcache_local.template.template import LocalTemplate
from support.project import ROOT, template

PROJECT = ROOT / "template.yaml"

SMALL = """
Transform: AWS::Serverless-2016-10-31
Parameters:
  Color: {Type: String, Default: red, AllowedValues: [red, green]}
  SizeMb: {Type: Number, Default: 1, MinValue: 1, MaxValue: 9}
  Name: {Type: String, Default: a, AllowedPattern: "[a-z]+"}
  Image: {Type: "AWS::SSM::Parameter::Value<AWS::EC2::Image::Id>", Default: /aws/service/ami}
Conditions:
  IsGreen: !Equals [!Ref Color, green]
Rules:
  GreenIsBig:
    RuleCondition: !Equals [!Ref Color, green]
    Assertions:
      - {Assert: !Not [!Equals [!Ref SizeMb, 1]], AssertDescription: green needs a SizeMb above 1}
Resources:
  Vpc:
    Type: AWS::EC2::VPC
    Properties: {CidrBlock: 10.1.0.0/16}
  Subnet:
    Type: AWS::EC2::Subnet
    DependsOn: [Vpc, Green]
    Properties:
      VpcId: !Ref Vpc
      CidrBlock: !Select [1, !Cidr [!GetAtt Vpc.CidrBlock, 2, 8]]
      AvailabilityZone: !Select [0, !GetAZs ""]
      Ipv6CidrBlock: !Select [0, !Cidr [!Select [0, !GetAtt Vpc.Ipv6CidrBlocks], 1, 64]]
  Firewall:
    Type: AWS::EC2::SecurityGroup
    Properties:
      GroupDescription: !If [IsGreen, green, red]
      VpcId: !If [IsGreen, !Ref Vpc, !Ref AWS::NoValue]
      SecurityGroupIngress: [{CidrIp: 10.1.5.0/24}, {CidrIp: 0.0.0.0/0}]
  Green:
    Type: AWS::SQS::Queue
    Condition: IsGreen
  Function:
    Type: AWS::Serverless::Function
    Properties: {Runtime: python3.14, Handler: app.handler, CodeUri: src}
  Ticker:
    Type: AWS::Events::Rule
    Properties:
      ScheduleExpression: rate(5 minutes)
      Targets: [{Id: t, Arn: !GetAtt Function.Arn}]
  Machine:
    Type: AWS::Serverless::StateMachine
    Properties:
      DefinitionUri: machine.json
      DefinitionSubstitutions: {FunctionArn: !GetAtt Function.Arn}
      Policies: []
"""


@pytest.fixture
def small(folder: Path) -> Path:
    (folder / "machine.json").write_text('{"StartAt": "${FunctionArn}", "Comment": "$$.keeps $uuid()"}')
    path = folder / "template.yaml"
    path.write_text(SMALL)
    return path


def load(path: Path, **parameters: str) -> LocalTemplate:
    return load_template(path, parameters, vpc_block="127.77.0.0/16", relay_address="127.77.255.10", region="eu-west-2")


def test_the_vpc_moves_to_bindable_addresses_with_all_that_lies_in_it(small: Path) -> None:
    resources = load(small).resources

    assert resources["Vpc"]["Properties"]["CidrBlock"] == "127.77.0.0/16"
    assert resources["Subnet"]["Properties"]["CidrBlock"] == "127.77.1.0/24"
    assert [rule["CidrIp"] for rule in resources["Firewall"]["Properties"]["SecurityGroupIngress"]] == [
        "127.77.5.0/24",
        "0.0.0.0/0",
    ]


def test_a_vpc_whose_block_is_a_parameter_moves_as_well(small: Path) -> None:
    block = "Parameters:\n  VpcCidr: {Type: String, Default: 10.1.0.0/16}\n"
    text = small.read_text().replace("{CidrBlock: 10.1.0.0/16}", "{CidrBlock: !Ref VpcCidr}")
    small.write_text(text.replace("Parameters:\n", block, 1))

    template = load(small, VpcCidr="10.9.0.0/16")

    assert template.body["Parameters"]["VpcCidr"]["Default"] == "127.77.0.0/16"
    assert template.resources["Subnet"]["Properties"]["CidrBlock"] == "127.77.1.0/24"


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("ApiAuth", "iam", "neither signatures"),
        ("ApiAuth", "jwt", "nor tokens"),
        ("Writes", "jwt", "reads no tokens: use 'none' or 'iam'"),
        ("VpcId", "vpc-01", "makes its network"),
    ],
)
def test_what_the_local_run_does_not_do_is_refused(name: str, value: str, reason: str) -> None:
    with pytest.raises(TemplateError, match=f"parameter {name}.*{reason}"):
        load(PROJECT, **{name: value})


def test_the_local_network_stands_for_one_of_yours_without_ipv6() -> None:
    resources = load(PROJECT, Network="ipv4", FunctionsInVpc="all").resources

    functions = [each["Properties"] for each in resources.values() if each["Type"] == "AWS::Lambda::Function"]
    assert functions
    assert all("Ipv6AllowedForDualStack" not in each["VpcConfig"] for each in functions)


def test_the_policy_is_checked_with_the_kind_of_node_that_runs() -> None:
    """A stack of tasks needs no price of its unused instance type, and one of instances none of its unused task."""
    source = dict(template())
    source["Parameters"] = {name: dict(each) for name, each in source["Parameters"].items()}
    source["Parameters"]["RedisInstanceType"]["AllowedValues"] = ["t4g.micro", "x9g.huge"]
    source["Parameters"]["RedisTaskMemoryGb"]["AllowedValues"] = ["2", "3"]

    def check(kind: str, instance_type: str, memory_gb: str) -> None:
        given = {"RedisOn": kind, "RedisInstanceType": instance_type, "RedisTaskMemoryGb": memory_gb}
        accepted(source, declared_values(source["Parameters"], given), "us-east-1")

    check("fargate-spot", "x9g.huge", "2")
    check("ec2", "t4g.micro", "3")
    with pytest.raises(TemplateError, match="with nodes x9g.huge"):
        check("ec2", "x9g.huge", "2")
    with pytest.raises(TemplateError, match="with nodes fargate-spot:3GB"):
        check("fargate-spot", "t4g.micro", "3")


def test_zones_are_those_of_the_region_and_ipv6_blocks_are_left_out(small: Path) -> None:
    subnet = load(small).resources["Subnet"]["Properties"]

    assert subnet["AvailabilityZone"] == "eu-west-2a"
    assert "Ipv6CidrBlock" not in subnet


def test_conditions_leave_out_resources_values_and_dependencies(small: Path) -> None:
    red, green = load(small).resources, load(small, Color="green", SizeMb="2").resources

    assert "Green" not in red
    assert "Green" in green
    assert red["Subnet"]["DependsOn"] == ["Vpc"]
    assert green["Subnet"]["DependsOn"] == ["Vpc", "Green"]
    assert red["Firewall"]["Properties"].get("VpcId") is None
    assert green["Firewall"]["Properties"]["GroupDescription"] == "green"


def test_a_definition_is_taken_from_its_file_as_it_is(small: Path) -> None:
    machine = load(small).resources["Machine"]["Properties"]

    assert json.loads(machine["DefinitionString"])["Comment"] == "$$.keeps $uuid()"
    assert "DefinitionS3Location" not in machine


def test_schedules_are_taken_out_of_motos_hands(small: Path) -> None:
    template = load(small)

    (schedule,) = template.schedules
    assert (schedule.name, schedule.period_s) == ("Ticker", 300.0)
    assert "Targets" not in template.resources["Ticker"]["Properties"]


def test_a_function_knows_its_folder_and_an_image_parameter_gets_a_stand_in(small: Path) -> None:
    template = load(small)

    assert template.roots == {"Function": small.parent / "src"}
    assert template.body["Parameters"]["Image"]["Default"] == STAND_IN_AMI


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"Colour": "red"}, r"has no parameter 'Colour': use Color, Image, Name, SizeMb"),
        ({"Color": "blue"}, r"parameter Color: 'blue' is not one of red, green"),
        ({"SizeMb": "10"}, r"parameter SizeMb: 10: expected 1 to 9"),
        ({"SizeMb": "big"}, r"parameter SizeMb: 'big' is not a number"),
        ({"Name": "A"}, r"parameter Name: 'A' does not match: the pattern \[a-z\]\+"),
        ({"Color": "green"}, r"rule GreenIsBig: green needs a SizeMb above 1"),
    ],
)
def test_a_parameter_is_refused_as_cloudformation_refuses_it(
    small: Path, parameters: dict[str, str], message: str
) -> None:
    with pytest.raises(TemplateError, match=message):
        load(small, **parameters)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (SMALL, "a: [1", r"is not YAML: .* line 1"),
        (SMALL, "just text", r"it has no Resources"),
        ("CodeUri: src", "CodeUri: nowhere", r"Function: its CodeUri 'nowhere' is not a folder"),
        ("machine.json", "lost.json", r"Machine: its definition lost.json is not readable JSON"),
        ("Handler: app.handler, ", "", r"SAM refuses it: .*Function"),
        ("rate(5 minutes)", "cron(0 1 * * ? *)", r"Ticker: the schedule .* is not a rate"),
        ("Condition: IsGreen", "Condition: IsBlue", r"condition 'IsBlue' is used but not declared"),
    ],
)
def test_a_broken_template_is_refused_in_one_line_with_file_and_reason(
    small: Path, old: str, new: str, message: str
) -> None:
    small.write_text(SMALL.replace(old, new))

    with pytest.raises(TemplateError, match=message) as refusal:
        load(small)

    assert str(refusal.value).startswith(f"{small}: ")
    assert "\n" not in str(refusal.value)


def test_a_missing_template_is_named(tmp_path: Path) -> None:
    with pytest.raises(TemplateError, match=r"none.yaml: does not exist"):
        load(tmp_path / "none.yaml")


@pytest.mark.parametrize("front_door", ["http-api", "alb"])
def test_the_projects_template_leaves_one_front_door(front_door: str) -> None:
    certificate = "arn:aws:acm:eu-west-2:123456789012:certificate/a"
    template = load(PROJECT, FrontDoor=front_door, CertificateArn=certificate)

    (api,) = template.of_type("AWS::ApiGatewayV2::Api").values()
    (server,) = api["Body"]["servers"]
    assert server["x-amazon-apigateway-endpoint-configuration"]["disableExecuteApiEndpoint"] == (front_door == "alb")
    assert ("Alb" in template.resources) == (front_door == "alb")


def test_a_layer_of_the_templates_own_is_left_out_since_functions_find_its_libraries_here(folder: Path) -> None:
    layer = """
  Libraries:
    Type: AWS::Serverless::LayerVersion
    Properties: {ContentUri: src}
"""
    path = folder / "template.yaml"
    given = SMALL.replace("CodeUri: src}", "CodeUri: src, Layers: [!Ref Libraries, 'arn:aws:lambda:::layer:x:1']}")
    (folder / "machine.json").write_text("{}")
    path.write_text(given + layer)

    template = load(path)

    assert "AWS::Serverless::LayerVersion" not in {resource["Type"] for resource in template.resources.values()}
    assert template.of_type("AWS::Lambda::Function")["Function"]["Layers"] == ["arn:aws:lambda:::layer:x:1"]
