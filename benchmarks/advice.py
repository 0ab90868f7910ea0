"""What `burstcache advise` says of seven logs, today and in a former version, and what each of its rules does.

The logs: NASA's and ERDDAP's (from the folder given, if it is), 12 GB of objects asked for at random by Zipf's law, an
hour a day of 10 GB, and three mixes that are generated here from fixed seeds. The former version is a checkout of any
commit, read but not installed; `7a93c45` is the last one before rivals had their own share of hits.

    python -m benchmarks.advice [--logs FOLDER] [--former CHECKOUT] [--candidates 600]

With both versions it is some 40 commands, two at a time; a log takes seconds, also with 600 candidates.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.support.common import PROJECT, environment
from burstcache_terminal.text import table_text

_HOUR_S, _DAY_S = 3_600, 86_400
GIVEN = {"NASA": "nasa-http-1995-08-01.csv.gz", "ERDDAP": "erddap-2024-05-12_20.csv.gz"}
_GENERATED = {
    "z15": (*("--rate-per-min", "300", "--duration-s", "14400", "--keys", "5000"), "0.8", "3000000"),
    "hour a day": (*("--rate-per-min", "1200", "--duration-s", "3500", "--keys", "5000"), "0.8", "2000000"),
}
_DAILY = ["--period-hours", "24"]
_VALUES = ((), ("--hit-value-usd", "4.5e-5"))
WITHOUT_MEMORY = ("--without", "reader-memory", "--without", "reader-memory-confirmed")
_NODE_ALONE = (*WITHOUT_MEMORY, "--hit-within-ms", "2", "--hit-value-usd", "1e-5")
_DEAR = ("--hit-value-usd", "1e-4", "--without", "cloudfront")


@dataclass(frozen=True, slots=True)
class Log:
    """A log, and the options that it is read with."""

    name: str
    path: str
    options: tuple[str, ...] = ()


def main() -> None:
    """Print verdicts side by side, then the rules."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--logs", type=Path, metavar="FOLDER", help="with the files of NASA and ERDDAP")
    parser.add_argument("--former", type=Path, metavar="CHECKOUT", help="of a former version")
    parser.add_argument("--candidates", default="600", metavar="N", help="parameters to try (default: 600)")
    args = parser.parse_args()
    print(environment())
    with tempfile.TemporaryDirectory() as folder:
        logs = list(logs_of(Path(folder), args.logs))
        _prepare(logs, args.former, args.candidates)
        print(_verdicts(logs, args.former, args.candidates))
        print(_rules({log.name: log for log in logs}, args.former, args.candidates))


def logs_of(folder: Path, given: Path | None) -> Iterator[Log]:
    """Yield the logs, writing those that are generated."""
    if given:
        yield from (Log(name, str(given / file)) for name, file in GIVEN.items())
    for name, (*shape, exponent, size) in _GENERATED.items():
        path = folder / f"{name.replace(' ', '-')}.csv"
        command = ("sim", "generate", "zipf", "--seed", "1", *shape, "--exponent", exponent, "--object-bytes", size)
        _run(PROJECT, [*command, "--out", str(path)])
        yield Log(name, str(path), tuple(_DAILY) if name == "hour a day" else ())
    for name, draw in (("pages", _pages), ("jobs", _jobs), ("one-timers", _one_timers)):
        path = folder / f"{name}.csv"
        times_s, keys, sizes_bytes = draw()
        rows = sorted(zip(times_s.tolist(), keys.tolist(), sizes_bytes.tolist(), strict=True))
        path.write_text("t,key,size\n" + "".join(f"{at_s:.6f},{key},{size}\n" for at_s, key, size in rows))
        yield Log(name, str(path))


Drawn = tuple[NDArray[Any], NDArray[Any], NDArray[Any]]  # times [s], keys, sizes [bytes]


def _pages() -> Drawn:
    """Draw a web site: three days with nights, 5,000 pages and pictures of some 30 KB, a few of them popular."""
    random = np.random.default_rng(11)
    at_s = random.uniform(0, 3 * _DAY_S, 160_000)
    awake = random.uniform(0, 1, len(at_s)) < 0.55 - 0.45 * np.cos(2 * np.pi * at_s / _DAY_S)
    keys = random.zipf(1.15, int(awake.sum())) % 5_000
    return at_s[awake], keys, _sizes(random, keys, median_bytes=15_000, spread=1.2)


