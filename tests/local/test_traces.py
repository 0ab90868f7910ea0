"""Traces of real handlers, as a daemon on loopback gets them."""

from __future__ import annotations

import http.client
import json
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import pytest

from burstcache.core.keys import key_hash
from burstcache_local.cloud import LocalCloud, LocalOptions
from burstcache_local.traces import segments_of_run
from support.policies import THESIS
from support.processes import REDIS, signal_named
from support.project import ROOT
from support.waiting import LIMIT_S, until

Segment = dict[str, Any]
_KEY = "traced.txt"
_PROXY, _SCHEDULER, _CACHE = "ProxyFunction", "SchedulerFunction", "CacheFunction"
_REDIS_CONTROL = "RedisControlFunction"


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCloud]:
    """A stack that is traced, in which an object has been through all tiers."""
    parameters = THESIS | {"Tracing": "Active", "PolicyOverrides": "redis_utilization_s=3600"}
    options = LocalOptions(boot_s=0.2, stop_s=0.2, run_dir=tmp_path_factory.mktemp("logs"), parameters=parameters)
    with LocalCloud(options) as running:
        running.client("s3").put_object(Bucket=running.bucket_name, Key=_KEY, Body=b"text")
        until(lambda: get(running, _KEY) == "redis")
        yield running


def get(cloud: LocalCloud, key: str) -> str:
    """Read an object; return the tier that answered."""
    connection = http.client.HTTPConnection(urlsplit(cloud.front_url).netloc, timeout=LIMIT_S)
    connection.request("GET", f"/objects/{key}")
    answer = connection.getresponse()
    answer.read()
    connection.close()
    return answer.headers["X-Cache-Tier"] or ""


def traces(cloud: LocalCloud) -> list[list[Segment]]:
    """Return the received segments by trace, oldest first. Functions have their names in the template."""
    logical_ids = {physical: logical for logical, physical in cloud.physical_ids.items()}
    found: dict[str, list[Segment]] = {}
    for segment in segments_of_run(cloud.run_dir):
        name = logical_ids.get(segment["name"], segment["name"])
        found.setdefault(segment["trace_id"], []).append(segment | {"name": name})
    return list(found.values())


def path(trace: list[Segment], segment: Segment) -> list[str]:
    """Return the names of a segment and of all above it, itself last."""
    above = [each for each in trace if each["id"] == segment.get("parent_id")]
    return [*(path(trace, above[0]) if above else []), segment["name"]]


def paths(trace: list[Segment]) -> list[list[str]]:
    return [path(trace, segment) for segment in trace]


def first_with(cloud: LocalCloud, *wanted: list[str], having: Callable[[Segment], Any] = bool) -> list[Segment]:
    """Wait for a trace with these paths that has a segment as described."""

    def found() -> list[Segment] | None:
        fitting = (trace for trace in traces(cloud) if any(map(having, trace)))
        return next((trace for trace in fitting if all(each in paths(trace) for each in wanted)), None)

    return until(found)


def is_answer(segment: Segment, tier: str) -> bool:
    return bool(segment.get("annotations", {}).get("tier") == tier)


def test_a_read_from_s3_is_one_trace_from_the_front_to_the_scheduler(cloud: LocalCloud) -> None:
    read = [_PROXY, "## handler", "s3"]
    reported = [_PROXY, "events", _SCHEDULER, "## handler", "dynamodb"]

    trace = first_with(cloud, read, reported, having=partial(is_answer, tier="s3"))

    (answer,) = (segment for segment in trace if "tier" in segment.get("annotations", {}))
    assert answer["annotations"].items() >= {"tier": "s3", "hit": False, "key_hash": key_hash(_KEY)}.items()


def test_a_read_that_reads_the_digest_anew_shows_it_in_its_trace(cloud: LocalCloud) -> None:
    def found() -> bool:
        get(cloud, _KEY)  # the first digest is read before any request: an old one is read anew by the next read
        return any([_PROXY, "## handler", "dynamodb"] in paths(trace) for trace in traces(cloud))

    until(found)


