"""The front door's access log. Each line has API Gateway's fields for one request, and the tier that served it."""

from __future__ import annotations

import time
from pathlib import Path

import orjson

from burstcache_local.front.http_events import HttpAnswer, HttpRequest

FILE = "requests.jsonl"


class AccessLog:
    """An append-only log file in the run's folder. It lacks requests that the HTTP server itself rejects."""

    def __init__(self, folder: Path) -> None:
        self._file = (folder / FILE).open("ab", buffering=0)  # unbuffered, because readers may follow the file

    def write(self, request: HttpRequest, answer: HttpAnswer, began_s: float) -> None:
        """Append a request with its response. `began_s` is the request's arrival time, since 1970 [s]."""
        headers = dict(answer.headers)
        length = headers.get("content-length", "")
        line = {
            "at": round(began_s * 1000),
            "method": request.method,
            "path": request.raw_path,
            "query": request.raw_query,
            "status": answer.status,
            "bytes": len(answer.body) or (int(length) if length.isdecimal() else 0),
            "latency_ms": round((time.time() - began_s) * 1000, 1),
            "tier": headers.get("x-cache-tier", ""),
        }
        self._file.write(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE))

    def close(self) -> None:
        """Close the file."""
        self._file.close()
