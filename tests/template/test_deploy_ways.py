"""Other ways to deploy: Terraform, the Serverless Application Repository and Grafana name what the template has."""

from __future__ import annotations

import functools
import json
import re
import shutil
import subprocess
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import botocore.session
import hcl2
import pytest
from botocore.model import StructureShape
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard
from packaging.version import Version

import burstcache
from burstcache_local.emf import MetricId
from deploy.grafana.__main__ import FILE, main
from support.deployed import decided, kept
from support.metrics import shown, widgets
from support.project import ROOT, STACK

_TERRAFORM = ROOT / "examples" / "terraform"
_PAGE = (ROOT / "docs" / "operate" / "deploy.md").read_text()
# Of the template's types those in the Serverless Application Repository Developer Guide, "List of Supported AWS
# Resources", as of 2021-02-08, the last version that was published as a whole.
_SUPPORTED_BY_SAR = {
    "AWS::CloudWatch::Alarm",
    "AWS::CloudWatch::Dashboard",
    "AWS::DynamoDB::Table",
    "AWS::EC2::SecurityGroup",
    "AWS::EC2::SecurityGroupEgress",
    "AWS::EC2::SecurityGroupIngress",
    "AWS::Events::Rule",
    "AWS::IAM::InstanceProfile",
    "AWS::IAM::ManagedPolicy",
    "AWS::IAM::Role",
    "AWS::Lambda::EventSourceMapping",
    "AWS::Lambda::Permission",
    "AWS::Logs::LogGroup",
    "AWS::S3::Bucket",
    "AWS::SNS::Subscription",
    "AWS::SNS::Topic",
    "AWS::SNS::TopicPolicy",
    "AWS::SQS::Queue",
    "AWS::SQS::QueuePolicy",
    "AWS::SSM::Parameter",
    "AWS::Serverless::Function",
    "AWS::Serverless::HttpApi",
    "AWS::Serverless::StateMachine",
}
# Names that an IAM resource's properties give it, for which CloudFormation wants CAPABILITY_NAMED_IAM.
_IAM_NAMES = {
    "AWS::IAM::Group": "GroupName",
    "AWS::IAM::InstanceProfile": "InstanceProfileName",
    "AWS::IAM::ManagedPolicy": "ManagedPolicyName",
    "AWS::IAM::Role": "RoleName",
    "AWS::IAM::User": "UserName",
}


@functools.cache
def terraform(kind: str) -> dict[str, Any]:
    """Return the blocks of a kind in the configuration, by their labels. They are shared, so read-only."""
    options = hcl2.SerializationOptions(strip_string_quotes=True, with_comments=False)
    blocks: dict[str, Any] = {}
    for path in sorted(_TERRAFORM.glob("*.tf")):
        for block in hcl2.loads(path.read_text(), serialization_options=options).get(kind, []):
            blocks |= block
    return blocks


def terraform_stack() -> dict[str, Any]:
    return terraform("resource")["aws_cloudformation_stack"]["burstcache"]  # type: ignore[no-any-return]


def always(template: Mapping[str, Any], parameters: Mapping[str, str]) -> set[str]:
    """Return the outputs of a stack with these parameters."""
    return set(kept(template, "Outputs", decided(template, parameters)))


def test_terraform_sets_parameters_to_values_that_the_template_allows(template: dict[str, Any]) -> None:
    parameters: dict[str, str] = terraform("variable")["parameters"]["default"]

    assert parameters
    for name, value in parameters.items():
        assert value in template["Parameters"][name].get("AllowedValues", [value])


def test_terraform_reads_outputs_that_the_stack_has(template: dict[str, Any]) -> None:
    values = [output["value"] for output in terraform("output").values()]
    read = {name for value in values for name in re.findall(r'outputs\["(\w+)"\]', value)}
    looked_up = {name for value in values for name in re.findall(r'lookup\(\S+\.outputs, "(\w+)", null\)', value)}

    assert len(read) + len(looked_up) == len(values)
    assert read <= always(template, {"RedisNodeCount": "0", "Relay": "none"})
    assert looked_up <= always(template, {}) - always(template, {"RedisNodeCount": "0", "Relay": "none"})


def test_terraform_takes_the_template_from_the_bucket() -> None:
    stack = terraform_stack()

    assert stack["template_url"].endswith("/${aws_s3_object.template.key}")
    assert "template_body" not in stack
    assert "filemd5(var.template)" in terraform("resource")["aws_s3_object"]["template"]["key"]