def _jobs() -> Drawn:
    """Draw batch jobs: 40 minutes every night for three nights, 6,000 objects of 1.5 MB, each about as often."""
    random = np.random.default_rng(12)
    at_s = np.concatenate([random.uniform(0, 2_400, 60_000) + night * _DAY_S for night in range(3)])
    keys = random.integers(6_000, size=len(at_s))
    return at_s, keys, _sizes(random, keys, median_bytes=1_500_000, spread=0.2)


def _one_timers() -> Drawn:
    """Draw a day of which half the requests are for keys that never come again; sizes from bytes to megabytes."""
    random = np.random.default_rng(13)
    at_s = random.uniform(0, _DAY_S, 40_000)
    returning = random.zipf(1.3, len(at_s)) % 2_000
    keys = np.where(random.uniform(0, 1, len(at_s)) < 0.5, returning, 2_000 + np.arange(len(at_s)))
    return at_s, keys, _sizes(random, keys, median_bytes=50_000, spread=1.8)


def _sizes(random: np.random.Generator, keys: NDArray[Any], *, median_bytes: int, spread: float) -> NDArray[Any]:
    of_key = median_bytes * np.exp(spread * random.standard_normal(int(keys.max()) + 1))
    sizes_bytes: NDArray[np.int64] = np.maximum(1, of_key[keys]).astype(np.int64)
    return sizes_bytes


def _verdicts(logs: Sequence[Log], former: Path | None, candidates: str) -> str:
    """Return a line per log and value of a hit: the best buy then and now."""
    rows = []
    for log in logs:
        for value in _VALUES:
            options = (*value, "--candidates", candidates)
            now = advice_on(PROJECT, log, options)
            then = "" if former is None else _best(advice_on(former, log, options))
            rows.append((log.name, "45" if value else "unknown", then, _best(now), _ours(now), now["verdict"]))
    header = ("log", "USD per million hits", "best buy then", "best buy now", "Burstcache now", "verdict now")
    return table_text(header, rows)


def _rules(logs: dict[str, Log], former: Path | None, candidates: str) -> str:
    """Return the effect of each rule of the comparison, with the log that shows it."""
    z15, hour = logs["z15"], logs["hour a day"]
    few = ("--candidates", candidates)
    then = {} if former is None else advice_on(former, z15, (*_DEAR, *few))
    now = advice_on(PROJECT, z15, (*_DEAR, *few))
    rows = [
        (
            "a node serves what it holds",
            "z15, ec2:r7g.large",
            _share(then, "ec2:r7g.large"),
            _share(now, "ec2:r7g.large"),
        ),
        ("S3 Express competes", "z15", _share(then, "s3-express"), _share(now, "s3-express")),
        ("free tiers and plans: a second column", "z15, cloudfront", "", _free(advice_on(PROJECT, z15, few))),
        ("one clock for all commands", "z15, what is added", _added_ms(former, z15, few), _added_ms(PROJECT, z15, few)),
        ("nobody pays for our tail", "hour a day, ElastiCache", _tail(former, hour), _tail(PROJECT, hour)),
        ("what is on stays warm", "hour a day back to back", _warm(former, hour, few), _warm(PROJECT, hour, few)),
        ("sim run and sim bill decide alike", "hour a day, breakeven", _alike(former, hour), _alike(PROJECT, hour)),
    ]
    if "NASA" in logs:
        found = advice_on(PROJECT, logs["NASA"], (*_NODE_ALONE, *few))
        rows.append(
            ("a policy that never stops is found out", "NASA", "", f"node on {100 * found['node_share']:.0f} %")
        )
    return table_text(("rule", "shown by", "then", "now"), rows)


def _system(advice: dict[str, Any], name: str) -> dict[str, Any] | None:
    found: dict[str, Any] | None = next((one for one in advice.get("systems", ()) if one["name"] == name), None)
    return found


def _share(advice: dict[str, Any], name: str) -> str:
    if not advice:
        return ""
    system = _system(advice, name)
    if system is None:
        return "missing"
    choice = "" if system["is_choice"] else ", no choice"
    return f"{system['in_memory_pct']:.1f} % for {system['usd_per_month']:,.2f}{choice}"


