"""The thesis's spikes (figures 5.11 to 5.14), replayed against the local run and held against the simulator.

Each spike in its own time, under both policies at once, each with a local run of its own: ten to twenty minutes each.
A rehearsal comes first, three minutes in which a few requests start functions and a node: the simulator starts them as
fast as this machine did then. The exit code is 1 if fewer than 97 % of the requests met the predicted tier, or the
cache's bill is off by more than 5 %. Recordings stay in `--out`; `burstcache research evaluate` reads them again. A
spike that is recorded there is not replayed again.

    python -m benchmarks.evaluate [--std-s 50 100 150] [--seed 1] [--out build/evaluate]
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks.support.common import Setup, environment, running_cloud
from burstcache_replay.measured import MEASURED
from burstcache_sim.thesis.published import EXPERIMENTS, Spike
from burstcache_terminal.text import table_text

# A node boots as slowly as EC2's, and the thesis's policy has its own values.
_BOOT_S, _STOP_S = 30, 25
_SETUPS = {
    "thesis": Setup("redis_check_s=60", boot_s=_BOOT_S, stop_s=_STOP_S, redis_on="ec2"),
    "breakeven": Setup(boot_s=_BOOT_S, stop_s=_STOP_S, redis_on="ec2"),
}
SETUPS = tuple(_SETUPS.values())
_SPIKES = {
    spike.workload.std_s: spike.published.n for spike in EXPERIMENTS if isinstance(spike.workload, Spike)
}  # requests by deviation [s]
# When the rehearsal's requests come [s]. The first starts proxy and scheduler; then a cache function starts cold once
# and warm twice, and at last eight requests have the key promoted, for which a node boots.
_REHEARSAL_S = (
    0.0,
    *(start + part for start in (15, 35, 55) for part in (0, 1)),
    *(75 + number / 2 for number in range(8)),
)
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
    args.out.mkdir(parents=True, exist_ok=True)
    rehearsal = args.out / "rehearsal.csv"
    rehearsal.write_text("\n".join(("arrival_s", *(f"{at_s:.6f}" for at_s in _REHEARSAL_S))) + "\n")
    rehearsed = _replayed("thesis", rehearsal)
    _print_timings(rehearsed)
    rows, is_missed = [], False
    for std_s in args.std_s:
        spike = args.out / f"spike-{std_s}-seed-{args.seed}.csv"
        options = ("--seed", str(args.seed), "--std-s", str(std_s), "--requests", str(_SPIKES[std_s]))
        _call("sim", "generate", "spike", *options, "--out", str(spike))
        with ThreadPoolExecutor() as threads:
            under_way = {policy: threads.submit(_evaluated, policy, spike, rehearsed) for policy in _SETUPS}
        found = {policy: each.result() for policy, each in under_way.items()}
        for policy, each in found.items():
            same_pct, apart_pct = each["same_tier_pct"], _apart_pct(each["cache_usd"])
            is_missed |= same_pct < _LEAST_SAME_PCT or abs(apart_pct) > _MOST_APART_PCT
            timed_pct = 100 * each["same_tier_as_timed"] / each["predicted"]
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


def _evaluated(policy: str, spike: Path, rehearsal: Path) -> dict[str, Any]:
    results = _replayed(policy, spike)
    timings = ("--boot-s", str(_BOOT_S), "--stop-s", str(_STOP_S), "--rehearsal", str(rehearsal))
    found: dict[str, Any] = json.loads(_call("research", "evaluate", str(results), *timings, "--json"))
    (results / "evaluation.json").write_text(json.dumps(found, indent=2) + "\n")
    return found


def _replayed(policy: str, trace: Path) -> Path:
    """Replay a trace unless that is done; return the folder with what was recorded and measured."""
    results = trace.with_name(f"{trace.stem}-{policy}")
    if not (results / MEASURED).exists():
        shutil.rmtree(results, ignore_errors=True)  # of a replay that was broken off
        with running_cloud(_SETUPS[policy]) as cloud:
            where = ("--state-dir", str(cloud.log_dir.parent))
            _call("replay", str(trace), "--key", "hello.txt", "--out", str(results), *where)
            _call("research", "evaluate", str(results), *where)
    return results


def _print_timings(rehearsed: Path) -> None:
    where = str(rehearsed)
    timings = json.loads(_call("research", "evaluate", where, "--rehearsal", where, "--json"))["timings"]
    warm_s, cold_s, boot_s = (timings[f"{name}_us"] / 1e6 for name in ("warm_start", "cold_start", "redis_boot"))
    print(f"rehearsal: a function starts in {warm_s:.2f} s, cold in {cold_s:.2f} s; a node boots in {boot_s:.1f} s")


def _apart_pct(usd: dict[str, float]) -> float:
    return 100 * (usd["measured"] / usd["predicted"] - 1)


def _call(*words: str) -> str:
    return subprocess.run((*_COMMAND, *words), check=True, stdout=subprocess.PIPE, text=True).stdout


if __name__ == "__main__":
    sys.exit(main())
