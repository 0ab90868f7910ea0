"""Run moto as a process of its own, which can be ended while one of its threads is busy. Prints moto's URL."""

from __future__ import annotations

import signal

from burstcache_local.moto.server import moto_server

if __name__ == "__main__":
    with moto_server() as services:
        print(services.cloud_url, flush=True)
        signal.pause()
