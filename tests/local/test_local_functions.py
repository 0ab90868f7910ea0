"""The Lambda service of the local cloud, with real processes under AWS's runtime client."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from burstcache_local.errors import FunctionNotFoundError, TenantError, ThrottledError
from burstcache_local.functions import EventInvokeConfig, FunctionSpec
from burstcache_local.lambdas.limits import LambdaLimits
from burstcache_local.lambdas.service import Lambdas
from support.servers import freeze
from support.waiting import LIMIT_S, eventually

CODE = """
import glob, json, os, sys, time, urllib.request

calls = 0

def handler(event, context):
    global calls
    calls += 1
    match event.get("do"):
        case "raise": raise KeyError("missing")
        case "exit": os._exit(7)
        case "sleep": time.sleep(event["s"])
        case "meet":
            open(f"{os.getpid()}.here", "w").close()
            while len(glob.glob("*.here")) < event["count"]: time.sleep(0.01)
        case "large": return "x" * event["bytes"]
        case "print": print(event["text"])
    return {
        "calls": calls, "pid": os.getpid(), "id": context.aws_request_id, "memory": context.memory_limit_in_mb,
        "tenant": context.tenant_id,
        "left_ms": context.get_remaining_time_in_millis(), "secret": os.environ.get("SECRET"), "cwd": os.getcwd(),
    }
"""

TIMEOUTS_S = {"app": LIMIT_S, "broken": LIMIT_S, "hasty": 3, "life": 900, "tenants": LIMIT_S}  # by function

Scenario = Callable[[Lambdas], Coroutine[Any, Any, None]]


class Bench:
    """Runs a scenario against functions of one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.sent = folder, list[tuple[str, dict[str, Any]]]()
        (folder / "app.py").write_text(CODE)
        (folder / "broken.py").write_text("raise ValueError('at import')")

    def run(self, scenario: Scenario, config: EventInvokeConfig | None = None, **limits: Any) -> None:
        async def work() -> None:
            lambdas = Lambdas(
                resolve=self._resolver(config or EventInvokeConfig()),
                send=self._send,
                logs=self.folder,
                limits=LambdaLimits(**{"retry_delays_s": (0.05,), "throttle_delay_s": 0.05, **limits}),
            )
            try:
                await asyncio.wait_for(scenario(lambdas), LIMIT_S)
            finally:
                await lambdas.close()

        asyncio.run(work())

    def _resolver(self, config: EventInvokeConfig) -> Callable[[str], Coroutine[Any, Any, Any]]:
        async def resolve(name: str) -> tuple[FunctionSpec, EventInvokeConfig]:
            if name not in TIMEOUTS_S:
                raise FunctionNotFoundError(f"Function not found: {name}")
            arn = f"arn:aws:lambda:eu-central-1:123456789012:function:{name}"
            module = "broken" if name == "broken" else "app"
            spec = FunctionSpec(
                name=name,
                arn=arn,
                handler=f"{module}.handler",
                timeout_s=TIMEOUTS_S[name],
                memory_mb=128,
                root=self.folder,
                variables={"SECRET": "s"},
                is_tenant_isolated=name == "tenants",
            )
            return spec, config

        return resolve

    async def _send(self, function: str, queue_arn: str, message: str) -> None:
        assert function in TIMEOUTS_S
        self.sent.append((queue_arn, json.loads(message)))


@pytest.fixture
def bench(folder: Path) -> Bench:
    return Bench(folder)


async def ask(lambdas: Lambdas, name: str = "app", *, tenant: str = "", **event: Any) -> Any:
    outcome = await lambdas.invoke(name, json.dumps(event).encode(), tenant_id=tenant)
    await lambdas.at_rest()
    return json.loads(outcome.body)


def test_a_warm_environment_is_used_again_and_knows_its_context(bench: Bench) -> None:
    async def scenario(lambdas: Lambdas) -> None:
        first, second = await ask(lambdas), await ask(lambdas)

        assert (first["calls"], second["calls"]) == (1, 2)
        assert first["pid"] == second["pid"]
        assert first["id"] != second["id"]
        assert "/" not in first["id"]
        assert (second["memory"], second["secret"]) == ("128", "s")
        assert TIMEOUTS_S["app"] / 2 < second["left_ms"] / 1000 <= TIMEOUTS_S["app"]
        assert second["cwd"] == str(bench.folder)

    bench.run(scenario)


