"""The dashboard in a browser, over a local run whose objects pass through all tiers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Locator, Route, expect

from burstcache.adapters.items import to_values
from burstcache.core.keys import key_hash
from burstcache.core.table import key_item
from burstcache_local.cloud import LocalCloud, LocalOptions
from support.browser import NARROW, WIDE, mistakes, opened
from support.dashboard import fetch, serving
from support.policies import THESIS
from support.waiting import LIMIT_S, until

_HOT, _STRANGE, _COLD = "hot.txt", "<img src=x onerror=alert(1)>.txt", 300

expect.set_options(timeout=LIMIT_S * 1000)


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCloud]:
    """A stack with some hundred keys, of which one is in Redis."""
    parameters = THESIS | {"Tracing": "Active", "PolicyOverrides": "redis_utilization_s=3600"}
    options = LocalOptions(boot_s=0.2, stop_s=0.2, run_dir=tmp_path_factory.mktemp("logs"), parameters=parameters)
    with LocalCloud(options) as running:
        for key in (_HOT, _STRANGE):
            running.client("s3").put_object(Bucket=running.bucket_name, Key=key, Body=b"text")
        get(running, _STRANGE)
        until(lambda: get(running, _HOT) == "redis")
        put_cold_rows(running)
        yield running


@pytest.fixture(scope="module")
def url(cloud: LocalCloud, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the dashboard of that stack."""
    folder = tmp_path_factory.mktemp("state")
    with serving(cloud, folder) as address:
        yield address


def get(cloud: LocalCloud, key: str) -> str:
    """Read an object; return the tier that answered."""
    answer = fetch(cloud.front_url, f"/objects/{quote(key)}")
    return answer.headers["X-Cache-Tier"] or ""


def put_cold_rows(cloud: LocalCloud) -> None:
    """Put rows of keys that S3 serves."""
    rows = [
        {**key_item(key_hash(key)), "key": key, "phase": "s3", "window": ["1:a"], "size_bytes": number}
        for number, key in enumerate(f"cold/{number:04}.bin" for number in range(_COLD))
    ]
    requests: list[Any] = [{"PutRequest": {"Item": to_values(row)}} for row in rows]
    for start in range(0, len(requests), 25):
        batch = {cloud.outputs["TableName"]: requests[start : start + 25]}
        cloud.client("dynamodb").batch_write_item(RequestItems=batch)


def test_page_says_that_it_is_on_what_it_saves_and_what_it_costs(browser: Browser, url: str) -> None:
    with opened(browser, url) as page:
        expect(page.locator("#on")).to_have_text("On: 1 key above S3, 1 of 1 node on.")
        expect(page.locator("#figures")).to_contain_text("Saved for readers")
        expect(page.locator("#figures")).to_contain_text("$")
        expect(page.locator("#failed")).to_have_text("Nothing.")
        expect(page.get_by_role("table", name="Nodes")).to_contain_text("running")
        expect(page.get_by_role("table", name="Nodes")).to_contain_text("4 B of 1.6 GB")
        expect(page.get_by_role("table", name="Nodes")).to_contain_text("fargate-spot at 127.")
        expect(page.get_by_role("table", name="Nodes").locator("td").last).to_have_text(re.compile(r"^[\d:]{8}$"))
        bill = page.get_by_role("table", name="The bill so far")
        page.get_by_role("button", name="All ").click()  # a young node costs less than five other rows
        expect(bill).to_contain_text("Redis node fargate-spot:2GB")
        transitions = bill.get_by_role("row").filter(has_text="Step Functions").locator("td").nth(1)
        expect(transitions).to_have_text(re.compile(r"^\d\d?$"))  # of two lives and a run of a node


def test_state_diagram_counts_the_keys_of_each_state(browser: Browser, url: str) -> None:
    with opened(browser, url) as page:
        diagram = page.locator("#diagram svg")

        expect(diagram).to_have_attribute("aria-label", with_text("RedisRunning: 1 key,"))
        expect(diagram).to_have_attribute("aria-label", with_text(f"S3: {_COLD + 1} keys"))


