"""The dashboard of a deployed stack in a browser. AWS is moto's, but for X-Ray, which a stub stands for."""

from __future__ import annotations

import datetime
import json
import re
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from moto import mock_aws
from moto.cloudwatch.models import Statistics
from playwright.sync_api import Browser, Route, expect

from burstcache import metrics
from burstcache_cli.stack import find_stack
from burstcache_dashboard.source import source_of
from support.browser import NARROW, mistakes, opened
from support.dashboard import fetch, serving_source
from support.project import ROOT
from support.stack_in_moto import REGION, Aws
from support.waiting import LIMIT_S, until

_HOT, _TRACE = "hot.txt", "1-6b9d8f00-0123456789abcdef01234567"

expect.set_options(timeout=LIMIT_S * 1000)


class XRay:
    """Answers for X-Ray with one trace, and counts the questions."""

    def __init__(self) -> None:
        self.questions: list[str] = []

    def __call__(self, model: Any, **_: Any) -> tuple[Any, dict[str, Any]]:
        self.questions.append(model.name)
        segment = {"id": "a", "name": "mine-ProxyFunction-0123", "start_time": time.time() - 1, "end_time": time.time()}
        answers: dict[str, dict[str, Any]] = {
            "GetTraceSummaries": {"TraceSummaries": [{"Id": _TRACE}]},
            "BatchGetTraces": {"Traces": [{"Id": _TRACE, "Segments": [{"Id": "a", "Document": json.dumps(segment)}]}]},
        }
        return SimpleNamespace(status_code=200), answers[model.name]


_moto_statistic = Statistics.get_statistics_for_type


def statistic_of(values: Statistics, stat: str) -> Any:
    """Return a statistic as CloudWatch does. moto lacks percentiles; those of equal values are any of them."""
    return values.metric_single_values_list[0] if stat.startswith("p") else _moto_statistic(values, stat)


@pytest.fixture(scope="module")
def aws() -> Iterator[Aws]:
    """A stack with a key, a life of it, and an hour's reads in CloudWatch."""
    with pytest.MonkeyPatch.context() as patch, mock_aws(config={"stepfunctions": {"execute_state_machine": True}}):
        patch.setattr(Statistics, "get_statistics_for_type", statistic_of)
        made = Aws()
        made.put_key(_HOT, size_bytes=7)
        made.start_life("hot.txt-0123", on_redis_s=3600)
        made.make_machine("mine-redis-node")
        for tier, reads, latency_ms in (("s3", 4, 40.0), ("redis", 8, 2.0)):
            put_reads(made, tier, reads, latency_ms)
        yield made


@pytest.fixture(scope="module")
def x_ray() -> XRay:
    """Return the stub."""
    return XRay()


@pytest.fixture(scope="module")
def actions() -> set[str]:
    """Collect the dashboard's calls to AWS, named as in policies."""
    return set()


@pytest.fixture(scope="module")
def url(aws: Aws, x_ray: XRay, actions: set[str]) -> Iterator[str]:
    """The address of that stack's dashboard."""

    def note(model: Any, **_: Any) -> None:
        service = {"monitoring": "cloudwatch"}.get(name := model.service_model.signing_name, name)
        actions.add(f"{service}:{model.name}".replace("s3:HeadObject", "s3:GetObject"))  # which permits HEAD

    stack = find_stack(stack_name="mine", region=REGION)
    stack.session.events.register("before-call.xray", x_ray)
    stack.session.events.register("before-parameter-build", note)
    with serving_source(source_of(stack)) as address:
        yield address


def put_reads(aws: Aws, tier: str, count: int, latency_ms: float) -> None:
    """Put what the proxy's metrics say of some reads."""
    at = datetime.datetime.now(datetime.UTC) - datetime.timedelta(hours=1)
    dimensions = [{"Name": metrics.STACK, "Value": "mine"}, {"Name": metrics.LATENCY_MS.dimension, "Value": tier}]
    data = {"MetricName": metrics.LATENCY_MS.name, "Dimensions": dimensions, "Value": latency_ms, "Timestamp": at}
    aws.client("cloudwatch").put_metric_data(Namespace=metrics.NAMESPACE, MetricData=[data] * count)


