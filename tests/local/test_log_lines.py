"""Log lines of a function under AWS's runtime client with JSON logs: each line is an object, none appears twice."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from support.project import ROOT

_PRINTS = """
from awslambdaric import bootstrap
bootstrap._setup_logging(bootstrap._AWS_LAMBDA_LOG_FORMAT, "INFO", bootstrap.StandardLogSink().__enter__())
import burstcache.handlers
from burstcache.logs import logger, name_request
from burstcache.metrics import PROMOTIONS, put
name_request("request-1")
logger().warning("tier failed", tier="redis", key_hash="abc")
put((PROMOTIONS, 1))
"""


def test_log_lines_and_metrics_are_objects_of_one_line() -> None:
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(ROOT / "src"),
        "AWS_LAMBDA_LOG_FORMAT": "JSON",
        "AWS_LAMBDA_LOG_LEVEL": "INFO",
        "POWERTOOLS_SERVICE_NAME": "redis-control",
        "STACK_NAME": "burstcache",
    }

    printed = subprocess.run(
        [sys.executable, "-c", _PRINTS], env=environment, capture_output=True, text=True, check=True
    ).stdout

    line, metric = map(json.loads, printed.splitlines())
    assert (line["level"], line["function_request_id"], line["tier"]) == ("WARNING", "request-1", "redis")
    assert (metric["Stack"], metric["Promotions"]) == ("burstcache", [1])
