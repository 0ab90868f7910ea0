"""What a cached function's callers notice when the Redis behind it is frozen, killed and started again under load.

Threads call without a pause, on keys that are kept; the function itself takes a millisecond. Printed are per phase the
calls, how many failed, how many were answered by Redis, and how long a call took; the phases in which Redis does not
answer show what the outage costs: each thread one time-out, once.

    python -m benchmarks.results_outages [--threads 4] [--timeout-ms 100] [--phase-s 4]
"""

from __future__ import annotations

import argparse
import signal
import statistics
import subprocess
import threading
import time
from dataclasses import dataclass, field

from benchmarks.results_peers import free_port, serve_redis
from benchmarks.support.common import environment
from burstcache.results import Cache, cached, open_cache

_KEYS = 50
_COMPUTING_S = 0.001
_SETTLING_S = 1.0  # after Redis is back: what follows is measured


@dataclass
class Load:
    """Threads that call a cached function."""

    cache: Cache
    timeout_ms: int
    took_ms: list[float] = field(default_factory=list)
    failed: int = 0
    is_over: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        @cached(backend=self.cache, ttl_s=3600)
        def double(number: int) -> int:
            time.sleep(_COMPUTING_S)
            return 2 * number

        self.function = double

    def run(self) -> None:
        """Call until it is over."""
        number = 0
        while not self.is_over.is_set():
            number = (number + 1) % _KEYS
            begun_s = time.perf_counter()
            try:
                self.failed += self.function(number) != 2 * number
            except Exception:
                self.failed += 1
            self.took_ms.append((time.perf_counter() - begun_s) * 1000)

    def phase(self, name: str, duration_s: float) -> None:
        """Let a phase last, and print what came of it."""
        start, answered = len(self.took_ms), self.function.results.stats().get("redis", 0)
        time.sleep(duration_s)
        took_ms = self.took_ms[start:]
        from_redis = self.function.results.stats().get("redis", 0) - answered
        cuts = statistics.quantiles(took_ms, n=1000)
        waited = sum(took >= self.timeout_ms for took in took_ms)
        print(
            f"{name:12} {len(took_ms):7} {self.failed:7} {100 * from_redis / len(took_ms):6.0f} %"
            f" {statistics.median(took_ms):8.2f} {cuts[-1]:8.1f} {max(took_ms):8.1f} {waited:8}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=4, help="callers (default 4)")
    parser.add_argument("--timeout-ms", type=int, default=100, help="the time-out of an operation (default 100)")
    parser.add_argument("--phase-s", type=float, default=4, help="how long each phase lasts (default 4)")
    arguments = parser.parse_args()
    port = free_port()
    redis = serve_redis(port)
    cache = open_cache(f"redis://127.0.0.1:{port}", timeout_ms=arguments.timeout_ms)
    load = Load(cache, arguments.timeout_ms)
    threads = [threading.Thread(target=load.run) for _ in range(arguments.threads)]
    print(environment())
    print(f"{'':12}   calls  failed  redis  median [ms]   99.9 %  slowest  above the time-out")
    for thread in threads:
        thread.start()
    try:
        time.sleep(_SETTLING_S)
        load.phase("running", arguments.phase_s)
        redis.send_signal(signal.SIGSTOP)
        load.phase("frozen", arguments.phase_s)
        redis.send_signal(signal.SIGCONT)
        time.sleep(_SETTLING_S)
        load.phase("running", arguments.phase_s)
        kill(redis)
        load.phase("killed", arguments.phase_s)
        redis = serve_redis(port)
        time.sleep(_SETTLING_S)
        load.phase("restarted", arguments.phase_s)
    finally:
        load.is_over.set()
        for thread in threads:
            thread.join()
        kill(redis)


def kill(process: subprocess.Popen[bytes]) -> None:
    """End a process at once."""
    process.kill()
    process.wait()


if __name__ == "__main__":
    main()
