"""Every benchmark's local cloud starts: a setting that the system refuses would make its figures irreproducible."""

from __future__ import annotations

import importlib
import pkgutil

import pytest

import benchmarks
from benchmarks.support.common import Setup
from burstcache_local.cloud import LocalCloud, LocalOptions

SETUPS = {
    f"{module.name}-{index}": setup
    for module in pkgutil.iter_modules(benchmarks.__path__)
    for index, setup in enumerate(getattr(importlib.import_module(f"benchmarks.{module.name}"), "SETUPS", ()))
}


def test_the_benchmarks_that_start_a_cloud_say_how() -> None:
    assert {name.rpartition("-")[0] for name in SETUPS} >= {
        "burst",
        "client",
        "demo",
        "hits",
        "picture",
        "staleness",
        "start_latency",
    }


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.weekly if number else ()) for number, name in enumerate(SETUPS)]
)
def test_a_benchmarks_cloud_starts_and_its_scheduler_accepts_the_policy(name: str) -> None:
    setup: Setup = SETUPS[name]
    options = LocalOptions(parameters=setup.parameters, boot_s=setup.boot_s, stop_s=setup.stop_s)

    with LocalCloud(options) as cloud:
        variables = cloud.function_variables("SchedulerFunction")

    assert variables["POLICY_OVERRIDES"] == setup.overrides
