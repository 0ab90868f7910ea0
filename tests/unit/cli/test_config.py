"""`burstcache config` asks for what matters, says what it costs, and writes only what the template accepts."""

from __future__ import annotations

import json
import random
import tomllib
from collections.abc import Iterator
from decimal import Decimal
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import boto3
import pytest
from botocore.awsrequest import AWSResponse
from botocore.compat import HTTPHeaders
from botocore.exceptions import ClientError
from hypothesis import given
from hypothesis import strategies as st
from moto import mock_aws

from burstcache.core.errors import InvalidSettingError
from burstcache_cli.cli import main
from burstcache_cli.config import NotConfiguredError, Wizard
from burstcache_cli.origin_bucket import bucket_warnings
from burstcache_cli.samconfig import SamConfig, overrides_of, overrides_text, toml_text
from burstcache_local.errors import TemplateError
from burstcache_local.template.parameters import accepted, declared_values
from burstcache_local.template.read import read
from support.project import ROOT
from support.searches import seeds

_TEXT = (ROOT / "samconfig.toml").read_text()
_REGION = "us-east-1"
_ACCOUNT = "123456789012"


@cache
def template() -> dict[str, Any]:
    return read(ROOT / "template.yaml")


@pytest.fixture(autouse=True)
def _credentials(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    with mock_aws():
        yield


def wizard(region: str = _REGION, is_advanced: bool = False, /, **given: str) -> Wizard:
    return Wizard(template(), region, dict(given), is_advanced=is_advanced)


def groups() -> list[dict[str, Any]]:
    """Return the console's groups of parameters."""
    found: list[dict[str, Any]] = template()["Metadata"]["AWS::CloudFormation::Interface"]["ParameterGroups"]
    return found


def answered(typed: dict[str, str], is_advanced: bool = False, /, **given: str) -> dict[str, str]:
    """Return the wizard's answers after typing these and accepting the default of every other question."""
    left = dict(typed)

    def answer(question: str) -> str:
        return "y" if "[y/N]" in question else left.pop(question.partition(" ")[0], "")

    return wizard(_REGION, is_advanced, **given).answers(answer)


def configure(monkeypatch: pytest.MonkeyPatch, file: Path, *typed: str, confirm: str = "y", options: str = "") -> int:
    """Run the command; Enter answers what is not typed."""
    left = iter(typed)

    def answer(question: str) -> str:
        return confirm if "[y/N]" in question else next(left, "")

    monkeypatch.setattr("builtins.input", answer)
    words = ["config", "--template", str(ROOT / "template.yaml"), "--file", str(file), "--region", _REGION]
    return main([*words, *options.split()])


def test_enter_takes_every_default() -> None:
    taken = answered({})

    assert len(taken) == 8
    assert all(str(template()["Parameters"][name]["Default"]) == value for name, value in taken.items())


def test_enter_keeps_an_earlier_answer() -> None:
    assert answered({}, Relay="direct")["Relay"] == "direct"


def test_enter_behind_a_bucket_of_yours_opens_it_to_nobody() -> None:
    assert answered({"OriginBucketName": "mine"})["ApiAuth"] == "iam"


def test_a_bucket_of_yours_is_public_only_after_a_yes() -> None:
    said = {"OriginBucketName": "mine", "ApiAuth": "public", "ExistingBucketIsPublic": "yes"}

    assert answered(said).items() >= said.items()
    assert answered({**said, "ExistingBucketIsPublic": "no"})["ApiAuth"] == "iam"
    assert "ExistingBucketIsPublic" not in answered({"OriginBucketName": "yours"}, **said)


def test_tokens_ask_for_their_issuer() -> None:
    typed = {"ApiAuth": "jwt", "JwtIssuer": "https://example.com", "JwtAudience": "a,b"}

    assert answered(typed).items() >= typed.items()


def test_an_answer_that_the_template_refuses_is_asked_for_again(capsys: pytest.CaptureFixture[str]) -> None:
    typed = iter(["", "everybody", "iam"])

    taken = wizard().answers(lambda question: next(typed, ""))

    assert taken["ApiAuth"] == "iam"
    assert "'everybody' is not one of public, iam, jwt" in " ".join(capsys.readouterr().out.split())


def asked_for(opened: str | None = None, /, **given: str) -> list[str]:
    """Return the parameters that the wizard asks for after these earlier answers, in order.

    `opened` is a parameter of the only other group that is opened. None: no other group is offered.
    """
    names: list[str] = []

    def answer(question: str) -> str:
        if "[y/N]" in question:
            return "y" if opened in next(offered) else ""
        names.append(question.partition(" ")[0])
        return ""

    offered = iter(group["Parameters"] for group in groups()[1:])
    wizard(_REGION, opened is not None, **given).answers(answer)
    return names


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"OriginBucketName": "mine", "ApiAuth": "public", "ExistingBucketIsPublic": "yes"},
        {"ApiAuth": "jwt", "JwtIssuer": "https://a.b", "JwtAudience": "a"},
        {"StateDatabases": "a", "RedisOn": "fargate", "Writes": "iam"},
    ],
)
def test_at_most_the_consoles_first_group_is_asked_for_in_its_order(given: dict[str, str]) -> None:
    first = groups()[0]["Parameters"]

    asked = asked_for(**given)

    assert len(first) == 12
    assert asked == [name for name in first if name in asked]