def test_invocations_at_once_run_in_environments_of_their_own(bench: Bench) -> None:
    async def scenario(lambdas: Lambdas) -> None:
        answers = await asyncio.gather(*(ask(lambdas, do="meet", count=5) for _ in range(5)))

        assert len({answer["pid"] for answer in answers}) == 5

    bench.run(scenario)


def test_a_cold_start_that_is_lost_is_an_error_and_the_next_one_succeeds(bench: Bench) -> None:
    async def scenario(lambdas: Lambdas) -> None:
        await lambdas.start()
        forks = lambdas.environments._forks
        zygote = forks.zygote_pid
        assert zygote
        freeze(zygote)
        lost = asyncio.ensure_future(lambdas.invoke("app", b"{}"))
        await eventually(lambda: bool(forks._pending))

        os.kill(zygote, signal.SIGKILL)

        assert json.loads((await lost).body)["errorType"] == "Runtime.ExitError"
        assert (await ask(lambdas))["calls"] == 1

    bench.run(scenario)


def test_an_invocation_takes_an_environment_that_becomes_free_before_another_may_start(bench: Bench) -> None:
    async def scenario(lambdas: Lambdas) -> None:
        answers = await asyncio.gather(*(ask(lambdas, n=number) for number in range(60)))

        assert sum(answer["calls"] == 1 for answer in answers) == len(lambdas.environments.all) < 60
        assert (await ask(lambdas))["calls"] > 1

    bench.run(scenario, environments=60)


def test_an_environment_serves_one_tenant_and_a_busy_tenant_gets_another(bench: Bench) -> None:
    async def scenario(lambdas: Lambdas) -> None:
        first, second = await ask(lambdas, "tenants", tenant="a"), await ask(lambdas, "tenants", tenant="b")
        again = await ask(lambdas, "tenants", tenant="a")
        busy = await asyncio.gather(*(ask(lambdas, "tenants", tenant="a", do="meet", count=2) for _ in range(2)))

        assert [answer["tenant"] for answer in (first, second, again)] == ["a", "b", "a"]
        assert first["pid"] == again["pid"] != second["pid"]
        assert len({answer["pid"] for answer in busy}) == 2
        assert second["pid"] not in {answer["pid"] for answer in busy}

    bench.run(scenario)


@pytest.mark.parametrize(("name", "tenant"), [("tenants", ""), ("app", "a")])
def test_a_tenant_is_given_where_there_are_tenants_and_nowhere_else(bench: Bench, name: str, tenant: str) -> None:
    async def scenario(lambdas: Lambdas) -> None:
        with pytest.raises(TenantError, match="tenancy configuration"):
            await lambdas.invoke(name, b"{}", tenant_id=tenant)
        with pytest.raises(TenantError, match="tenancy configuration"):
            await lambdas.invoke_event(name, b"{}", request_id="r-1", tenant_id=tenant)

    bench.run(scenario)


def test_an_error_names_its_class_and_leaves_the_environment(bench: Bench) -> None:
    async def scenario(lambdas: Lambdas) -> None:
        outcome = await lambdas.invoke("app", b'{"do": "raise"}')
        error = json.loads(outcome.body)
        await lambdas.at_rest()

        assert (outcome.error, error["errorType"], error["errorMessage"]) == ("Unhandled", "KeyError", "'missing'")
        assert (await ask(lambdas))["calls"] == 2

    bench.run(scenario)


@pytest.mark.parametrize(
    ("name", "event", "error_type", "message"),
    [
        ("app", {"do": "exit"}, "Runtime.ExitError", "Runtime exited with error: exit status 7"),
        ("hasty", {"do": "sleep", "s": 1000}, "Sandbox.Timedout", "Task timed out after 3.00 seconds"),
    ],
)
def test_a_lost_environment_is_replaced(
    bench: Bench, name: str, event: dict[str, Any], error_type: str, message: str
) -> None:
    async def scenario(lambdas: Lambdas) -> None:
        error = await ask(lambdas, name, **event)

        assert error["errorType"] == error_type
        assert message in error["errorMessage"]
        assert (await ask(lambdas, name))["calls"] == 1

    bench.run(scenario)


