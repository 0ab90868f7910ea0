"""Every combination of answers makes a whole template: nothing refers to what its condition leaves out."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from itertools import product
from typing import Any

import pytest

from burstcache_local.errors import TemplateError
from support.combinations import pairs_first
from support.deployed import decided, deployed, kept

_ANSWERS = {
    "FrontDoor": ("http-api", "alb"),
    "ApiAuth": ("public", "iam", "jwt"),
    "OriginBucketName": ("", "my-bucket"),
    "AccessLogs": ("disabled", "enabled"),
    "Tracing": ("Disabled", "Active"),
    "ExpressZone": ("", "euc1-az1"),
    "AlarmEmail": ("", "me@example.com"),
    "Relay": ("nlb", "direct", "none"),
    "RedisNodeCount": ("0", "1"),
}
YOURS = {"VpcId": "vpc-00000001", "SubnetIds": "subnet-0000000a,subnet-0000000b", "RelaySubnetIds": "subnet-0000000c"}
YOUR_ALB = {"AlbSubnetIds": "subnet-0000000d,subnet-0000000e"}
YOUR_BALANCER = {
    "RelayBalancerArn": "arn:aws:elasticloadbalancing:eu-central-1:123456789012:loadbalancer/net/shared/0",
    "RelayBalancerDnsName": "shared.elb.eu-central-1.amazonaws.com",
    "RelayBalancerSecurityGroupId": "sg-00000001",
    "RelayBalancerPort": "4223",
}
TOKENS = {"JwtIssuer": "https://example.com", "JwtAudience": "a,b"}
TWO_ZONES = {"ZoneA": "eu-central-1b", "ZoneB": "eu-central-1c"}
_NETWORKS = [
    *({**zones, "RelayAddress": address} for zones in ({}, TWO_ZONES) for address in ("ipv6", "public-ipv4")),
    {"AWS::Region": "eu-west-1"},
    *(
        {**YOURS, **YOUR_ALB, "RelayAddress": address, **balancer}
        for address in ("ipv6", "public-ipv4", "private-ipv4")
        for balancer in ({}, YOUR_BALANCER)
    ),
    {**YOURS, **YOUR_ALB, "Network": "ipv4"},
]
_KEY = {"KmsKeyArn": "arn:aws:kms:eu-central-1:123456789012:key/1"}
_DOORS: tuple[dict[str, str], ...] = ({}, {"FrontDoor": "alb"}, {"FrontDoor": "alb", "AlbScheme": "internet-facing"})
_TIERS = [
    *({"Relay": relay, "RedisNodeCount": nodes} for relay, nodes in product(("nlb", "direct", "none"), ("0", "1"))),
    {"ExpressZone": "euc1-az1"},
    {"RedisNodeCount": "8"},
    {"RedisOn": "ec2", "RedisNodeCount": "8"},
    {"RedisOn": "ec2", "RedisNodeCount": "1"},
    {"RedisOn": "fargate", "Relay": "none", "StateDatabases": "a,b"},
    {"StateOn": "fargate-spot", "Relay": "none", "StateDatabases": "a,b", "StatePersistence": "none"},
    {"StateOn": "fargate", "RedisOn": "fargate-spot", "StateDatabases": "a,b,c,d"},
    {"Writes": "iam"},
]
_COMBINATIONS = [
    *(
        dict(zip(_ANSWERS, values, strict=True))
        for values in product(*_ANSWERS.values())
        if values[0] == "http-api" or values[1] == "public"
    ),
    *({**network, **door, **tiers} for network, door, tiers in product(_NETWORKS, _DOORS, _TIERS)),
    *({**_KEY, **origin, **tiers} for origin, tiers in product(({}, {"OriginBucketName": "theirs"}), _TIERS)),
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
    # AWS refuses a statement without a resource, and most other empty lists. Those of OpenAPI are meant.
    empty = {name for part in walk(resources) if isinstance(part, dict) for name, value in part.items() if value == []}
    assert empty <= {"Layers", "ManagedPolicyArns", "Routes", "security", "AWS_IAM", "tokens"}


def _listed(names: str | list[str]) -> list[str]:
    return [names] if isinstance(names, str) else names


@pytest.mark.parametrize(
    ("answers", "has_alb", "asked"),
    [({"FrontDoor": "http-api"}, False, []), ({"FrontDoor": "alb"}, True, [{"AWS_IAM": []}])],
    ids=["http-api", "alb"],
)
def test_there_is_one_front_door(
    translate: Translate, answers: dict[str, str], has_alb: bool, asked: list[dict[str, Any]]
) -> None:
    body = translate(answers)

    resources = deployed(body, answers)

    assert any(name.startswith("Alb") for name in resources) == has_alb
    api = resources["HttpApi"]["Properties"]["Body"]
    (server,) = api["servers"]
    assert server["x-amazon-apigateway-endpoint-configuration"] == {"disableExecuteApiEndpoint": has_alb}
    assert all(operation["security"] == asked for operation in operations(api).values())


def operations(api: dict[str, Any]) -> dict[tuple[str, str], dict[str, Any]]:
    """Return the operations of an OpenAPI document by path and method."""
    return {(path, method): what for path, methods in api["paths"].items() for method, what in methods.items()}


def of_relay(resources: dict[str, Any]) -> set[str]:
    return {name for name in resources if name.startswith(("Relay", "Cache")) and name != "CacheTable"}


def test_a_balancer_or_a_name_leads_to_the_relay(cloudformation: dict[str, Any]) -> None:
    nlb, direct = (of_relay(deployed(cloudformation, {"Relay": relay})) for relay in ("nlb", "direct"))

    assert nlb - direct == {"RelayBalancer", "RelayBalancerSecurityGroup", "RelayListener", "RelayTargetGroup"}
    assert direct - nlb == {"RelayName", "RelayNamespace"}


def test_without_a_relay_there_is_no_cache_function(cloudformation: dict[str, Any]) -> None:
    resources = deployed(cloudformation, {"Relay": "none"})

    assert of_relay(resources) == {"RelayCluster", "RelaySubnetA", "RelaySubnetARoutes"}  # those of nodes as well
    assert of_relay(deployed(cloudformation, {"Relay": "none", "RedisOn": "ec2"})) == set()
    assert "relay" not in str(resources["SchedulerFunction"]["Properties"]["Environment"]).lower().replace(
        "'has_relay': 'false'", ""
    )


def test_no_public_address_is_paid_for_without_an_alb(cloudformation: dict[str, Any], walk: Walk) -> None:
    resources = deployed(cloudformation, {})

    assert "InternetGateway" not in resources
    assert resources["RelayService"]["Properties"]["NetworkConfiguration"]["AwsvpcConfiguration"]["AssignPublicIp"] == (
        "DISABLED"
    )


@pytest.mark.parametrize("answers", [{"AWS::Region": "eu-west-1"}, {"RelayAddress": "public-ipv4"}], ids=str)
@pytest.mark.parametrize("relay", ["nlb", "direct"])
def test_where_ecs_needs_it_the_relay_has_an_address_in_the_internet(
    cloudformation: dict[str, Any], answers: dict[str, str], relay: str
) -> None:
    resources = deployed(cloudformation, {**answers, "Relay": relay})

    service = resources["RelayService"]["Properties"]["NetworkConfiguration"]["AwsvpcConfiguration"]
    subnet = resources["RelaySubnetA"]["Properties"]
    assert service["AssignPublicIp"] == "ENABLED"
    assert "Ipv6Native" not in subnet
    assert "CidrBlock" in subnet
    assert resources["RelaySubnetARoutes"]["Properties"]["RouteTableId"] == {"Ref": "PublicRouteTable"}
    if relay == "nlb":
        assert resources["RelayTargetGroup"]["Properties"]["IpAddressType"] == "ipv4"
    else:
        assert resources["RelayName"]["Properties"]["DnsConfig"]["DnsRecords"] == [{"Type": "A", "TTL": 10}]


def zones_used(resources: dict[str, Any]) -> set[str]:
    """Names of the subnets in which functions, relay and nodes on EC2 are."""
    placed = [
        *(part.get("Properties", {}).get("VpcConfig", {}).get("SubnetIds", []) for part in resources.values()),
        resources["RelayBalancer"]["Properties"]["Subnets"],
        resources["RelayService"]["Properties"]["NetworkConfiguration"]["AwsvpcConfiguration"]["Subnets"],
        [resources["RedisInstance1"]["Properties"]["SubnetId"]],
    ]
    return {subnet["Ref"] for subnets in placed for subnet in subnets}


def test_functions_relay_and_nodes_are_in_one_zone_unless_another_is_named(cloudformation: dict[str, Any]) -> None:
    one, two = (deployed(cloudformation, {"RedisOn": "ec2", **zones}) for zones in ({}, TWO_ZONES))

    zones = {two[name]["Properties"]["AvailabilityZone"]["Ref"] for name in zones_used(two)}
    assert zones_used(one) == {"PrivateSubnetA", "RelaySubnetA"}
    assert zones_used(two) == {"PrivateSubnetA", "RelaySubnetA", "PrivateSubnetB", "RelaySubnetB"}
    assert zones == {"ZoneA", "ZoneB"}


@pytest.mark.parametrize(
    ("kind", "machines"),
    [({}, set()), ({"RedisOn": "ec2"}, {"AWS::EC2::Instance", "AWS::EC2::LaunchTemplate"})],
    ids=["tasks", "instances"],
)
def test_in_a_vpc_of_yours_the_stack_makes_no_part_of_a_network(
    cloudformation: dict[str, Any], kind: dict[str, str], machines: set[str]
) -> None:
    resources = deployed(cloudformation, {**YOURS, "FrontDoor": "alb", **YOUR_ALB, **kind})

    types = {part["Type"] for part in resources.values() if part["Type"].startswith("AWS::EC2::")}
    assert types == {"AWS::EC2::SecurityGroup"} | machines
    vpcs = {part["Properties"]["VpcId"]["Ref"] for part in resources.values() if "VpcId" in part.get("Properties", {})}
    assert vpcs == {"VpcId"}
    in_vpc = [
        part["Properties"]["VpcConfig"] for part in resources.values() if "VpcConfig" in part.get("Properties", {})
    ]
    assert {str(config["SubnetIds"]) for config in in_vpc} == {str({"Fn::Split": [",", {"Ref": "SubnetIds"}]})}
    assert len(in_vpc) >= 3


def test_a_balancer_of_yours_gets_a_listener_and_lets_readers_in(cloudformation: dict[str, Any]) -> None:
    resources = deployed(cloudformation, {**YOURS, **YOUR_BALANCER})

    listener = resources["RelayListener"]["Properties"]
    assert not {"RelayBalancer", "RelayBalancerSecurityGroup"} & resources.keys()
    assert (listener["LoadBalancerArn"], listener["Port"]) == (
        {"Ref": "RelayBalancerArn"},
        {"Ref": "RelayBalancerPort"},
    )
    assert resources["RelayCertificate"]["Properties"]["DnsName"] == {"Ref": "RelayBalancerDnsName"}
    for name in ("FunctionsReachABalancerOfYours", "ReadersReachABalancerOfYours"):
        assert resources[name]["Properties"]["GroupId"] == {"Ref": "RelayBalancerSecurityGroupId"}


@pytest.mark.parametrize(("kind", "node"), [("fargate-spot", "RedisTasks"), ("ec2", "RedisLaunchTemplate")])
def test_what_needs_the_network_waits_for_it(cloudformation: dict[str, Any], kind: str, node: str) -> None:
    resources = deployed(cloudformation, {"FrontDoor": "alb", "AlbScheme": "internet-facing", "RedisOn": kind})

    awaited = {part["Ref"] for part in resources["NetworkIsReady"]["Properties"]["Value"]["Fn::Join"][1]}
    waiting = {name for name, part in resources.items() if "NetworkIsReady" in _listed(part.get("DependsOn", []))}
    assert waiting == {"Alb", "RelayService", node}
    assert awaited >= {"PrivateDefaultIpv6Route", "PrivateSubnetARoutes", "S3Endpoint", "RelaySubnetARoutes"}
    assert awaited >= {"PublicDefaultIpv4Route", "AlbSubnetARoutes", "AlbSubnetBRoutes"}


@pytest.mark.parametrize("relay", ["nlb", "direct"])
def test_the_role_of_ecs_is_there_before_its_cluster(cloudformation: dict[str, Any], relay: str) -> None:
    made = deployed(cloudformation, {"Relay": relay})

    assert made["Account"]["Properties"]["EcsRole"] == "true"
    assert "Account" in _listed(made["RelayCluster"]["DependsOn"])


def test_of_the_gateway_endpoints_only_that_of_s3_has_ipv6(cloudformation: dict[str, Any]) -> None:
    resources = deployed(cloudformation, {"ExpressZone": "euc1-az1"})

    endpoints = {
        name: part["Properties"] for name, part in resources.items() if part["Type"] == "AWS::EC2::VPCEndpoint"
    }
    assert {name for name, part in endpoints.items() if "IpAddressType" in part} == {"S3Endpoint"}
    assert endpoints.keys() == {"S3Endpoint", "DynamoDbEndpoint", "ExpressEndpoint"}
    assert resources["S3Endpoint"]["DependsOn"] == "VpcIpv6Block"  # or EC2 refuses a dual-stack one


def test_the_order_of_the_network_is_kept_by_what_can_be_updated(cloudformation: dict[str, Any]) -> None:
    types = {part["Type"] for part in cloudformation["Resources"].values()}

    assert "AWS::CloudFormation::WaitConditionHandle" not in types  # CloudFormation updates none of them
    yours = deployed(cloudformation, YOURS)
    assert yours["NetworkIsReady"]["Properties"]["Value"]["Fn::Join"][1] == [{"Ref": "VpcId"}]


@pytest.mark.parametrize(
    ("group", "before", "after"),
    [
        ("RelayTargetGroup", {}, YOUR_BALANCER | YOURS),
        ("RelayTargetGroup", {}, {"RelayAddress": "public-ipv4"}),
    ],
)
def test_a_target_group_is_replaced_with_its_balancer(
    cloudformation: dict[str, Any], group: str, before: dict[str, str], after: dict[str, str]
) -> None:
    names = [deployed(cloudformation, answers)[group]["Properties"]["Name"] for answers in (before, after)]

    assert names[0] != names[1]


def test_the_albs_target_group_has_its_name_of_the_alb(cloudformation: dict[str, Any]) -> None:
    name = deployed(cloudformation, {"FrontDoor": "alb"})["AlbTargetGroup"]["Properties"]["Name"]

    assert name["Fn::Join"][1][1] == {"Fn::Select": [3, {"Fn::Split": ["/", {"Ref": "Alb"}]}]}


def test_a_relay_of_another_kind_gets_subnets_next_to_those_that_it_replaces(cloudformation: dict[str, Any]) -> None:
    zones = {"ZoneA": "eu-central-1a", "ZoneB": "eu-central-1b"}
    subnets = [
        part["Properties"]["Ipv6CidrBlock"]["Fn::Select"][0]
        for address in ({}, {"RelayAddress": "public-ipv4"})
        for name, part in deployed(cloudformation, {**zones, **address}).items()
        if name in ("PrivateSubnetA", "PrivateSubnetB", "RelaySubnetA", "RelaySubnetB")
    ]

    assert sorted(subnets) == [0, 0, 1, 1, 4, 5, 6, 7]


def test_the_alb_is_in_the_internet_only_if_asked(cloudformation: dict[str, Any]) -> None:
    internal, public = (
        deployed(cloudformation, {"FrontDoor": "alb", **scheme}) for scheme in ({}, {"AlbScheme": "internet-facing"})
    )

    let_in = internal["AlbSecurityGroup"]["Properties"]["SecurityGroupIngress"]
    assert "InternetGateway" not in internal
    assert {rule["CidrIp"] for rule in let_in} == {"10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10"}
    assert "InternetGateway" in public
    assert public["AlbSubnetARoutes"]["Properties"]["RouteTableId"] == {"Ref": "PublicRouteTable"}


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

    assert {"Vpc", "AlbSubnetA", "AlbSubnetB"} <= resources.keys()
    assert "PrivateSubnetA" not in resources


@pytest.mark.parametrize(
    ("auth", "asked", "schemes"),
    [
        ("public", [], {}),
        ("iam", [{"AWS_IAM": []}], {"AWS_IAM": "awsSigv4"}),
        ("jwt", [{"tokens": []}], {"tokens": {"issuer": "https://example.com", "audience": ["a", "b"]}}),
    ],
)
def test_every_route_of_reads_asks_for_the_same(
    translate: Translate, auth: str, asked: list[dict[str, Any]], schemes: dict[str, Any]
) -> None:
    answers = {"ApiAuth": auth, "JwtIssuer": "https://example.com", "JwtAudience": "a,b"}

    api = deployed(translate(answers), answers)["HttpApi"]["Properties"]["Body"]

    assert operations(api).keys() == {
        ("/objects/{key+}", "get"),
        ("/objects/{key+}", "head"),
        ("/objects", "get"),
        ("/objects", "head"),
        ("$default", "x-amazon-apigateway-any-method"),
    }
    assert all(operation["security"] == asked for operation in operations(api).values())
    assert api["components"]["securitySchemes"].keys() == schemes.keys()
    for name, scheme in api["components"]["securitySchemes"].items():
        if name == "AWS_IAM":
            assert scheme["x-amazon-apigateway-authtype"] == schemes[name]
        else:
            configuration = scheme["x-amazon-apigateway-authorizer"]["jwtConfiguration"]
            assert configuration == {
                "issuer": {"Ref": "JwtIssuer"},
                "audience": {"Fn::Split": [",", {"Ref": "JwtAudience"}]},
            }


_WRITES = ("put", "delete", "post")


@pytest.mark.parametrize("writes", ["none", "iam", "jwt"])
def test_every_route_leads_to_the_proxy_but_those_of_writes(cloudformation: dict[str, Any], writes: str) -> None:
    resources = deployed(cloudformation, {"Writes": writes})

    for route, operation in operations(resources["HttpApi"]["Properties"]["Body"]).items():
        integration = operation["x-amazon-apigateway-integration"]

        assert integration["payloadFormatVersion"] == "2.0", route
        function = "WriterFunction" if route[1] in _WRITES else "ProxyFunction"
        assert f"functions/${{{function}.Arn}}/invocations" in json.dumps(integration["uri"]), route
    permission = resources["ProxyFunctionAnythingElsePermission"]["Properties"]["SourceArn"]["Fn::Sub"]
    assert permission[0].endswith(":${__ApiId__}/${__Stage__}/*")  # one for all routes


@pytest.mark.parametrize(("writes", "asked"), [("iam", {"AWS_IAM": []}), ("jwt", {"tokens": []})])
@pytest.mark.parametrize("auth", ["public", "iam", "jwt"])
def test_routes_of_writes_ask_for_what_writes_says(
    translate: Translate, writes: str, auth: str, asked: dict[str, Any]
) -> None:
    answers = {"Writes": writes, "ApiAuth": auth, **TOKENS}

    api = deployed(translate(answers), answers)["HttpApi"]["Properties"]["Body"]

    of_writes = {route: each for route, each in operations(api).items() if route[1] in _WRITES}
    assert of_writes.keys() == {(path, method) for path in ("/objects", "/objects/{key+}") for method in _WRITES}
    assert all(operation["security"] == [asked] for operation in of_writes.values())
    assert asked.keys() <= api["components"]["securitySchemes"].keys()
    reads = operations(api)["/objects", "get"]["security"]
    assert reads == {"public": [], "iam": [{"AWS_IAM": []}], "jwt": [{"tokens": []}]}[auth]


def test_nothing_of_writes_exists_unless_they_are_asked_for(cloudformation: dict[str, Any]) -> None:
    without, with_ = (deployed(cloudformation, answers) for answers in ({}, {"Writes": "iam"}))

    of_writes = with_.keys() - without.keys()
    assert {"WriterFunction", "WriterFunctionRole", "WriterLogs"} <= of_writes
    assert all(name.startswith("Writer") for name in of_writes)
    assert {method for _, method in operations(without["HttpApi"]["Properties"]["Body"])} & {*_WRITES} == set()
    assert "s3:PutObject" not in str(without["ProxyFunctionRole"]) + str(with_["ProxyFunctionRole"])


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
        ({"OriginBucketName": "mine"}, "read all of OriginBucketName"),
        ({"OriginBucketName": "mine", "FrontDoor": "alb", "AlbScheme": "internet-facing"}, "AlbScheme internal"),
        ({"ApiAuth": "jwt", "JwtIssuer": "https://example.com"}, "need JwtIssuer and JwtAudience"),
        ({"Writes": "jwt", "JwtWritePrefixes": "users/{sub}/"}, "need JwtIssuer and JwtAudience"),
        ({"Writes": "jwt", **TOKENS}, "needs JwtWritePrefixes"),
        ({"Writes": "iam", "JwtWritePrefixes": "users/{sub}/"}, "JwtWritePrefixes needs Writes jwt"),
        ({"Writes": "iam", "FrontDoor": "alb"}, "a load balancer checks nobody"),
        ({"JwtPrefixes": "users/{sub}/"}, "only a token has claims"),
        ({"JwtPrefixes": "users/{sub}/", "ApiAuth": "iam"}, "needs ApiAuth jwt"),
        ({"AWS::Region": "il-central-1"}, "no IPv6 endpoint"),
        ({**YOURS, "AWS::Region": "eu-west-1"}, "no task over IPv6 alone"),
        ({"MonthlyBudgetUsd": "50", "AWS::Region": "me-south-1"}, "makes no budgets"),
        ({"ExpressZone": "euc1-az1", "AWS::Region": "eu-central-1"}, "no S3 Express One Zone"),
        ({"RedisNodeCount": "0"}, "RedisNodeCount 1 or more"),
        ({"ZoneB": "eu-central-1c"}, "ZoneB needs ZoneA"),
        ({"ZoneA": "eu-central-1c", "ZoneB": "eu-central-1c"}, "another zone"),
        ({"ZoneA": "eu-central-1c", "FrontDoor": "alb"}, "give ZoneB as well"),
        ({"VpcId": "vpc-00000001"}, "needs SubnetIds"),
        ({**YOURS, "RelaySubnetIds": ""}, "needs RelaySubnetIds"),
        ({**YOURS, "FrontDoor": "alb"}, "needs AlbSubnetIds"),
        ({**YOURS, "ZoneA": "eu-central-1c"}, "leave ZoneA and ZoneB empty"),
        ({"SubnetIds": "subnet-0000000a"}, "need VpcId"),
        (YOUR_BALANCER, "need VpcId"),
        ({"RelayAddress": "private-ipv4"}, "has no NAT gateway"),
        ({"Network": "ipv4"}, "neither a NAT gateway nor interface endpoints"),
        ({"Network": "ipv4", "VpcId": "vpc-00000001", "Relay": "none", "RedisNodeCount": "0"}, "VpcId and SubnetIds"),
        ({**YOURS, **YOUR_BALANCER, "RelayBalancerDnsName": ""}, "needs RelayBalancerDnsName"),
        ({**YOURS, **YOUR_BALANCER, "Relay": "direct"}, "is for Relay nlb"),
        ({"RelayBalancerPort": "4223"}, "goes with RelayBalancerArn"),
        ({**YOURS, **YOUR_BALANCER, "RelayBalancerPort": "443"}, "must not be 443 or 6379"),
        ({**YOURS, **YOUR_BALANCER, "RelayBalancerPort": "6379"}, "must not be 443 or 6379"),
    ],
    ids=lambda given: "-".join(given) if isinstance(given, dict) else None,
)
def test_a_rule_refuses(template: dict[str, Any], answers: dict[str, str], message: str) -> None:
    with pytest.raises(TemplateError, match=message):
        decided(template, answers).check_rules(template["Rules"])


@pytest.mark.parametrize(
    "answers",
    [
        {"OriginBucketName": "mine", "ApiAuth": "iam"},
        {"OriginBucketName": "mine", "ApiAuth": "jwt", "JwtIssuer": "https://example.com", "JwtAudience": "a,b"},
        {"OriginBucketName": "mine", "ExistingBucketIsPublic": "yes"},
        {"OriginBucketName": "mine", "FrontDoor": "alb"},
        {"Writes": "iam"},
        {"Writes": "jwt", "JwtWritePrefixes": "users/{sub}/", **TOKENS},
        {"AWS::Region": "eu-west-1"},
        {**YOURS, "AWS::Region": "eu-north-1", "RelayAddress": "private-ipv4"},
        {**YOURS, **YOUR_BALANCER},
        {**YOURS, "Network": "ipv4"},
        {**YOURS, "Network": "ipv4", "AWS::Region": "eu-west-1"},
        {**YOURS, "Network": "ipv4", "AWS::Region": "il-central-1"},
        {**TWO_ZONES, "FrontDoor": "alb"},
        {"VpcId": "vpc-00000001", "FrontDoor": "alb", **YOUR_ALB, "Relay": "none", "RedisNodeCount": "0"},
    ],
    ids=lambda given: "-".join(given),
)
def test_the_rules_accept(template: dict[str, Any], answers: dict[str, str]) -> None:
    decided(template, answers).check_rules(template["Rules"])


def test_a_region_without_dual_stack_does_for_a_stack_without_a_network(template: dict[str, Any]) -> None:
    decided(template, {**NEITHER, "AWS::Region": "il-central-1"}).check_rules(template["Rules"])


def test_the_rules_accept_the_defaults(template: dict[str, Any]) -> None:
    decided(template, {}).check_rules(template["Rules"])