def test_a_cache_functions_answer_is_a_segment_of_the_reads_trace(cloud: LocalCloud) -> None:
    trace = first_with(cloud, [_PROXY, "## handler", "relay", _CACHE], having=partial(is_answer, tier="lambda"))

    (proxys,) = (segment for segment in trace if "tier" in segment.get("annotations", {}))
    (caches,) = (segment for segment in trace if segment["name"] == _CACHE)
    assert proxys["annotations"].items() >= {"hit": True, "key_hash": key_hash(_KEY)}.items()
    assert caches["annotations"] == {"key_hash": key_hash(_KEY)}
    assert proxys["start_time"] <= caches["start_time"] <= caches["end_time"] <= proxys["end_time"]


def test_a_read_from_redis_names_its_node(cloud: LocalCloud) -> None:
    trace = first_with(cloud, [_PROXY, "## handler", "redis node-1"], having=partial(is_answer, tier="redis"))

    assert not any("fault" in segment for segment in trace)


def test_a_life_belongs_to_the_trace_of_the_read_that_began_it(cloud: LocalCloud) -> None:
    began = [_PROXY, "events", _SCHEDULER, "## handler", "states"]

    trace = first_with(cloud, [*began, _CACHE, "s3"], [*began, _REDIS_CONTROL, "## handler", "redis node-1"])

    steps = [segment for segment in trace if segment.get("annotations", {}).get("op")]
    invocations = {each["parent_id"] for each in steps}
    assert {each["annotations"]["op"] for each in steps} >= {"join", "boot_node", "seed"}
    assert len(invocations) == len(steps)  # each of its own, though one environment runs several


def test_a_tier_that_fails_is_marked_and_its_log_line_names_the_trace(cloud: LocalCloud) -> None:
    until(lambda: get(cloud, _KEY) == "redis")
    signal_named(REDIS, signal.SIGKILL)

    until(lambda: get(cloud, _KEY) == "s3")
    trace = first_with(
        cloud,
        [_PROXY, "## handler", "redis node-1"],
        having=lambda segment: segment["name"] == "redis node-1" and "fault" in segment,
    )

    log = cloud.run_dir / f"{cloud.physical_ids[_PROXY]}.log"

    def named() -> list[str]:
        lines = log.read_text().splitlines(keepends=True)  # the last one may still be on its way
        failed = [line for line in lines if '"tier failed, S3 serves"' in line and line.endswith("\n")]
        return [json.loads(line)["xray_trace_id"] for line in failed]

    until(lambda: trace[0]["trace_id"] in named())


def test_an_error_of_s3_is_marked(cloud: LocalCloud) -> None:
    get(cloud, "absent.txt")

    def is_refused(segment: Segment) -> bool:
        return segment["name"] == "s3" and "error" in segment

    trace = first_with(cloud, [_PROXY, "## handler", "s3"], having=is_refused)

    assert [segment["http"]["response"]["status"] for segment in trace if is_refused(segment)] == [404]


_FAILS = """
from burstcache.traces import mark_failed, traces_requests

def handler(event, context):
    mark_failed()
    return "answered"

assert traces_requests(handler)({}, None) == "answered"
"""


def test_a_handler_that_answers_with_a_failure_is_marked() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as daemon:
        daemon.bind(("127.0.0.1", 0))
        daemon.settimeout(LIMIT_S)
        environment = {
            "PYTHONPATH": str(ROOT / "src"),
            "LAMBDA_TASK_ROOT": str(ROOT / "src"),
            "POWERTOOLS_TRACE_DISABLED": "false",
            "AWS_XRAY_DAEMON_ADDRESS": f"127.0.0.1:{daemon.getsockname()[1]}",
            "_X_AMZN_TRACE_ID": "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1",
        }

        subprocess.run([sys.executable, "-c", _FAILS], env=environment, check=True)
        segment = json.loads(daemon.recv(65_536).partition(b"\n")[2])

    assert (segment["name"], segment["parent_id"], segment["fault"]) == ("## handler", "53995c3f42cd8ad8", True)


_IMPORTS = """
import sys
import burstcache.handlers.{name}
assert "aws_xray_sdk" not in sys.modules
"""


@pytest.mark.parametrize("name", ["proxy", "scheduler", "cache", "redis_control"])
def test_no_function_that_is_not_traced_imports_the_x_ray_sdk(name: str) -> None:
    environment = {
        "PYTHONPATH": str(ROOT / "src"),
        "POWERTOOLS_TRACE_DISABLED": "true",
        "AWS_LAMBDA_FUNCTION_NAME": "f",
    }

    subprocess.run([sys.executable, "-c", _IMPORTS.format(name=name)], env=environment, check=True)
