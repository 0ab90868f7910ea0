"""`make package` and the CDK app: the packaged template deploys what template.yaml does, and CDK includes it."""

from __future__ import annotations

import json
import logging
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from samtranslator.translator.transform import transform

from burstcache_local.moto.server import moto_server
from burstcache_local.moto.services import Services
from burstcache_local.template.parameters import decide, parameter_values
from burstcache_local.template.read import read
from support.deployed import decided, kept
from support.project import ROOT
from support.waiting import LIMIT_S

_SAM = ROOT / ".venv-sam"
_CDK = ROOT / ".venv-cdk" / "bin" / "python"
_PARAMETERS = {"ApiAuth": "iam"}
_PACKAGED_FROM = ("LICENSE", "Makefile", "README.md", "requirements-sam.lock", "samconfig.toml", "template.yaml")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.weekly,
    pytest.mark.skipif(not _SAM.is_dir(), reason="SAM CLI is not installed: run `make build`."),
]


@pytest.fixture(scope="module")
def services() -> Iterator[Services]:
    with moto_server() as running:
        running.client("s3").create_bucket(
            Bucket="packages", CreateBucketConfiguration={"LocationConstraint": running.region}
        )
        yield running


@pytest.fixture(scope="module")
def packaged(services: Services, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the template that `make package` writes, in a copy: another test may build in this folder at the time."""
    folder = tmp_path_factory.mktemp("checkout")
    for name in _PACKAGED_FROM:
        shutil.copy2(ROOT / name, folder)
    for name in ("cloudformation", "src", "statemachines"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    (folder / _SAM.name).symlink_to(_SAM)
    credentials = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing"}
    done = subprocess.run(
        ["make", "package", "BUCKET=packages", f"REGION={services.region}"],
        cwd=folder,
        env=os.environ | credentials | {"AWS_ENDPOINT_URL": services.cloud_url},
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_S,
    )
    assert done.returncode == 0, done.stderr
    return folder / "build" / "packaged.yaml"


def test_the_packaged_template_names_objects_in_the_bucket(packaged: Path, services: Services) -> None:
    text = packaged.read_text()
    named = set(re.findall(r"s3://packages/(\w+)", text)) | set(re.findall(r"Key: (\w{32})", text))

    listed = services.client("s3").list_objects_v2(Bucket="packages")["Contents"]

    assert {each["Key"] for each in listed} == named
    assert len(text) < 460_800  # a limit that Terraform's provider documents. That of CloudFormation is 1 MB.


def test_the_packaged_template_deploys_what_the_template_does(packaged: Path) -> None:
    assert transformed(packaged) == transformed(ROOT / "template.yaml")


def transformed(path: Path) -> dict[str, Any]:
    """Return the types of a template's resources after SAM's transform, with default parameters, by logical id.

    The id of a function's version ends in a hash of its code's place, which is left out.
    """
    logging.getLogger("samtranslator").setLevel(logging.ERROR)
    source = read(path)
    values = parameter_values(source["Parameters"], {})
    source = decide(source, values, "eu-central-1")
    if path.name == "template.yaml":  # which has folders and files
        source["Globals"]["Function"]["CodeUri"] = "s3://bucket/key"
        for resource in source["Resources"].values():
            for name in {"CodeUri", "DefinitionUri"} & resource.get("Properties", {}).keys():
                resource["Properties"][name] = "s3://bucket/key"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
        resources = transform(source, dict(values), None)["Resources"]
    return {re.sub(r"(?<=Version)[0-9a-f]{10}$", "", name): part["Type"] for name, part in resources.items()}


@pytest.mark.skipif(not _CDK.exists(), reason="CDK's libraries are not installed: run `make cdk`.")
@pytest.mark.skipif(not shutil.which("node"), reason="CDK needs Node, and there is none on the PATH.")
def test_the_cdk_app_has_the_packaged_template_as_a_nested_stack(packaged: Path, tmp_path: Path) -> None:
    context = {"template": str(packaged), "parameters": json.dumps(_PARAMETERS)}
    command = json.loads((ROOT / "examples/cdk/cdk.json").read_text())["app"].split()

    subprocess.run(
        command,
        cwd=ROOT / "examples" / "cdk",
        env=os.environ | {"CDK_OUTDIR": str(tmp_path), "CDK_CONTEXT_JSON": json.dumps(context)},
        check=True,
        capture_output=True,
        timeout=LIMIT_S,
    )

    made = json.loads((tmp_path / "Cached.template.json").read_text())
    (nested,) = [each for each in made["Resources"].values() if each["Type"] == "AWS::CloudFormation::Stack"]
    assert nested["Properties"]["Parameters"] == _PARAMETERS
    (asset,) = tmp_path.glob("asset.*.yaml")
    assert asset.read_bytes() == packaged.read_bytes()
    assert asset.name.removeprefix("asset.") in json.dumps(nested["Properties"]["TemplateURL"])
    template = read(packaged)
    read_outputs = set(re.findall(r"Outputs\.(\w+)", json.dumps(made)))
    assert read_outputs == {"ApiUrl", "ReaderSettings", "ReaderPolicyArn"}
    assert read_outputs <= kept(template, "Outputs", decided(template, _PARAMETERS)).keys()