def _free(advice: dict[str, Any]) -> str:
    system = _system(advice, "cloudfront")
    assert system is not None
    return f"{system['usd_per_month']:,.2f}, free tier or plan {system['free_tiers_usd_per_month']:,.2f}"


def _warm(checkout: Path | None, log: Log, few: tuple[str, ...]) -> str:
    if checkout is None:
        return ""
    return _share(advice_on(checkout, Log(log.name, log.path), few), "ec2:r7g.large")


def _added_ms(checkout: Path | None, log: Log, few: tuple[str, ...]) -> str:
    """Return the latencies that two commands add to the mean of the tiers of a run [ms]."""
    if checkout is None:
        return ""
    report = json.loads(_run(checkout, ["sim", "report", log.path, "--json"]))
    advice = advice_on(checkout, log, few)
    ours = advice.get("thesis_policy", advice["burstcache"] | advice["latency_ms"]) | {"n": advice["n"]}
    found = ((report, report["latency"]["mean_ms"]), (ours, ours["mean_ms"]))
    by_report, by_advice = (
        mean_ms - (50 * run["n_s3"] + 1.5 * run["n_lambda"] + run["n_redis"]) / run["n"] for run, mean_ms in found
    )
    return f"report {by_report:.1f} ms, advise {by_advice:.1f} ms"


def _tail(checkout: Path | None, log: Log) -> str:
    if checkout is None:
        return ""
    name = "elasticache-valkey:t4g.micro"
    (*_, system) = json.loads(_run(checkout, ["sim", "compare", log.path, "--json", "--against", name]))
    hours = next(line["quantity"] for line in system["lines"] if line["unit"] == "h")
    return f"{hours:g} h billed"


def _alike(checkout: Path | None, log: Log) -> str:
    if checkout is None:
        return ""
    policy = ["--policy", "breakeven", "--hit-value-usd", "1e-4", "--json"]
    run, billed = (json.loads(_run(checkout, ["sim", command, log.path, *policy])) for command in ("run", "bill"))
    return f"{run['in_memory_pct']:.3f} and {billed['in_memory_pct']:.3f} %"


def _best(advice: dict[str, Any]) -> str:
    name = advice["best_buy"]
    system = advice["burstcache"] if name == "burstcache" else _system(advice, name)
    assert system is not None
    return f"{name} {system['usd_per_month']:,.2f}, {system['in_memory_pct']:.1f} %"


def _ours(advice: dict[str, Any]) -> str:
    ours = advice["burstcache"]
    return f"{ours['usd_per_month']:,.2f}, {ours['in_memory_pct']:.1f} %"


def _prepare(logs: Sequence[Log], former: Path | None, candidates: str) -> None:
    """Ask for most of the advice that the tables show, two commands at a time."""
    few = ("--candidates", candidates)
    asked = [(log, (*value, *few)) for log in logs for value in _VALUES]
    asked += [(log, (*_DEAR, *few)) for log in logs if log.name == "z15"]
    asked += [(Log(log.name, log.path), few) for log in logs if log.name == "hour a day"]
    checkouts = [PROJECT] if former is None else [PROJECT, former]
    for checkout in checkouts:  # the first of each version compiles what the others load
        advice_on(checkout, *asked[0])
    with ThreadPoolExecutor(2) as threads:
        list(threads.map(lambda one: advice_on(*one), [(checkout, *each) for checkout in checkouts for each in asked]))


@cache
def advice_on(checkout: Path, log: Log, options: tuple[str, ...]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(_run(checkout, ["advise", log.path, *log.options, *options, "--json"]))
    return found


def _run(checkout: Path, arguments: Sequence[str]) -> str:
    """Return the output of the command of a checkout."""
    paths = os.pathsep.join(str(checkout.resolve() / folder) for folder in ("src", "tools"))
    command = [sys.executable, "-c", "import sys; from burstcache_cli.cli import main; sys.exit(main(sys.argv[1:]))"]
    done = subprocess.run(
        [*command, *arguments], env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{checkout}: burstcache {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout


if __name__ == "__main__":
    main()
