"""The steps that carry out a verdict: lines for the library or the template, or the product to buy."""

from __future__ import annotations

from burstcache_sim.bill.nodes import split_count
from burstcache_sim.bill.static_tiers import memory_bytes_of
from burstcache_sim.choose.advise.advice import Advice
from burstcache_sim.choose.advise.samconfig import BUCKET, toml_text
from burstcache_sim.choose.advise.systems import System

_INSTALL = "pip install ./burstcache  # a clone of this repository"
_FRESHNESS = {
    "reader-memory": 'freshness="immutable"',
    "reader-memory-confirmed": "max_stale_ms=1_000",
}
_GATEWAY = {
    "reader-memory": "--freshness immutable",
    "reader-memory-confirmed": "--max-stale-ms 1000",
}
_BOUGHT = {
    "cloudfront": "a CloudFront distribution in front of the bucket",
    "efs": "an EFS file system, to which readers copy an object on its first read",
    "s3-express-all": "a directory bucket of S3 Express One Zone, to which readers copy an object on its first read",
    "ec2": "{count}{of} on EC2 with Valkey, always on, maxmemory-policy allkeys-lru, which readers fill on a miss",
    "ec2-scheduled": "{count}{of} on EC2 with Valkey, on a schedule by EventBridge, which readers fill on a miss",
    "fargate": "{count}Fargate task with {of} and Valkey, which readers fill on a miss",
    "fargate-spot": "{count}Fargate Spot task with {of} and Valkey, which readers fill on a miss",
    "elasticache-redis": "{count}cache.{of} of ElastiCache for Redis OSS, which readers fill on a miss",
    "elasticache-valkey": "{count}cache.{of} of ElastiCache for Valkey, which readers fill on a miss",
    "serverless-redis": "ElastiCache Serverless for Redis OSS, at a maximum of {of}, which readers fill on a miss",
    "serverless-valkey": "ElastiCache Serverless for Valkey, at a maximum of {of}, which readers fill on a miss",
}


def steps(advice: Advice) -> tuple[str, str]:
    """Return the next step in a sentence, and the lines to copy (both empty if there is nothing to do)."""
    winner = advice.winner
    if winner is advice.ours.system:
        return stack_steps(advice)
    kind, _, of = winner.name.partition(":")
    if kind in _FRESHNESS:
        return "Install the library and wrap your S3 client:", library_lines(winner)
    if kind == "range-memory":
        return (
            "The library keeps slices of 256 KiB, of which these ranges use little, and no product does better here."
            f" Put an LRU cache of {of.removesuffix('MB')} MB into the reader, keyed by object, ETag and range.",
            "",
        )
    if kind.removeprefix("reader-memory+") == "s3-express":
        return "Create a directory bucket of S3 Express One Zone and read through the library:", _express_lines(advice)
    return ("", "") if kind == "s3-only" else (f"Buy {_bought_text(kind, of)}.", "")


def stack_steps(advice: Advice) -> tuple[str, str]:
    """Return the steps that deploy the stack."""
    memory_bytes = advice.ours.setup.reader_memory_bytes
    sentence = f"Put this into samconfig.toml, replace {BUCKET}"
    if advice.ours.setup.front_door == "alb":
        sentence += " and the certificate's ARN"
    lines = f"{toml_text(advice.template)}\n\nmake deploy"
    if memory_bytes:
        lines += "\n\n" + _wrapped('stack_name="burstcache"', f"memory_bytes={memory_bytes:_}")
    return f"{sentence}, then deploy{', and read through the library' if memory_bytes else ''}:", lines


def library_lines(system: System) -> str:
    """Return the lines that use the library: in Python, and by the gateway in other languages."""
    kind, _, size = system.name.partition(":")
    memory = f"memory_bytes={memory_bytes_of(size):_}"
    lines = _wrapped(f'bucket="{BUCKET}"', memory, _FRESHNESS[kind])
    lines = lines.replace('"immutable",', '"immutable",  # only if no object changes under its key')
    options = f"--memory-mib {memory_bytes_of(size) >> 20} {_GATEWAY[kind]}"
    gateway = f"burstcache gateway --bucket {BUCKET} \\\n#   {options}"
    other = f"# or any other language, with AWS_ENDPOINT_URL_S3=http://127.0.0.1:9000:\n# {gateway}"
    return f"{_INSTALL}\n\n{lines}\n\n{other}"


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
    count, type_ = split_count(of)
    text = _BOUGHT[below].format(count="a " if count == 1 else f"{count} times ", of=type_ or "no limit")
    return text if below == kind else f"{text}, and keep an LRU memory in each reader in front of it"
