"""INIT phase of the handlers on Lambda, each in a process of its own."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.support.variables import VARIABLES
from burstcache_local.functions import EventInvokeConfig, FunctionSpec
from burstcache_local.lambdas.limits import LambdaLimits
from burstcache_local.lambdas.service import Lambdas
from support.project import ROOT
from support.waiting import LIMIT_S

_SOURCES = ROOT / "src"
_MODULES = sorted((_SOURCES / "burstcache" / "handlers").glob("[!_]*.py"))
_HANDLERS = [path.stem for path in _MODULES if "@at_init" in path.read_text()]  # others learn all from their events
_WHAT_IS_MADE = """
import io, json, sys
from botocore.awsrequest import AWSResponse
from botocore.httpsession import URLLib3Session
from botocore.session import Session
from urllib3 import HTTPResponse
made, make, asked = [], Session.create_client, []
Session.create_client = lambda session, service, **more: made.append(service) or make(session, service, **more)

def send(_, request):
    asked.append(request.headers["X-Amz-Target"].decode())
    return AWSResponse(request.url, 200, {}, HTTPResponse(io.BytesIO(b'{"Items": []}'), preload_content=False))

URLLib3Session.send = send
from burstcache.handlers import proxy
imported = sys.modules.keys() & {"asyncio", "aws_lambda_powertools", "boto3", "nats", "redis"}
print(json.dumps([sorted(made), sorted(imported), asked]))
"""
# Where nothing listens: what a function asks in INIT it may do without.
_NOWHERE = {"AWS_ENDPOINT_URL": "http://127.0.0.1:9"}


def _first_answer(handler: str, variables: dict[str, str], logs: Path) -> dict[str, Any]:
    """Return a fresh environment's answer to a request that needs no service."""
    arn = f"arn:aws:lambda:eu-central-1:123456789012:function:{handler}"
    spec = FunctionSpec(handler, arn, f"burstcache.handlers.{handler}.handler", 30, 128, _SOURCES, variables)

    async def resolve(_: str) -> tuple[FunctionSpec, EventInvokeConfig]:
        return spec, EventInvokeConfig()

    async def send(*_: str) -> None:
        raise AssertionError("nothing is sent to a queue")

    async def ask() -> bytes:
        lambdas = Lambdas(resolve=resolve, send=send, logs=logs, limits=LambdaLimits())
        try:
            event = json.loads((ROOT / "events" / "proxy" / "http_api_put_405.json").read_text())
            outcome = await asyncio.wait_for(lambdas.invoke(handler, json.dumps(event).encode()), LIMIT_S)
            return outcome.body
        finally:
            await lambdas.close()

    answer: dict[str, Any] = json.loads(asyncio.run(ask()))
    return answer


@pytest.mark.parametrize("handler", _HANDLERS)
def test_a_function_without_its_variables_fails_at_its_start_and_names_one(handler: str, tmp_path: Path) -> None:
    first = {"pool_member": "POOL_TLS", "self_test": "FUNCTIONS", "writer": "BUCKET_NAME"}.get(handler, "TABLE_NAME")

    answer = _first_answer(handler, {}, tmp_path)

    assert answer["errorType"] == "InvalidSettingError"
    assert answer["errorMessage"] == f"the environment has no variable {first}; template.yaml says what it holds"
    log = (tmp_path / f"{handler}.log").read_text()
    assert f"InvalidSettingError: the environment has no variable {first}" in log
    assert "START RequestId" not in log  # no invocation has begun


def test_the_proxy_without_one_of_its_variables_fails_at_its_start_and_names_it(tmp_path: Path) -> None:
    variables = {name: value for name, value in VARIABLES.items() if name != "BUS_NAME"}

    assert "no variable BUS_NAME" in _first_answer("proxy", variables, tmp_path)["errorMessage"]


def test_the_proxy_with_its_variables_answers(tmp_path: Path) -> None:
    assert _first_answer("proxy", VARIABLES | _NOWHERE, tmp_path)["statusCode"] == 405


@pytest.mark.parametrize(
    ("in_lambda", "made"),
    [
        ({"LAMBDA_TASK_ROOT": "/var/task"}, [["dynamodb", "events", "s3"], [], ["DynamoDB_20120810.Query"]]),
        ({}, [[], [], []]),
    ],
    ids=["in Lambda", "elsewhere"],
)
def test_the_proxy_starts_with_what_every_read_needs_and_no_more(in_lambda: dict[str, str], made: list[Any]) -> None:
    credentials = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_DEFAULT_REGION": "eu-central-1"}
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(_SOURCES), **credentials, **in_lambda}
    if in_lambda:
        environment |= VARIABLES

    printed = subprocess.check_output([sys.executable, "-c", _WHAT_IS_MADE], env=environment, text=True)

    assert json.loads(printed) == made