def test_every_parameter_of_the_first_group_is_asked_for_after_some_answers() -> None:
    given = {"OriginBucketName": "mine", "Writes": "jwt", "JwtIssuer": "https://a.b", "JwtAudience": "a"}
    given |= {"ApiAuth": "public", "ExistingBucketIsPublic": "yes", "JwtWritePrefixes": "a/"}

    assert asked_for(**given, StateDatabases="a") == groups()[0]["Parameters"]


def test_other_parameters_are_offered_by_group() -> None:
    assert asked_for("") == asked_for()
    assert asked_for("PoolMembers")[len(asked_for()) :] == [
        *("PoolMembers", "PoolMemoryMb", "PoolTls", "PoolKeepS", "PoolHub"),
    ]
    assert all(group["Label"]["default"].startswith("Advanced: ") for group in groups()[1:])


def test_an_advanced_answer_is_kept_and_one_that_a_rule_refuses_asked_for_again() -> None:
    taken = answered({"PoolMembers": "8", "PoolHub": "fargate", "FrontDoor": "alb"}, True)

    assert (taken["PoolMembers"], taken["PoolHub"]) == ("8", "fargate")
    assert taken["FrontDoor"] == "http-api"  # an ALB needs a certificate


@pytest.mark.parametrize(
    ("given", "asked"),
    [
        ({}, ["RedisOn", "RedisTaskMemoryGb"]),
        ({"RedisOn": "ec2"}, ["RedisOn", "RedisInstanceType"]),
        ({"StateDatabases": "a"}, ["RedisOn", "RedisInstanceType", "RedisTaskMemoryGb"]),
        (
            {"StateDatabases": "a", "StatePersistence": "aof"},
            ["RedisOn", "RedisInstanceType", "RedisTaskMemoryGb"],
        ),
        ({"RedisOn": "ec2", "StateDatabases": "a"}, ["RedisOn", "RedisInstanceType"]),
        (
            {"RedisOn": "ec2", "StateOn": "fargate", "StateDatabases": "a"},
            ["RedisOn", "RedisInstanceType", "RedisTaskMemoryGb"],
        ),
        (
            {"RedisOn": "fargate-spot", "StateOn": "fargate", "StateDatabases": "a"},
            ["RedisOn", "RedisTaskMemoryGb"],
        ),
        ({"RedisNodeCount": "0"}, []),
    ],
)
def test_the_size_is_asked_for_that_nodes_and_databases_have(given: dict[str, str], asked: list[str]) -> None:
    assert [name for name in asked_for(**given) if name.startswith("Redis")] == asked


