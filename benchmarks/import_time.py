"""How long a cold start takes: the import of each handler, and the first whole GET of a fresh proxy.

Each handler is imported in Python processes of its own; the median of the runs is printed, and for one run the modules
that cost most by themselves. The first GET is one of an object in S3 (moto, in the same process, whose own imports are
not counted): it makes every client that a read needs.

    python benchmarks/import_time.py [--runs 7] [--top 5]
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
from pathlib import Path

SOURCES = Path(__file__).resolve().parents[1] / "src"
HANDLERS = SOURCES / "burstcache" / "handlers"

# nats-py imports aiohttp if it finds it; the local run has it, the deployed package does not.
_WITHOUT_AIOHTTP = "import sys; sys.modules['aiohttp'] = None"
_IMPORT = """
import time
started_s = time.perf_counter()
import {module}
print((time.perf_counter() - started_s) * 1000)
"""
_FIRST_GET = """
import time, boto3
from moto import mock_aws
with mock_aws():
    boto3.client("s3").create_bucket(Bucket="bucket")
    boto3.client("s3").put_object(Bucket="bucket", Key="a", Body=b"x" * 10_000)
    names = ("pk", "sk")
    boto3.client("dynamodb").create_table(
        TableName="table",
        BillingMode="PAY_PER_REQUEST",
        KeySchema=[{"AttributeName": n, "KeyType": t} for n, t in zip(names, ("HASH", "RANGE"))],
        AttributeDefinitions=[{"AttributeName": n, "AttributeType": "S"} for n in names],
    )
    boto3.client("events").create_event_bus(Name="bus")
    boto3.DEFAULT_SESSION = None
    context = {"http": {"method": "GET"}, "requestId": "1", "stage": "$default"}
    event = {"version": "2.0", "rawPath": "/objects/a", "headers": {}, "requestContext": context}
    from burstcache.handlers.proxy import handler
    for _ in range(2):
        started_s = time.perf_counter()
        assert handler(event, None)["statusCode"] == 200
        print((time.perf_counter() - started_s) * 1000)
"""
_ENVIRONMENT = {
    "PYTHONPATH": str(SOURCES),
    "AWS_ACCESS_KEY_ID": "id",
    "AWS_SECRET_ACCESS_KEY": "secret",
    "AWS_DEFAULT_REGION": "us-east-1",
    "TABLE_NAME": "table",
    "BUCKET_NAME": "bucket",
    "BUS_NAME": "bus",
    "RELAY_URL": "nats://127.0.0.1:9",
    "RELAY_USER": "proxy",
    "RELAY_SECRET_ARN": "",
    "RELAY_CA_PEM": "",
    "REDIS_SECRET_ARN": "",
    "REDIS_NODES": "",
    "MAX_OBJECT_BYTES": "4194304",
    "POWERTOOLS_TRACE_DISABLED": "true",
}


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **_ENVIRONMENT}
    return subprocess.run([sys.executable, *arguments], env=environment, capture_output=True, text=True, check=True)


def handler_modules() -> list[str]:
    return [f"burstcache.handlers.{path.stem}" for path in sorted(HANDLERS.glob("*.py")) if path.stem != "__init__"]


def import_ms(module: str, runs: int) -> list[float]:
    return sorted(float(run("-c", f"{_WITHOUT_AIOHTTP}\n{_IMPORT.format(module=module)}").stdout) for _ in range(runs))


def dearest_modules(module: str, top: int) -> list[tuple[str, float]]:
    """Return the modules with the largest share of an import [ms]; measuring slows all of them a little."""
    lines = run("-X", "importtime", "-c", f"{_WITHOUT_AIOHTTP}; import {module}").stderr.splitlines()[1:]
    parts = [line.removeprefix("import time:").split("|") for line in lines if line.startswith("import time:")]
    own = [(name.strip(), int(own_us) / 1000) for own_us, _, name in parts if own_us.strip().isdigit()]
    return sorted(own, key=lambda pair: pair[1], reverse=True)[:top]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=7, help="processes per handler (default 7)")
    parser.add_argument("--top", type=int, default=5, help="modules to name per handler (default 5)")
    arguments = parser.parse_args()
    for module in handler_modules():
        times_ms = import_ms(module, arguments.runs)
        dearest = ", ".join(f"{name} {own_ms:.0f}" for name, own_ms in dearest_modules(module, arguments.top))
        print(f"{module:40} {statistics.median(times_ms):6.0f} ms (least {times_ms[0]:.0f}); own share: {dearest}")
    firsts = [[float(line) for line in run("-c", _FIRST_GET).stdout.split()] for _ in range(arguments.runs)]
    first_ms, second_ms = (statistics.median(times) for times in zip(*firsts, strict=True))
    print(f"first GET of a fresh proxy {first_ms:.0f} ms, second {second_ms:.0f} ms (moto's answers included)")


if __name__ == "__main__":
    main()
