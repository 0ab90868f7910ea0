"""Configuration of a lease holder, from the environment, stack outputs or a local run's file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3

from burstcache.adapters.clients import Clients
from burstcache.adapters.stack_outputs import local_run, stack_output, variables_in
from burstcache.core.errors import InvalidSettingError
from burstcache.settings.holder import HolderSettings

VARIABLE = "BURSTCACHE_STATE"
OUTPUT = "StateSettings"


@dataclass(frozen=True)
class StateConfiguration:
    """Settings of the databases, and AWS clients."""

    settings: HolderSettings
    clients: Clients


def configure(
    *, stack: str, local: str | os.PathLike[str], session: Any, endpoint_urls: Mapping[str, str] | None
) -> StateConfiguration:
    """Return the configuration of a stack or local run, or else the environment's.

    Raises:
        InvalidSettingError: No source or two sources are given, or the stack or run does not exist.
    """
    urls = dict(endpoint_urls or {})
    if stack and local:
        raise InvalidSettingError(f"stack={stack!r} and local={os.fspath(local)!r} exclude each other")
    if local:
        run = local_run(Path(local))
        text, source = run["outputs"].get(OUTPUT, ""), f"output {OUTPUT} in {os.fspath(local)}"
        session = boto3.Session(aws_access_key_id="local", aws_secret_access_key="local", region_name=run["region"])
        urls = {"": run["endpoint_url"]}
        if not text:
            raise InvalidSettingError(f"{source} is missing: start the run with --parameter StateDatabases=NAME")
    elif stack:
        session = session or boto3.Session()
        text, source = stack_output(stack, OUTPUT, session, urls), f"output {OUTPUT} of stack {stack}"
    elif not (text := os.environ.get(VARIABLE, "")):
        raise InvalidSettingError(
            "no stack is named; accepted: stack=…, local=…, or the environment variable"
            f" {VARIABLE} (the stack's output {OUTPUT})"
        )
    else:
        source = VARIABLE
    variables = variables_in(text, source, OUTPUT)
    session = session or boto3.Session(region_name=variables.get("AWS_REGION"))
    return StateConfiguration(HolderSettings.read(variables), Clients("control", session=session, endpoint_urls=urls))