def test_page_follows_the_reads_by_itself(browser: Browser, url: str, cloud: LocalCloud) -> None:
    with opened(browser, url) as page:
        tiers = page.get_by_role("table", name="Share and latency by tier")
        row = tiers.get_by_role("row").filter(has_text="Redis")
        before = int(row.locator("td").nth(1).inner_text())

        until(lambda: get(cloud, _HOT) == "redis")  # a reader that finds no processor in time asks S3

        expect(row.locator("td").nth(1)).to_have_text(str(before + 1))


def test_hundreds_of_keys_are_a_table_of_the_rows_in_view(browser: Browser, url: str) -> None:
    with opened(browser, url) as page:
        expect(page.locator("#shown")).to_have_text(f"{_COLD + 2} keys")
        table = page.locator("#keys table")
        expect(table).to_have_attribute("aria-rowcount", str(_COLD + 3))

        assert page.locator("#keys tbody tr[data-hash]").count() < 50

        page.locator("#keys thead button", has_text="Key").click()
        page.locator("#keys").evaluate("element => element.scrollTop = element.scrollHeight")
        expect(table.get_by_role("link", name=_HOT)).to_be_visible()


def test_bill_has_five_rows_and_all_of_them_on_demand(browser: Browser, url: str) -> None:
    def usd(cell: str) -> float:
        return float(cell.removeprefix("$"))

    with opened(browser, url) as page:
        bill = page.get_by_role("table", name="The bill so far")
        rows = bill.locator("tbody tr")
        expect(rows).to_have_count(6)
        expect(rows.last).to_contain_text(re.compile(r"^\d+ others"))
        costs = [usd(cell) for cell in rows.locator("td:last-child").all_inner_texts()[:5]]
        assert costs == sorted(costs, reverse=True)

        others = page.locator("#all-rows")
        expect(others).to_have_attribute("aria-expanded", "false")
        count = int(re.sub(r"\D", "", others.inner_text()))
        others.press("Enter")

        expect(rows).to_have_count(count)
        expect(others).to_have_attribute("aria-expanded", "true")
        expect(others).to_have_text("Fewer rows")
        others.press("Enter")
        expect(rows).to_have_count(6)


def test_telephone_shows_each_keys_tier_and_last_read(browser: Browser, url: str) -> None:
    with opened(browser, url, width=NARROW) as page:
        expect(page.get_by_role("link", name=_HOT)).to_be_visible()
        row = page.locator("#keys").get_by_role("row").filter(has_text=_HOT)

        expect(page.locator("#keys th:visible")).to_have_text(["Key", "Served by", re.compile("^Last read")])
        expect(row.locator("td:visible")).to_have_text([_HOT, "Redis (node-1)", re.compile(r"^[\d:]{8}$")])
        cut = "cells => cells.filter((cell) => cell.scrollWidth > cell.clientWidth).length"
        assert row.locator("td:visible").evaluate_all(cut) == 0
        parts = page.locator("#keys th", has_text="Last read"), page.locator("#keys table")
        ends = [part.evaluate("part => Math.round(part.getBoundingClientRect().right)") for part in parts]
        assert ends[0] == ends[1]


def test_keys_are_filtered_by_name_and_state(browser: Browser, url: str) -> None:
    with opened(browser, url) as page:
        page.get_by_label("Name contains").fill("COLD/02")
        expect(page.locator("#shown")).to_have_text(f"100 of {_COLD + 2} keys")

        page.get_by_label("Name contains").fill("")
        page.get_by_role("combobox", name="State").select_option("RedisRunning")
        expect(page.locator("#keys tbody tr[data-hash] a")).to_have_text([_HOT])


def test_keyboard_sorts_and_opens_a_key(browser: Browser, url: str) -> None:
    with opened(browser, url) as page:
        page.get_by_label("Name contains").fill("cold/000")
        size = page.locator("#keys thead th", has_text="Size")
        size.get_by_role("button").focus()
        page.keyboard.press("Enter")
        expect(size).to_have_attribute("aria-sort", "descending")
        first = page.locator("#keys tbody a").first
        expect(first).to_have_text("cold/0009.bin")

        first.focus()
        page.keyboard.press("Enter")

        expect(page.get_by_role("heading", name="cold/0009.bin")).to_be_visible()
        expect(page.locator("main")).to_be_focused()


