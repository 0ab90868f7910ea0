"""Arguments of `burstcache sim …` and `burstcache advise`, from which `inputs` builds traces, policies and setups."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from fractions import Fraction
from math import inf
from pathlib import Path
from typing import get_args

from burstcache.core.node_kinds import MAX_NODES, NODE_KINDS
from burstcache.core.policies import POLICIES as LIVE_POLICIES
from burstcache.core.pool.redundancy import TARGET_AVAILABILITY
from burstcache.core.prices import SHEETS, THESIS
from burstcache_sim.bill.config_items import LISTED_USD
from burstcache_sim.bill.setup import OriginEvents, Readers, Relay, Setup
from burstcache_sim.commands.generators import KINDS
from burstcache_sim.commands.log_options import add_log
from burstcache_sim.latency import FRONT_DOOR_MS, HIT_WITHIN_MS, TODAYS_LATENCIES
from burstcache_sim.output import STANDARD_OUTPUT
from burstcache_sim.policies.registry import DEFAULT, POLICIES, TEMPLATE
from burstcache_sim.pool.reclaims import ACCEPTED
from burstcache_sim.scale.load import DIMENSIONS, REGIONS, StackLoad
from burstcache_sim.world.interruptions import ASSUMED_PER_H, MAX_PER_H
from burstcache_sim.world.timings import NamedTimes
from burstcache_terminal.options import choice, decimal, number, whole

_TIERS = ("s3", "lambda", "redis", "network")
_MEASURED = "delays and prices measured in your account: evidence.json of `burstcache research aws-evidence`"
_TODAY = "today-us-east-1"
_DEFAULTS = Setup()
_NODE = "Redis node: EC2 type, or Fargate such as fargate-spot:2GB (default: t4g.micro; thesis-2022: t2.micro)"

POSITIVE_USD = number(above=0, noun="an amount", example="1e-5")
# An amount per million, such as HitValueUsdPerMillion has, is a mistake here.
_USD_PER_HIT = number(above=0, most=0.1, noun="an amount per request", example="1e-5, which is 10 per million")
_EXACT_USD = decimal(above=0, noun="an amount", example="1e-4")
_COUNT = whole(least=1)
_MS = number(least=0, noun="a number of milliseconds")


def generate(parser: argparse.ArgumentParser) -> None:
    """Add a subcommand per kind of trace, with its options."""
    kinds = parser.add_subparsers(dest="kind", metavar="KIND", required=True, title="kinds")
    for name, kind in KINDS.items():
        help_ = kind.help
        kind_parser = kinds.add_parser(name, help=help_, description=f"{help_[0].upper()}{help_[1:]}.")
        add = kind_parser.add_argument
        add("--seed", type=whole(), default=1, help="seed of the random numbers (default: 1)")
        for option in kind.options:
            add(
                option.flag,
                dest=option.name,
                type=option.type,
                default=option.default,
                required=option.default is None,
                metavar="N",
                help=option.help,
            )
        if kind.has_keys:
            size = whole(least=0)
            add("--object-bytes", type=size, default=10_000, metavar="N", help="size column (default: 10000)")
        add("--out", metavar="FILE", default=STANDARD_OUTPUT, help="default: -, standard output")


def inspect(parser: argparse.ArgumentParser) -> None:
    """Add the options of `sim inspect`."""
    add_log(parser)
    parser.add_argument("--top", type=whole(least=0), default=10, metavar="N", help="keys to list (default: 10)")
    _add_json(parser)


def run(parser: argparse.ArgumentParser) -> None:
    """Add the options of `sim run`."""
    add_log(parser)
    _add_policy(parser)
    _add_cache(parser)
    add = parser.add_argument
    add(
        "--until",
        type=decimal(least=0, noun="a number of seconds"),
        metavar="SECONDS",
        help="horizon (default: until nothing is left to happen)",
    )
    delays = "measured cold starts and boots, such as thesis-2022:1KB (default: the constants of the thesis's text)"
    add("--delays", metavar="SHEET:SIZE", help=delays)
    add("--nodes", type=_COUNT, default=1, help="nodes that share the keys of a log (default: 1)")
    add(
        "--always-on", type=whole(least=0), default=0, metavar="N", help="nodes among them that never stop (default: 0)"
    )
    add("--node-capacity-bytes", type=_COUNT, metavar="BYTES", help="memory of a node (default: unlimited)")
    relays = get_args(Relay)
    how = f"path to cache functions (none: no cache functions): {_one_of(relays, _DEFAULTS.relay)}"
    add("--relay", type=choice(relays), default=_DEFAULTS.relay, metavar="NAME", help=how)
    add("--express", action="store_true", help="copy objects to S3 Express where that pays, by --hit-value-usd or 0")
    _add_json(parser)


def offline(parser: argparse.ArgumentParser) -> None:
    """Add the options of `research offline`."""
    add_log(parser)
    _add_prices(parser, THESIS)
    _add_json(parser)


def optimum(parser: argparse.ArgumentParser) -> None:
    """Add the options of `research optimum`."""
    add_log(parser)
    _add_prices(parser, THESIS)
    _add_miss_penalty(parser, "cost of a request served by S3 (default: S3 serves none)")
    _add_json(parser)


def bill(parser: argparse.ArgumentParser) -> None:
    """Add the options of `sim bill`."""
    _add_billed(parser)
    share = decimal(least=0, most=1, noun="a share")
    help_ = "share of reads from another zone than the tiers', which AWS bills per GB (default: 0)"
    parser.add_argument("--far-readers", type=share, default=Fraction(0), metavar="SHARE", help=help_)


def compare(parser: argparse.ArgumentParser) -> None:
    """Add the options of `sim compare`."""
    _add_billed(parser)
    _add_same_objects(parser)
    parser.add_argument(
        "--against", action="append", default=[], metavar="NAME", help="compare only with this system (repeatable)"
    )


def report(parser: argparse.ArgumentParser) -> None:
    """Add the options of `sim report`."""
    add_log(parser)
    _add_policy(parser, None)
    _add_setup(parser)
    _add_same_objects(parser)
    _add_clock(parser)
    add = parser.add_argument
    _add_miss_penalty(parser, "cost of a miss in the optimum (default: the optimum has no miss)")
    add("--title", metavar="TEXT", help="title of page and pictures (default: the first file's name)")
    add("--out", metavar="FILE", help="write a self-contained HTML page (-: standard output)")
    add("--figures", metavar="DIR", help="write the pictures to this folder, as SVG and PNG")
    add("--csv", metavar="FILE", help="write a line per request (-: standard output)")
    _add_json(parser)


def tune(parser: argparse.ArgumentParser) -> None:
    """Add the options of `sim tune`."""
    add_log(parser)
    add = parser.add_argument
    objective = parser.add_mutually_exclusive_group(required=True)
    objective.add_argument(
        "--in-memory-pct",
        type=number(least=0, most=100),
        metavar="PCT",
        help="lowest bill with at least this hit ratio, such as 95",
    )
    objective.add_argument(
        "--usd-per-month",
        type=number(least=0, noun="an amount"),
        metavar="USD",
        help="highest hit ratio for at most this bill, such as 50",
    )
    add("--policy", type=choice(POLICIES), default=DEFAULT, metavar="NAME", help=_one_of(POLICIES, DEFAULT))
    add("--candidates", type=_COUNT, metavar="N", help="candidates to try (default: as many as take seconds)")
    _add_setup(parser)
    add("--node-capacity-bytes", type=_COUNT, metavar="BYTES", help="memory of a node (default: unlimited)")
    add("--csv", metavar="FILE", help="write the Pareto front, a row per candidate")
    _add_json(parser)


def thesis(parser: argparse.ArgumentParser) -> None:
    """Add the options of `research thesis`."""
    add = parser.add_argument
    add("--out", default="build/thesis", metavar="DIR", help="folder (default: build/thesis)")
    add("--seeds", type=_COUNT, default=10_000, help="random traces per workload (default: 10000)")
    add("--log", metavar="LOG", help="access log that stands in for the thesis's own in figures 5.3 to 5.6")
    add("--runs", metavar="DIR", help="folder with the thesis's own traces and runs, to replay and compare")


def paper(parser: argparse.ArgumentParser) -> None:
    """Add the options of `research paper`."""
    parser.add_argument("--out", default="build/paper", metavar="DIR", help="folder (default: build/paper)")


def pool(parser: argparse.ArgumentParser) -> None:
    """Add the options of `sim pool`."""
    add_log(parser)
    add = parser.add_argument
    size = "size of an object without one in the log (default: 100000000)"
    add("--object-bytes", type=_COUNT, default=100_000_000, metavar="N", help=size)
    add("--members", type=whole(least=2), default=16, metavar="N", help="members of the pool (default: 16)")
    add("--memory-mb", type=_COUNT, default=1_769, metavar="MB", help="memory of a member (default: 1769)")
    code = "chunks of data and parity, such as 10+2 (default: chosen with the backup, from the reclaims)"
    add("--code", metavar="D+P", help=code)
    add("--warm-s", type=_COUNT, default=60, metavar="S", help="interval of warm-ups (default: 60)")
    backup = "interval of copies to a second environment, 0: never (default: chosen; 0 with --code)"
    add("--backup-s", type=whole(least=0), metavar="S", help=backup)
    share = number(above=0, noun="a share")
    available = f"share of reads that must find a stored slice (default: {TARGET_AVAILABILITY})"
    add("--availability", type=share, default=TARGET_AVAILABILITY, help=available)
    reclaims = f"members reclaimed a minute: {ACCEPTED} (default: the paper's last months, 36 of 400 an hour)"
    add("--reclaims", metavar="HOW", help=reclaims)
    within = "store slices that are read again within this time (default: any time)"
    add("--pays-within-s", type=number(above=0), default=inf, metavar="S", help=within)
    add("--at-first-read", action="store_true", help="store each slice on its first read, as InfiniCache does")
    add("--whole-objects", action="store_true", help="store an object as one slice, as InfiniCache does")
    worth = "value of a request answered without S3, by which members stay warm longer (default: 1e-5)"
    add("--hit-value-usd", type=_EXACT_USD, default=Fraction(1, 100_000), metavar="USD", help=worth)
    hubs = ("none", "fargate")
    add("--hub", type=choice(hubs), default=hubs[0], metavar="NAME", help=_one_of(hubs, hubs[0]))
    add("--billed-in-ms", type=_COUNT, default=1, metavar="MS", help="unit to which durations round up (default: 1)")
    add("--seed", type=whole(), default=1, help="seed of the random numbers (default: 1)")
    _add_prices(parser, _TODAY)
    _add_json(parser)


def map_(parser: argparse.ArgumentParser) -> None:
    """Add the options of `research map`."""
    parser.add_argument("--out", default="build/map", metavar="DIR", help="folder (default: build/map)")
    _add_prices(parser, _TODAY)
    _add_node_kinds(parser)
    _add_interruptions(parser)


def scale(parser: argparse.ArgumentParser) -> None:
    """Add the options of `research scale`."""
    add, usual = parser.add_argument, StackLoad()
    positive = number(above=0)
    add("--keys", type=_COUNT, default=usual.keys, metavar="N", help=f"keys that are read (default: {usual.keys})")
    reads = f"reads a second of all readers (default: {usual.reads_per_s:g})"
    add("--reads-per-s", type=positive, default=usual.reads_per_s, metavar="N", help=reads)
    readers = "processes with the client library (default: 0, programs read through the HTTP API)"
    add("--readers", type=whole(least=0), default=usual.readers, metavar="N", help=readers)
    writes = f"writes a second to the bucket (default: {usual.writes_per_s:g})"
    add("--writes-per-s", type=number(least=0), default=usual.writes_per_s, metavar="N", help=writes)
    size = f"mean size of an object (default: {usual.object_bytes})"
    add("--object-bytes", type=_COUNT, default=usual.object_bytes, metavar="BYTES", help=size)
    share = f"share of the reads that go to the most-read key (default: {usual.top_share:g})"
    add("--top-share", type=number(above=0, most=1), default=usual.top_share, metavar="SHARE", help=share)
    policies = tuple(LIVE_POLICIES)
    add("--policy", type=choice(policies), default=usual.policy, metavar="NAME", help=_one_of(policies, usual.policy))
    relays = get_args(Relay)
    add("--relay", type=choice(relays), default=usual.relay, metavar="NAME", help=_one_of(relays, usual.relay))
    add("--nodes", type=whole(least=0, most=MAX_NODES), default=usual.nodes, metavar="N", help="nodes (default: 1)")
    add("--node", default=usual.node, metavar="NODE", help=f"kind and size of a node (default: {usual.node})")
    hot = f"`MaxHotKeys` (default: {usual.max_hot_keys})"
    add("--max-hot-keys", type=_COUNT, default=usual.max_hot_keys, metavar="N", help=hot)
    _add_origin_events(parser)
    stacks = "stacks that share the bucket by prefix, and so keys, reads and writes (default: 1)"
    add("--stacks", type=_COUNT, default=usual.stacks, metavar="N", help=stacks)
    throttle = f"`ThrottleRatePerS` (default: {usual.throttle_per_s})"
    add("--throttle-per-s", type=_COUNT, default=usual.throttle_per_s, metavar="N", help=throttle)
    proxy = f"duration of the proxy's read from S3 (default: {usual.proxy_ms:g})"
    add("--proxy-ms", type=positive, metavar="MS", help=proxy)
    add("--measured", type=Path, metavar="FILE", help=_MEASURED)
    units = f"the account's concurrent Lambda executions (default: {usual.quotas.concurrency}; 10 in a new account)"
    add("--concurrency", type=_COUNT, default=usual.quotas.concurrency, metavar="N", help=units)
    first = next(iter(REGIONS))
    add("--region", type=choice(REGIONS), default=first, metavar="NAME", help=_one_of(REGIONS, first))
    quota = "another quota, such as get_parameters=1000 (repeatable)"
    add("--quota", action="append", default=[], metavar="NAME=N", help=quota)
    grows = f"print the first wall of loads that grow tenfold: {', '.join(DIMENSIONS)}"
    add("--sweep", type=choice(DIMENSIONS), metavar="NAME", help=grows)
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print JSON")
    form.add_argument("--markdown", action="store_true", help="print a Markdown table")


def advise(parser: argparse.ArgumentParser) -> None:
    """Add the options of `advise`. Its log may be that of a stack."""
    add_log(parser, is_optional=True)
    add = parser.add_argument
    worth = parser.add_mutually_exclusive_group()
    hit, ms = "value of a request answered from memory", "value of a millisecond saved"
    worth.add_argument("--hit-value-usd", type=_USD_PER_HIT, metavar="USD", help=f"{hit}, such as 1e-5")
    worth.add_argument("--ms-value-usd", type=POSITIVE_USD, metavar="USD", help=f"{ms}, such as 2e-7")
    only = f"the only policy of Burstcache: {', '.join(POLICIES)} (default: any, or none)"
    add("--policy", type=choice(POLICIES), metavar="NAME", help=only)
    _add_prices(parser, _TODAY)
    add("--instance-type", metavar="TYPE", help="Redis node (default: the smallest that holds all objects)")
    _add_node_kinds(parser)
    _add_node_behaviour(parser)
    add("--cache-memory-mb", type=_COUNT, default=256, metavar="MB", help="cache function (default: 256)")
    _add_front_door(parser)
    add("--object-bytes", type=_COUNT, metavar="BYTES", help="size of objects in a log without sizes")
    _add_period(parser, "period after which the log repeats (default: without a pause)")
    _add_same_objects(parser)
    _add_clock(parser)
    within = f"an answer whose first byte takes longer is no hit (default: {HIT_WITHIN_MS:g})"
    add("--hit-within-ms", type=_MS, metavar="MS", default=HIT_WITHIN_MS, help=within)
    many = "processes that share the requests, each with its own memory (default: prompt at a terminal, else 1)"
    add("--reader-processes", type=_COUNT, metavar="N", help=many)
    writes = "writes to the bucket, for which Burstcache pays invalidations, such as 60 (default: 0)"
    add("--writes-per-hour", type=number(least=0), metavar="N", default=0.0, help=writes)
    _add_origin_events(parser, None)
    _add_config_items(parser)
    free = "decide by the bill after AWS's permanent free tiers and with CloudFront's flat-rate plans"
    add("--free-tiers", action="store_true", help=free)
    add("--without", action="append", default=[], metavar="NAME", help="exclude, such as cloudfront (repeatable)")
    add("--candidates", type=_COUNT, metavar="N", help="candidates to try (default: as many as take seconds)")
    add("--long", action="store_true", help="print parameters, latencies, the whole bill, all systems, assumptions")
    add("--out", metavar="REPORT.html", help="write a page with pictures")
    _add_json(parser)


def _add_policy(parser: argparse.ArgumentParser, default: str | None = DEFAULT) -> None:
    """Add the options of a policy. A default of None means the template's policy."""
    add = parser.add_argument
    policies = _one_of(POLICIES, default or f"{TEMPLATE}, as in template.yaml")
    add("--policy", type=choice(POLICIES), default=default, metavar="NAME", help=policies)
    rate, sensitivity, overrides = ("9", "4", "") if default else (None, None, None)
    add("--rate", default=rate, help="thesis: expected requests per minute (default: 9)")
    add("--sensitivity", default=sensitivity, help="thesis: above 0 and up to 5 (default: 4)")
    add("--overrides", default=overrides, metavar="NAME=VALUE,…", help="thesis: single parameters")
    add("--hit-value-usd", type=_EXACT_USD, metavar="USD", help="other policies: value of a hit, such as 1e-4")


