"""A browser for tests: Debian's Chromium, else Playwright's own, with pages that report their errors."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files

from playwright.sync_api import Browser, Page, sync_playwright

from support.waiting import LIMIT_S

WIDE, NARROW = 1280, 390  # pixels
_AXE = files("axe_core_python").joinpath("axe.min.js").read_text()


@contextmanager
def chromium() -> Iterator[Browser]:
    """Run a browser for the duration of a `with`."""
    with sync_playwright() as playwright:
        # Containers run tests as root, for which Chromium has no sandbox. The pages are our own.
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        yield browser
        browser.close()


@contextmanager
def opened(
    browser: Browser, url: str, *, width: int = WIDE, is_dark: bool = False, may_lack_answers: bool = False
) -> Iterator[Page]:
    """Open a page in a new window. Fail if it throws or logs an error, except for requests that may fail."""
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme="dark" if is_dark else "light")
    context.set_default_timeout(LIMIT_S * 1000)
    page = context.new_page()
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
    page.goto(url)
    yield page
    context.close()
    errors = [each for each in problems if not (may_lack_answers and each.startswith("Failed to load resource"))]
    assert not errors, errors


def mistakes(page: Page) -> list[str]:
    """Return axe-core's violations on a page."""
    page.evaluate(_AXE)
    result = page.evaluate("axe.run()")
    return [f"{each['id']}: {node['html']}" for each in result["violations"] for node in each["nodes"]]