@pytest.mark.parametrize(
    ("given", "is_asked"),
    [
        ({}, False),
        ({"StateDatabases": "a"}, True),
        ({"StateDatabases": "a", "StatePersistence": "aof"}, False),
    ],
)
def test_what_databases_run_on_is_asked_for_if_there_are_some_without_a_log(
    given: dict[str, str], is_asked: bool
) -> None:
    assert ("StateOn" in asked_for("StateOn", **given)) == is_asked


def test_a_database_with_a_log_that_names_tasks_is_asked_for_its_machine() -> None:
    given = {"StateDatabases": "a", "StatePersistence": "aof", "StateOn": "fargate"}

    assert answered({}, True, **given)["StateOn"] == "ec2"


def test_what_databases_may_run_on_is_shown_with_each_price_and_what_the_stack_costs_then(
    capsys: pytest.CaptureFixture[str],
) -> None:
    answered({}, True, StateDatabases="a", RedisOn="fargate")

    rows = node_rows(capsys.readouterr().out)[3:]
    assert [(row[0], row[1], row[2], row[-1]) for row in rows] == [
        ("fargate-spot", "2GB", "0.004865", "0.28"),
        ("ec2", "t4g.micro", "0.0084", "0.60"),
        ("fargate", "2GB", "0.01521", "0.28"),
    ]


@pytest.mark.parametrize(
    ("region", "usd", "fallback_usd"), [("us-east-1", "0.004865", "0.01521"), ("eu-west-1", "0.009865", "0.02022")]
)
def test_the_bill_names_what_databases_run_on_and_what_replaces_it(region: str, usd: str, fallback_usd: str) -> None:
    text = " ".join(wizard(region, StateDatabases="a", StateOn="fargate-spot").bill_text().split())

    database = f"{usd} an hour for each database that is awake (fargate-spot:2GB)"
    assert f"{database}, {fallback_usd} where Fargate Spot has no capacity" in text


def test_in_a_vpc_of_yours_without_subnets_for_tasks_enter_takes_an_instance() -> None:
    given = {"VpcId": "vpc-1", "SubnetIds": "subnet-1"}

    assert answered({}, **given)["RedisOn"] == "ec2"
    assert answered({}, **given, RelaySubnetIds="subnet-2")["RedisOn"] == "fargate-spot"


def test_in_a_vpc_without_ipv6_the_bill_names_what_it_leaves_out() -> None:
    given = {"VpcId": "vpc-1", "SubnetIds": "subnet-1", "RelaySubnetIds": "subnet-2"}
    texts = [wizard("eu-west-1", **given, Network=network).bill_text() for network in ("ipv4", "ipv6")]

    assert ["NAT gateway" in text for text in texts] == [True, False]
    assert answered({}, **given, Network="ipv4")["RedisOn"] == "fargate-spot"


def test_the_bill_names_the_dashboard_unless_there_is_none() -> None:
    texts = [wizard("us-east-1", CreateDashboard=answer).bill_text() for answer in ("yes", "no")]

    assert ["3.00 a month for the dashboard" in text for text in texts] == [True, False]


def node_rows(printed: str) -> list[list[str]]:
    """Return the words of the rows that compare what a node runs on."""
    return [line.split() for line in printed.splitlines() if line.startswith(("  ec2 ", "  fargate"))]


def test_the_cheapest_node_is_offered_first_beside_the_others_and_enter_takes_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    taken = answered({})

    rows = node_rows(capsys.readouterr().out)
    assert [row[0] for row in rows] == ["fargate-spot", "ec2", "fargate"]
    assert [(row[1], row[2], row[9], row[-1]) for row in rows] == [
        ("2GB", "0.004865", "3.55", "0.28"),
        ("t4g.micro", "0.0084", "6.13", "0.52"),
        ("2GB", "0.01521", "11.11", "0.28"),
    ]
    assert taken["RedisOn"] == "fargate-spot"