def _add_billed(parser: argparse.ArgumentParser) -> None:
    add_log(parser)
    _add_policy(parser)
    _add_setup(parser)
    _add_config_items(parser)
    _add_json(parser)


def _add_config_items(parser: argparse.ArgumentParser) -> None:
    items = f"price of AWS Config's record of a change, {LISTED_USD} where it records EC2 continuously (default: 0)"
    usd = decimal(least=0, noun="an amount", example=LISTED_USD)
    parser.add_argument("--config-item-usd", type=usd, metavar="USD", default=Fraction(0), help=items)


def _add_origin_events(parser: argparse.ArgumentParser, default: OriginEvents | None = "queue") -> None:
    """Add the option of S3's events of writes. A default of None means that of the stack, if there is one."""
    events, usual = get_args(OriginEvents), default or "queue, or the stack's"
    followed = f"how S3's events of writes are followed: {_one_of(events, usual)}"
    parser.add_argument("--origin-events", type=choice(events), default=default, metavar="NAME", help=followed)


def _add_setup(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    _add_cache(parser)
    _add_front_door(parser)
    size = _DEFAULTS.object_bytes
    add("--object-bytes", type=_COUNT, default=size, help=f"size of objects in a trace without sizes (default: {size})")
    add("--nodes", type=_COUNT, default=1, help="Redis nodes, if there are several objects (default: 1)")
    add("--relay-ipv4", action="store_true", help="tasks have public IPv4 addresses, as in eu-north-1 and eu-west-1")
    _add_origin_events(parser)
    _add_period(parser, "how long the stack is deployed (default: as long as the trace)")
    add("--only-cache", action="store_true", help="bill cache function, node and S3 alone, as the thesis does")


def _add_node_kinds(parser: argparse.ArgumentParser) -> None:
    default = ("ec2", "fargate-spot")
    help_ = f"nodes to compare: {_one_of(NODE_KINDS, ' '.join(default))}"
    parser.add_argument("--node-kinds", type=choice(NODE_KINDS), nargs="+", default=default, metavar="KIND", help=help_)


def _add_node_behaviour(parser: argparse.ArgumentParser) -> None:
    """Add the options of boots and stops, and those of interruptions."""
    add, every = parser.add_argument, get_args(NamedTimes)
    kinds = "boots and stops by the node's kind, as in two runs of the thesis, or slow"
    add(
        "--node-times",
        type=choice(every),
        default=every[0],
        metavar="NAME",
        help=f"{kinds}: {_one_of(every, every[0])}",
    )
    add("--measured", type=Path, metavar="FILE", help=_MEASURED)
    _add_interruptions(parser)


def _add_interruptions(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    rate = f"interruptions of a node on Spot (default: {float(ASSUMED_PER_H):g}, assumed: AWS publishes none)"
    most = decimal(least=0, most=MAX_PER_H, noun="a rate")
    add("--interruptions-per-hour", type=most, default=ASSUMED_PER_H, metavar="N", help=rate)
    add("--interruption-seed", type=whole(least=0), default=1, metavar="N", help="seed of interruptions (default: 1)")


def _add_cache(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    _add_prices(parser, _TODAY)
    add(
        "--architecture",
        type=choice(("arm", "x86")),
        metavar="NAME",
        help="processors of functions and relay: arm, x86 (default: the sheet's)",
    )
    add("--instance-type", metavar="TYPE", help=_NODE)
    add("--cache-memory-mb", type=_COUNT, metavar="MB", help="cache function (default: 256; thesis-2022: 1024)")
    _add_node_behaviour(parser)


def _add_prices(parser: argparse.ArgumentParser, default: str) -> None:
    help_ = f"price sheet: {_one_of(SHEETS, default)}"
    parser.add_argument("--prices", type=choice(SHEETS), default=default, metavar="SHEET", help=help_)


def _add_clock(parser: argparse.ArgumentParser) -> None:
    for tier in _TIERS:
        ms = getattr(TODAYS_LATENCIES, f"{tier}_ms")
        what = "added to every latency" if tier == "network" else "mean time to the first byte of this tier"
        parser.add_argument(f"--{tier}-ms", type=_MS, metavar="MS", help=f"{what} (default: {ms:g})")
    door = f"added by front door and proxy (default: {FRONT_DOOR_MS:g} for readers on the internet, else 0)"
    parser.add_argument("--front-door-ms", type=_MS, metavar="MS", help=door)


def _add_front_door(parser: argparse.ArgumentParser) -> None:
    where = get_args(Readers)
    readers = f"location of the readers: {_one_of(where, where[0])}"
    parser.add_argument("--readers", type=choice(where), default=where[0], metavar="WHERE", help=readers)
    doors = ("http-api", "alb")
    help_ = _one_of(doors, "http-api")
    parser.add_argument("--front-door", type=choice(doors), default="http-api", metavar="NAME", help=help_)


def _add_period(parser: argparse.ArgumentParser, help_: str) -> None:
    parser.add_argument("--period-hours", type=decimal(above=0), metavar="H", help=help_)


def _add_same_objects(parser: argparse.ArgumentParser) -> None:
    same = "every repetition reads the same objects (default: new ones too, estimated from the growth of their number)"
    parser.add_argument("--same-objects", action="store_true", help=same)


def _add_miss_penalty(parser: argparse.ArgumentParser, help_: str) -> None:
    parser.add_argument("--miss-penalty-usd", type=decimal(least=0, noun="an amount"), metavar="USD", help=help_)


def _add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON")


def _one_of(names: Iterable[str], default: str) -> str:
    return f"{', '.join(names)} (default: {default})"