def test_terraform_gives_the_capabilities_that_the_template_needs(template: dict[str, Any]) -> None:
    resources = template["Resources"].values()
    named = [each for each in resources if _IAM_NAMES.get(each["Type"]) in each.get("Properties", {})]

    assert named == []  # no CAPABILITY_NAMED_IAM
    assert template["Transform"] == "AWS::Serverless-2016-10-31"
    assert terraform_stack()["capabilities"] == ["CAPABILITY_IAM", "CAPABILITY_AUTO_EXPAND"]


def test_terraform_uses_its_variables_and_no_others() -> None:
    text = "".join(path.read_text() for path in _TERRAFORM.glob("*.tf"))

    assert set(re.findall(r"\bvar\.(\w+)", text)) == set(terraform("variable"))


def test_the_page_names_the_outputs_of_terraform() -> None:
    (line,) = re.findall(r"^- \*\*Outputs\*\*: (.*\n.*)$", _PAGE, re.M)

    assert re.findall(r"`(\w+)`", line) == list(terraform("output"))


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("terraform"), reason="There is no terraform on the PATH.")
def test_terraform_files_have_its_format() -> None:
    command = ["terraform", f"-chdir={_TERRAFORM}", "fmt", "-check", "-diff"]

    assert subprocess.run(command, capture_output=True, text=True, check=False, timeout=60).stdout == ""


def test_the_metadata_for_the_repository_is_that_of_the_library(template: dict[str, Any], root: Path) -> None:
    metadata = template["Metadata"]["AWS::ServerlessRepo::Application"]
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]

    assert Version(metadata["SemanticVersion"]) == Version(burstcache.__version__)
    assert re.fullmatch(r"\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?", metadata["SemanticVersion"])
    assert (metadata["Name"], metadata["Description"]) == (project["name"], project["description"])
    assert metadata["SpdxLicenseId"] == project["license"]
    assert (root / metadata["LicenseUrl"]).is_file()
    assert (root / metadata["ReadmeUrl"]).is_file()


def test_the_metadata_is_within_the_limits_of_the_repository(template: dict[str, Any]) -> None:
    metadata = template["Metadata"]["AWS::ServerlessRepo::Application"]
    model = botocore.session.get_session().get_service_model("serverlessrepo")
    request = model.shape_for("CreateApplicationRequest")
    assert isinstance(request, StructureShape)

    # The limits are in the documentation of that request's fields alone.
    assert set(metadata) <= set(request.members)
    assert set(request.required_members) <= set(metadata)
    assert re.fullmatch(r"[a-zA-Z0-9-]{1,140}", metadata["Name"])
    assert re.fullmatch(r"(?=.{1,127}$)[a-z0-9](([a-z0-9]|-(?!-))*[a-z0-9])?", metadata["Author"])
    assert len(metadata["Description"]) <= 256
    assert len(metadata["Labels"]) <= 10
    assert all(re.fullmatch(r"[a-zA-Z0-9+\-_:/@]{1,127}", label) for label in metadata["Labels"])


def test_the_page_lists_each_type_that_the_repository_refuses(template: dict[str, Any]) -> None:
    types = {resource["Type"] for resource in template["Resources"].values()}
    items = re.findall(r"^- `([\w:]+::)` ((?:[\w,]+\s+)*?[\w,]+)(?=:|\n-|\n\n)", _PAGE, re.M)

    listed = {prefix + name for prefix, names in items for name in re.findall(r"\w+", names)}

    assert types > _SUPPORTED_BY_SAR
    assert listed == types - _SUPPORTED_BY_SAR


@pytest.fixture(scope="module")
def grafana() -> dict[str, Any]:
    return json.loads(FILE.read_text())  # type: ignore[no-any-return]


