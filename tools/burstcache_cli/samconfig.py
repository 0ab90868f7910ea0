"""SAM CLI's samconfig.toml, with a stack's name, region and parameters."""

from __future__ import annotations

import argparse
import json
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from burstcache_terminal.options import UsageError

# Matches both formats that SAM CLI accepts. In quotation marks, a backslash escapes the next character.
_OVERRIDE = re.compile(r'(?:ParameterKey=)?(\w+)(?:,ParameterValue)?=(?:"((?:[^"\\]|\\.)*)"|([^\s"]*))(?=\s|$)')
_STACK_NAME = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,127}")
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
    """One environment of the file, with the whole text of the file or of a new file."""

    text: str
    environment: str
    is_new: bool
    stack_name: str
    region: str  # empty to use the AWS configuration
    profile: str  # empty to use the AWS configuration
    overrides: Mapping[str, str]

    def with_settings(self, *, stack_name: str, region: str, profile: str, overrides: Mapping[str, str]) -> str:
        """Return the file's text with these settings in the environment and all other lines unchanged."""
        deploy = {"parameter_overrides": toml_text(overrides_text(overrides)), "region": json.dumps(region)}
        if profile:
            deploy["profile"] = json.dumps(profile)
        if "stack_name" in _table(tomllib.loads(self.text), self.environment, "deploy", "parameters"):
            deploy["stack_name"] = json.dumps(stack_name)
        text = _with_lines(self.text, f"[{self.environment}.deploy.parameters]", deploy)
        if stack_name != settings_of(text, self.environment).get("stack_name"):
            head = f"[{self.environment}.global.parameters]"
            text = _with_lines(text, head, {"stack_name": json.dumps(stack_name)})
        return text


def read_samconfig(args: argparse.Namespace) -> SamConfig:
    """Read the environment that the command-line options select. Options override the file.

    Raises:
        UsageError: The file is unreadable or invalid, or lacks the environment.
    """
    try:
        text, is_new = args.file.read_bytes().decode(), False
    except FileNotFoundError:
        text, is_new = _NEW.format(environment=args.config_env), True
    except OSError as error:
        raise UsageError(f"burstcache: {error.filename}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise UsageError(f"burstcache: {args.file} is not UTF-8: {error.reason} at byte {error.start}") from None
    try:
        return _read(args, text, is_new=is_new)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"burstcache: {args.file} is not valid TOML: {error}") from None
    except ValueError as error:
        raise UsageError(f"burstcache: {args.file}: {error}") from None


def _read(args: argparse.Namespace, text: str, *, is_new: bool) -> SamConfig:
    """Parse the selected environment from a file's text, or raise ValueError."""
    environments = tomllib.loads(text)
    deploy = _table(environments, args.config_env, "deploy", "parameters")
    if not is_new and "parameters" not in _table(environments, args.config_env, "deploy"):
        names = [name for name, each in environments.items() if isinstance(each, dict) and "deploy" in each]
        raise ValueError(
            f"there is no section [{args.config_env}.deploy.parameters]; add it, or give another --config-env"
            f" ({', '.join(names) or 'the file has none'})"
        )
    settings = _table(environments, args.config_env, "global", "parameters") | deploy
    for name in ("stack_name", "region", "profile"):
        if not isinstance(settings.get(name, ""), str):
            raise ValueError(f"{name} is {settings[name]!r}; expected a text")
    stack_name = args.stack_name or settings.get("stack_name", "burstcache")
    if not _STACK_NAME.fullmatch(stack_name):
        raise ValueError(
            f"the stack's name is {stack_name!r}; CloudFormation takes letters, digits and hyphens, a letter first"
        )
    return SamConfig(
        text=text,
        environment=args.config_env,
        is_new=is_new,
        stack_name=stack_name,
        region=args.region or settings.get("region", ""),
        profile=args.profile or settings.get("profile", ""),
        overrides=overrides_of(settings.get("parameter_overrides", "")),
    )


def _table(environments: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """Return a table of the file, or an empty table if it is absent. Raise ValueError for any other value."""
    table: Any = environments
    for depth, name in enumerate(names, 1):
        table = table.get(name, {})
        if not isinstance(table, dict):
            raise ValueError(f"{'.'.join(names[:depth])} is {table!r}; expected a table")
    return dict(table)


def overrides_of(value: Any) -> dict[str, str]:
    """Parse `parameter_overrides`, which may be a string, a list of strings or a table, into names and values.

    Raises:
        ValueError: A part is not NAME=VALUE.
    """
    if isinstance(value, dict):
        return {name: str(each) for name, each in value.items()}
    text = " ".join(map(str, value)) if isinstance(value, list) else str(value)
    if rest := _OVERRIDE.sub("", text).split():
        raise ValueError(f"parameter_overrides has {rest[0]!r}; expected NAME=VALUE, a value with blanks in quotes")
    matches = _OVERRIDE.findall(text)
    return {name: re.sub(r"\\(.)", r"\1", quoted) or plain for name, quoted, plain in matches}


def overrides_text(overrides: Mapping[str, str]) -> str:
    """Format names and values as a string for `parameter_overrides`."""
    escaped = {name: re.sub(r'(["\\])', r"\\\1", value) for name, value in overrides.items()}
    return " ".join(f'{name}="{value}"' for name, value in escaped.items())


def toml_text(text: str) -> str:
    """Encode text as a TOML string, with the quotation marks that need fewer escapes."""
    return json.dumps(text, ensure_ascii=False) if "'" in text else f"'{text}'"


def settings_of(text: str, environment: str) -> dict[str, Any]:
    """Return an environment's settings as read by SAM CLI, or none if the text is invalid or lacks the environment."""
    try:
        tables = tomllib.loads(text)
        return _table(tables, environment, "global", "parameters") | _table(tables, environment, "deploy", "parameters")
    except ValueError:
        return {}


def _with_lines(text: str, head: str, settings: Mapping[str, str]) -> str:
    """Write settings into a section of a TOML text. Add the section if necessary, and keep the line endings."""
    end = "\r\n" if "\r\n" in text else "\n"
    former = text.replace("\r\n", "\n").rstrip("\n").split("\n")
    if head not in former:
        former += ["", head]
    lines, section = [], ""
    for line in former:
        section = line if line.startswith("[") else section
        if section != head or line.partition("=")[0].strip() not in settings:
            lines.append(line)
        if line == head:
            lines += [f"{name} = {value}" for name, value in settings.items()]
    return end.join(lines) + end
