"""Every command of `burstcache`: its words, its help, where its options are defined, where its work is done.

The help stands here once: `--help` prints it, and a test holds the documented table to it. A command's options are
apart from its work, so that help and wrong calls import neither AWS's library nor the simulator's.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Command:
    """One command.

    Attributes:
        words: What is typed after `burstcache`.
        help: What it does: an imperative, lower case, without a full stop.
        options: `module:function`; the function adds the command's options to the parser that it is given.
        work: `module:function`; the function takes the parsed options and returns an exit code.
    """

    words: str
    help: str
    options: str
    work: str


_OWN, _SHOW, _OPERATE = "burstcache_cli.arguments", "burstcache_cli.show", "burstcache_cli.operate"
_LOCAL, _RUN = "burstcache_local.arguments", "burstcache_local.command"
_REPLAY = "burstcache_replay"
_SIM, _WORK = "burstcache_sim.commands.arguments", "burstcache_sim.commands"

# The words that stand in front of others; the empty text is `burstcache` itself.
GROUPS = {
    "": "a read cache in front of S3 that exists only while it is needed",
    "local": "run the whole system on this machine, without Docker and AWS",
    "redis": "start, stop and ask a Redis node by hand",
    "lambda": "start and stop a key's cache function by hand",
    "sim": "know before you deploy: replay traces, price them, compare",
}

# The extra of the distribution that the commands behind a first word need.
EXTRAS = {
    "local": "local",
    "config": "local",
    "sim": "sim",
    "advise": "sim",
    "replay": "replay",
    "evaluate": "replay",
    "dashboard": "dashboard",
}

COMMANDS = (
    Command("local up", "start everything that template.yaml describes; Ctrl-C ends it", f"{_LOCAL}:up", f"{_RUN}:up"),
    Command("local status", "show what runs", f"{_LOCAL}:status", f"{_RUN}:status"),
    Command(
        "local env",
        "print the variables by which a program reads from it",
        f"{_LOCAL}:env",
        f"{_RUN}:env",
    ),
    Command("local down", "end what runs", f"{_LOCAL}:down", f"{_RUN}:down"),
    Command(
        "doctor",
        "test every part of a stack from where it is needed",
        f"{_OWN}:doctor",
        "burstcache_cli.doctor:doctor",
    ),
    Command("keys", "list the keys: state, tier, since when, requests, execution", f"{_OWN}:keys", f"{_SHOW}:keys"),
    Command(
        "explain",
        "answer why a key is where it is, and what would move it",
        f"{_OWN}:explain",
        "burstcache_cli.explain:explain_key",
    ),
    Command("watch", "print the states of a key or a node as it enters them", f"{_OWN}:watch", f"{_SHOW}:watch"),
    Command(
        "routes",
        "list the keys that are not on S3, and who serves them",
        f"{_OWN}:routes",
        f"{_SHOW}:routes",
    ),
    Command(
        "redis start",
        "boot a node and keep it running for a while, without a key",
        f"{_OWN}:redis_start",
        f"{_OPERATE}:redis_start",
    ),
    Command("redis stop", "stop a node; its keys return to S3", f"{_OWN}:redis_node", f"{_OPERATE}:redis_stop"),
    Command("redis ping", "ask a node's Redis for a PONG", f"{_OWN}:redis_node", f"{_OPERATE}:redis_ping"),
    Command("redis status", "list the nodes: phase, generation, keys, hold", f"{_OWN}:stack", f"{_SHOW}:redis_status"),
    Command(
        "lambda start",
        "start a key's life, or boot its node, however few its requests",
        f"{_OWN}:lambda_key",
        f"{_OPERATE}:lambda_start",
    ),
    Command("lambda stop", "end the cache function that holds a key", f"{_OWN}:lambda_key", f"{_OPERATE}:lambda_stop"),
    Command(
        "purge",
        "let the copies of an object go, or of a prefix",
        f"{_OWN}:purge",
        f"{_OPERATE}:purge",
    ),
    Command("pool", "show the pool: members, hubs, reclaims, codes and why, bill", f"{_OWN}:stack", f"{_SHOW}:pool"),
    Command(
        "dashboard",
        "serve a page that shows a stack, on this machine only",
        "burstcache_dashboard.arguments:dashboard",
        "burstcache_dashboard.command:dashboard",
    ),
    Command("pause", "let nothing start any more: S3 serves, and nodes stop", f"{_OWN}:pause", f"{_OPERATE}:pause"),
    Command("resume", "end a pause, also that of a spent budget", f"{_OWN}:stack", f"{_OPERATE}:resume"),
    Command(
        "config",
        "ask what matters, with its price, and write samconfig.toml",
        f"{_OWN}:config",
        "burstcache_cli.config:config",
    ),
    Command(
        "delete",
        "delete a stack: end what runs in it, then remove it",
        f"{_OWN}:delete",
        "burstcache_cli.delete:delete",
    ),
    Command(
        "replay",
        "send a trace's requests to a live stack, each when it is due",
        f"{_REPLAY}.arguments:replay",
        f"{_REPLAY}.command:run",
    ),
    Command(
        "evaluate",
        "hold a replay against the simulator: tiers, latencies, bill",
        f"{_REPLAY}.arguments:evaluate",
        f"{_REPLAY}.evaluate:run",
    ),
    Command(
        "sim generate", "write a trace; the same seed gives the same bytes", f"{_SIM}:generate", f"{_WORK}.generate:run"
    ),
    Command(
        "sim inspect", "describe a log: requests, keys, span, bytes, clock", f"{_SIM}:inspect", f"{_WORK}.inspect:run"
    ),
    Command("sim run", "replay a trace under a policy: tiers, billed times, cost", f"{_SIM}:run", f"{_WORK}.run:run"),
    Command(
        "sim offline",
        "replay a trace under the thesis's offline algorithm",
        f"{_SIM}:offline",
        f"{_WORK}.run:offline",
    ),
    Command("sim optimum", "find the cheapest possible plan for a trace", f"{_SIM}:optimum", f"{_WORK}.run:optimum"),
    Command("sim bill", "itemise what a run would be billed", f"{_SIM}:bill", f"{_WORK}.bill:bill"),
    Command("sim compare", "compare a run with what else you could buy", f"{_SIM}:compare", f"{_WORK}.bill:compare"),
    Command("sim report", "report on a run: table, page, pictures, CSV", f"{_SIM}:report", f"{_WORK}.report:run"),
    Command(
        "sim tune",
        "search a policy's parameters for a share of hits or for a bill",
        f"{_SIM}:tune",
        f"{_WORK}.tune:run",
    ),
    Command(
        "sim thesis",
        "reproduce the thesis's evaluation: tables and pictures",
        f"{_SIM}:thesis",
        f"{_WORK}.thesis:run",
    ),
    Command(
        "sim paper", "reproduce InfiniCache's evaluation: tables and pictures", f"{_SIM}:paper", f"{_WORK}.paper:run"
    ),
    Command(
        "sim pool",
        "replay large objects through a pool: found, lost, billed",
        f"{_SIM}:pool",
        f"{_WORK}.pool:run",
    ),
    Command(
        "sim map",
        "map the loads for which this is the best buy: table and pictures",
        f"{_SIM}:map_",
        f"{_WORK}.map:run",
    ),
    Command(
        "advise",
        "say what a log needs: the library, a stack, something else, S3",
        f"{_SIM}:advise",
        f"{_WORK}.advise:run",
    ),
)


def children(group: str) -> dict[str, str]:
    """Return the words that may follow those of a group, each with its help."""
    start = f"{group} " if group else ""
    words = [command.words.removeprefix(start) for command in COMMANDS if command.words.startswith(start)]
    by_words = {command.words: command.help for command in COMMANDS} | GROUPS
    return {first: by_words[start + first] for first in (rest.partition(" ")[0] for rest in words)}
