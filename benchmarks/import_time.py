"""How long the import of each handler takes, and of what a program has of `burstcache.results`.

`cold_path` has the rest of a cold start.

Each measurement has a Python process of its own, and each round measures everything once, a bare `import boto3`
included, so that what else runs on the machine weighs on all alike. Printed are medians, and for one run the modules
whose import costs most by themselves.

    python -m benchmarks.import_time [--runs 7] [--top 5]
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
from pathlib import Path

from benchmarks.variables import VARIABLES

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ["burstcache.results.decorator", "burstcache.results.stores.redis_store"]
HANDLERS = ROOT / "src" / "burstcache" / "handlers"

# nats-py imports aiohttp if it finds it; the local run has it, the deployed package does not.
_WITHOUT_AIOHTTP = "import sys; sys.modules['aiohttp'] = None"
_IMPORT = """
import time
started_s = time.perf_counter()
import {module}
print((time.perf_counter() - started_s) * 1000)
"""
_ENVIRONMENT = {
    "PYTHONPATH": f"{ROOT / 'src'}:{ROOT / 'cloudformation'}",
    "AWS_ACCESS_KEY_ID": "id",
    "AWS_SECRET_ACCESS_KEY": "secret",
    "AWS_DEFAULT_REGION": "us-east-1",
    **VARIABLES,
}


def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **_ENVIRONMENT, **variables}
    return subprocess.run([sys.executable, *arguments], env=environment, capture_output=True, text=True, check=True)


def handler_modules() -> list[str]:
    ours = [f"burstcache.handlers.{path.stem}" for path in sorted(HANDLERS.glob("[!_]*.py"))]
    return [*ours, "custom_resources.credentials", *RESULTS]


def import_ms(module: str, **variables: str) -> float:
    return float(run("-c", f"{_WITHOUT_AIOHTTP}\n{_IMPORT.format(module=module)}", **variables).stdout)


def dearest_modules(module: str, top: int) -> list[tuple[str, float]]:
    """Return the modules with the largest share of an import [ms]; measuring slows all of them a little."""
    lines = run("-X", "importtime", "-c", f"{_WITHOUT_AIOHTTP}; import {module}").stderr.splitlines()[1:]
    parts = [line.removeprefix("import time:").split("|") for line in lines if line.startswith("import time:")]
    own = [(name.strip(), int(own_us) / 1000) for own_us, _, name in parts if own_us.strip().isdigit()]
    return sorted(own, key=lambda pair: pair[1], reverse=True)[:top]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=7, help="rounds, each with one process per measurement (default 7)")
    parser.add_argument("--top", type=int, default=5, help="modules to name per handler (default 5)")
    arguments = parser.parse_args()
    modules = handler_modules()
    bare_ms: list[float] = []
    imports_ms: dict[str, list[float]] = {module: [] for module in modules}
    for _ in range(arguments.runs):
        bare_ms.append(import_ms("boto3"))
        for module in modules:
            imports_ms[module].append(import_ms(module))
    boto3_ms = statistics.median(bare_ms)
    print(f"{'':35} import  least  /boto3")
    print(f"{'boto3':35} {boto3_ms:6.0f} {min(bare_ms):6.0f}")
    for module in modules:
        middle_ms = statistics.median(imports_ms[module])
        dearest = ", ".join(f"{name} {own_ms:.0f}" for name, own_ms in dearest_modules(module, arguments.top))
        figures = f"{middle_ms:6.0f} {min(imports_ms[module]):6.0f} {middle_ms / boto3_ms:7.2f}"
        print(f"{module:35} {figures}; own share: {dearest}")


if __name__ == "__main__":
    main()