@pytest.mark.parametrize(
    ("region", "given", "is_public"),
    [
        ("eu-west-1", {}, True),
        ("eu-north-1", {"RedisOn": "fargate"}, True),
        ("us-east-1", {"RelayAddress": "public-ipv4"}, True),
        ("us-east-1", {"RedisOn": "fargate-spot"}, False),
    ],
)
def test_where_tasks_need_public_addresses_instances_come_first_and_the_addresses_price_is_said(
    region: str, given: dict[str, str], is_public: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    taken = wizard(region, **given).answers(lambda question: "")

    printed = " ".join((shown := capsys.readouterr().out).split())
    assert taken["RedisOn"] == given.get("RedisOn", "ec2" if is_public else "fargate-spot")
    assert (node_rows(shown)[0][0] == "ec2") == is_public
    assert ("contains 0.005 USD an hour, 3.65 a month, for a public IPv4 address" in printed) == is_public


def test_the_bill_names_the_node_that_was_chosen_and_the_one_that_replaces_it() -> None:
    text = " ".join(wizard(RedisOn="fargate-spot", RedisTaskMemoryGb="4").bill_text().split())

    assert "0.00973 an hour for each Redis node that runs (fargate-spot:4GB), 0.03043 where Fargate Spot has no" in text


_TYPED = (
    "",
    "",
    "no",
    "yes",
    "mine",
    "public",
    "iam",
    "jwt",
    "nlb",
    "direct",
    "none",
    "10",
    "0",
    "t4g.micro",
    "fargate-spot",
    "a@b.c",
    "https://a.b",
    '"',
)


@pytest.mark.parametrize("seed", seeds(40))
def test_whatever_is_typed_the_template_accepts_what_is_written(seed: int) -> None:
    chance = random.Random(seed)
    typed = [chance.choice(_TYPED) for _ in range(chance.randrange(60))]
    parameters = template()["Parameters"]
    given = {
        name: chance.choice([str(parameter["Default"]), *map(str, parameter.get("AllowedValues", ()))])
        for name, parameter in parameters.items()
        if chance.random() < 0.1
    }
    region = chance.choice(["us-east-1", "eu-north-1", "eu-central-1", "me-central-1"])

    try:
        asking = wizard(region, chance.random() < 0.5, **given)
        taken = asking.answers(lambda question: typed.pop() if typed else "")
    except TemplateError:  # of what is not asked for, or what was typed twice: nothing is written
        return

    accepted(template(), declared_values(parameters, taken), region)


def test_a_choice_is_shown_with_what_it_costs_and_the_sum_is_that_of_the_documents(
    capsys: pytest.CaptureFixture[str],
) -> None:
    asking = wizard()
    asking.answers(lambda question: "direct" if question.startswith("Relay") else "")

    printed = capsys.readouterr().out

    row = next(
        line for line in (ROOT / "docs/operate/costs.md").read_text().splitlines() if line.startswith("| **Sum**")
    )
    nlb, direct, none = (Decimal(cell.strip(" *")) for cell in row.split("|")[4:7])
    for relay, usd in (("none", none), ("direct", direct), ("nlb", nlb)):
        assert f"  {relay:6}  {usd} USD a month in which nobody reads, all together" in printed
    assert f"a month without a request, all together  {direct}" in asking.bill_text()


def test_every_question_says_what_its_answers_cost(capsys: pytest.CaptureFixture[str]) -> None:
    typed = {"OriginBucketName": "mine", "ApiAuth": "public", "ExistingBucketIsPublic": "yes"}
    asked = []

    def answer(question: str) -> str:
        asked.append(capsys.readouterr().out)
        return typed.get(question.partition(" ")[0], "")

    wizard().answers(answer)

    assert len(asked) == 9
    assert [each for each in asked if not ("USD" in each or "osts nothing" in each)] == []


@pytest.mark.parametrize("environment", ["default", "prod"])
def test_the_answers_are_what_sam_reads_and_nothing_else_changes(environment: str) -> None:
    given = {"OriginBucketName": "", "ApiAuth": "iam", "JwtAudience": "a,b"}
    name = tomllib.loads(_TEXT)[environment]["global"]["parameters"]["stack_name"]

    def with_settings(text: str) -> str:
        file = SamConfig(text, environment, False, name, "", "", {})
        return file.with_settings(stack_name=name, region=_REGION, profile="", overrides=given)

    once = with_settings(_TEXT)

    before, after = tomllib.loads(_TEXT), tomllib.loads(once)
    written = after[environment]["deploy"]["parameters"]
    assert overrides_of(written.pop("parameter_overrides")) == given
    assert written.pop("region") == _REGION
    before[environment]["deploy"]["parameters"].pop("parameter_overrides", None)
    assert before == after
    assert with_settings(once) == once


def test_a_file_that_does_not_exist_is_made_with_stack_region_and_what_sam_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "new.toml"

    assert configure(monkeypatch, file, options="--stack-name mine") == 0

    written = tomllib.loads(file.read_text())["default"]
    model = tomllib.loads(_TEXT)["default"]
    assert written["global"]["parameters"] == {"stack_name": "mine"}
    assert written["build"] == model["build"]
    assert written["deploy"]["parameters"].items() >= model["deploy"]["parameters"].items()
    assert written["deploy"]["parameters"]["region"] == _REGION
    assert f"Stack mine in {_REGION}, account {_ACCOUNT}" in capsys.readouterr().out


@pytest.mark.parametrize("confirm", ["", "n", "mine"])
def test_nothing_is_written_that_is_not_confirmed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, confirm: str
) -> None:
    file = tmp_path / "new.toml"

    assert configure(monkeypatch, file, confirm=confirm) == 1

    assert not file.exists()


