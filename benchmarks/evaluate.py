"""The thesis's spikes (figures 5.11 to 5.14), replayed against the local run and held against the simulator.

Each spike in its own time, under both policies at once, each with a local run of its own: up to half an hour for one.
The exit code is 1 if fewer than 97 % of the requests met the predicted tier, or the cache's bill is off by more than
5 %. What was recorded stays in `--out`, where `burstcache evaluate` can look at it again.

    python -m benchmarks.evaluate [--std-s 50 100 150] [--seed 1] [--out build/evaluate]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks.common import Setup, environment, running_cloud
from burstcache_sim.thesis.published import EXPERIMENTS, Spike
from burstcache_terminal.text import table_text

# A node boots as slowly as EC2's, and the thesis's policy has its own values.
_SETUPS = {"thesis": Setup("redis_check_s=60", boot_s=30, stop_s=25), "breakeven": Setup(boot_s=30, stop_s=25)}
SETUPS = tuple(_SETUPS.values())
_SPIKES = {
    spike.workload.std_s: spike.published.n for spike in EXPERIMENTS if isinstance(spike.workload, Spike)
}  # requests by deviation [s]
_LEAST_SAME_PCT, _MOST_APART_PCT = 97, 5
_COMMAND = (sys.executable, "-m", "burstcache_cli.cli")


def main() -> int:
    """Replay and evaluate; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--std-s", type=int, nargs="+", choices=_SPIKES, default=[50, 100, 150])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("build/evaluate"))
    args = parser.parse_args()
    print(environment())
    rows, is_missed = [], False
    for std_s in args.std_s:
        args.out.mkdir(parents=True, exist_ok=True)
        spike = args.out / f"spike-{std_s}.csv"
        options = ("--seed", str(args.seed), "--std-s", str(std_s), "--requests", str(_SPIKES[std_s]))
        _call("sim", "generate", "spike", *options, "--out", str(spike))
        with ThreadPoolExecutor() as threads:
            under_way = {policy: threads.submit(_evaluated, policy, spike) for policy in _SETUPS}
        found = {policy: each.result() for policy, each in under_way.items()}
        for policy, each in found.items():
            same_pct, apart_pct = each["same_tier_pct"], _apart_pct(each["cache_usd"])
            is_missed |= same_pct < _LEAST_SAME_PCT or abs(apart_pct) > _MOST_APART_PCT
            timed_pct = 100 * each["same_tier_as_timed"] / each["requests"]
            figures = (
                f"{same_pct:.1f}",
                f"{timed_pct:.1f}",
                f"{apart_pct:+.1f}",
                f"{_apart_pct(each['total_usd']):+.1f}",
            )
            rows.append((str(std_s), policy, str(each["requests"]), *figures))
    header = ("spike [s]", "policy", "requests", "as predicted %", "as timed %", "cache's bill %", "whole bill %")
    print(table_text(header, rows, right=(0, 2, 3, 4, 5, 6)))
    return int(is_missed)


def _evaluated(policy: str, spike: Path) -> dict[str, Any]:
    results = spike.with_name(f"{spike.stem}-{policy}")
    with running_cloud(_SETUPS[policy]) as cloud:
        where = ("--state-dir", str(cloud.log_dir.parent))
        _call("replay", str(spike), "--key", "hello.txt", "--out", str(results), *where)
        found: dict[str, Any] = json.loads(_call("evaluate", str(results), *where, "--json"))
    (results / "evaluation.json").write_text(json.dumps(found, indent=2) + "\n")
    return found


def _apart_pct(usd: dict[str, float]) -> float:
    return 100 * (usd["measured"] / usd["predicted"] - 1)


def _call(*words: str) -> str:
    return subprocess.run((*_COMMAND, *words), check=True, stdout=subprocess.PIPE, text=True).stdout


if __name__ == "__main__":
    sys.exit(main())