@pytest.mark.parametrize(
    ("name", "event", "is_failed"),
    [
        ("app", {}, False),
        ("app", {"do": "raise"}, True),
        ("app", {"do": "exit"}, True),
        ("hasty", {"do": "sleep", "s": 1000}, True),
        ("broken", {}, True),
    ],
)
def test_a_report_says_whether_its_invocation_failed(
    bench: Bench, name: str, event: dict[str, Any], is_failed: bool
) -> None:
    async def scenario(lambdas: Lambdas) -> None:
        await ask(lambdas, name, **event)

    bench.run(scenario)

    (report,) = re.findall("^REPORT .*", (bench.folder / f"{name}.log").read_text(), re.MULTILINE)
    assert ("\tStatus: error\t" in report) == is_failed


def test_an_environment_that_dies_idle_is_not_used_again(bench: Bench) -> None:
    async def scenario(lambdas: Lambdas) -> None:
        os.kill((await ask(lambdas))["pid"], signal.SIGKILL)
        await eventually(lambda: any(environment.is_lost for environment in lambdas.environments.all))

        assert (await ask(lambdas))["calls"] == 1

    bench.run(scenario)


def test_an_import_that_fails_is_reported_as_an_error(bench: Bench) -> None:
    async def scenario(lambdas: Lambdas) -> None:
        error = await ask(lambdas, "broken")

        assert (error["errorType"], error["errorMessage"]) == ("ValueError", "at import")

    bench.run(scenario)


def test_a_response_above_6_mb_is_an_error_and_one_below_is_not(bench: Bench) -> None:
    async def scenario(lambdas: Lambdas) -> None:
        large, allowed = (
            await ask(lambdas, do="large", bytes=6_300_000),
            await ask(lambdas, do="large", bytes=6_000_000),
        )

        assert large["errorType"] == "Function.ResponseSizeTooLarge"
        assert len(allowed) == 6_000_000

    bench.run(scenario)


def test_invocations_beyond_the_accounts_concurrency_are_throttled(bench: Bench) -> None:
    async def scenario(lambdas: Lambdas) -> None:
        running = [asyncio.ensure_future(ask(lambdas, do="meet", count=3)) for _ in range(2)]
        await asyncio.sleep(0)  # both have begun

        with pytest.raises(ThrottledError):
            await lambdas.invoke("app", b"{}")
        (bench.folder / "third.here").touch()
        await asyncio.gather(*running)
        assert (await ask(lambdas))["calls"] == 2

    bench.run(scenario, concurrency=2)


def test_invocations_beyond_a_functions_environments_wait_for_their_turn(bench: Bench) -> None:
    async def scenario(lambdas: Lambdas) -> None:
        answers = await asyncio.gather(*(ask(lambdas, n=number) for number in range(20)))

        assert len({answer["pid"] for answer in answers}) == 2
        assert sum(answer["calls"] == 1 for answer in answers) == 2

    bench.run(scenario, environments=2)


def test_an_invocation_whose_turn_does_not_come_within_the_functions_time_limit_is_throttled(bench: Bench) -> None:
    async def scenario(lambdas: Lambdas) -> None:
        await ask(lambdas, "hasty")
        running = asyncio.ensure_future(ask(lambdas, "hasty", do="sleep", s=2))
        next_one = asyncio.ensure_future(ask(lambdas, "hasty", do="sleep", s=2))
        await asyncio.sleep(0)

        with pytest.raises(ThrottledError, match="1 environments of hasty are busy"):
            await ask(lambdas, "hasty")

        assert ((await running)["calls"], (await next_one)["calls"]) == (2, 3)
        assert (await ask(lambdas, "hasty"))["calls"] == 4

    bench.run(scenario, environments=1)


def test_the_room_of_a_lost_environment_goes_to_the_next_invocation(bench: Bench) -> None:
    async def scenario(lambdas: Lambdas) -> None:
        lost, answer = await asyncio.gather(ask(lambdas, do="exit"), ask(lambdas))

        assert (lost["errorType"], answer["calls"]) == ("Runtime.ExitError", 1)

    bench.run(scenario, environments=1)


def test_an_invocation_whose_caller_is_gone_goes_on_and_leaves_its_environment(bench: Bench) -> None:
    async def scenario(lambdas: Lambdas) -> None:
        gone = asyncio.ensure_future(ask(lambdas, do="meet", count=2))
        await eventually(lambda: list(bench.folder.glob("*.here")))
        gone.cancel()
        (bench.folder / "other.here").touch()

        assert (await ask(lambdas))["calls"] == 2

    bench.run(scenario, environments=1)


