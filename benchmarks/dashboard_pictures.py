"""Record the dashboard's pictures: bursts under the default policy, and under the thesis's.

    python -m benchmarks.dashboard_pictures docs/images     # dashboard-{states,states-thesis,burst,phone,key,…}.png

Under the default policy a key in Redis is a guest. The thesis's policy has short times: its keys pass through all of
its states. The page shows each state that lasts until it looks again, which is after a second or more; `RedisShutdown`
takes about half a second. So a burst of which the page has missed a state is repeated.
"""

from __future__ import annotations

import argparse
import re
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, expect

import burstcache_dashboard
from benchmarks.dashboard_page import BODY, BURST, browser, serving
from benchmarks.support.common import Cloud, Getter, environment, running_cloud

_DEFAULT = replace(BURST, overrides="")
_THESIS = replace(BURST, overrides=f"{BURST.overrides},redis_threshold=12")  # time to see the cache functions alone
SETUPS = (_DEFAULT, _THESIS)
_QUIET = [f"quiet/{number:02}.bin" for number in range(40)]
_BURSTS = ("a", "b", "c")  # one is enough, unless the page misses a state
_KEYS_EACH = 4
_OFF_LIMIT_MS = 900_000  # a node that has served more is checked later
_CSS = Path(burstcache_dashboard.__file__).parent / "page" / "style.css"
_SHEET_CSS = """
    main { padding: 12px; }
    .states { display: grid; grid-template-columns: repeat(4, 1fr); gap: 12px; margin-bottom: 12px; }
    figure { margin: 0; background: var(--paper); border: 1px solid var(--line); border-radius: 8px; padding: 10px; }
    figcaption { font-size: 20px; font-weight: 600; margin-bottom: 8px; }
    figcaption small { display: block; font-size: 17px; font-weight: 400; color: var(--soft); }
    main > section { margin: 0; }
"""
# Each time the diagram is drawn it gets a new label; kept is what it looks like then.
_KEEP_FRAMES = """() => {
    const svg = document.querySelector("#diagram svg");
    window.kept = [];
    const keep = () => kept.push({ at_ms: Date.now(), label: svg.getAttribute("aria-label"), svg: svg.outerHTML });
    new MutationObserver(keep).observe(svg, { attributes: true, attributeFilter: ["aria-label"] });
    keep();
}"""

expect.set_options(timeout=120_000)


class StateUnseenError(Exception):
    """The page has not shown a key in some state."""


@dataclass(frozen=True, slots=True)
class Frame:
    """The page's diagram after an update."""

    at_ms: float
    counts: Mapping[str, int]  # keys by state
    svg: str

    @classmethod
    def of(cls, kept: Mapping[str, Any]) -> Frame:
        """Return the recordings of the page."""
        counts = re.findall(r"(\w+): ([\d,]+) key", kept["label"])
        return cls(kept["at_ms"], {state: int(count.replace(",", "")) for state, count in counts}, kept["svg"])


