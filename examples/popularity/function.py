"""A Lambda function that says how often a page was requested, from a table in S3.

The client is made once, at INIT: all invocations of an execution environment share its connections and its memory.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from burstcache.client import Client

client = Client()


def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
    """Return how often the event's `path` was requested."""
    pages = json.loads(client.get("pages.json").body)
    return {"path": event["path"], "requests": pages["requests"].get(event["path"], 0)}


if __name__ == "__main__":
    print(json.dumps(handler({"path": sys.argv[1]}, None)))
