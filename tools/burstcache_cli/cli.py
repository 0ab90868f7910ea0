"""The `burstcache` command: finds a command in the registry, runs it, and turns what goes wrong into an exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from burstcache import __version__
from burstcache.core.errors import BurstcacheError, InvalidSettingError
from burstcache_cli.registry import COMMANDS, EXTRAS, GROUPS, Command, children
from burstcache_terminal.exit_codes import ExitCode
from burstcache_terminal.options import Parser, UsageError
from burstcache_terminal.text import print_anything, shown_text

_MAX_WORDS = max(len(command.words.split()) for command in COMMANDS)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    words = sys.argv[1:] if argv is None else list(argv)
    print_anything()
    try:
        try:
            return _run(words)
        finally:
            sys.stdout.flush()  # here, where a reader that has gone can still be answered
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    except BrokenPipeError:  # the reader has what it wanted (`burstcache keys | head`) and has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitCode.FAILURE
    except Exception as error:  # the outermost place: one line for a person, the trace for a developer
        if "--debug" in words or os.environ.get("BURSTCACHE_DEBUG"):
            import traceback  # here only: without it, help comes sooner

            traceback.print_exc()
        print(shown_text(" ".join(_line(error, words).split())), file=sys.stderr)
        return ExitCode.USAGE if isinstance(error, InvalidSettingError) else ExitCode.FAILURE


def _run(argv: Sequence[str]) -> int:
    command = _command(argv)
    if command is None:
        return _refuse(argv)
    parser = Parser(prog=f"burstcache {command.words}", description=_sentence(command.help))
    _function(command.options)(parser)
    parser.add_argument("--debug", action="store_true", help="show the trace of an error")
    options = parser.parse(argv[len(command.words.split()) :])
    return int(_function(command.work)(options))


def _command(argv: Sequence[str]) -> Command | None:
    """Return the command that a call begins with."""
    beginnings = {" ".join(argv[:length]) for length in range(1, _MAX_WORDS + 1)}
    return next((command for command in COMMANDS if command.words in beginnings), None)


def _refuse(argv: Sequence[str]) -> int:
    """Answer a call that names no command: with help, the version, or what is accepted in its place."""
    group = argv[0] if argv and argv[0] in GROUPS else ""
    parser = Parser(prog=f"burstcache {group}".rstrip(), description=_sentence(GROUPS[group]))
    if not group:
        parser.add_argument("--version", action="version", version=f"burstcache {__version__}")
    # argparse finds room for the longest word without the indent of the list, and would break its line: the name of
    # the column, which is not indented as much, makes that room.
    longest = max(map(len, children(group)))
    parser.usage = f"{parser.prog} [-h]{'' if group else ' [--version]'} COMMAND ..."
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND".ljust(longest + 2))
    for word, help_ in children(group).items():
        subparsers.add_parser(word, help=help_)
    rest = argv[1:] if group else argv
    expected = f"expected one of {', '.join(children(group))}"
    if rest and not rest[0].startswith("-"):
        parser.error(f"{rest[0]!r} is no command: {expected}")
    parser.parse(rest)
    parser.error(f"a command is missing: {expected}")


def _function(reference: str) -> Callable[..., Any]:
    module, _, name = reference.partition(":")
    function: Callable[..., Any] = getattr(import_module(module), name)
    return function


# What to do about credentials, by the name of botocore's error, or by AWS's code for it.
_SIGN_IN = (
    "sign in with `aws sso login` or `aws configure`, or set AWS_PROFILE,"
    " or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
)
_NO_CREDENTIALS = {
    "NoCredentialsError": "no AWS credentials were found",
    "PartialCredentialsError": "the AWS credentials are not complete",
    "CredentialRetrievalError": "the AWS credentials cannot be had",
    "TokenRetrievalError": "the session of AWS SSO is over",
    "SSOTokenLoadError": "there is no session of AWS SSO",
    "UnauthorizedSSOTokenError": "the session of AWS SSO is over",
    "ExpiredToken": "the AWS credentials have expired",
    "ExpiredTokenException": "the AWS credentials have expired",
    "InvalidClientTokenId": "AWS does not know these credentials",
    "UnrecognizedClientException": "AWS does not know these credentials",
    "SignatureDoesNotMatch": "AWS does not accept these credentials",
}

_NO_ANSWER = ("EndpointConnectionError", "ConnectTimeoutError", "ReadTimeoutError", "ProxyConnectionError", "SSLError")


def _credentials_problem(error: BaseException | None) -> str:
    """Return what is wrong with the credentials, if that is what an error comes of."""
    while error is not None:
        code = getattr(error, "response", {}).get("Error", {}).get("Code", "")
        for name in (type(error).__name__, code, getattr(error, "code", "")):
            if name in _NO_CREDENTIALS:
                return _NO_CREDENTIALS[name]
        error = error.__cause__
    return ""


def _line(error: Exception, words: Sequence[str]) -> str:
    if problem := _credentials_problem(error):
        return f"burstcache: {problem}: {_SIGN_IN}"
    if type(error).__name__ in _NO_ANSWER:
        return (
            f"burstcache: {error}: check the network, the region and AWS_ENDPOINT_URL, or whether the local run ended"
        )
    if isinstance(error, UsageError):
        return str(error)
    if isinstance(error, BurstcacheError):
        return f"burstcache: {error}"
    if isinstance(error, ModuleNotFoundError) and words[0] in EXTRAS:
        return f"burstcache: {error.name} is missing: install this package with its extra `{EXTRAS[words[0]]}`"
    return f"burstcache: {type(error).__name__}: {error} (--debug shows the trace)"


def _sentence(help_: str) -> str:
    return f"{help_[0].upper()}{help_[1:]}."


if __name__ == "__main__":
    sys.exit(main())
