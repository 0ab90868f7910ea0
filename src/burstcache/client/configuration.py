"""Where a client learns what it reads: from the environment, from a stack's outputs, from a local run's file."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import boto3
from botocore.exceptions import BotoCoreError, ClientError

from burstcache.adapters.clients import Clients
from burstcache.core.errors import InvalidSettingError
from burstcache.settings import ExpressAccess, ReaderSettings, RelayAccess

if TYPE_CHECKING:
    from types_boto3_s3.client import S3Client

VARIABLE = "BURSTCACHE_READER"
OUTPUT = "ReaderSettings"
_LOCAL_FILE = "local.json"
_ACCEPTED = f"accepted: stack_name=…, bucket=…, or the environment variable {VARIABLE} (the stack's output {OUTPUT})"


@dataclass(frozen=True)
class Configuration:
    """What to read, and how to reach AWS."""

    settings: ReaderSettings
    session: Any
    endpoint_urls: Mapping[str, str] = field(default_factory=dict)
    s3: S3Client | None = None

    def make_clients(self) -> Clients:
        """Return new clients for a reader in the caller's process, and the one of S3 that it was given."""
        clients = Clients("caller", session=self.session, endpoint_urls=self.endpoint_urls)
        if self.s3 is not None:
            clients.s3 = self.s3
        return clients


def configure(
    *,
    stack_name: str,
    bucket: str,
    session: Any,
    endpoint_urls: Mapping[str, str] | None,
    express_bucket: str = "",
    hit_value_usd_per_million: float = 0,
) -> Configuration:
    """Return what the arguments name, or without one of them the environment.

    Raises:
        InvalidSettingError: Nothing is named, or too much, or there is no such stack.
    """
    if stack_name and bucket:
        raise InvalidSettingError(f"stack_name={stack_name!r} and bucket={bucket!r} exclude each other; {_ACCEPTED}")
    urls = dict(endpoint_urls or {})
    if express_bucket and not bucket:
        raise InvalidSettingError(f"express_bucket={express_bucket!r} without bucket=…; a stack names its own")
    if bucket:
        session = session or boto3.Session()
        express = ExpressAccess(express_bucket, f"{hit_value_usd_per_million:f}", session.region_name or "")
        return Configuration(_without_stack(bucket, express), session, urls)
    if stack_name:
        session = session or boto3.Session()
        text, source = _output(stack_name, session, urls), f"output {OUTPUT} of stack {stack_name}"
    elif text := os.environ.get(VARIABLE, ""):
        source = VARIABLE
    else:
        raise InvalidSettingError(f"nothing says what to read; {_ACCEPTED}")
    variables = _variables(text, source)
    session = session or boto3.Session(region_name=variables.get("AWS_REGION"))
    return Configuration(ReaderSettings.read(variables), session, urls)


def local_run(folder: Path) -> Configuration:
    """Return what `burstcache local up` runs from a directory, described in its `folder`.

    Raises:
        InvalidSettingError: Nothing runs there.
    """
    try:
        run = json.loads((folder / _LOCAL_FILE).read_text())
    except (OSError, ValueError) as error:
        raise InvalidSettingError(f"no local run in {folder}: start one with `burstcache local up`") from error
    session = boto3.Session(aws_access_key_id="local", aws_secret_access_key="local", region_name=run["region"])
    settings = ReaderSettings.read(_variables(run["outputs"].get(OUTPUT, ""), f"output {OUTPUT} in {folder}"))
    return Configuration(settings, session, {"": run["endpoint_url"]})


def _without_stack(bucket: str, express: ExpressAccess) -> ReaderSettings:
    return ReaderSettings(
        table_name="",
        bucket_name=bucket,
        bus_name="",
        relay=RelayAccess(""),
        redis_password_parameter="",
        redis_nodes=(),
        max_object_bytes=sys.maxsize,  # no tier has to hold them, and memory has a bound of its own
        express=express,
        takes_guests=False,
    )


def _output(stack_name: str, session: Any, endpoint_urls: Mapping[str, str]) -> str:
    clients = Clients("control", session=session, endpoint_urls=endpoint_urls)
    try:
        (stack,) = clients.make("cloudformation").describe_stacks(StackName=stack_name)["Stacks"]
    except (ClientError, BotoCoreError) as error:
        raise InvalidSettingError(f"stack_name={stack_name!r}: its outputs cannot be read: {error}") from error
    outputs: dict[str, str] = {each["OutputKey"]: each["OutputValue"] for each in stack.get("Outputs", [])}
    if OUTPUT not in outputs:
        raise InvalidSettingError(
            f"stack {stack_name!r} has no output {OUTPUT}: is it one of Burstcache, and new enough?"
        )
    return outputs[OUTPUT]


def _variables(text: str, source: str) -> dict[str, str]:
    try:
        variables = json.loads(text)
    except ValueError:
        variables = None
    if not isinstance(variables, dict) or not all(isinstance(value, str) for value in variables.values()):
        raise InvalidSettingError(f"{source}: {text[:60]!r} is not a JSON object of texts as the output {OUTPUT} is")
    return variables
