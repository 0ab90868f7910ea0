"""Files that run the gateway elsewhere: systemd units, an image, an ECS task, a Kubernetes pod, a layer of Lambda."""

from __future__ import annotations

import configparser
import json
import re
import shlex
import shutil
import subprocess
import sys
from argparse import Namespace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import botocore.session
import pytest
import yaml
from botocore.validate import ParamValidator

import burstcache
from burstcache.gateway.entry import PORT, options, parse_arguments
from burstcache_cli.registry import COMMANDS
from support.project import ROOT

_FOLDER = ROOT / "deploy" / "gateway"
_PROBE = ["python", "-P", "-m", "burstcache.gateway.probe"]
_ENDPOINT = {"name": "AWS_ENDPOINT_URL_S3", "value": f"http://127.0.0.1:{PORT}"}
_IMAGE = f"/burstcache-gateway:{burstcache.__version__}"


def unit(kind: str) -> configparser.ConfigParser:
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(_FOLDER / f"burstcache-gateway.{kind}")
    return parser


def task() -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Return the ECS task definition, and its containers: the gateway and the application."""
    definition = json.loads((_FOLDER / "ecs-task-definition.json").read_text())
    gateway, application = definition["containerDefinitions"]
    return definition, gateway, application


def pod() -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Return the pod's specification, and its containers: the gateway and the application."""
    specification = yaml.safe_load((_FOLDER / "kubernetes-sidecar.yaml").read_text())["spec"]["template"]["spec"]
    (gateway,), (application,) = specification["initContainers"], specification["containers"]
    return specification, gateway, application


def parsed_service() -> Namespace:
    words = shlex.split(unit("service")["Service"]["ExecStart"])
    assert words[1] == "gateway"
    return parse_arguments([*words[2:-1], "--bucket", "b"])


def test_the_probe_is_a_module_of_the_gateway() -> None:
    assert find_spec(_PROBE[-1]) is not None


def test_the_service_announces_itself_and_has_time_for_its_downloads() -> None:
    service = unit("service")["Service"]

    assert (service["Type"], service["KillMode"]) == ("notify", "mixed")
    assert int(service["TimeoutStopSec"]) > parsed_service().drain_s
    assert unit("socket")["Socket"]["ListenStream"] == f"127.0.0.1:{PORT}"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd's tools are not installed")
def test_systemd_accepts_the_units(tmp_path: Path) -> None:
    for kind in ("service", "socket"):
        text = (_FOLDER / f"burstcache-gateway.{kind}").read_text()
        (tmp_path / f"burstcache-gateway.{kind}").write_text(
            text.replace("/opt/burstcache/bin/burstcache", sys.executable)
        )

    command = ["systemd-analyze", "verify", *map(str, sorted(tmp_path.iterdir()))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (0, "")


def test_the_image_installs_locked_packages_and_ends_as_the_gateway_does() -> None:
    text = (_FOLDER / "Dockerfile").read_text()
    shown = (_FOLDER / "Dockerfile.dockerignore").read_text().splitlines()
    copied = {name for names in re.findall(r"^COPY (?!--from)(.*) \S+$", text, re.M) for name in names.split()}
    installs = re.findall(r"pip install[^\\\n]*", text)
    (check,) = re.findall(r"^HEALTHCHECK .* CMD (.*)$", text, re.M)

    assert all("--require-hashes" in each or "--no-index" in each for each in installs)
    assert {f"!{name}" for name in copied} <= set(shown)
    assert all((ROOT / name).exists() for name in copied)
    assert json.loads(check) == _PROBE
    assert re.findall(r"^(?:USER|STOPSIGNAL) (.*)$", text, re.M) == ["10001", "SIGTERM"]


def test_ecs_accepts_the_task() -> None:
    model = botocore.session.get_session().get_service_model("ecs").operation_model("RegisterTaskDefinition")
    assert model.input_shape is not None

    report = ParamValidator().validate(task()[0], model.input_shape)

    assert not report.has_errors(), report.generate_report()


def test_the_application_of_a_task_starts_once_the_gateway_is_healthy() -> None:
    definition, gateway, application = task()
    arguments = parse_arguments(gateway["command"])

    assert application["dependsOn"] == [{"containerName": gateway["name"], "condition": "HEALTHY"}]
    assert gateway["healthCheck"]["command"] == ["CMD", *_PROBE]
    assert gateway["stopTimeout"] > arguments.drain_s
    assert gateway["image"].endswith(_IMAGE)
    assert _ENDPOINT in application["environment"]
    assert (arguments.port, arguments.host, definition["networkMode"]) == (PORT, "127.0.0.1", "awsvpc")


def test_the_application_of_a_pod_starts_after_its_sidecar_and_ends_before_it() -> None:
    specification, gateway, application = pod()
    arguments = parse_arguments(gateway["args"])

    assert gateway["restartPolicy"] == "Always"
    assert [gateway[name]["exec"]["command"] for name in ("startupProbe", "livenessProbe")] == [_PROBE, _PROBE]
    assert specification["terminationGracePeriodSeconds"] > arguments.drain_s
    assert gateway["image"].endswith(_IMAGE)
    assert _ENDPOINT in application["env"]
    assert (arguments.port, arguments.host) == (PORT, "127.0.0.1")
    assert "hostNetwork" not in specification  # which the node's other pods would share


def test_a_pods_cache_is_a_volume_of_its_own() -> None:
    specification, gateway, _ = pod()
    mounted = {each["mountPath"] for each in gateway["volumeMounts"]}
    named = {each["name"] for each in specification["volumes"]}

    assert str(Path(parse_arguments(gateway["args"]).disk).parent) in mounted
    assert {each["name"] for each in gateway["volumeMounts"]} == named
    assert gateway["securityContext"]["readOnlyRootFilesystem"] is True


def test_the_command_of_the_tools_has_the_options_of_the_librarys() -> None:
    (command,) = (each for each in COMMANDS if each.words == "gateway")

    assert command.options == f"{options.__module__}:{options.__name__}"


def test_the_layers_program_is_executable() -> None:
    assert (_FOLDER / "lambda-extension").stat().st_mode & 0o111 == 0o111