def main() -> int:
    """Record; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="of the pictures")
    folder: Path = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    print(environment())
    with browser() as chromium:
        try:
            for setup, record in ((_DEFAULT, record_default), (_THESIS, record_thesis)):
                with running_cloud(setup) as cloud, serving(cloud) as (url, _):
                    record(cloud, chromium, url, folder)
        except StateUnseenError as error:
            print(f"FAILED: {error}, in {len(_BURSTS)} bursts")
            return 1
    return 0


def record_default(cloud: Cloud, chromium: Browser, url: str, folder: Path) -> None:
    """Send a burst twice under the default policy, and take pictures of the second one, whose keys are known.

    Raises:
        StateUnseenError: The page has missed a state in each of several bursts.
    """
    keys = [f"burst-{place}.bin" for place in range(1, _KEYS_EACH + 1)]
    for key in keys:
        cloud.put(key, BODY)
    page = chromium.new_page(viewport={"width": 1280, "height": 1000}, color_scheme="light")
    page.goto(url)
    with reading(cloud) as wanted:
        _come_once(page, wanted, keys)
        for number in range(1, len(_BURSTS) + 1):
            page.evaluate(_KEEP_FRAMES)
            began_ms = time.time() * 1000
            _come_once(page, wanted, keys, lambda: _take(chromium, page, "Guest", folder))
            frames = [Frame.of(kept) for kept in page.evaluate("kept")]
            try:
                panels = [(state, _when(frame, began_ms), frame.svg) for state, frame in chosen_default(frames)]
                break
            except StateUnseenError as error:
                if number == len(_BURSTS):
                    raise
                print(f"{error}: once more", flush=True)
    strip = _key_page(page, url, keys[0], folder)
    _draw(chromium, sheet(panels, strip), folder / "dashboard-states.png")
    record_benchmark(chromium, url, folder)


def _come_once(page: Page, wanted: list[str], keys: Sequence[str], then: Callable[[], None] = lambda: None) -> None:
    """Send a burst until all of its keys are read-through entries, then wait until the node is off."""
    wanted += keys
    expect(page.locator("#diagram svg")).to_have_attribute("aria-label", re.compile(rf"\bGuest: {len(keys)} keys"))
    then()
    wanted.clear()
    expect(page.locator("#on")).to_contain_text("Ready and off", timeout=_OFF_LIMIT_MS)


def record_thesis(cloud: Cloud, chromium: Browser, url: str, folder: Path) -> None:
    """Drive keys through all states of the thesis, and take a picture of them.

    Raises:
        StateUnseenError: The page has missed a state in each of several bursts.
    """
    for number, name in enumerate(_BURSTS, 1):
        keys = [f"burst-{name}{place}.bin" for place in range(1, _KEYS_EACH + 1)]
        for key in (*_QUIET, *keys):
            cloud.put(key, BODY)
        page = chromium.new_page(viewport={"width": 1280, "height": 1000}, color_scheme="light")
        page.goto(url)
        _read_until_known(cloud, page, keys, len(_QUIET) + number * _KEYS_EACH)
        page.evaluate(_KEEP_FRAMES)
        began_ms = time.time() * 1000
        with reading(cloud) as wanted:
            _come_twice(page, wanted, keys)
        frames = [Frame.of(kept) for kept in page.evaluate("kept")]
        strip = _key_page(page, url, keys[0])
        page.close()
        try:
            panels = [(state, _when(frame, began_ms), frame.svg) for state, frame in chosen(frames)]
        except StateUnseenError as error:
            if number == len(_BURSTS):
                raise
            print(f"{error}: once more", flush=True)
        else:
            return _draw(chromium, sheet(panels, strip), folder / "dashboard-states-thesis.png")


def _take(chromium: Browser, page: Page, state: str, folder: Path) -> None:
    """Take pictures of the page and of a telephone's while all keys are in a state."""
    time.sleep(4)  # for the chart to have some of it
    page.screenshot(path=folder / "dashboard-burst.png")
    phone = chromium.new_page(viewport={"width": 390, "height": 844}, color_scheme="dark")
    phone.goto(page.url)
    expect(phone.locator("#diagram svg")).to_have_attribute("aria-label", re.compile(rf"\b{state}: {_KEYS_EACH} keys"))
    time.sleep(4)
    phone.screenshot(path=folder / "dashboard-phone.png")
    phone.close()


def _key_page(page: Page, url: str, key: str, folder: Path | None = None) -> str:
    """Open a key's page and return its strip. Take a picture if there is a folder for it."""
    page.goto(f"{url}#key={key}")
    expect(page.locator("svg.strip")).to_be_visible()
    if folder:
        page.screenshot(path=folder / "dashboard-key.png", full_page=True)
    return page.locator("#key section").first.inner_html()


def _come_twice(page: Page, wanted: list[str], keys: Sequence[str]) -> None:
    """Send a burst, end it, and send it again while the node stops."""
    all_run = re.compile(rf"\bRedisRunning: {len(keys)} keys")
    diagram = page.locator("#diagram svg")
    wanted += keys
    expect(diagram).to_have_attribute("aria-label", all_run)
    wanted.clear()
    expect(page.get_by_role("table", name="Nodes")).to_contain_text("stopping")
    wanted += keys
    expect(diagram).to_have_attribute("aria-label", re.compile(r"\bRestrictedLambda: [1-9]"))
    expect(diagram).to_have_attribute("aria-label", all_run)
    wanted.clear()
    expect(page.locator("#on")).to_contain_text("Ready and off")