def test_page_of_a_key_has_its_reads_lives_and_a_trace(browser: Browser, url: str) -> None:
    with opened(browser, f"{url}#key={_HOT}") as page:
        strip = page.locator("svg.strip")
        expect(strip).to_have_attribute("aria-label", with_text("RedisRunning from"))
        lives = page.get_by_role("table").first
        for state in ("Lambda", "RedisBootup", "RedisRunning"):
            expect(lives.get_by_role("cell", name=state, exact=True)).to_be_visible()

        trace = page.get_by_role("table", name="Trace")

        expect(trace.get_by_role("cell", name="proxy", exact=True)).to_be_visible()
        expect(trace).to_contain_text("redis node-1")


def test_boot_of_redis_without_a_cache_function_is_none_of_its(browser: Browser, url: str) -> None:
    def without_function(found: dict[str, Any]) -> None:
        for life in found["lives"]:
            life["steps"] = [step for step in life["steps"] if step["state"] != "Lambda"]

    with opened_with(without_function, browser, url) as strip:
        expect(strip).to_have_attribute("aria-label", with_text("RedisRunning from"))
        expect(strip).not_to_have_attribute("aria-label", with_text("RedisBootup from"))


def test_a_last_hit_after_the_end_of_a_life_makes_no_guest_of_a_key(browser: Browser, url: str) -> None:
    def after_its_life(found: dict[str, Any]) -> None:
        ended_ms = found["nowMs"] - 5_000
        found["lives"][0]["steps"] = [
            {"atMs": ended_ms - 9_000, "state": "RedisRunning", "failure": ""},
            {"atMs": ended_ms, "state": "", "failure": ""},
        ]
        found["reads"] = [{**found["reads"][-1], "tier": "redis", "at_ms": ended_ms + late_ms} for late_ms in (-1, 500)]

    with opened_with(after_its_life, browser, url) as strip:
        expect(strip).to_have_attribute("aria-label", with_text("2 reads since"))
        expect(strip).to_have_attribute("aria-label", with_text("RedisRunning from"))
        expect(strip).not_to_have_attribute("aria-label", with_text("Guest"))


def test_page_of_a_large_object_has_a_table_of_its_slices(browser: Browser, url: str) -> None:
    def large(found: dict[str, Any]) -> None:
        stored = {"tier": "Redis (node-1)", "slices": 140, "stored": 12, "stored_bytes": 12 << 20, "problem": ""}
        unknown = {
            "tier": "S3 Express",
            "slices": 256,
            "stored": None,
            "stored_bytes": None,
            "problem": "Access Denied",
        }
        found["slices"] = {"count": 1000, "sampled": 256, "tiers": [stored, unknown]}

    with opened_with(large, browser, url) as strip:
        rows = strip.page.get_by_role("table", name="Slices").get_by_role("row")

        expect(rows.nth(1)).to_have_text(re.compile(r"Redis \(node-1\)\s*140\s*12\s*12\.6 MB"))
        expect(rows.nth(2)).to_have_text(re.compile(r"S3 Express\s*256\s*unknown\s*–"))
        expect(rows.nth(2).get_by_title("Access Denied")).to_be_visible()
        expect(strip.page.locator("#key")).to_contain_text("Of 256 slices, evenly spread over the object's 1,000.")


def test_page_of_a_key_says_why_it_is_there(browser: Browser, url: str) -> None:
    with opened(browser, f"{url}#key={_HOT}") as page:
        explained = page.locator("pre")

        expect(explained).to_contain_text("served by   Redis on node-1")
        expect(explained).to_contain_text("What would move it")


def test_key_that_nobody_asked_for_is_shown_as_unknown(browser: Browser, url: str) -> None:
    with opened(browser, f"{url}#key=unknown.txt") as page:
        expect(page.locator("#key-page")).to_contain_text("Unknown key")


