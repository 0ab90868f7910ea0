"""The dashboard of a stack in trouble: failures, a pause, a table that cannot be read, a server that is gone."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace

import pytest
from moto import mock_aws
from playwright.sync_api import Browser, Page, expect

from burstcache_cli.stack import find_stack
from burstcache_dashboard import app, watching
from burstcache_dashboard.measured import FunctionUse, Measured, TierUse
from burstcache_dashboard.source import Source, source_of
from support.browser import NARROW, WIDE, mistakes, opened
from support.dashboard import fetch, serving_source
from support.stack_in_moto import REGION, TEMPLATE, Aws
from support.waiting import LIMIT_S, until

_KEY = f"cooling/{'0123456789abcdef' * 4}.txt"  # without a place to break it
_SOON_US = 3_600_000_000

expect.set_options(timeout=LIMIT_S * 1000)


class Counted:
    """Measures of a stack in which everything that is counted has failed."""

    def read(self) -> Measured:
        now_s = int(time.time())
        return Measured(
            since_us=(now_s - 3600) * 1_000_000,
            until_us=now_s * 1_000_000,
            tiers={
                "s3": TierUse(400, 4_000_000, 40.0, 38.0, 55.0, 90.0),
                "redis": TierUse(800, 8000, 2.0, 2.0, 3.0, 5.0),
            },
            failed_reads=3,
            fallbacks={"redis_down": 2, "relay_down": 1},
            lives={"failed": 2},
            promotions=1,
            node_s=60.0,
            functions={
                "SchedulerFunction": FunctionUse(1200, 90_000, 256, errors=1200),
                "ProxyFunction": FunctionUse(1200, 9_000, 512, throttles=3),
            },
            series=((now_s - 600, {"s3": 400, "redis": 800}),),
            slot_s=300,
        )

    def reads_of(self, key: str) -> None:
        """Return None, as for a deployed stack."""

    def keys_read_since(self, at_ms: int) -> None:
        """Likewise."""

    def newest_requests(self) -> None:
        """Likewise."""


@pytest.fixture
def aws() -> Iterator[Aws]:
    """A stack with a key and a node that have failed, and with an execution that was stopped."""
    now_us = round(time.time() * 1_000_000)
    with mock_aws():
        made = Aws()
        made.put_key(_KEY, size_bytes=7, failures=2, not_before_us=now_us + _SOON_US, window=[f"{now_us}:a"])
        made.put("NODE#node-1", "NODE", phase="stopped", generation=1, failures=3, not_before_us=now_us + _SOON_US)
        states = made.client("stepfunctions")
        made.make_machine("mine-redis-node")
        machine = made.make_machine("mine-key-lifecycle")
        stopped = states.start_execution(stateMachineArn=machine, name="cooling-0123456789abcdef-7", input="{}")
        states.stop_execution(executionArn=stopped["executionArn"])
        yield made


@pytest.fixture
def source(aws: Aws, monkeypatch: pytest.MonkeyPatch) -> Source:
    """Return the source of that stack."""
    monkeypatch.setattr(watching, "_EVERY_DEPLOYED_S", 0.2)
    stack = find_stack(stack_name="mine", region=REGION)
    queue = aws.client("sqs").create_queue(QueueName="failed-events")["QueueUrl"]
    aws.client("sqs").send_message(QueueUrl=queue, MessageBody="lost")
    outputs: Mapping[str, str] = {**stack.outputs, "FailedEventsQueueUrl": queue}
    vars(stack)["outputs"] = outputs
    return replace(source_of(stack), measures=Counted())


Looks = tuple[tuple[int, bool], ...]  # widths of windows, and whether they are dark


@pytest.fixture(
    params=[((WIDE, False), (NARROW, True)), pytest.param(((WIDE, True), (NARROW, False)), marks=pytest.mark.weekly)],
    ids=str,
)
def looks(request: pytest.FixtureRequest) -> Looks:
    """Return windows of both widths, one in the light and one in the dark."""
    chosen: Looks = request.param
    return chosen


@contextmanager
def looked_at(browser: Browser, url: str, looks: Looks, *, may_lack_answers: bool = False) -> Iterator[list[Page]]:
    """Open a page in several windows."""
    with ExitStack() as windows:
        yield [
            windows.enter_context(opened(browser, url, width=width, is_dark=is_dark, may_lack_answers=may_lack_answers))
            for width, is_dark in looks
        ]


def check(page: Page) -> None:
    """Let axe-core look at a page, which must be no wider than its window."""
    assert mistakes(page) == []
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0


def test_all_that_can_fail_is_named(browser: Browser, source: Source, looks: Looks) -> None:
    with serving_source(source) as url, looked_at(browser, url, looks) as pages:
        for page in pages:
            failed = page.get_by_role("table", name="What failed")
            for what in (
                "answered with an error (5xx): 3 reads",
                "2 reads fell back to a lower tier: Redis was unreachable",
                "SchedulerFunction: 1,200 of 1,200 invocations failed",
                "ProxyFunction: 3 invocations throttled",
                "queue FailedEvents: 1 event that a function failed on",
                "node node-1: 3 failed boots in a row",
                "execution cooling-0123456789abcdef-7 ended as ABORTED",
            ):
                expect(failed).to_contain_text(what)
            expect(page.get_by_role("table", name="Nodes")).to_contain_text(
                "cools down after 3 failed boots; off until"
            )
            expect(page.locator("#keys").get_by_role("row").filter(has_text=_KEY)).to_contain_text("S3 (cooling down)")
            check(page)


@pytest.mark.parametrize("until_s", [0, 3600])
def test_a_pause_is_shown_with_its_reason(browser: Browser, source: Source, looks: Looks, until_s: int) -> None:
    until_us = round((time.time() + until_s) * 1_000_000) if until_s else 0
    pauses, reason = source.system.pauses, "the month's budget of 20 USD is spent"
    pauses.begin_until(until_us, reason) if until_us else pauses.begin(reason)

    with serving_source(source) as url, looked_at(browser, url, looks) as pages:
        for page in pages:
            until = r"until [\d:/ ]+" if until_s else ""
            said = rf"^Paused since [\d:/ ]+{until}: the month's .* spent\. Nothing starts; S3 serves every key\.$"
            expect(page.locator("#on")).to_have_text(re.compile(said))
            check(page)


def test_what_cannot_be_read_is_named_where_it_belongs_and_all_else_is_shown(
    browser: Browser, source: Source, looks: Looks, aws: Aws
) -> None:
    def read() -> Measured:
        raise PermissionError(f"not authorized to perform GetMetricData on {'0123456789abcdef' * 4}")

    aws.client("sqs").delete_queue(QueueUrl=source.stack.outputs["FailedEventsQueueUrl"])
    measures = Counted()
    measures.read = read  # type: ignore[method-assign]

    with serving_source(replace(source, measures=measures)) as url, looked_at(browser, url, looks) as pages:
        for page in pages:
            expect(page.locator("#connection")).to_have_text("Live")
            expect(page.locator("#keys").get_by_role("row").filter(has_text=_KEY)).to_be_visible()
            expect(page.get_by_role("table", name="What failed")).to_contain_text("ended as ABORTED")
            for place in ("on", "reads", "failed", "bill"):
                figures = re.compile(r"Since [\d:/ ]+ not readable: figures: PermissionError: not authorized")
                expect(page.locator(f"#{place}-trouble")).to_have_text(figures)
            expect(page.locator("#failed-trouble")).to_contain_text("not readable: queues: QueueDoesNotExist")
            check(page)


@pytest.mark.parametrize("place", ["", f"#key={_KEY}"])
def test_a_table_that_is_gone_is_shown_with_since_when(
    browser: Browser, source: Source, looks: Looks, aws: Aws, place: str
) -> None:
    with serving_source(source) as url, looked_at(browser, url + place, looks, may_lack_answers=True) as pages:
        for page in pages:
            expect(page.locator("#connection")).to_have_text("Live")
            if place:
                expect(page.get_by_role("heading", name="Why it is there")).to_be_visible()

        aws.client("dynamodb").delete_table(TableName=aws.table_name)

        for page in pages:
            expect(page.locator("#connection")).to_have_text(
                re.compile(r"Since [\d:/ ]+ not readable: .*ResourceNotFound")
            )
            since = page.locator("#connection").inner_text().partition(" not readable")[0]
            check(page)
            expect(page.locator("#connection")).to_contain_text(since)


def test_a_page_that_opens_when_the_stack_is_gone_says_so(
    browser: Browser, source: Source, looks: Looks, aws: Aws
) -> None:
    aws.client("cloudformation").delete_stack(StackName="mine")

    with serving_source(source) as url, looked_at(browser, url, looks, may_lack_answers=True) as pages:
        for page in pages:
            expect(page.locator("#connection")).to_have_text(
                re.compile(r"Since [\d:/ ]+ not readable: --stack-name mine: there is no such stack")
            )
            check(page)


@pytest.mark.parametrize("place", ["", f"#key={_KEY}"])
def test_a_server_that_is_gone_is_shown(browser: Browser, source: Source, looks: Looks, place: str) -> None:
    with ExitStack() as server:
        url = server.enter_context(serving_source(source))
        with looked_at(browser, url + place, looks, may_lack_answers=True) as pages:
            for page in pages:
                expect(page.locator("#connection")).to_have_text("Live")

            server.close()

            for page in pages:
                expect(page.locator("#connection")).to_contain_text("the dashboard's server does not answer")
                check(page)


def hide(page: Page, *, is_hidden: bool) -> None:
    """Let a page believe that its tab is in the background, or back."""
    page.evaluate("hidden => Object.defineProperty(document, 'hidden', {value: hidden, configurable: true})", is_hidden)
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")


@pytest.mark.parametrize("place", ["", f"#key={_KEY}"])
def test_nothing_is_read_for_a_page_that_nobody_sees(browser: Browser, source: Source, aws: Aws, place: str) -> None:
    server = serving_source(source)
    with server as url, opened(browser, url + place, may_lack_answers=True) as page:  # moto has no X-Ray
        expect(page.locator("#connection")).to_have_text("Live")

        hide(page, is_hidden=True)
        until(lambda: page.evaluate("true") and not server.watching.is_followed)
        expect(page.locator("#connection")).to_have_text("Paused while this page is hidden")
        source.system.pauses.begin("by hand")
        hide(page, is_hidden=False)

        expect(page.locator("#connection")).to_have_text("Live")
        expect(page.locator("#on")).to_contain_text("Paused since")


def test_a_page_of_another_server_at_the_same_address_is_loaded_anew(browser: Browser, source: Source) -> None:
    with serving_source(source) as url, opened(browser, url) as page:
        expect(page.locator("#about")).to_contain_text("mine")
        expect(page.locator("#connection")).to_have_text("Live")
        other = {"stack": "yours", "region": REGION, "isLocal": False, "policy": "", "isTraced": False, "states": []}
        page.route("**/about", lambda route: route.fulfill(json=other))

        for is_hidden in (True, False):
            hide(page, is_hidden=is_hidden)

        expect(page.locator("#about")).to_contain_text("yours")


def test_page_of_a_stack_that_was_updated_is_loaded_anew(
    browser: Browser, source: Source, aws: Aws, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "_STACK_EVERY_S", 0.0)
    with serving_source(source) as url, opened(browser, url) as page:
        expect(page.locator("#about")).to_have_text(f"mine, {REGION}")
        expect(page.locator("#connection")).to_have_text("Live")
        parameters = {"Policy": {"Type": "String", "Default": "breakeven"}}

        aws.update({**TEMPLATE, "Parameters": parameters})

        expect(page.locator("#about")).to_have_text(f"mine, {REGION}, policy breakeven")


def test_server_that_ends_does_not_wait_for_a_comparison(source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, may_end, threads = threading.Event(), threading.Event(), []

    def compare(*_: object) -> dict[str, object]:
        threads.append(threading.current_thread())
        begun.set()
        may_end.wait(LIMIT_S)
        may_end.set()
        return {}

    monkeypatch.setattr(app, "rivals_of", compare)
    with ThreadPoolExecutor(1) as pool:
        with serving_source(source) as url:
            answer = pool.submit(fetch, url, "/rivals")
            assert begun.wait(LIMIT_S)
        was_waited_for = may_end.is_set()
        may_end.set()

    assert not was_waited_for
    assert answer.result().status == 503
    assert [thread.daemon for thread in threads] == [True], "Python waits for all others when it ends"
