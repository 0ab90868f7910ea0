"""Measure the dashboard's page with 5,000 keys, at rest and while a load runs.

    python -m benchmarks.dashboard_page           # first paint, updates, the server's share of a core, a load

What an update takes is processor time of the page's main thread, of all its tasks from one update to the next, as
Chromium traces them: other work on the machine makes an update late, yet not larger.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, expect, sync_playwright

from benchmarks.support.common import Cloud, Setup, environment, running_cloud
from benchmarks.support.main_thread import MainThread, fill
from burstcache.adapters.items import to_values
from burstcache.core.keys import key_hash
from burstcache.core.table import key_item
from burstcache_replay import recording
from burstcache_replay.summary import Spread, is_failed

_KEYS, _CHANGING = 5_000, 500
_WATCHED_S = 30.0
_LOADED_KEYS, _LOAD_PER_S, _TURNS = 20, 10, 3
BURST = Setup(
    "tick_s=2,lambda_threshold_s=3,redis_utilization_s=8,redis_check_s=5",
    boot_s=8,
    stop_s=12,
    max_hot_keys=8,
    is_traced=True,
)
SETUPS = (BURST,)
BODY = b"burst " * 2000

expect.set_options(timeout=120_000)


def main() -> int:
    """Measure; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--load-per-s", type=float, default=_LOAD_PER_S, help="requests a second (default: 10)")
    arguments = parser.parse_args()
    print(environment())
    with running_cloud(BURST) as cloud, browser() as chromium:
        measure(cloud, chromium, arguments.load_per_s)
    return 0


def measure(cloud: Cloud, chromium: Browser, load_per_s: float) -> None:
    """Print what the page and its server take with 5,000 keys."""
    _put_rows(cloud, range(_KEYS), requests=1)
    with serving(cloud) as (url, process):
        began_s = _cpu_s(process.pid)
        time.sleep(_WATCHED_S)
        print(f"server without a page: {100 * (_cpu_s(process.pid) - began_s) / _WATCHED_S:.1f} % of a core")
        page = chromium.new_page(viewport={"width": 1280, "height": 900})
        with traced(chromium, page) as first:
            page.goto(url)
            expect(page.locator("#shown")).to_have_text(f"{_KEYS:,} keys")
            paint_ms = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
        print(f"first paint {paint_ms:.0f} ms; with all keys {sum(first.updates_ms):.0f} ms of the main thread's time")
        time.sleep(5)  # what follows the start is not idle
        began_s = _cpu_s(process.pid)
        time.sleep(_WATCHED_S)
        print(f"server with a page: {100 * (_cpu_s(process.pid) - began_s) / _WATCHED_S:.1f} % of a core")
        with traced(chromium, page) as changing:
            for turn in range(5):
                _put_rows(cloud, range(_CHANGING), requests=2 + turn)
                time.sleep(6)
        print(f"{_CHANGING} keys change: {changing.text()}", flush=True)
        page.close()
        _measure_loaded(cloud, chromium, url, process.pid, load_per_s)


def _measure_loaded(cloud: Cloud, chromium: Browser, url: str, server: int, per_s: float) -> None:
    """Print what a load's requests and the page take of each other, in turns with and without the page."""
    names = [f"load-{number:02}.bin" for number in range(_LOADED_KEYS)]
    for name in names:
        cloud.put(name, BODY)
    _replayed(cloud, names, per_s)  # the first requests start all functions
    for turn in range(2 * _TURNS):
        page = None
        if turn % 2:
            page = chromium.new_page(viewport={"width": 1280, "height": 900})
            page.goto(url)
            expect(page.locator("#shown")).to_contain_text(f"{_KEYS + _LOADED_KEYS:,} keys")
        began_s, began_cpu_s = time.monotonic(), _cpu_s(server)
        with traced(chromium, page) if page else nullcontext() as updates:
            latency = _replayed(cloud, names, per_s)
        share_pct = 100 * (_cpu_s(server) - began_cpu_s) / (time.monotonic() - began_s)
        how = f"with a page ({updates.text()})" if updates else "without a page"
        figures = f"p50 {latency.p50_ms:.1f}, p99 {latency.p99_ms:.1f} ms"
        print(f"{per_s:g} requests/s {how}: {figures}; server {share_pct:.1f} % of a core", flush=True)
        if page:
            page.close()


def _replayed(cloud: Cloud, names: list[str], per_s: float) -> Spread:
    """Ask for objects in turn, on time whatever the answers take, by a process of its own; return the latencies."""
    with tempfile.TemporaryDirectory() as folder:
        trace, requests = Path(folder) / "load.csv", range(round(per_s * _WATCHED_S))
        rows = (f"{number / per_s:.4f},{names[number % len(names)]},{len(BODY)}\n" for number in requests)
        trace.write_text("t,key,size\n" + "".join(rows))
        command = [sys.executable, "-m", "burstcache_cli.cli", "replay", str(trace), "--out", f"{folder}/results"]
        command += ["--url", f"{cloud.url}/objects", "--state-dir", str(cloud.log_dir.parent)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        outcomes = recording.read(Path(folder) / "results").outcomes
    if failed := Counter(outcome.answer.error or outcome.answer.status for outcome in outcomes if is_failed(outcome)):
        print(f"of {len(outcomes)} requests failed: {dict(failed)}")
    return Spread.of([outcome.latency_s for outcome in outcomes])


@contextmanager
def traced(chromium: Browser, page: Page) -> Iterator[MainThread]:
    """Trace a page in Chromium; what is yielded is filled at the end."""
    found = MainThread()
    chromium.start_tracing(page=page, categories=["toplevel", "blink.user_timing"])
    yield found
    fill(found, json.loads(chromium.stop_tracing())["traceEvents"])


@contextmanager
def browser() -> Iterator[Browser]:
    """Start Chromium: the machine's, or Playwright's own."""
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        yield running
        running.close()


@contextmanager
def serving(cloud: Cloud) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Run `burstcache dashboard`; yield its address and its process."""
    state_dir = str(cloud.log_dir.parent)
    command = [sys.executable, "-m", "burstcache_cli.cli", "dashboard", "--state-dir", state_dir]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout
    try:
        yield process.stdout.readline().split()[0], process
    finally:
        process.terminate()
        process.wait(30)


def _put_rows(cloud: Cloud, numbers: range, *, requests: int) -> None:
    rows: list[Any] = []
    for number in numbers:
        key = f"folder-{number % 50:02}/object-{number:05}.bin"
        window = [f"{place}:{number}" for place in range(requests)]
        row = {**key_item(key_hash(key)), "key": key, "phase": "s3", "window": window, "size_bytes": 1000 + number}
        rows.append({"PutRequest": {"Item": to_values(row)}})
    table, dynamodb = cloud.stack.output("TableName"), cloud.client("dynamodb")
    for start in range(0, len(rows), 25):
        dynamodb.batch_write_item(RequestItems={table: rows[start : start + 25]})


def _cpu_s(process_id: int) -> float:
    fields = Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    sys.exit(main())
