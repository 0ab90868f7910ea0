"""Discovery of the hub service's process."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from burstcache.pool.hub_service import address_in


@contextmanager
def _metadata(network: dict[str, Any]) -> Iterator[str]:
    """Serve a task's metadata as ECS does, and return where."""
    body = json.dumps({"Name": "hub", "Networks": [network]}).encode()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/v4/id"
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize(
    ("network", "address"),
    [
        ({"NetworkMode": "awsvpc", "IPv4Addresses": ["10.0.2.106"], "IPv6Addresses": ["2600:1f18::5"]}, "10.0.2.106"),
        ({"NetworkMode": "awsvpc", "IPv6Addresses": ["2600:1f18::5"]}, "2600:1f18::5"),
    ],
    ids=["both", "ipv6"],
)
def test_a_task_is_found_at_the_address_that_ecs_says(network: dict[str, Any], address: str) -> None:
    with _metadata(network) as url:
        assert address_in({"ECS_CONTAINER_METADATA_URI_V4": url}) == address


def test_an_address_that_is_set_counts() -> None:
    assert address_in({"HUB_HOST": "127.0.0.1", "ECS_CONTAINER_METADATA_URI_V4": "http://nowhere"}) == "127.0.0.1"
