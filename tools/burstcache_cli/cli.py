"""The CLI's entry point, which runs a command from the registry and maps exceptions to exit codes."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from burstcache import __version__
from burstcache.core.errors import BurstcacheError, InvalidSettingError
from burstcache_cli.registry import COMMANDS, FIRST, GROUPS, TOPICS, Command, children
from burstcache_terminal.exit_codes import ExitCode
from burstcache_terminal.options import Parser, UsageError
from burstcache_terminal.text import print_anything, shown_text

_MAX_WORDS = max(len(command.words.split()) for command in COMMANDS)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command, and return its exit code."""
    words = sys.argv[1:] if argv is None else list(argv)
    print_anything()
    try:
        try:
            return _run(words)
        finally:
            sys.stdout.flush()  # raises BrokenPipeError here, inside the outer try
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    except BrokenPipeError:  # as in `burstcache keys | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitCode.FAILURE
    except Exception as error:  # users get one line, developers a traceback
        if "--debug" in words or os.environ.get("BURSTCACHE_DEBUG"):
            import traceback  # imported late to speed up the start

            traceback.print_exc()
        print(shown_text(" ".join(_line(error).split())), file=sys.stderr)
        return ExitCode.USAGE if isinstance(error, InvalidSettingError) else ExitCode.FAILURE


def _run(argv: Sequence[str]) -> int:
    command = _command(argv)
    if command is None:
        return _refuse(argv)
    parser = Parser(prog=f"burstcache {command.words}", description=_sentence(command.help))
    _function(command.options)(parser)
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")
    options = parser.parse(argv[len(command.words.split()) :])
    return int(_function(command.work)(options))


def _command(argv: Sequence[str]) -> Command | None:
    """Return the command that the first arguments name, or None if there is no such command."""
    beginnings = {" ".join(argv[:length]) for length in range(1, _MAX_WORDS + 1)}
    return next((command for command in COMMANDS if command.words in beginnings), None)


def _refuse(argv: Sequence[str]) -> int:
    """Print the help or the version if the arguments ask for it. Otherwise, raise UsageError with all commands."""
    group = argv[0] if argv and argv[0] in GROUPS else ""
    topic = argv[0] if argv and argv[0] in TOPICS and not group else ""
    parser = Parser(
        prog=f"burstcache {group or topic}".rstrip(),
        description=_sentence(GROUPS[group]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        add_help=False,
    )
    parser.add_argument("-h", "--help", action="help", help=argparse.SUPPRESS)  # leaves the screen to the commands
    if not group:
        parser.add_argument("--version", action="version", version=f"burstcache {__version__}", help=argparse.SUPPRESS)
    parser.usage = f"burstcache {group} [-h] COMMAND ..." if group else "burstcache [-h] [--version] COMMAND ..."
    parser.epilog = _listing(group, topic)
    parser.add_argument("command", nargs="?", help=argparse.SUPPRESS)
    rest = argv[1:] if group or topic else argv
    if topic and not rest:
        parser.print_help()
        return ExitCode.SUCCESS
    if topic and rest[0] in TOPICS[topic]:
        parser.error(f"{rest[0]!r} is a command itself: burstcache {shlex.join(rest)}")
    expected = f"expected one of {', '.join(TOPICS.get(topic) or children(group))}"
    if rest and not rest[0].startswith("-"):
        parser.error(f"{rest[0]!r} is not a command: {expected}")
    parser.parse(rest)
    parser.error(f"a command is missing: {expected}")


def _listing(group: str, topic: str) -> str:
    """Return the help for a group's or topic's commands. At the top, the first commands of each topic."""
    helps = children(group)
    if group:
        blocks = {"commands": tuple(helps)}
    else:
        blocks = {each: tuple(word for word in words if topic or word in FIRST) for each, words in TOPICS.items()}
        blocks = {topic: blocks[topic]} if topic else blocks
    width = max(len(word) for words in blocks.values() for word in words)
    texts = [
        "\n".join([f"{title.capitalize()}:", *(f"    {word:{width}}   {helps[word]}" for word in words)])
        for title, words in blocks.items()
    ]
    if not group and not topic:
        more = [each for each, words in TOPICS.items() if not FIRST.issuperset(words)]
        texts.append(f"More: {', '.join(f'burstcache {each} --help' for each in more)}")
    return "\n\n".join(texts)


def _function(reference: str) -> Callable[..., Any]:
    module, _, name = reference.partition(":")
    function: Callable[..., Any] = getattr(import_module(module), name)
    return function


# Exception names and AWS error codes of credential problems, with remedies.
_SIGN_IN = (
    "sign in with `aws sso login` or `aws configure`, or set AWS_PROFILE,"
    " or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
)
_NO_CREDENTIALS = {
    "NoCredentialsError": "no AWS credentials were found",
    "PartialCredentialsError": "the AWS credentials are incomplete",
    "CredentialRetrievalError": "the AWS credentials could not be retrieved",
    "TokenRetrievalError": "the AWS SSO session has expired",
    "SSOTokenLoadError": "there is no AWS SSO session",
    "UnauthorizedSSOTokenError": "the AWS SSO session has expired",
    "ExpiredToken": "the AWS credentials have expired",
    "ExpiredTokenException": "the AWS credentials have expired",
    "InvalidClientTokenId": "AWS does not know these credentials",
    "UnrecognizedClientException": "AWS does not know these credentials",
    "SignatureDoesNotMatch": "AWS does not accept these credentials",
}

_NO_ANSWER = ("EndpointConnectionError", "ConnectTimeoutError", "ReadTimeoutError", "ProxyConnectionError", "SSLError")


def _credentials_problem(error: BaseException | None) -> str:
    """Return the credential problem that caused an error, or an empty string."""
    while error is not None:
        code = getattr(error, "response", {}).get("Error", {}).get("Code", "")
        for name in (type(error).__name__, code, getattr(error, "code", "")):
            if name in _NO_CREDENTIALS:
                return _NO_CREDENTIALS[name]
        error = error.__cause__
    return ""


def _line(error: Exception) -> str:
    if problem := _credentials_problem(error):
        return f"burstcache: {problem}: {_SIGN_IN}"
    if type(error).__name__ in _NO_ANSWER:
        return (
            f"burstcache: {error}: check the network, the region, AWS_ENDPOINT_URL, and that the local run still runs"
        )
    if isinstance(error, UsageError):
        return str(error)
    if isinstance(error, BurstcacheError):
        return f"burstcache: {error}"
    if isinstance(error, ModuleNotFoundError):
        return f"burstcache: {error.name} is missing: install it with `pip install burstcache-tools=={__version__}`"
    return f"burstcache: {type(error).__name__}: {error} (--debug shows the traceback)"


def _sentence(help_: str) -> str:
    return f"{help_[0].upper()}{help_[1:]}."


if __name__ == "__main__":
    sys.exit(main())
