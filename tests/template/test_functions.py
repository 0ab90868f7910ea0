"""Functions, their code, their environment and their logs belong together."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from burstcache.core.errors import InvalidSettingError
from burstcache.metrics import STACK_VARIABLE
from burstcache.settings.budget import BudgetSettings
from burstcache.settings.cache import CacheSettings
from burstcache.settings.janitor import JanitorSettings
from burstcache.settings.origin import OriginSettings
from burstcache.settings.pool_control import PoolControlSettings
from burstcache.settings.pool_member import PoolMemberSettings
from burstcache.settings.proxy import ProxySettings
from burstcache.settings.redis_control import RedisControlSettings
from burstcache.settings.scheduler import SchedulerSettings
from burstcache.settings.self_test import SelfTestSettings
from burstcache.settings.state import StateSettings
from burstcache.settings.writer import WriterSettings
from support.deployed import deployed
from support.project import ROOT

Resources = dict[str, dict[str, Any]]

# Read by libraries and for metrics, not as settings.
_OF_LIBRARIES = {
    "AWS_ENDPOINT_URL",
    "AWS_USE_DUALSTACK_ENDPOINT",
    "POWERTOOLS_LOG_LEVEL",
    "POWERTOOLS_SERVICE_NAME",
    "POWERTOOLS_TRACE_DISABLED",
    STACK_VARIABLE,
}
_OF_LAMBDA = {"AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "AWS_REGION"}
_PRESIGNS = {"WriterFunction"}  # URLs, which name the bucket's region with a dual-stack endpoint alone
_EVERYTHING = {"Relay": "nlb", "PoolMembers": "8", "Writes": "iam", "StateDatabases": "orders"}
_IN_VPC = {"ProxyFunction", "CacheFunction", "PoolMemberFunction", "RedisControlFunction"}


def variables(template: dict[str, Any], properties: dict[str, Any]) -> dict[str, Any]:
    shared = template["Globals"]["Function"]["Environment"]["Variables"]
    return {**shared, **properties["Environment"]["Variables"]}


class Recorder(dict[str, str]):
    """An environment that notes which variables are read."""

    def __init__(self, values: dict[str, str]) -> None:
        super().__init__(values)
        self.asked: set[str] = set()

    def __contains__(self, name: object) -> bool:
        self.asked.add(str(name))
        return super().__contains__(name)


SETTINGS: dict[str, Any] = {
    "ProxyFunction": ProxySettings,
    "WriterFunction": WriterSettings,
    "SchedulerFunction": SchedulerSettings,
    "CacheFunction": CacheSettings,
    "RedisControlFunction": RedisControlSettings,
    "OriginFunction": OriginSettings,
    "JanitorFunction": JanitorSettings,
    "SelfTestFunction": SelfTestSettings,
    "BudgetFunction": BudgetSettings,
    "StateFunction": StateSettings,
    "PoolMemberFunction": PoolMemberSettings,
    "PoolControlFunction": PoolControlSettings,
}
VALUES = {
    "REDIS_ON": "fargate-spot",
    "REDIS_NODES": "node-1=i-1@10.0.0.1:6379",
    "STATE_NODES": "state-orders=i-2@10.0.0.2:6379",
    "STATE_NODE": "fargate:2GB",
    "STATE_PERSISTENCE": "rdb",
    "MAX_NODE_HOURS_PER_DAY": "24",
    "TAKES_GUESTS": "true",
    "POLICY": "hazard",
    "HIT_VALUE_USD_PER_MILLION": "10",
    "REDIS_INSTANCE_TYPE": "t4g.micro",
    "POLICY_RATE": "9",
    "POLICY_SENSITIVITY": "4",
    "POLICY_OVERRIDES": "",
    "JWT_PREFIXES": "",
    "TAKES_WRITES": "false",
    "HAS_RELAY": "true",
    "CACHE_FUNCTION_NAME": "cache",
    "POOL_TLS": "yes",
}


def environment_of(template: dict[str, Any], properties: dict[str, Any]) -> dict[str, str]:
    """Return a function's environment with stand-ins for what CloudFormation fills in."""
    names = {*variables(template, properties), *_OF_LAMBDA}
    return {name: VALUES.get(name, "1") for name in names}


def test_every_handler_exists(functions: Resources) -> None:
    for name, properties in functions.items():
        module, _, attribute = properties["Handler"].rpartition(".")

        assert callable(getattr(import_module(module), attribute)), name


def test_every_handler_module_is_a_function(functions: Resources, root: Path) -> None:
    modules = {f"burstcache.handlers.{path.stem}" for path in (root / "src/burstcache/handlers").glob("[!_]*.py")}

    named = {properties["Handler"].removesuffix(".handler") for properties in functions.values()}

    assert named == {*modules, "custom_resources.credentials", "custom_resources.redis_tasks"}