def test_late_answer_for_a_key_that_was_left_is_not_shown(browser: Browser, url: str) -> None:
    with opened(browser, url) as page:
        held: list[Route] = []
        page.route(re.compile("key=hot"), lambda route: held.append(route))
        page.evaluate("location.hash = 'key=hot.txt'")
        until(lambda: page.evaluate("true") and held)
        page.evaluate("location.hash = 'key=cold/0001.bin'")
        expect(page.get_by_role("heading", name="cold/0001.bin")).to_be_visible()
        page.evaluate(
            "seen = []; new MutationObserver(() => seen.push(document.querySelector('#key-page h2')?.textContent))"
            ".observe(document.getElementById('key-page'), { childList: true, characterData: true, subtree: true })"
        )

        held[0].continue_()
        with page.expect_response(lambda answer: "cold" in answer.url):  # the next look at the page's own key
            pass

        assert _HOT not in page.evaluate("seen")


def test_name_of_a_key_is_shown_as_text(browser: Browser, url: str) -> None:
    with opened(browser, url) as page:
        page.get_by_label("Name contains").fill("onerror")
        page.get_by_role("link", name=_STRANGE).click()

        expect(page.get_by_role("heading", name=_STRANGE)).to_be_visible()
        assert page.locator("img").count() == 0


def test_bill_stands_next_to_those_of_others(browser: Browser, url: str) -> None:
    with opened(browser, url) as page:
        page.get_by_role("button", name="Compare").click()
        rivals = page.get_by_role("table", name="What others would have billed")

        expect(page.locator("#comparing")).to_contain_text(re.compile("^(As of|It failed)"))
        assert page.locator("#comparing").inner_text().startswith("As of")
        for name in ("Burstcache, as it ran", "s3-only", "cloudfront", "elasticache-valkey", "ec2:"):
            expect(rivals).to_contain_text(name)


@pytest.mark.parametrize(
    ("is_dark", "width"),
    [
        (False, WIDE),
        pytest.param(False, NARROW, marks=pytest.mark.weekly),
        pytest.param(True, WIDE, marks=pytest.mark.weekly),
        (True, NARROW),
    ],
)
@pytest.mark.parametrize("place", ["", f"#key={_HOT}"])
def test_axe_finds_nothing_and_nothing_is_wider_than_the_window(
    browser: Browser, url: str, place: str, is_dark: bool, width: int
) -> None:
    with opened(browser, url + place, width=width, is_dark=is_dark) as page:
        shown = page.locator("svg.strip") if place else page.get_by_role("link", name=_HOT)
        expect(shown).to_be_visible()

        assert mistakes(page) == []
        assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
@pytest.mark.parametrize("path", ["/events", "/rivals", "/trace?key=a", "/page/main.js"])
def test_another_sites_page_makes_the_server_do_nothing(url: str, path: str, site: str) -> None:
    assert fetch(url, path, **{"Sec-Fetch-Site": site}).status == 403
    assert fetch(url, "/", **{"Sec-Fetch-Site": site}).status == 200  # a link


def test_page_of_another_name_is_refused(url: str) -> None:
    assert fetch(url, "/", Host="burstcache.example").status == 400


@pytest.mark.parametrize("path", ["/", "/events", "/key", "/rivals", "/about", "/page/main.js"])
@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
def test_nothing_but_reading_is_answered(url: str, path: str, method: str) -> None:
    assert fetch(url, path, method=method).status == 405


def test_page_runs_no_script_of_others(url: str) -> None:
    assert "default-src 'self'" in (fetch(url, "/").headers["Content-Security-Policy"] or "")


@contextmanager
def opened_with(change: Callable[[dict[str, Any]], None], browser: Browser, url: str) -> Iterator[Locator]:
    """Open the page of the hot key with an answer that is changed on its way to it; yield the key's strip."""

    def changed(route: Route) -> None:
        answer = route.fetch()
        found = answer.json()
        change(found)
        route.fulfill(response=answer, json=found)

    with opened(browser, url) as page:
        page.route(re.compile(r"/key\?key="), changed)
        page.evaluate(f"location.hash = 'key={_HOT}'")
        yield page.locator("svg.strip")


def with_text(text: str) -> re.Pattern[str]:
    """Return a pattern that finds a text."""
    return re.compile(re.escape(text))