def record_benchmark(chromium: Browser, url: str, folder: Path) -> None:
    """Take a picture of the benchmarks, one of which has run."""
    page = chromium.new_page(viewport={"width": 1280, "height": 1000}, color_scheme="light")
    page.goto(f"{url}benchmarks")
    page.get_by_role("button", name="Run: Rosa's thumbnails").press("Enter")
    picture = page.get_by_role("img", name="Rosa's")
    expect(picture).to_be_visible()
    picture.scroll_into_view_if_needed()
    page.wait_for_function("image => image.complete && image.naturalWidth > 0", arg=picture.element_handle())
    page.locator("#benchmarks-section").screenshot(path=folder / "dashboard-benchmark.png")
    page.close()


def chosen_default(frames: Sequence[Frame]) -> list[tuple[str, Frame]]:
    """Return the default policy's states with a frame each, in their order.

    Raises:
        StateUnseenError: No frame has a key in one of them.
    """
    between = [(state, _with_most(state, frames)) for state in ("Lambda", "Guest")]
    return [("S3", frames[0]), *between, ("S3", frames[-1])]


def chosen(frames: Sequence[Frame]) -> list[tuple[str, Frame]]:
    """Return states with a frame each, in their order: the one in which most keys are in the state.

    Raises:
        StateUnseenError: No frame has a key in one of them.
    """
    again = next((place for place, frame in enumerate(frames) if frame.counts["RestrictedLambda"]), len(frames))
    former, later = frames[:again], frames[again:]
    found = [("S3", frames[0])]
    found += [(state, _with_most(state, former)) for state in ("Lambda", "RedisBootup", "RedisRunning")]
    found += [("RedisShutdown", _with_most("RedisShutdown", frames))]
    found += [(state, _with_most(state, later)) for state in ("RestrictedLambda", "RedisRunning")]
    return [*sorted(found, key=lambda each: each[1].at_ms), ("S3", frames[-1])]


def _with_most(state: str, frames: Iterable[Frame]) -> Frame:
    found = max(frames, key=lambda frame: frame.counts[state], default=None)
    if found is None or not found.counts[state]:
        raise StateUnseenError(f"the page has shown no key in {state}")
    return found


def _when(frame: Frame, began_ms: float) -> str:
    after_s = (frame.at_ms - began_ms) / 1000
    return f"after {after_s:.0f} s" if after_s > 0 else "before the burst"


def sheet(panels: Iterable[tuple[str, str, str]], strip: str) -> str:
    """Return a page of diagrams, each with its number, the state that it shows and when, over one key's strip."""
    figures = "".join(
        f"<figure><figcaption>{number}. {escape(state)}<small>{escape(when)}</small></figcaption>"
        f'<div id="diagram">{svg}</div></figure>'
        for number, (state, when, svg) in enumerate(panels, 1)
    )
    head = f'<meta charset="utf-8"><style>{_CSS.read_text()}{_SHEET_CSS}</style>'
    return f'<!doctype html>{head}<main><div class="states">{figures}</div><section>{strip}</section></main>'


def _draw(chromium: Browser, html: str, target: Path) -> None:
    page = chromium.new_page(viewport={"width": 1280, "height": 1000}, color_scheme="light")
    page.set_content(html)
    page.locator("main").screenshot(path=target)
    page.close()


def _read_until_known(cloud: Cloud, page: Page, keys: Sequence[str], count: int) -> None:
    """Read each key once, and go on with quiet ones, each of them rarely, until the page has all of them in S3."""
    getter = Getter(cloud.url)
    for key in (*keys, *_QUIET):
        getter.get(key)
    time.sleep(5)  # two reads of a key must not be close to each other
    for key in _QUIET * 3:  # the proxy's report waits for a read that finds it due
        if f"S3: {count} keys" in (page.locator("#diagram svg").get_attribute("aria-label") or ""):
            return
        time.sleep(1)
        getter.get(key)
    sys.exit(f"the page does not know {count} keys: {page.locator('#shown').inner_text()}")


@contextmanager
def reading(cloud: Cloud) -> Iterator[list[str]]:
    """Read each key of a list four times a second, whatever the list has by then."""
    wanted: list[str] = []
    is_over = threading.Event()

    def read() -> None:
        with ThreadPoolExecutor(8) as readers:
            while not is_over.wait(0.25):
                list(readers.map(lambda key: Getter(cloud.url).get(key), [*wanted]))

    thread = threading.Thread(target=read)
    thread.start()
    try:
        yield wanted
    finally:
        is_over.set()
        thread.join()


if __name__ == "__main__":
    sys.exit(main())
