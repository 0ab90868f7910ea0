"""The dashboard of a stack whose nodes take guests, as under the default policy."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Route, expect

from burstcache.core.node_memory import NodeMemory
from burstcache.core.node_use import NodeUse
from burstcache.core.worth import MICRO
from burstcache_cli.stack import local_stack, running_in
from burstcache_local.cloud import LocalCloud, LocalOptions
from support.browser import opened
from support.dashboard import fetch, serving
from support.waiting import LIMIT_S, until

_KEY = "guest.txt"
_OF_KEY = re.compile(r"/key\?key=")

expect.set_options(timeout=LIMIT_S * 1000)


def in_a_former_run(route: Route) -> None:
    """Answer with a node that is off, after it has answered two reads 7 s apart."""
    answer = route.fetch()
    found = answer.json()
    reads = [{**found["reads"][-1], "tier": "redis", "at_ms": found["nowMs"] - ago_ms} for ago_ms in (20_000, 13_000)]
    route.fulfill(response=answer, json={**found, "guestSinceMs": 0, "lives": [], "reads": reads})


def fill_node(folder: Path) -> None:
    """Write what a check of a full node writes."""
    uses = local_stack(running_in(folder)).system().uses
    memory = NodeMemory(768 << 20, 768 << 20, 9_000, True, 3_600_000_000, 9_000, 9_000 * MICRO)

    def write() -> bool:
        stored = uses.read("node-1")
        return uses.write("node-1", stored.use or NodeUse(), seen=stored, memory=memory)

    until(write)


# Without a relay, guests have no rows of their own: the page has them from what nodes were asked for.
@pytest.mark.parametrize("relay", [pytest.param("direct", marks=pytest.mark.weekly), "none"])
def test_key_that_a_node_serves_as_a_guest_is_shown_in_redis(relay: str, browser: Browser, tmp_path: Path) -> None:
    parameters = {"RedisOn": "ec2", "Policy": "breakeven", "HitValueUsdPerMillion": "1000", "Relay": relay}
    options = LocalOptions(boot_s=0.2, stop_s=0.2, run_dir=tmp_path / "run", parameters=parameters)
    with LocalCloud(options) as cloud, serving(cloud, tmp_path) as url:
        cloud.client("s3").put_object(Bucket=cloud.bucket_name, Key=_KEY, Body=b"text")
        until(lambda: fetch(cloud.front_url, f"/objects/{_KEY}").headers["X-Cache-Tier"] == "redis")

        with opened(browser, f"{url}#key={_KEY}") as page:
            expect(page.locator("svg.strip")).to_have_attribute("aria-label", re.compile("Guest from"))
            expect(page.locator("pre")).to_contain_text("served by   Redis on node-1 since")

            page.route(_OF_KEY, in_a_former_run)
            expect(page.locator("svg.strip")).to_have_attribute("aria-label", re.compile(r"Guest from .* for 7\.0 s$"))
            page.unroute(_OF_KEY)

            page.get_by_role("link", name="all keys").click()
            expect(page.locator("#on")).to_have_text("On: 1 key above S3, 1 of 1 node on.")
            expect(page.locator("#diagram svg")).to_have_attribute("aria-label", re.compile("Guest: 1 key"))
            expect(page.locator("#keys").get_by_role("row").filter(has_text=_KEY)).to_contain_text("Redis (node-1)")
            expect(page.get_by_role("table", name="Nodes")).to_contain_text("4 B of 805.3 MB")

            expect(page.locator("#scaling")).to_be_empty()
            fill_node(tmp_path)
            expect(page.locator("#scaling")).to_contain_text("node-1: full: 768 MB of 768 MB used")
            expect(page.locator("#scaling")).to_contain_text("Change: RedisInstanceType=t4g.small (now t4g.micro)")
