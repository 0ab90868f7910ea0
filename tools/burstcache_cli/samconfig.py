"""The file that SAM CLI reads: which stack, where, and with which parameters."""

from __future__ import annotations

import argparse
import json
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from burstcache_terminal.options import UsageError

_OVERRIDE = re.compile(r'(\w+)=(?:"([^"]*)"|(\S*))')
_NEW = """version = 0.1

[{environment}.global.parameters]
stack_name = "burstcache"

[{environment}.build.parameters]
beta_features = true  # BuildMethod python-uv: builds for python3.14 on arm64 without having either
parallel = true
cached = true

[{environment}.deploy.parameters]
capabilities = "CAPABILITY_IAM"
confirm_changeset = true
resolve_s3 = true
"""


@dataclass(frozen=True, slots=True)
class SamConfig:
    """One environment of the file, and the file's text, which is that of a new one where there is none yet."""

    text: str
    environment: str
    is_new: bool
    stack_name: str
    region: str  # empty: that of the AWS configuration
    profile: str  # likewise
    overrides: Mapping[str, str]

    def with_settings(self, *, stack_name: str, region: str, profile: str, overrides: Mapping[str, str]) -> str:
        """Return the file's text with these settings in the environment, and all else as it was."""
        deploy = {"parameter_overrides": f"'{overrides_text(overrides)}'", "region": json.dumps(region)}
        if profile:
            deploy["profile"] = json.dumps(profile)
        text = _with_lines(self.text, f"[{self.environment}.deploy.parameters]", deploy)
        if stack_name != settings_of(text, self.environment).get("stack_name"):
            head = f"[{self.environment}.global.parameters]"
            text = _with_lines(text, head, {"stack_name": json.dumps(stack_name)})
        return text


def read_samconfig(args: argparse.Namespace) -> SamConfig:
    """Return the environment that the options name; they go before what the file says.

    Raises:
        UsageError: The file cannot be read, or has no such environment.
    """
    try:
        text, is_new = args.file.read_text("utf-8"), False
    except FileNotFoundError:
        text, is_new = _NEW.format(environment=args.config_env), True
    except OSError as error:
        raise UsageError(f"burstcache: {error.filename}: {error.strerror}") from None
    try:
        environments = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"burstcache: {args.file} is no TOML: {error}") from None
    settings = environments.get(args.config_env, {})
    deploy = settings.get("deploy", {}).get("parameters")
    if deploy is None:
        known = [name for name, each in environments.items() if isinstance(each, dict) and "deploy" in each]
        raise UsageError(
            f"burstcache: {args.file} has no section [{args.config_env}.deploy.parameters];"
            f" --config-env takes {', '.join(known) or 'none'}"
        )
    given = settings.get("global", {}).get("parameters", {}) | deploy
    former = given.get("parameter_overrides", "")
    if not isinstance(former, str):
        raise UsageError(f"burstcache: {args.file}: parameter_overrides is a list; expected a text")
    return SamConfig(
        text=text,
        environment=args.config_env,
        is_new=is_new,
        stack_name=args.stack_name or str(given.get("stack_name", "burstcache")),
        region=args.region or str(given.get("region", "")),
        profile=args.profile or str(given.get("profile", "")),
        overrides=overrides_of(former),
    )


def overrides_of(text: str) -> dict[str, str]:
    """Return names and values of `parameter_overrides`."""
    return {name: quoted or plain for name, quoted, plain in _OVERRIDE.findall(text)}


def overrides_text(given: Mapping[str, str]) -> str:
    """Return `parameter_overrides` with these names and values."""
    return " ".join(f'{name}="{value}"' for name, value in given.items())


def settings_of(text: str, environment: str) -> dict[str, Any]:
    """Return what SAM CLI reads of an environment; nothing if the text is no TOML or lacks it."""
    try:
        found = tomllib.loads(text)[environment]
    except (tomllib.TOMLDecodeError, KeyError):
        return {}
    return {**found.get("global", {}).get("parameters", {}), **found.get("deploy", {}).get("parameters", {})}


def _with_lines(text: str, head: str, settings: Mapping[str, str]) -> str:
    """Return TOML with these lines in a section, which is added if there is none."""
    if head not in text.splitlines():
        text = f"{text.rstrip()}\n\n{head}\n"
    lines, section = [], ""
    for line in text.splitlines():
        section = line if line.startswith("[") else section
        if section != head or line.partition("=")[0].strip() not in settings:
            lines.append(line)
        if line == head:
            lines += [f"{name} = {value}" for name, value in settings.items()]
    return "\n".join(lines) + "\n"
