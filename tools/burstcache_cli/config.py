"""`burstcache config`: ask for what matters of a stack, and keep the answers where `sam deploy` reads them."""

from __future__ import annotations

import argparse
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from burstcache_terminal.exit_codes import ExitCode
from burstcache_terminal.options import UsageError

_NEEDED: Mapping[str, Callable[[Mapping[str, str]], bool]] = {  # by what the questions before them were answered
    "ExistingBucketIsPublic": lambda given: given["OriginBucketName"] != "" and given["ApiAuth"] == "public",
    "JwtIssuer": lambda given: given["ApiAuth"] == "jwt",
    "JwtAudience": lambda given: given["ApiAuth"] == "jwt",
}
_OVERRIDE = re.compile(r'(\w+)=(?:"([^"]*)"|(\S*))')


def config(args: argparse.Namespace) -> ExitCode:
    """Ask on the terminal and write the file.

    Raises:
        UsageError: The file, the template or the environment is missing, or the file cannot be changed line by line.
    """
    from samtranslator.yaml_helper import yaml_parse

    try:
        template, text = yaml_parse(args.template.read_text()), args.file.read_text()
    except OSError as error:
        raise UsageError(f"burstcache config: {error.filename}: {error.strerror}") from None
    settings = tomllib.loads(text).get(args.config_env, {}).get("deploy", {}).get("parameters")
    if settings is None:
        raise UsageError(f"burstcache config: {args.file} has no section [{args.config_env}.deploy.parameters]")
    former = settings.get("parameter_overrides", "")
    if not isinstance(former, str):
        raise UsageError(f"burstcache config: {args.file}: parameter_overrides is a list; expected a text")
    given = overrides(former)
    given |= dict(answers(template, given, input))
    written = with_overrides(text, args.config_env, given)
    if not _would_be_read(written, args.config_env, given):
        raise UsageError(
            f"burstcache config: {args.file} is not laid out as SAM CLI does; write there yourself:"
            f" parameter_overrides = '{_words(given)}'"
        )
    args.file.write_text(written)
    print(f"Written to {args.file}.")
    return ExitCode.SUCCESS


def answers(
    template: Mapping[str, Any], given: Mapping[str, str], ask: Callable[[str], str]
) -> Iterator[tuple[str, str]]:
    """Ask for the first group of the template's parameters, and for those that the answers need.

    Args:
        template: The template.
        given: Answers of an earlier time; Enter keeps them.
        ask: Prints a question and returns what is typed.

    Yields:
        Names and values.
    """
    interface, parameters = template["Metadata"]["AWS::CloudFormation::Interface"], template["Parameters"]
    answered: dict[str, str] = {}
    for name in (*interface["ParameterGroups"][0]["Parameters"], *_NEEDED):
        if name not in _NEEDED or _NEEDED[name](answered):
            default = given.get(name, str(parameters[name]["Default"]))
            answered[name] = _answer(name, parameters[name], default, ask)
            yield name, answered[name]


def _answer(name: str, parameter: Mapping[str, Any], default: str, ask: Callable[[str], str]) -> str:
    """Ask until the template would accept the answer."""
    allowed = [str(value) for value in parameter.get("AllowedValues", [])]
    pattern = parameter.get("AllowedPattern", r"\d+" if parameter["Type"] == "Number" else ".*")
    print(f"\n{parameter['Description']}")
    while True:
        value = ask(f"{name} [{default}]: ").strip() or default
        if not {'"', "'"} & set(value) and (value in allowed if allowed else re.fullmatch(pattern, value)):
            return value
        print(f"{value!r} is not accepted: {', '.join(allowed) or pattern}")


def overrides(text: str) -> dict[str, str]:
    """Return names and values of `parameter_overrides`."""
    return {name: quoted or plain for name, quoted, plain in _OVERRIDE.findall(text)}


def with_overrides(text: str, environment: str, given: Mapping[str, str]) -> str:
    """Return samconfig.toml with these `parameter_overrides` in an environment, and all else as it was."""
    head = f"[{environment}.deploy.parameters]"
    lines, section = [], ""
    for line in text.splitlines():
        section = line if line.startswith("[") else section
        if section != head or not line.startswith("parameter_overrides"):
            lines.append(line)
        if line == head:
            lines.append(f"parameter_overrides = '{_words(given)}'")
    return "\n".join(lines) + "\n"


def _words(given: Mapping[str, str]) -> str:
    return " ".join(f'{name}="{value}"' for name, value in given.items())


def _would_be_read(text: str, environment: str, given: Mapping[str, str]) -> bool:
    """Whether a samconfig.toml has these `parameter_overrides`: no other line hid the section or was torn apart."""
    try:
        found = tomllib.loads(text)[environment]["deploy"]["parameters"]["parameter_overrides"]
    except (tomllib.TOMLDecodeError, KeyError):
        return False
    return isinstance(found, str) and overrides(found) == given
