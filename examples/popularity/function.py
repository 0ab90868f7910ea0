"""A Lambda function that returns a page's number of requests, from a table in S3.

The client is created once, at INIT. All invocations of an execution environment share its connections and memory.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from burstcache.client import Client

client = Client()


def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
    """Return the number of requests for the event's `path`."""
    pages = json.loads(client.get("pages.json").body)
    return {"path": event["path"], "requests": pages["requests"].get(event["path"], 0)}


if __name__ == "__main__":
    print(json.dumps(handler({"path": sys.argv[1]}, None)))
