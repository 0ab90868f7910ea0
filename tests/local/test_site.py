"""The documentation site: its pages and links as files, and in a browser that opens them from a folder."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from bs4 import BeautifulSoup, Tag
from markdown_it import MarkdownIt
from playwright.sync_api import Browser, expect

import burstcache.client
import burstcache.errors
import burstcache.results
import burstcache.state
from support.browser import NARROW, WIDE, mistakes, opened
from support.project import ROOT
from support.waiting import LIMIT_S

pytestmark = pytest.mark.slow

_PAGES = sorted(
    path.relative_to(ROOT)
    for pattern in ("*.md", "docs/**/*.md", "docs/api/*.rst", "examples/README.md", "tools/README.md")
    for path in ROOT.glob(pattern)
)
_LINKS = {"a": "href", "img": "src", "link": "href", "script": "src"}
_LOOKS = [(is_dark, width) for is_dark in (False, True) for width in (WIDE, NARROW)]
_LOOKED_AT = [
    "README", "docs/start", "docs/use/commands", "docs/api/client", "docs/operate/costs", "docs/understand/lifecycle",
    "docs/evidence/measurements/reads", "search",
]  # fmt: skip

expect.set_options(timeout=LIMIT_S * 1000)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site, with warnings as errors."""
    folder = tmp_path_factory.mktemp("made") / "site"
    subprocess.run(["make", "-s", "site", f"SITE={folder}"], cwd=ROOT, check=True)
    return folder


@cache
def parsed(file: Path) -> BeautifulSoup:
    """Return a page of the site, read-only."""
    return BeautifulSoup(file.read_text(), "html.parser")


def test_every_page_keeps_its_path(site: Path) -> None:
    built = {file.relative_to(site) for file in site.rglob("*.html")}

    assert built == {page.with_suffix(".html") for page in _PAGES} | {Path("index.html"), Path("search.html")}


def test_every_link_leads_to_a_file_and_an_anchor_of_the_site(site: Path) -> None:
    targets = [
        (file, name, str(tag[attribute]))
        for file in site.rglob("*.html")
        for name, attribute in _LINKS.items()
        for tag in parsed(file).find_all(name, {attribute: True})
    ]

    assert len(targets) > len(_PAGES)
    assert {f"{file.relative_to(site)}: {to}" for file, name, to in targets if not leads(file, name, to)} == set()


def leads(file: Path, name: str, target: str) -> bool:
    """Return whether a link's target exists. Pages load nothing from elsewhere, so that they work without a network."""
    url = urlsplit(target)
    if url.scheme or url.netloc:
        return name == "a"
    path = (file.parent / unquote(url.path)).resolve() if url.path else file
    return path.is_file() and (not url.fragment or parsed(path).find(id=unquote(url.fragment)) is not None)


def test_no_word_of_a_page_is_lost(site: Path) -> None:
    """Compare with CommonMark: MyST has more syntax, such as comments that begin with a per cent sign."""
    markdown = MarkdownIt("commonmark").enable("table")
    pages = [page for page in _PAGES if page.suffix == ".md"]

    changed = [
        page
        for page in pages
        if words(parsed(site / page.with_suffix(".html")).select_one("[role=main]"))
        != words(BeautifulSoup(markdown.render((ROOT / page).read_text()), "html.parser"))
    ]

    assert pages
    assert changed == []


def words(element: Tag | None) -> str:
    """Return an element's text without spaces, and without the mark of a heading's link."""
    assert element is not None
    texts = [text for text in element.strings if text.parent and "headerlink" not in (text.parent.get("class") or ())]
    return "".join("".join(texts).split())


def test_every_public_name_has_an_entry(site: Path) -> None:
    modules = (burstcache.client, burstcache.results, burstcache.state, burstcache.errors)
    names = {f"{module.__name__}.{name}" for module in modules for name in module.__all__}
    names |= {"burstcache.wrap", "burstcache.stats", "burstcache.client.filesystem.BurstcacheFileSystem"}
    names -= {f"burstcache.state.{name}" for name in burstcache.errors.__all__}  # with all other errors

    documented = {str(tag["id"]) for file in site.glob("docs/api/*.html") for tag in parsed(file).select("dt[id]")}

    assert names - documented == set()


def test_search_finds_a_page_without_a_server(browser: Browser, site: Path) -> None:
    with opened(browser, (site / "index.html").as_uri()) as page:
        page.get_by_placeholder("Search").fill("fencing token")
        page.keyboard.press("Enter")
        page.get_by_role("main").get_by_role("link", name="Glossary").click()

        expect(page.get_by_role("heading", level=1)).to_contain_text("Glossary")
        expect(page.get_by_role("complementary", name="All pages")).to_contain_text(burstcache.__version__)


@pytest.mark.parametrize(
    ("path", "is_dark", "width"),
    [
        pytest.param(path, *look, marks=() if (path, *look) == ("docs/start", True, NARROW) else pytest.mark.weekly)
        for path in _LOOKED_AT
        for look in _LOOKS
    ],
)
def test_axe_finds_nothing_and_nothing_is_wider_than_the_window(
    browser: Browser, site: Path, path: str, is_dark: bool, width: int
) -> None:
    with opened(browser, (site / f"{path}.html").as_uri(), width=width, is_dark=is_dark) as page:
        assert mistakes(page) == []
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.evaluate("[scrollX, scrollY]") == [0, 0]