def panels(dashboard: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the panels with metrics, those in closed rows included."""
    for panel in dashboard["panels"]:
        yield from panel["panels"] if panel["type"] == "row" else [panel]


def of_cloudwatch() -> set[MetricId]:
    """Return the metrics of the CloudWatch dashboard, without the values of dimensions that the template refers to."""
    searched = {MetricId("AWS/EC2", "CPUUtilization", frozenset({("InstanceId", "$")}))}
    return {_bare(metric) for widget in widgets() for metric in shown(widget)} | searched


def _bare(metric: MetricId) -> MetricId:
    dimensions = frozenset((name, "$" if value[0] == "$" else value) for name, value in metric.dimensions)
    return MetricId(metric.namespace, metric.name, dimensions)


def test_grafana_shows_the_metrics_of_the_cloudwatch_dashboard(grafana: dict[str, Any]) -> None:
    found = {
        _bare(
            MetricId(
                target["namespace"],
                target["metricName"],
                frozenset((name, value.replace("$stack", STACK)) for name, value in target["dimensions"].items()),
            )
        )
        for panel in panels(grafana)
        for target in panel["targets"]
        if "metricName" in target
    }

    assert found == of_cloudwatch()


def test_grafana_s_expressions_are_those_of_the_cloudwatch_dashboard(grafana: dict[str, Any]) -> None:
    targets = [target for panel in panels(grafana) for target in panel["targets"]]
    expressions = {target["expression"] for target in targets if target["metricEditorMode"] == 1}
    options = [metric[-1] for widget in widgets() for metric in widget["metrics"]]

    assert expressions == {
        each["expression"] for each in options if "expression" in each and not each["expression"].startswith("SEARCH")
    }
    assert {each["id"] for each in targets if each["hide"]} == {
        each["id"] for each in options if not each.get("visible", True)
    }


def test_grafana_has_each_variable_that_a_panel_names(grafana: dict[str, Any]) -> None:
    names = {variable["name"] for variable in grafana["templating"]["list"]}

    assert set(re.findall(r"\$\{?(\w+)", json.dumps(grafana))) == names


def test_only_closed_rows_query_what_a_stack_may_lack(grafana: dict[str, Any]) -> None:
    opened = json.dumps([panel for panel in grafana["panels"] if panel["type"] != "row"])

    assert set(re.findall(r"\$\{?(\w+)", opened)) == {"datasource", "region", "stack", "proxy"}
    assert [row["collapsed"] for row in grafana["panels"] if row["type"] == "row"] == [True]


def test_resources_that_grafana_looks_for_are_in_the_template(
    grafana: dict[str, Any], cloudformation: dict[str, Any]
) -> None:
    kinds = {"lambda:function": "AWS::Lambda::Function", "states:stateMachine": "AWS::StepFunctions::StateMachine"}
    queries = [variable["query"] for variable in grafana["templating"]["list"] if variable["type"] == "query"]
    looked_for = {
        query["tags"]["aws:cloudformation:logical-id"][0]: kinds[query["resourceType"]]
        for query in queries
        if query["queryType"] == "resourceARNs"
    }

    assert len(looked_for) == 4
    assert looked_for == {name: cloudformation["Resources"][name]["Type"] for name in looked_for}


def test_grafana_s_own_model_has_every_field(grafana: dict[str, Any]) -> None:
    register_default_plugins()

    read = json.loads(json.dumps(Dashboard.from_json(grafana), cls=JSONEncoder))

    assert lost(grafana, read) == []


def lost(written: Any, read: Any, place: str = "") -> list[str]:
    """Return the places of values that are not in what was read from them."""
    if isinstance(written, dict) and isinstance(read, dict):
        return [each for name, value in written.items() for each in lost(value, read.get(name), f"{place}.{name}")]
    if isinstance(written, list) and isinstance(read, list) and len(written) == len(read):
        pairs = enumerate(zip(written, read, strict=True))
        return [each for number, (old, new) in pairs for each in lost(old, new, f"{place}[{number}]")]
    return [] if written == read else [f"{place}: {written!r}, read as {read!r}"]


def test_a_field_that_grafana_does_not_know_is_found(grafana: dict[str, Any]) -> None:
    register_default_plugins()
    broken = json.loads(json.dumps(grafana))
    broken["panels"][0]["targets"][0]["statistik"] = "Sum"

    read = json.loads(json.dumps(Dashboard.from_json(broken), cls=JSONEncoder))

    assert lost(broken, read) == [".panels[0].targets[0].statistik: 'Sum', read as None"]


def test_the_dashboard_for_grafana_is_that_of_the_template(tmp_path: Path) -> None:
    written = tmp_path / "burstcache.json"

    assert main(["--check"]) is None
    assert main(["--check"], written) == "burstcache.json differs from template.yaml: `make template` writes it"
    assert main([], written) is None
    assert written.read_text() == FILE.read_text()


def test_the_page_names_what_a_look_costs(grafana: dict[str, Any]) -> None:
    targets = [target for panel in grafana["panels"] for target in panel.get("targets", ())]
    count = sum("metricName" in target for target in targets)

    assert f"a look requests {count} metrics at 0.01 USD per 1,000" in _PAGE
    assert "| under 0.001 USD per look |" in _PAGE
    assert count / 1000 * 0.01 < 0.001
