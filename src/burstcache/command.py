"""The `burstcache` command: runs a subcommand from the installed package that provides it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.metadata import EntryPoint, entry_points

from burstcache import __version__

GROUP = "burstcache.commands"  # entry points, one per subcommand: functions that take arguments and return an exit code
_TOOLS = "burstcache-tools"
_FAILURE, _USAGE_ERROR = 1, 2


def main(argv: Sequence[str] | None = None) -> int:
    """Run a subcommand and return its exit code.

    The subcommand `help` of burstcache-tools handles help, `--version` and unknown subcommands. Without that package,
    the command prints how to install it.

    Args:
        argv: The arguments after `burstcache`. None: the process's own arguments.
    """
    words = sys.argv[1:] if argv is None else list(argv)
    words = [*words[1:], "--help"] if words[:1] == ["help"] else words
    provided: dict[str, EntryPoint] = {each.name: each for each in entry_points(group=GROUP)}
    provider = provided.get(words[0] if words else "help") or provided.get("help")
    if provider is not None:
        try:
            command = provider.load()
        except Exception as error:
            package = f"{provider.dist.name} {provider.dist.version}" if provider.dist else provider.value
            print(
                f"burstcache: {package} cannot be loaded next to burstcache {__version__}: {error!r}", file=sys.stderr
            )
            return _FAILURE
        return int(command(words))
    if words == ["--version"]:
        print(f"burstcache {__version__}")
        return 0
    install = f"pip install {_TOOLS}=={__version__}, or from a clone ./burstcache/tools"
    if words in (["--help"], ["-h"]):
        own = ", ".join(f"burstcache {name}" for name in sorted(provided)) or "none"
        print(
            f"The library burstcache {__version__} is installed. Its commands: {own}."
            f" More come with {_TOOLS}: {install}"
        )
        return 0
    missing = f"the command {words[0]!r} is" if words else "commands are"
    print(f"burstcache: {missing} not installed: most commands come with {_TOOLS} ({install})", file=sys.stderr)
    return _USAGE_ERROR


if __name__ == "__main__":
    sys.exit(main())