def test_an_input_that_ends_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def ended(question: str) -> str:
        raise EOFError

    with pytest.raises(NotConfiguredError, match="the input has ended"):
        wizard().answers(ended)


def test_missing_credentials_are_reported_before_the_first_question(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with monkeypatch.context() as bare:
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_SECURITY_TOKEN"):
            bare.delenv(name, raising=False)
        bare.setenv("HOME", str(tmp_path))
        bare.setenv("AWS_EC2_METADATA_DISABLED", "true")

        assert configure(bare, tmp_path / "new.toml") == 1

    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("burstcache: no AWS credentials were found: sign in with `aws sso login`")


@pytest.mark.parametrize(
    ("profiles", "told"), [(("work", "home"), "expected one of home, work"), ((), "`aws configure` makes one")]
)
def test_a_missing_profile_is_reported_with_the_existing_ones(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    profiles: tuple[str, ...],
    told: str,
) -> None:
    names = tmp_path / "config"
    names.write_text("".join(f"[profile {name}]\nregion = {_REGION}\n" for name in profiles))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(names))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))

    assert configure(monkeypatch, tmp_path / "new.toml", options="--profile nada") == 2

    assert "--profile nada: " in (said := capsys.readouterr().err)
    assert all(name in said for name in profiles)
    assert told.split()[0] in said


def test_check_asks_nothing_and_refuses_what_the_template_refuses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "samconfig.toml"
    assert configure(monkeypatch, file, options="--check") == 0
    file.write_text(
        _TEXT.replace(
            "[default.deploy.parameters]", "[default.deploy.parameters]\nparameter_overrides = 'OriginBucketName=mine'"
        )
    )

    assert configure(monkeypatch, file, options="--check") == 2

    assert "NoBucketIsOpenedByAccident" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("deployed", "node"),
    [({}, "t4g.micro"), ({"RedisOn": "ec2"}, "t4g.micro"), ({"RedisOn": "fargate-spot"}, None)],
    ids=["from before", "instances", "tasks"],
)
def test_check_counts_what_an_update_keeps(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    deployed: dict[str, str],
    node: str | None,
) -> None:
    given = {"VpcId": "vpc-1", "SubnetIds": "subnet-1", "Removed": "x", **deployed}
    instance = {"Type": "AWS::EC2::Instance", "Properties": {"ImageId": "ami-1", "InstanceType": "t4g.micro"}}
    body = {"Parameters": {name: {"Type": "String"} for name in given}, "Resources": {"RedisInstance1": instance}}
    boto3.client("cloudformation", region_name=_REGION).create_stack(
        StackName="burstcache",
        TemplateBody=json.dumps(body),
        Parameters=[{"ParameterKey": name, "ParameterValue": value} for name, value in given.items()],
    )
    file = tmp_path / "samconfig.toml"
    file.write_text(_TEXT)

    code = configure(monkeypatch, file, options="--check")

    printed = capsys.readouterr()
    assert code == (2 if node is None else 0)
    assert (f"({node})" in printed.out) if node else ("RedisOn ec2 and StateOn ec2" in " ".join(printed.err.split()))