def test_one_word_names_function_handler_and_service(functions: Resources, template: dict[str, Any]) -> None:
    for name, properties in functions.items():
        word = re.sub(r"(?<!^)(?=[A-Z])", "-", name.removesuffix("Function")).lower()

        module = word.replace("-", "_")
        assert properties["Handler"] in (f"burstcache.handlers.{module}.handler", f"custom_resources.{module}.handler")
        assert variables(template, properties)["POWERTOOLS_SERVICE_NAME"] == word


def test_every_function_has_a_log_group_with_retention(functions: Resources, resources: Resources) -> None:
    for name, properties in functions.items():
        group = resources[properties["LoggingConfig"]["LogGroup"]["Ref"]]

        assert group["Type"] == "AWS::Logs::LogGroup"
        assert "RetentionInDays" in group["Properties"], name
        # A function that ends after its stack may leave a group, which the next stack's must not meet.
        assert "LogGroupName" not in group["Properties"], name


def test_logs_are_json_and_only_the_proxy_leaves_out_the_lines_of_each_invocation(
    cloudformation: dict[str, Any],
) -> None:
    functions = {name: part for name, part in cloudformation["Resources"].items() if _is_function(part)}

    for name, part in functions.items():
        logging = part["Properties"]["LoggingConfig"]

        assert (logging["LogFormat"], logging["ApplicationLogLevel"]) == ("JSON", "INFO"), name
        assert (logging.get("SystemLogLevel") == "WARN") == (name == "ProxyFunction")


def _is_function(part: dict[str, Any]) -> bool:
    return bool(part["Type"] == "AWS::Lambda::Function")


def test_every_log_group_forgets(resources: Resources) -> None:
    groups = {name: part for name, part in resources.items() if part["Type"] == "AWS::Logs::LogGroup"}

    assert groups
    for name, group in groups.items():
        assert group["Properties"]["RetentionInDays"] == {"Ref": "LogRetentionDays"}, name


@pytest.mark.parametrize("name", SETTINGS)
def test_a_function_reads_exactly_the_variables_that_it_is_given(
    functions: Resources, template: dict[str, Any], name: str
) -> None:
    environment = Recorder(environment_of(template, functions[name]))

    SETTINGS[name].read(environment)

    assert environment.asked - _OF_LAMBDA == environment.keys() - _OF_LIBRARIES - _OF_LAMBDA


@pytest.mark.parametrize("name", SETTINGS)
def test_a_missing_variable_is_named_at_the_start(functions: Resources, template: dict[str, Any], name: str) -> None:
    environment = environment_of(template, functions[name])
    read = Recorder(environment)
    SETTINGS[name].read(read)

    for variable in read.asked:
        others = {other: value for other, value in environment.items() if other != variable}
        with pytest.raises(InvalidSettingError, match=variable):
            SETTINGS[name].read(others)


@pytest.mark.parametrize("nodes", ["0", "1"])
@pytest.mark.parametrize("relay", ["nlb", "none"])
def test_every_function_of_a_stack_without_a_tier_accepts_what_is_empty_then(
    cloudformation: dict[str, Any], template: dict[str, Any], relay: str, nodes: str
) -> None:
    resources = deployed(cloudformation, {"Relay": relay, "RedisNodeCount": nodes})

    for name in SETTINGS.keys() & resources.keys():
        given = resources[name]["Properties"]["Environment"]["Variables"]
        on_ec2 = {"REDIS_ON": "ec2", "STATE_NODE": "t4g.micro"}
        empty = {variable: "" for variable, value in given.items() if value == ""} | on_ec2
        SETTINGS[name].read(environment_of(template, template["Resources"][name]["Properties"]) | empty)


def test_every_function_with_variables_has_settings(functions: Resources, template: dict[str, Any]) -> None:
    with_variables = {
        name for name, properties in functions.items() if variables(template, properties).keys() - _OF_LIBRARIES
    }

    assert with_variables == set(SETTINGS)


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("TABLE_NAME", "", "TABLE_NAME is empty"),
        ("MAX_OBJECT_BYTES", "four", "MAX_OBJECT_BYTES: 'four' is not a whole number"),
        ("MAX_OBJECT_BYTES", "4²", "MAX_OBJECT_BYTES: '4²' is not a whole number"),
        ("REDIS_NODES", "node-1", "REDIS_NODES: 'node-1' is not of the form"),
    ],
)
def test_a_value_that_is_not_accepted_is_named(
    functions: Resources, template: dict[str, Any], variable: str, value: str, said: str
) -> None:
    environment = environment_of(template, functions["ProxyFunction"]) | {variable: value}

    with pytest.raises(InvalidSettingError, match=said):
        ProxySettings.read(environment)