def test_page_has_the_figures_of_cloudwatch_and_the_rows_of_the_table(browser: Browser, url: str) -> None:
    with opened(browser, url) as page:
        expect(page.locator("#about")).to_have_text(f"mine, {REGION}")
        expect(page.locator("#figures-note")).to_contain_text("from CloudWatch")
        expect(page.get_by_role("table", name="Share and latency by tier")).to_contain_text("66.7 %")
        expect(page.get_by_role("link", name=_HOT)).to_be_visible()
        expect(page.get_by_role("table", name="The bill so far")).to_be_visible()
        expect(page.locator("#connection")).to_have_text("Live")


def test_others_bills_are_for_reads_that_are_spread_over_the_keys(browser: Browser, url: str) -> None:
    with opened(browser, url) as page:
        page.get_by_role("button", name="Compare").click()

        expect(page.get_by_role("table", name="What others would have billed")).to_contain_text("s3-only")
        expect(page.locator("#rivals")).to_contain_text("12 requests in the times that CloudWatch counted them")
        assert mistakes(page) == []


def test_late_trace_of_a_key_that_was_left_is_not_shown(browser: Browser, url: str) -> None:
    with opened(browser, url) as page:
        held: list[Route] = []
        page.route(re.compile("trace"), lambda route: held.append(route))
        page.evaluate(f"location.hash = 'key={_HOT}'")
        until(lambda: page.evaluate("true") and held)
        page.evaluate("location.hash = ''")
        page.evaluate("location.hash = 'key=unknown.txt'")
        expect(page.locator("#key-page")).to_contain_text("Unknown key")

        with page.expect_response(re.compile("trace")):
            held[0].continue_()

        expect(page.locator("#trace")).to_be_empty()


def test_x_ray_is_asked_once_for_an_open_page_and_again_at_a_click(browser: Browser, url: str, x_ray: XRay) -> None:
    x_ray.questions.clear()
    with opened(browser, f"{url}#key={_HOT}") as page:
        expect(page.locator("pre")).to_contain_text("served by")
        trace = page.locator("#trace")
        expect(trace.get_by_role("link", name=_TRACE)).to_have_attribute(
            "href", f"https://{REGION}.console.aws.amazon.com/cloudwatch/home?region={REGION}#xray:traces/{_TRACE}"
        )
        expect(trace.get_by_role("cell", name="proxy")).to_be_visible()
        with page.expect_response(lambda answer: "/key?" in answer.url):
            pass  # the page has asked for the key a second time
        assert x_ray.questions == ["GetTraceSummaries", "BatchGetTraces"]

        with page.expect_response(lambda answer: "/trace?" in answer.url):
            trace.get_by_role("button", name="Read the newest trace").click()

        assert len(x_ray.questions) == 4


def test_page_that_nobody_may_change_a_stack_by_has_no_benchmarks(browser: Browser, url: str) -> None:
    with opened(browser, url) as page:
        expect(page.get_by_role("link", name=_HOT)).to_be_visible()

        expect(page.locator("#benchmarks-section")).to_be_hidden()
        assert fetch(url, "/benchmarks").status == 404


@pytest.mark.parametrize("place", ["", f"#key={_HOT}"])
def test_axe_finds_nothing_on_a_deployed_stack(browser: Browser, url: str, place: str) -> None:
    with opened(browser, url + place, width=NARROW) as page:
        shown = page.get_by_role("cell", name="proxy") if place else page.get_by_role("link", name=_HOT)
        expect(shown).to_be_visible()

        assert mistakes(page) == []
        assert page.evaluate("document.documentElement.scrollWidth") <= NARROW


def test_credentials_need_no_more_than_is_documented(browser: Browser, url: str, actions: set[str]) -> None:
    documented = set(re.findall(r"`([a-z0-9]+:[A-Z]\w+)`", (ROOT / "docs/use/dashboard.md").read_text()))

    with opened(browser, f"{url}#key={_HOT}") as page:
        expect(page.locator("pre")).to_contain_text("served by")
        expect(page.locator("#connection")).to_have_text("Live")

    assert {"dynamodb:Scan", "dynamodb:BatchGetItem", "states:ListExecutions"} <= actions
    assert actions <= documented
