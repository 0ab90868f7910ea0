"""The registry of all `burstcache` commands, with help and the functions that add options and run a command.

A test compares the help texts with the table in the documentation. Options and commands are in separate modules, so
that help and usage errors import neither boto3 nor the simulator's libraries.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Command:
    """A command.

    Attributes:
        words: Words after `burstcache`.
        help: The command's purpose in the imperative, in lower case and without a full stop.
        options: `module:function` that adds the command's options to a parser.
        work: `module:function` that runs the command with the parsed options and returns an exit code.
    """

    words: str
    help: str
    options: str
    work: str


_OWN, _SHOW, _OPERATE = "burstcache_cli.arguments", "burstcache_cli.show", "burstcache_cli.operate"
_LOCAL, _RUN = "burstcache_local.arguments", "burstcache_local.command"
_REPLAY = "burstcache_replay"
_SIM, _WORK = "burstcache_sim.commands.arguments", "burstcache_sim.commands"

# Groups of commands: first word → help. The empty string is `burstcache` itself.
GROUPS = {
    "": "a read cache in front of S3 that exists only while it is needed",
    "local": "run the whole system on this machine, without Docker and AWS",
    "redis": "start, stop and ping a Redis node by hand",
    "lambda": "start and stop a key's cache function by hand",
    "sim": "replay traces under a policy, price them, compare",
    "research": "reproduce the documents' claims and published results",
}

# Topic → first words of its commands, in help order, by the user's task. `burstcache operate` lists all of one topic.
TOPICS = {
    "try": ("local", "gateway", "replay"),
    "decide": ("advise", "sim"),
    "operate": (
        *("config", "deploy", "doctor", "dashboard", "explain", "keys", "watch", "routes", "pool"),
        *("purge", "pause", "resume", "redis", "lambda", "permissions", "delete"),
    ),
    "research": ("research",),
}

# Words that `burstcache --help` shows, so that it fits on a screen of 24 lines.
FIRST = {"local", "gateway", "advise", "sim", "config", "deploy", "doctor", "dashboard", "explain", "research"}

COMMANDS = (
    Command(
        "gateway",
        "serve S3's protocol to programs in any language, cached",
        "burstcache.gateway.entry:options",
        "burstcache.gateway.command:work",
    ),
    Command("local up", "run the stack of template.yaml on this machine until Ctrl-C", f"{_LOCAL}:up", f"{_RUN}:up"),
    Command("local status", "show the local run's process and addresses", f"{_LOCAL}:status", f"{_RUN}:status"),
    Command("local env", "print environment variables for its client programs", f"{_LOCAL}:env", f"{_RUN}:env"),
    Command("local down", "stop the local run", f"{_LOCAL}:down", f"{_RUN}:down"),
    Command(
        "doctor",
        "test every part of a stack from the functions that use it",
        f"{_OWN}:doctor",
        "burstcache_cli.doctor:doctor",
    ),
    Command("keys", "list the keys: state, tier, since when, requests, execution", f"{_OWN}:keys", f"{_SHOW}:keys"),
    Command(
        "explain",
        "explain which tier serves a key, why, and what moves it next",
        f"{_OWN}:explain",
        "burstcache_cli.explain:explain_key",
    ),
    Command("watch", "print the states of a key or a node as it enters them", f"{_OWN}:watch", f"{_SHOW}:watch"),
    Command(
        "routes",
        "list the keys above S3 and the node or function serving each",
        f"{_OWN}:routes",
        f"{_SHOW}:routes",
    ),
    Command(
        "redis start",
        "boot a node and keep it running for a while, even without keys",
        f"{_OWN}:redis_start",
        f"{_OPERATE}:redis_start",
    ),
    Command("redis stop", "stop a node; its keys return to S3", f"{_OWN}:redis_node", f"{_OPERATE}:redis_stop"),
    Command(
        "redis ping",
        "ping a node's Redis from inside the stack's network",
        f"{_OWN}:redis_node",
        f"{_OPERATE}:redis_ping",
    ),
    Command("redis status", "list the nodes: phase, last boot, leases, hold", f"{_OWN}:stack", f"{_SHOW}:redis_status"),
    Command(
        "lambda start",
        "start a key's life, or boot its node, at any request rate",
        f"{_OWN}:lambda_key",
        f"{_OPERATE}:lambda_start",
    ),
    Command("lambda stop", "end the cache function that holds a key", f"{_OWN}:lambda_key", f"{_OPERATE}:lambda_stop"),
    Command(
        "purge",
        "invalidate the cached copies of an object, or of a prefix",
        f"{_OWN}:purge",
        f"{_OPERATE}:purge",
    ),
    Command("pool", "show the pool: members, hubs, reclaims, codes and why, bill", f"{_OWN}:stack", f"{_SHOW}:pool"),
    Command(
        "dashboard",
        "serve a page that shows a stack, to this machine only",
        "burstcache_dashboard.arguments:dashboard",
        "burstcache_dashboard.command:dashboard",
    ),
    Command(
        "pause",
        "stop a stack's nodes, block new starts; S3 serves every read",
        f"{_OWN}:pause",
        f"{_OPERATE}:pause",
    ),
    Command("resume", "end a pause, also one that a spent budget began", f"{_OWN}:stack", f"{_OPERATE}:resume"),
    Command(
        "config",
        "ask for the main parameters with prices; write samconfig.toml",
        f"{_OWN}:config",
        "burstcache_cli.config:config",
    ),
    Command(
        "permissions",
        "print the IAM policy that deploys a stack, or bounds its roles",
        f"{_OWN}:permissions",
        "burstcache_cli.permissions:permissions",
    ),
    Command(
        "deploy",
        "make a change set with SAM CLI; execute it if no state is lost",
        f"{_OWN}:deploy",
        "burstcache_cli.deploy:deploy",
    ),
    Command(
        "delete",
        "stop a stack's executions, then delete it",
        f"{_OWN}:delete",
        "burstcache_cli.delete:delete",
    ),
    Command(
        "replay",
        "send a trace's requests to a live stack, on schedule",
        f"{_REPLAY}.arguments:replay",
        f"{_REPLAY}.command:run",
    ),
    Command(
        "research evaluate",
        "compare a replay with the simulator: tiers, latencies, bill",
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
        "research offline",
        "replay a trace under the thesis's offline algorithm",
        f"{_SIM}:offline",
        f"{_WORK}.run:offline",
    ),
    Command(
        "research optimum", "find the cheapest possible plan for a trace", f"{_SIM}:optimum", f"{_WORK}.run:optimum"
    ),
    Command("sim bill", "itemise the bill of a run", f"{_SIM}:bill", f"{_WORK}.bill:bill"),
    Command(
        "sim compare", "compare a run with the alternatives you could buy", f"{_SIM}:compare", f"{_WORK}.bill:compare"
    ),
    Command("sim report", "report on a run: table, page, pictures, CSV", f"{_SIM}:report", f"{_WORK}.report:run"),
    Command(
        "sim tune",
        "search a policy's parameters for a share of hits or for a bill",
        f"{_SIM}:tune",
        f"{_WORK}.tune:run",
    ),
    Command(
        "research thesis",
        "reproduce the thesis's evaluation: tables and pictures",
        f"{_SIM}:thesis",
        f"{_WORK}.thesis:run",
    ),
    Command(
        "research paper",
        "reproduce InfiniCache's evaluation: tables and pictures",
        f"{_SIM}:paper",
        f"{_WORK}.paper:run",
    ),
    Command(
        "sim pool",
        "replay large objects through a pool: hits, losses, bill",
        f"{_SIM}:pool",
        f"{_WORK}.pool:run",
    ),
    Command(
        "research map",
        "map where Burstcache is the best buy: table and pictures",
        f"{_SIM}:map_",
        f"{_WORK}.map:run",
    ),
    Command(
        "research scale",
        "compare a load with each quota: the first wall, and beyond it",
        f"{_SIM}:scale",
        f"{_WORK}.scale:run",
    ),
    Command(
        "research aws-evidence",
        "try everything on AWS in small stacks for under a dollar",
        "burstcache_evidence.arguments:aws_evidence",
        "burstcache_evidence.command:aws_evidence",
    ),
    Command(
        "advise",
        "recommend for a log: the library, a stack, a rival, or S3",
        "burstcache_cli.stack_advice_options:options",
        "burstcache_cli.stack_advice:run",
    ),
)


def children(group: str) -> dict[str, str]:
    """Return the words that may follow a group's name, with the help for each word."""
    start = f"{group} " if group else ""
    words = [command.words.removeprefix(start) for command in COMMANDS if command.words.startswith(start)]
    by_words = {command.words: command.help for command in COMMANDS} | GROUPS
    return {first: by_words[start + first] for first in (rest.partition(" ")[0] for rest in words)}