def test_a_function_in_the_vpc_can_leave_it(cloudformation: dict[str, Any]) -> None:
    resources = deployed(cloudformation, _EVERYTHING)
    functions = {name: part["Properties"] for name, part in resources.items() if _is_function(part)}

    assert {name for name, properties in functions.items() if "VpcConfig" in properties} == _IN_VPC
    for name, properties in functions.items():
        network = properties.get("VpcConfig", {})
        is_dual_stack = properties["Environment"]["Variables"].get("AWS_USE_DUALSTACK_ENDPOINT") == "true"
        assert network.get("Ipv6AllowedForDualStack", False) == (name in _IN_VPC), name
        assert is_dual_stack == (name in _IN_VPC | _PRESIGNS), name


@pytest.mark.parametrize("answers", [_EVERYTHING, {"Relay": "none", "RedisNodeCount": "0"}], ids=["tiers", "none"])
@pytest.mark.parametrize("network", ["ipv6", "ipv4"])
def test_every_function_is_in_the_vpc_if_asked(
    cloudformation: dict[str, Any], answers: dict[str, str], network: str
) -> None:
    resources = deployed(cloudformation, {**answers, "Network": network, "FunctionsInVpc": "all"})
    functions = {name: part["Properties"] for name, part in resources.items() if _is_function(part)}

    for name, properties in functions.items():
        place = properties["VpcConfig"]
        assert place["SubnetIds"] == [{"Ref": "PrivateSubnetA"}], name
        assert all(group["Ref"] in resources for group in place["SecurityGroupIds"]), name
        assert place.get("Ipv6AllowedForDualStack", False) == (network == "ipv6"), name
        variables = properties["Environment"]["Variables"]
        assert ("AWS_USE_DUALSTACK_ENDPOINT" in variables) == (network == "ipv6"), name


@pytest.mark.parametrize("kind", ["tiers", "all"])
@pytest.mark.parametrize("answers", [_EVERYTHING, {"Relay": "none", "RedisNodeCount": "0"}], ids=["tiers", "none"])
def test_every_role_of_a_function_may_have_network_interfaces(
    cloudformation: dict[str, Any], answers: dict[str, str], kind: str
) -> None:
    resources = deployed(cloudformation, {**answers, "FunctionsInVpc": kind})

    for name, part in resources.items():
        if _is_function(part):
            role = resources[part["Properties"]["Role"]["Fn::GetAtt"][0]]["Properties"]
            assert "AWSLambdaVPCAccessExecutionRole" in str(role["ManagedPolicyArns"]), name


def test_functions_that_call_aws_alone_reach_neither_relay_nor_nodes(cloudformation: dict[str, Any]) -> None:
    resources = deployed(cloudformation, {**_EVERYTHING, "FunctionsInVpc": "all"})

    group = resources["OtherFunctionSecurityGroup"]["Properties"]
    in_group = {
        name
        for name, part in resources.items()
        if _is_function(part)
        and part["Properties"]["VpcConfig"]["SecurityGroupIds"] == [{"Ref": "OtherFunctionSecurityGroup"}]
    }
    assert {rule["ToPort"] for rule in group["SecurityGroupEgress"]} == {443}
    assert in_group == {name for name, part in resources.items() if _is_function(part)} - _IN_VPC


def test_a_custom_resource_waits_for_the_network_of_its_function(cloudformation: dict[str, Any]) -> None:
    answers = {**_EVERYTHING, "PoolHub": "fargate", "ExpressZone": "use1-az4", "StateOn": "fargate"}
    tiers, all_ = (deployed(cloudformation, {**answers, "FunctionsInVpc": kind}) for kind in ("tiers", "all"))
    customs = {name: part for name, part in all_.items() if part["Type"].startswith("Custom::")}

    assert len(customs) == 11
    for name, part in customs.items():
        waits = "NetworkIsReady" in part.get("DependsOn", []) or "'NetworkIsReady'" in str(part["Properties"])
        assert waits, name
    assert "NetworkIsReady" not in str(tiers["Account"])


def test_every_function_is_built_by_uv(resources: Resources, functions: Resources) -> None:
    for name in functions:
        assert resources[name]["Metadata"]["BuildMethod"] == "python-uv", name


def test_both_packages_answer_cloudformation_by_the_same_code() -> None:
    ours, credentials = (ROOT / "src/burstcache/adapters", ROOT / "cloudformation/custom_resources")

    assert (ours / "stack_answer.py").read_text() == (credentials / "stack_answer.py").read_text()


def test_no_deployment_waits_an_hour_for_the_answer_of_a_custom_resource(resources: Resources) -> None:
    customs = [each["Properties"] for each in resources.values() if each["Type"].startswith("Custom::")]

    assert len(customs) == sum("ServiceToken" in each.get("Properties", {}) for each in resources.values())
    assert all(int(properties["ServiceTimeout"]) <= 15 * 60 for properties in customs)


@pytest.mark.parametrize(
    ("name", "timeout_s"),
    [("ProxyFunction", 29), ("CacheFunction", 900), ("RedisControlFunction", 90), ("SchedulerFunction", 30)],
)
def test_time_outs_are_what_the_lifecycle_counts_with(functions: Resources, name: str, timeout_s: int) -> None:
    assert functions[name]["Timeout"] == timeout_s