def test_functions_with_lambdas_longest_time_limit_never_wait_for_a_turn(bench: Bench) -> None:
    async def scenario(lambdas: Lambdas) -> None:
        answers = await asyncio.gather(*(ask(lambdas, "life", do="meet", count=3) for _ in range(3)))

        assert len({answer["pid"] for answer in answers}) == 3

    bench.run(scenario, environments=1)


def test_an_idle_environment_goes(bench: Bench) -> None:
    async def scenario(lambdas: Lambdas) -> None:
        pid = (await ask(lambdas))["pid"]

        await eventually(lambda: not Path(f"/proc/{pid}").exists())
        assert (await ask(lambdas))["calls"] == 1

    bench.run(scenario, idle_s=0.1)


def test_an_event_is_tried_again_and_then_goes_to_its_destination(bench: Bench) -> None:
    config = EventInvokeConfig(max_retries=1, on_failure_arn="arn:aws:sqs:eu-central-1:123456789012:failed")

    async def scenario(lambdas: Lambdas) -> None:
        await lambdas.invoke_event("app", b'{"do": "raise", "n": 1}', request_id="r-1")
        await eventually(lambda: bool(bench.sent))

    bench.run(scenario, config)

    ((queue, record),) = bench.sent
    assert queue == config.on_failure_arn
    assert record["requestContext"]["condition"] == "RetriesExhausted"
    assert record["requestContext"]["approximateInvokeCount"] == 2
    assert record["requestContext"]["requestId"] == "r-1"
    assert record["requestPayload"] == {"do": "raise", "n": 1}
    assert record["responsePayload"]["errorType"] == "KeyError"


def test_an_event_without_retries_is_tried_once(bench: Bench) -> None:
    async def scenario(lambdas: Lambdas) -> None:
        await ask(lambdas)
        await lambdas.invoke_event("app", b'{"do": "raise"}', request_id="r-1")
        await eventually(lambda: "KeyError" in (bench.folder / "app.log").read_text())
        await lambdas.at_rest()
        assert (await ask(lambdas))["calls"] == 3

    bench.run(scenario, EventInvokeConfig(max_retries=0))
    assert bench.sent == []


def test_a_throttled_event_waits_until_it_is_too_old(bench: Bench) -> None:
    config = EventInvokeConfig(max_age_s=1, on_failure_arn="arn:aws:sqs:eu-central-1:123456789012:failed")

    async def scenario(lambdas: Lambdas) -> None:
        await lambdas.invoke_event("app", b"{}", request_id="r-1")
        await eventually(lambda: bool(bench.sent))

    bench.run(scenario, config, concurrency=0)

    assert bench.sent[0][1]["requestContext"]["condition"] == "EventAgeExceeded"
    assert bench.sent[0][1]["requestContext"]["approximateInvokeCount"] == 0


def test_an_unknown_function_is_not_found(bench: Bench) -> None:
    async def scenario(lambdas: Lambdas) -> None:
        with pytest.raises(FunctionNotFoundError, match="nobody"):
            await lambdas.invoke("arn:aws:lambda:eu-central-1:123456789012:function:nobody", b"{}")

    bench.run(scenario)


def test_what_a_function_prints_is_in_its_log_between_start_and_report(bench: Bench) -> None:
    async def scenario(lambdas: Lambdas) -> None:
        await ask(lambdas, do="print", text="a line")

    bench.run(scenario)

    lines = (bench.folder / "app.log").read_text().splitlines()
    kinds = [
        next((kind for kind in ("START", "a line", "END", "REPORT") if line.startswith(kind)), "") for line in lines
    ]
    assert kinds == ["START", "a line", "END", "REPORT"]
    assert "Init Duration" in lines[-1]


def test_closing_ends_running_environments_too(bench: Bench) -> None:
    pids: list[int] = []

    async def scenario(lambdas: Lambdas) -> None:
        pids.append((await ask(lambdas))["pid"])
        slow = asyncio.ensure_future(lambdas.invoke("app", b'{"do": "sleep", "s": 1000}'))
        await eventually(lambda: (bench.folder / "app.log").read_text().count("START") == 2)
        slow.cancel()

    bench.run(scenario)

    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)


def test_environments_that_stand_ready_take_invocations_without_a_cold_start(bench: Bench) -> None:
    async def scenario(lambdas: Lambdas) -> None:
        spec, _ = await lambdas.function("app")
        await lambdas.environments.provision(spec, 2)
        before = lambdas.environments.all

        await asyncio.gather(ask(lambdas), ask(lambdas))

        assert len(before) == 2
        assert lambdas.environments.all == before

    bench.run(scenario)
