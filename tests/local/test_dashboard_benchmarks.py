"""The dashboard's benchmarks: started by a button, followed, cancelled, and out of reach for anybody but the page."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page, expect

from burstcache_dashboard.benchmarks import Benchmarks, Offer
from burstcache_local.cloud import LocalCloud, LocalOptions
from support.browser import NARROW, WIDE, mistakes, opened
from support.dashboard import fetch, serving
from support.waiting import LIMIT_S, until

SHORT = Offer("results_places", "Thumbnails", "Rosa 2022", "a moment", ("--runs", "2"))
LONG = Offer("results_places", "Thumbnails", "Rosa 2022", "minutes", ("--runs", "100"))
LOAD = Offer(
    "results_load", "Load", "Rosa 2022", "a moment", ("--requests", "10", "--rounds", "1", "--rate-for-s", "0.6")
)
STUDENTS = Offer("state_students", "Students", "Kumar 2022", "a moment", ("--times", "1"))
WRONG = Offer("state_operations", "Strings", "Kumar 2022", "no time", ("--invocations", "many"))

expect.set_options(timeout=LIMIT_S * 1000)


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCloud]:
    with LocalCloud(LocalOptions(run_dir=tmp_path_factory.mktemp("logs"))) as running:
        yield running


@pytest.fixture
def benchmarks() -> Benchmarks:
    return Benchmarks((LONG, WRONG))


@pytest.fixture
def url(cloud: LocalCloud, benchmarks: Benchmarks, tmp_path: Path) -> Iterator[str]:
    with serving(cloud, tmp_path, benchmarks) as address:
        yield address


def run(page: Page, offer: Offer) -> None:
    # By the keyboard: a row that comes meanwhile moves what the mouse is pressed on before it is released.
    page.get_by_role("button", name=f"Run: {offer.title}").press("Enter")


def own(url: str, benchmarks: Benchmarks) -> dict[str, str]:
    """Return the headers by which the page is known."""
    return {"Origin": f"http://{urlsplit(url).netloc}", "X-Burstcache-Token": benchmarks.token}


def is_gone(process_id: int) -> bool:
    """Return whether a benchmark has left no process in its group."""
    try:
        os.killpg(process_id, 0)
    except ProcessLookupError:
        return True
    return False


@pytest.mark.parametrize("benchmarks", [Benchmarks((SHORT,))])
def test_a_benchmark_ends_as_a_table_and_a_picture_with_what_was_published(browser: Browser, url: str) -> None:
    with opened(browser, f"{url}benchmarks") as page:
        run(page, SHORT)
        expect(page.locator("#benchmarking")).to_have_text("Thumbnails: done.")

        row = page.get_by_role("table", name="Thumbnails").get_by_role("row").filter(has_text="18,617 bytes")
        expect(row.filter(has_text="without cache")).to_contain_text("36.8")
        picture = page.get_by_role("img", name="Thumbnails: the values")
        picture.scroll_into_view_if_needed()
        page.wait_for_function("image => image.complete && image.naturalWidth > 0", arg=picture.element_handle())
        assert mistakes(page) == []

    for width, is_dark in ((NARROW, False), (NARROW, True), (WIDE, True)):
        with opened(browser, f"{url}benchmarks", width=width, is_dark=is_dark) as page:
            expect(page.get_by_role("table", name="Thumbnails")).to_be_visible()
            assert mistakes(page) == []
            assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.weekly
@pytest.mark.parametrize(
    ("benchmarks", "offer", "cells"),
    [
        (Benchmarks((LOAD,)), LOAD, ("5 clients, 10 each", "Rosa 2022, each computed")),
        (Benchmarks((STUDENTS,)), STUDENTS, ("20 of 20", "1 of 1")),
    ],
)
def test_a_load_and_a_workflow_end_as_a_table_and_a_picture_as_well(
    browser: Browser, url: str, offer: Offer, cells: tuple[str, str]
) -> None:
    with opened(browser, f"{url}benchmarks") as page:
        run(page, offer)
        expect(page.locator("#benchmarking")).to_have_text(f"{offer.title}: done.")

        for cell in cells:
            expect(page.get_by_role("table", name=offer.title)).to_contain_text(cell)
        expect(page.get_by_role("img", name=f"{offer.title}: the values")).to_be_visible()
        assert mistakes(page) == []


def test_a_benchmark_says_how_far_it_is_and_is_cancelled(browser: Browser, url: str, benchmarks: Benchmarks) -> None:
    with opened(browser, f"{url}benchmarks") as page:
        run(page, LONG)
        expect(page.get_by_role("progressbar", name="Thumbnails")).to_have_attribute("max", "15")
        expect(page.get_by_role("button", name="Run: Strings")).to_be_disabled()
        assert mistakes(page) == []

        page.get_by_role("button", name="Cancel: Thumbnails").click()

        expect(page.locator("#benchmarking")).to_have_text("Thumbnails: cancelled.")
        expect(page.get_by_role("button", name="Run: Strings")).to_be_enabled()
        until(lambda: is_gone(benchmarks.process_ids[LONG.name]))


def test_a_benchmark_that_fails_shows_its_exit_code_and_its_last_lines(browser: Browser, url: str) -> None:
    with opened(browser, f"{url}benchmarks") as page:
        run(page, WRONG)

        expect(page.locator("#benchmarks")).to_contain_text("failed with exit code 2")
        lines = page.get_by_role("region", name="Last lines of Strings")
        expect(lines).to_contain_text("argument --invocations: invalid int value: 'many'")
        assert mistakes(page) == []


def test_one_benchmark_runs_at_a_time(url: str, benchmarks: Benchmarks) -> None:
    headers = own(url, benchmarks)

    statuses = [
        fetch(url, f"/benchmarks/{name}", method="POST", **headers).status for name in (LONG.name, WRONG.name, "other")
    ]

    assert statuses == [202, 409, 404]


def test_a_benchmark_ends_with_the_server(cloud: LocalCloud, benchmarks: Benchmarks, tmp_path: Path) -> None:
    with serving(cloud, tmp_path, benchmarks) as url:
        assert fetch(url, f"/benchmarks/{LONG.name}", method="POST", **own(url, benchmarks)).status == 202
        assert not is_gone(benchmarks.process_ids[LONG.name])

    until(lambda: is_gone(benchmarks.process_ids[LONG.name]))


@pytest.mark.parametrize("method", ["POST", "DELETE"])
@pytest.mark.parametrize("wrong", [{"Origin": "http://elsewhere.example"}, {"Origin": ""}, {"X-Burstcache-Token": "x"}])
def test_other_sites_start_and_end_nothing(
    url: str, benchmarks: Benchmarks, method: str, wrong: dict[str, str]
) -> None:
    headers = own(url, benchmarks) | wrong

    assert fetch(url, f"/benchmarks/{LONG.name}", method=method, **headers).status == 403
    assert benchmarks.process_ids == {}


def test_a_page_that_offers_no_benchmarks_starts_none(browser: Browser, cloud: LocalCloud, tmp_path: Path) -> None:
    with serving(cloud, tmp_path) as url, opened(browser, url) as page:
        expect(page.locator("#on")).to_contain_text("Ready and off")

        expect(page.get_by_role("link", name="Benchmarks")).to_be_hidden()
        assert fetch(url, f"/benchmarks/{LONG.name}", method="POST").status == 404
        assert [fetch(url, path).status for path in ("/benchmarks", "/benchmarks/all")] == [404, 404]


def test_benchmarks_have_a_page_of_their_own(browser: Browser, cloud: LocalCloud, tmp_path: Path) -> None:
    with serving(cloud, tmp_path, Benchmarks((WRONG,))) as url, opened(browser, url) as page:
        expect(page.get_by_role("heading", name="Benchmarks")).to_have_count(0)
        page.get_by_role("link", name="Benchmarks").click()
        expect(page.get_by_role("heading", name="Benchmarks")).to_be_visible()
        assert mistakes(page) == []

        page.get_by_role("link", name="the stack").click()
        expect(page.locator("#on")).to_contain_text("Ready and off")