@pytest.mark.parametrize(
    "parameters",
    [
        '[default.deploy.parameters] # mine\nparameter_overrides = "A=1"\n',
        '[default.deploy.parameters]\nparameter_overrides = """\nA=1\n"""\n',
        '[default.deploy.parameters]\nparameter_overrides = [\n  "A=1",\n]\n',
    ],
)
def test_a_file_that_would_not_get_the_answers_stays_as_it_is(
    parameters: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "samconfig.toml"
    file.write_text(parameters.replace("A=1", "Relay=none"))

    assert configure(monkeypatch, file) == 2

    assert "parameter_overrides" in capsys.readouterr().err
    assert file.read_text() == parameters.replace("A=1", "Relay=none")


@pytest.mark.parametrize(
    "written",
    [
        "'Relay=none JwtAudience=\"a b=c\"'",
        '["Relay=none", "JwtAudience=\\"a b=c\\""]',
        '{Relay = "none", JwtAudience = "a b=c"}',
        "'ParameterKey=Relay,ParameterValue=none ParameterKey=JwtAudience,ParameterValue=\"a b=c\"'",
    ],
)
def test_every_form_of_parameters_that_sam_takes_is_read(written: str) -> None:
    given = tomllib.loads(f"parameter_overrides = {written}")["parameter_overrides"]

    assert overrides_of(given) == {"Relay": "none", "JwtAudience": "a b=c"}


@given(st.dictionaries(st.sampled_from("ABC"), st.text(st.characters(exclude_categories=["Cs"]))))
def test_parameters_are_read_as_they_were_written(given: dict[str, str]) -> None:
    line = f"parameter_overrides = {toml_text(overrides_text(given))}"

    try:
        read = tomllib.loads(line)["parameter_overrides"]
    except tomllib.TOMLDecodeError:  # a control character, which no parameter may have: the file is left as it is
        return

    assert overrides_of(read) == given


@pytest.mark.parametrize("rest", ["Relay = none", "Relay none", "file://more.yaml", 'Relay="none', "A='x y'"])
def test_parameters_that_would_be_lost_are_refused(rest: str) -> None:
    with pytest.raises(ValueError, match="expected NAME=VALUE"):
        overrides_of(rest)


_SECTION = "[default.deploy.parameters]\n"


@pytest.mark.parametrize(
    ("content", "options", "told"),
    [
        (b"", "", "there is no section [default.deploy.parameters]"),
        (b"version = 0.1\n", "--config-env version", "version is 0.1; expected a table"),
        (b"[default]\ndeploy = 1\n", "", "default.deploy is 1; expected a table"),
        (b"[default.deploy]\nparameters = 1\n", "", "default.deploy.parameters is 1; expected a table"),
        (f"[default]\nglobal = 1\n{_SECTION}".encode(), "", "default.global is 1; expected a table"),
        (f"{_SECTION}stack_name = 5\n".encode(), "", "stack_name is 5; expected a text"),
        (f"# \xe9\n{_SECTION}".encode("latin-1"), "", "is not UTF-8"),
        (_SECTION.encode(), "--stack-name a_b", "the stack's name is 'a_b'"),
        (f"{_SECTION}parameter_overrides = 'Nope=1'\n".encode(), "", "no parameter 'Nope'"),
        (f"{_SECTION}parameter_overrides = 'FrontDoor=alb'\n".encode(), "", "AlbNeedsCertificate"),
        (_SECTION.encode(), "--config-env a.b", "--config-env 'a.b': expected letters"),
        (_SECTION.encode(), "--region us_east_1", "--region 'us_east_1': expected one such as"),
        (_SECTION.encode(), "--region xx-nowhere-1", "RegionHasDualStackEndpoints"),
    ],
)
def test_what_no_answer_can_mend_is_refused_before_the_first_question(
    content: bytes,
    options: str,
    told: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = tmp_path / "samconfig.toml"
    file.write_bytes(content)

    assert configure(monkeypatch, file, options=options) == 2

    out, err = capsys.readouterr()
    assert told in err
    assert "Who may read" not in out
    assert file.read_bytes() == content


def test_a_folder_that_does_not_exist_is_refused_before_the_first_question(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert configure(monkeypatch, tmp_path / "none" / "new.toml") == 2

    out, err = capsys.readouterr()
    assert out == ""
    assert "there is no folder" in err


def test_a_file_that_may_not_be_written_is_refused_before_the_first_question(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "samconfig.toml"
    file.write_text(_SECTION)
    monkeypatch.setattr("os.access", lambda path, mode: False)

    assert configure(monkeypatch, file) == 2

    assert "is not writable" in capsys.readouterr().err


def test_a_disk_that_fills_up_leaves_the_former_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "samconfig.toml"
    file.write_text(_SECTION)

    def full(path: Path, content: bytes) -> int:
        with path.open("wb") as half:
            half.write(content[:10])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)

    assert configure(monkeypatch, file) == 1

    assert file.read_text() == _SECTION
    assert list(tmp_path.iterdir()) == [file]


def test_links_line_ends_and_the_place_of_a_name_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, link = tmp_path / "real.toml", tmp_path / "samconfig.toml"
    file.write_bytes(b"# mine\r\n[default.deploy.parameters]\r\nstack_name = 'a'\r\nx = 1 # kept\r\n")
    link.symlink_to(file)

    assert configure(monkeypatch, link, options="--stack-name b") == 0

    content = file.read_bytes()
    assert link.is_symlink()
    assert content.count(b"\n") == content.count(b"\r\n")
    assert (b"# mine\r\n" in content, b"x = 1 # kept\r\n" in content) == (True, True)
    assert tomllib.loads(content.decode())["default"]["deploy"]["parameters"]["stack_name"] == "b"


@pytest.mark.parametrize("number", ["1_000", "inf", "nan", "1e3", "\u0661\u0662", "-1"])
def test_a_number_that_cloudformation_does_not_read_is_asked_for_again(number: str) -> None:
    assert answered({"MonthlyBudgetUsd": number})["MonthlyBudgetUsd"] == "0"


@pytest.mark.parametrize(
    ("typed", "written"), [("0.0", "0"), ("00", "0"), ("010", "10"), ("1.50", "1.5"), ("10", "10")]
)
def test_a_number_is_written_as_the_template_compares_it(typed: str, written: str) -> None:
    assert answered({"MonthlyBudgetUsd": typed})["MonthlyBudgetUsd"] == written


def test_a_hyphen_takes_an_earlier_answer_back() -> None:
    said = {"OriginBucketName": "mine", "ApiAuth": "iam", "AlarmEmail": "a@example.com"}

    taken = answered({"OriginBucketName": "-", "AlarmEmail": "-", "Relay": "-"}, **said)

    assert (taken["OriginBucketName"], taken["AlarmEmail"], taken["Relay"]) == ("", "", "none")


@pytest.mark.parametrize(("region", "is_printed"), [("us-east-1", False), ("eu-central-1", False), ("us-east-2", True)])
def test_a_region_without_prices_of_its_own_is_named_with_those_that_are_shown(
    region: str, is_printed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert configure(monkeypatch, tmp_path / "new.toml", options=f"--check --region {region}") == 0

    assert (
        f"There is no price sheet for {region}: prices of us-east-1 are shown." in capsys.readouterr().out
    ) is is_printed


def test_a_bound_that_a_number_exceeds_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    answered({"MonthlyBudgetUsd": "-5"})

    assert "parameter MonthlyBudgetUsd: -5: expected 0 or more" in capsys.readouterr().out


def make_bucket(name: str, *, region: str = _REGION) -> None:
    place: Any = {} if region == "us-east-1" else {"CreateBucketConfiguration": {"LocationConstraint": region}}
    boto3.client("s3", region_name=region).create_bucket(Bucket=name, **place)


def checked(monkeypatch: pytest.MonkeyPatch, folder: Path, bucket: str) -> int:
    """Check a file that names this bucket."""
    file = folder / "samconfig.toml"
    place = "[default.deploy.parameters]"
    file.write_text(_TEXT.replace(place, f"{place}\nparameter_overrides = 'OriginBucketName={bucket} ApiAuth=iam'"))
    return configure(monkeypatch, file, options="--check")


@pytest.mark.parametrize(
    ("region", "said"),
    [
        ("", "'mine': there is no such bucket: expected one that exists, or none"),
        ("eu-central-1", "'mine': the bucket is in eu-central-1: expected one in us-east-1, the stack's region"),
    ],
)
def test_a_bucket_that_the_stack_cannot_read_is_refused(
    region: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if region:
        make_bucket("mine", region=region)
    make_bucket("another")
    file = tmp_path / "new.toml"

    assert checked(monkeypatch, tmp_path, "mine") == 2
    assert said in capsys.readouterr().err
    assert configure(monkeypatch, file, "mine", "another") == 0

    assert f"Not accepted: OriginBucketName {said}" in " ".join(capsys.readouterr().out.split())
    assert 'OriginBucketName="another"' in file.read_text()


def test_a_bucket_without_events_is_taken_with_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    make_bucket("mine")

    assert checked(monkeypatch, tmp_path, "mine") == 0
    assert configure(monkeypatch, tmp_path / "new.toml", "mine") == 0

    for printed in capsys.readouterr():
        assert "Warning: bucket mine sends no events to EventBridge" in " ".join(printed.split())


@pytest.mark.parametrize(("configuration", "warnings"), [("<EventBridgeConfiguration/>", 0), ("", 1)])
def test_a_bucket_whose_events_are_on_has_no_warning(configuration: str, warnings: int) -> None:
    def answer(request: Any, **_: Any) -> AWSResponse:  # moto leaves the element out
        space = "http://s3.amazonaws.com/doc/2006-03-01/"
        body = f'<NotificationConfiguration xmlns="{space}">{configuration}</NotificationConfiguration>'.encode()
        return AWSResponse(request.url, 200, HTTPHeaders(), SimpleNamespace(stream=lambda: [body]))

    make_bucket("mine")
    s3 = boto3.client("s3", region_name=_REGION)
    s3.meta.events.register_first("before-send.s3.GetBucketNotificationConfiguration", answer)

    assert len(bucket_warnings(s3, "mine", region=_REGION)) == warnings


def test_a_bucket_that_may_not_be_asked_for_is_taken_with_a_warning() -> None:
    def denied(Bucket: str) -> None:
        answer = {"HTTPStatusCode": 403, "HTTPHeaders": {"x-amz-bucket-region": home}}
        raise ClientError({"Error": {"Code": "403"}, "ResponseMetadata": answer}, "HeadBucket")  # type: ignore[typeddict-item]

    s3, home = SimpleNamespace(head_bucket=denied), _REGION

    (warning,) = bucket_warnings(s3, "mine", region=_REGION)
    home = "eu-central-1"

    assert warning.startswith("bucket mine cannot be checked, S3 answers 403: you lack s3:ListBucket")
    with pytest.raises(InvalidSettingError, match="the bucket is in eu-central-1"):
        bucket_warnings(s3, "mine", region=_REGION)


def test_a_missing_region_is_reported_with_what_names_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    assert main(["config", "--template", str(ROOT / "template.yaml"), "--file", str(tmp_path / "new.toml")]) == 2

    assert "set AWS_REGION, or for make REGION=NAME" in " ".join(capsys.readouterr().err.split())
