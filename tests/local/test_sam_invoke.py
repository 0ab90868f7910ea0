"""SAM's build in the local run, by `sam local invoke`: the package and the template's environment variables work.

Only the container is left out. The package runs under AWS's runtime client with Lambda's boto3 and nothing else to
import, in the environment that SAM CLI builds from the built template and from `burstcache local env --sam`.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from _pytest.mark import ParameterSet

from burstcache_local.cloud import LocalCloud, LocalOptions
from burstcache_local.functions import FunctionSpec, Outcome
from burstcache_local.lambdas.forks import Fork, Forks
from burstcache_local.lambdas.runtime import Environment
from support import sam_environments
from support.project import ROOT

_LAST = ("budget", "credentials")  # what the others need is paused, or gone
_EVENTS = sorted((ROOT / "events").glob("*/*.json"), key=lambda path: (path.parent.name in _LAST, path))
_OF_LAMBDA = (
    *("awslambdaric", "boto3", "botocore", "dateutil", "jmespath", "runtime_client*.so", "s3transfer"),
    *("simplejson", "six.py", "snapshot_restore_py.py", "urllib3"),
)
_COMPILED = ("_cffi_backend*.so", "cffi", "cryptography", "pycparser")  # built for Lambda's processor, not for this one
_PROGRAM = """
import sys
sys.path[:0], sys.argv = sys.argv[2:], ["awslambdaric", sys.argv[1]]
from awslambdaric.__main__ import main
main(sys.argv)
"""
# Steps of a run or a life that this cloud does not have.
_SUPERSEDED = (
    "abandon_node",
    "boot_node",
    "join",
    "save_node",
    "stop_node",
)
# Checks answer that, so that the machine ends by a Choice; a node that is ready is checked at once.
_OUTCOMES = {"check_node": "superseded", "ready_node": "used", "tick": "superseded"}


class _Processes(Forks):
    """Starts a process per environment, which shares nothing with this one, in place of forks."""

    def __init__(self, *libraries: Path) -> None:
        self._libraries = libraries

    async def fork(
        self, handler: str, *, env: Mapping[str, str], root: Path, log: Path, clock_ahead_s: float = 0.0
    ) -> Fork:
        words = [sys.executable, "-I", "-S", "-c", _PROGRAM, handler, *map(str, self._libraries)]
        with log.open("ab") as output:
            process = await asyncio.create_subprocess_exec(
                *words, env=dict(env), cwd=root, stdout=output, stderr=output, start_new_session=True
            )
        return Fork(process.pid, asyncio.ensure_future(process.wait()), partial(_kill, process))


def _kill(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        os.killpg(process.pid, signal.SIGKILL)


def _linked(folder: Path, *names: str) -> Path:
    """Return a folder in which these libraries of ours, and no others, can be imported."""
    folder.mkdir()
    for name in names:
        (library,) = Path(pytest.__file__).parents[1].glob(name)
        (folder / library.name).symlink_to(library)
    return folder


def _samples() -> list[ParameterSet]:
    """Return the samples in their order. All but the first of each function are weekly.

    Those of `state` need each other: a lease is acquired, kept and released.
    """
    first = {path.parent: path for path in reversed(_EVENTS)}
    return [
        pytest.param(
            path,
            marks=() if path == first[path.parent] or path.parent.name == "state" else pytest.mark.weekly,
            id=f"{path.parent.name}/{path.stem}",
        )
        for path in _EVENTS
    ]


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCloud]:
    samples = ROOT / "tools/burstcache_local/samples"
    parameters = {"MonthlyBudgetUsd": "9", "StateDatabases": "orders", "PoolMembers": "8", "PoolHub": "fargate"}
    options = LocalOptions(origin=samples, parameters=parameters, run_dir=tmp_path_factory.mktemp("logs"))
    with LocalCloud(options) as running:
        yield running


@pytest.fixture(scope="module")
def functions(cloud: LocalCloud, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """Return SAM CLI's functions from the built template and the local run's environments."""
    subprocess.run(["make", "build"], cwd=ROOT, check=True, capture_output=True)
    env_vars = tmp_path_factory.mktemp("environments") / "env.json"
    env_vars.write_text(json.dumps(cloud.sam_variables))
    words = [
        ".venv-sam/bin/python",
        sam_environments.__file__,
        ".aws-sam/build/template.yaml",
        str(env_vars),
        cloud.region,
    ]
    found = json.loads(subprocess.check_output(words, cwd=ROOT))
    assert isinstance(found, dict)
    return found


@pytest.fixture(scope="module")
def of_lambda(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _linked(tmp_path_factory.mktemp("runtime") / "libraries", *_OF_LAMBDA)


def invoked(
    function: dict[str, Any], libraries: Sequence[Path], event: bytes, log: Path, tenant_id: str = ""
) -> Outcome:
    """Invoke a function with an event in a fresh environment, for a tenant if one is named, and return the outcome."""
    spec = FunctionSpec(
        name=function["variables"]["AWS_LAMBDA_FUNCTION_NAME"],
        arn=f"arn:aws:lambda:{function['variables']['AWS_REGION']}:123456789012:function:invoked",
        handler=function["handler"],
        timeout_s=function["timeout_s"],
        memory_mb=function["memory_mb"],
        root=ROOT / function["code"],
        variables=function["variables"],
    )

    async def invoke() -> Outcome:
        environment = Environment(spec, _Processes(*libraries), log)
        await environment.start()
        try:
            return await environment.invoke(str(uuid.uuid4()), event, tenant_id=tenant_id)
        finally:
            await environment.close()

    return asyncio.run(invoke())


def _function(path: Path) -> str:
    return path.parent.name.title().replace("_", "") + "Function"


@pytest.mark.slow
@pytest.mark.parametrize("path", _samples())
def test_a_function_answers_its_samples(
    cloud: LocalCloud, functions: dict[str, dict[str, Any]], of_lambda: Path, tmp_path: Path, path: Path
) -> None:
    function, event, log = functions[_function(path)], json.loads(path.read_text()), tmp_path / "log"
    log.touch()
    if "ResponseURL" in event:
        event["ResponseURL"] = f"{cloud.lambda_endpoint_url}/custom-resources/sample"
    libraries = [ROOT / function["code"], of_lambda]
    if path.parent.name == "credentials":
        libraries.insert(0, _linked(tmp_path / "compiled", *_COMPILED))

    tenant_id = "pool-0" if path.parent.name == "pool_member" else ""
    outcome = invoked(function, libraries, json.dumps(event).encode(), log, tenant_id)

    answer = json.loads(outcome.body)
    if path.parent.name in ("pool_control", "redis_control") and path.stem in _SUPERSEDED:
        assert answer["errorType"] == "SupersededError", answer
    elif path.stem in _OUTCOMES:
        assert answer["outcome"] == _OUTCOMES[path.stem], answer
    elif (path.parent.name, path.stem) == ("redis_control", "seed"):
        assert answer["errorType"] in ("RedisDownError", "SupersededError"), answer  # by whether the node is up
    else:
        assert not outcome.error, (answer, log.read_text())
    if path.parent.name == "proxy":
        assert answer["statusCode"] == int(path.stem.rpartition("_")[2])


def test_an_environment_is_that_of_the_local_run_wherever_the_template_declares_it(
    cloud: LocalCloud, functions: dict[str, dict[str, Any]]
) -> None:
    of_the_run = cloud.sam_variables

    assert of_the_run.keys() - functions.keys() == {"Parameters"}
    for name, function in functions.items():
        variables = function["variables"]
        assert variables["AWS_ENDPOINT_URL"] == cloud.endpoint_url  # even where the run has no such function
        declared = {variable: value for variable, value in of_the_run.get(name, {}).items() if variable in variables}
        assert variables.items() >= declared.items()
