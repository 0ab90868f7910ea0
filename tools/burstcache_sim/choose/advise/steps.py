"""The lines by which a verdict is carried out: the library's, the template's, or what to buy."""

from __future__ import annotations

from burstcache_sim.bill.ladder import memory_bytes_of
from burstcache_sim.bill.nodes import counted
from burstcache_sim.choose.advise.advice import Advice
from burstcache_sim.choose.advise.samconfig import BUCKET, toml_text
from burstcache_sim.choose.advise.systems import System

_INSTALL = "pip install ./burstcache  # a clone of this repository"
_FRESHNESS = {
    "reader-memory": 'freshness="immutable"',
    "reader-memory-confirmed": "max_stale_ms=1_000",
}
_BOUGHT = {
    "cloudfront": "a distribution of CloudFront in front of the bucket",
    "efs": "a file system of EFS, to which readers copy an object at its first read",
    "s3-express-all": "a directory bucket of S3 Express One Zone, to which readers copy an object at its first read",
    "ec2": "{count}{of} of EC2 with Valkey, always on, maxmemory-policy allkeys-lru, which readers fill at a miss",
    "ec2-scheduled": "{count}{of} of EC2 with Valkey, on by EventBridge Scheduler, which readers fill at a miss",
    "fargate": "{count}task of Fargate with {of} and Valkey, which readers fill at a miss",
    "fargate-spot": "{count}task of Fargate Spot with {of} and Valkey, which readers fill at a miss",
    "elasticache-redis": "{count}cache.{of} of ElastiCache for Redis OSS, which readers fill at a miss",
    "elasticache-valkey": "{count}cache.{of} of ElastiCache for Valkey, which readers fill at a miss",
    "serverless-redis": "ElastiCache Serverless for Redis OSS, at a maximum of {of}, which readers fill at a miss",
    "serverless-valkey": "ElastiCache Serverless for Valkey, at a maximum of {of}, which readers fill at a miss",
}


def steps(advice: Advice) -> tuple[str, str]:
    """Return what to do in a sentence, and the lines to copy; both empty if there is nothing to do."""
    winner = advice.winner
    if winner is advice.ours.system:
        return stack_steps(advice)
    kind, _, of = winner.name.partition(":")
    if kind in _FRESHNESS:
        return "Install the library and wrap the client of S3:", library_lines(winner)
    if kind == "range-memory":
        return (
            "The library keeps whole objects, of at most an eighth of its memory, and nothing that is sold does better"
            f" here. Put an LRU cache of {of.removesuffix('MB')} MB into the reader, by object, ETag and range.",
            "",
        )
    if kind.removeprefix("reader-memory+") == "s3-express":
        return "Make a directory bucket of S3 Express One Zone, and read through the library:", _express_lines(advice)
    return ("", "") if kind == "s3-only" else (f"Buy {_bought_text(kind, of)}.", "")


def stack_steps(advice: Advice) -> tuple[str, str]:
    """Return how the stack is deployed."""
    memory_bytes = advice.ours.setup.reader_memory_bytes
    sentence = f"Put this into samconfig.toml, with the name of your bucket for {BUCKET}"
    if advice.ours.setup.front_door == "alb":
        sentence += " and the ARN of your certificate"
    lines = f"{toml_text(advice.template)}\n\nmake deploy"
    if memory_bytes:
        lines += "\n\n" + _wrapped('stack_name="burstcache"', f"memory_bytes={memory_bytes:_}")
    return f"{sentence}, then deploy{', and read through the library' if memory_bytes else ''}:", lines


def library_lines(system: System) -> str:
    """Return the lines that put the library into a program."""
    kind, _, size = system.name.partition(":")
    memory = f"memory_bytes={memory_bytes_of(size):_}"
    return f"{_INSTALL}\n\n" + _wrapped(f'bucket="{BUCKET}"', memory, _FRESHNESS[kind])


def _wrapped(*options: str) -> str:
    imports = "import boto3\nimport burstcache\n\n"
    lines = "".join(f"    {line},\n" for line in ('boto3.client("s3")', *options))
    return f"{imports}s3 = burstcache.wrap(\n{lines})"


def _express_lines(advice: Advice) -> str:
    value, own = advice.value, advice.winner.name.startswith("reader-memory+")
    worth_usd = advice.clock.usd_per_hit(usd_per_hit=value.usd_per_hit, usd_per_ms=value.usd_per_ms)
    per_million, memory = f"{float(worth_usd * 10**6):g}", f"    memory_bytes={4096 * 1024**2:_},\n" if own else ""
    return (
        f"{_INSTALL}\n\nfrom burstcache.client import Client, expire_copies\n\n"
        f'copies, worth = "copies--use1-az4--x-s3", {per_million}\n'
        "expire_copies(copies, hit_value_usd_per_million=worth)  # once\n"
        f'client = Client(\n    bucket="{BUCKET}", express_bucket=copies, freshness="immutable",\n'
        f"    hit_value_usd_per_million=worth,\n{memory})"
    )


def _bought_text(kind: str, of: str) -> str:
    below = kind.removeprefix("reader-memory+")
    count, type_ = counted(of)
    text = _BOUGHT[below].format(count="a " if count == 1 else f"{count} times ", of=type_ or "no limit")
    return text if below == kind else f"{text}, and let each reader keep objects in its own memory before it"
