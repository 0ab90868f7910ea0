"""Environments of tenants are reclaimed as Lambda does it: at random, never in the middle of an invocation."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from pathlib import Path
from random import Random
from typing import Any

import pytest

from burstcache_local.functions import EventInvokeConfig, FunctionSpec
from burstcache_local.lambdas.limits import LambdaLimits
from burstcache_local.lambdas.reclaims import ReclaimPattern, run_reclaims
from burstcache_local.lambdas.service import Lambdas
from support.waiting import LIMIT_S, eventually

_CODE = """
import os, time

def handler(event, context):
    while event.get("until") and not os.path.exists(event["until"]):
        time.sleep(0.01)
    return os.getpid()
"""

Scenario = Callable[[Lambdas], Coroutine[Any, Any, None]]


@pytest.mark.parametrize("text", ["poisson:2.28", "zipf:3.23"])
def test_pattern_leaves_all_alone_as_often_as_its_distribution(text: str) -> None:
    pattern, chance = ReclaimPattern.from_text(text), Random(7)

    counts = [pattern.in_a_minute(400, chance) for _ in range(5_000)]

    quiet = {"poisson:2.28": 0.102, "zipf:3.23": 0.863}[text]  # e^-2.28; 1 / zeta(3.23)
    assert counts.count(0) / len(counts) == pytest.approx(quiet, abs=0.02)
    assert pattern.in_a_minute(0, chance) == 0


@pytest.mark.parametrize("text", ["", "poisson", "poisson:", "poisson:0", "zipf:-1", "zipf:nan", "normal:3"])
def test_other_patterns_are_refused_with_what_is_accepted(text: str) -> None:
    with pytest.raises(ValueError, match="expected"):
        ReclaimPattern.from_text(text)


def _run(folder: Path, scenario: Scenario) -> None:
    """Run a scenario against a function with tenant isolation."""
    (folder / "app.py").write_text(_CODE)

    async def resolve(name: str) -> tuple[FunctionSpec, EventInvokeConfig]:
        arn = f"arn:aws:lambda:eu-central-1:123456789012:function:{name}"
        spec = FunctionSpec(name, arn, "app.handler", LIMIT_S, 128, folder, {}, is_tenant_isolated=True)
        return spec, EventInvokeConfig()

    async def send(function: str, queue_arn: str, message: str) -> None:
        raise AssertionError(message)

    async def work() -> None:
        lambdas = Lambdas(resolve=resolve, send=send, logs=folder, limits=LambdaLimits())
        try:
            await scenario(lambdas)
        finally:
            await lambdas.close()

    asyncio.run(work())


async def _ask(lambdas: Lambdas, tenant: str, **event: Any) -> int:
    """Return the process that answered."""
    return int((await lambdas.invoke("members", json.dumps(event).encode(), tenant_id=tenant)).body)


def test_reclaimed_tenants_get_new_environments_and_the_others_keep_theirs(tmp_path: Path) -> None:
    async def scenario(lambdas: Lambdas) -> None:
        tenants = ["pool-0", "pool-1", "pool-2"]
        before = {tenant: await _ask(lambdas, tenant) for tenant in tenants}
        await lambdas.at_rest()

        reclaimed = lambdas.environments.reclaim(2, Random(7))

        after = {tenant: await _ask(lambdas, tenant) for tenant in tenants}
        assert len(set(reclaimed)) == 2
        assert {tenant for tenant in tenants if after[tenant] != before[tenant]} == set(reclaimed)

    _run(tmp_path, scenario)


def test_busy_environment_ends_after_its_invocation(tmp_path: Path) -> None:
    async def scenario(lambdas: Lambdas) -> None:
        busy = asyncio.create_task(_ask(lambdas, "pool-0", until=str(tmp_path / "go")))
        await eventually(lambda: lambdas.environments.of_tenants == 1)

        assert lambdas.environments.reclaim(9, Random(7)) == ["pool-0"]
        assert lambdas.environments.reclaim(9, Random(7)) == []
        assert lambdas.environments.of_tenants == 0
        (tmp_path / "go").touch()

        first = await busy
        await lambdas.at_rest()
        assert lambdas.environments.all == frozenset()
        assert await _ask(lambdas, "pool-0") != first

    _run(tmp_path, scenario)


def test_reclaims_go_on_minute_by_minute_and_are_logged(tmp_path: Path) -> None:
    async def scenario(lambdas: Lambdas) -> None:
        await _ask(lambdas, "pool-0")
        await lambdas.at_rest()
        log, pattern = tmp_path / "reclaims.log", ReclaimPattern.from_text("poisson:3")

        reclaims = asyncio.create_task(run_reclaims(pattern, lambdas, log, every_s=0.01))
        await eventually(lambda: log.exists() and bool(log.read_text()))
        reclaims.cancel()

        assert log.read_text().endswith("Z reclaimed pool-0\n")

    _run(tmp_path, scenario)
