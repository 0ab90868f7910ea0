"""Agreement of documentation and project: everything named in the documents exists, and everything is documented."""

from __future__ import annotations

import re
from dataclasses import asdict
from fractions import Fraction
from importlib import import_module
from pathlib import Path

import pytest

from burstcache.core.parameters import US_PER_S, configure
from burstcache.core.prices import SHEETS
from burstcache_cli.registry import COMMANDS, Command
from burstcache_sim.policies.registry import POLICIES
from burstcache_terminal.options import Parser
from support.project import ROOT
from support.sources import sources

_DOCUMENTS = [path.relative_to(ROOT) for path in sources(".md") if "tests" not in path.parts]
_PATH = re.compile(
    r"`((?:src/|tools/|docs/|tests/|benchmarks/|research/|events/|statemachines/|instance/)[\w./*-]*|Makefile|[\w-]+\.(?:yaml|toml))`"
)
_MEASUREMENTS = sorted(path.name for path in (ROOT / "docs/evidence/measurements").glob("*.md"))
_MEASURED_AT = re.compile(r"^Measured at `([0-9a-f]{8})`\.$", re.MULTILINE)
_LINK = re.compile(r"\]\((?!https?://)([^)#]*)(?:#([\w-]+))?\)")


def _page(name: str) -> str:
    return (ROOT / name).read_text()


def test_every_command_is_documented_with_its_help() -> None:
    rows = re.findall(r"^\| `burstcache ([^`]*)` \| (.*) \|$", _page("docs/use/commands.md"), re.MULTILINE)

    assert rows == [(" ".join([command.words, *_positionals(command)]), command.help) for command in COMMANDS]


def _positionals(command: Command) -> list[str]:
    """Return a command's positional arguments: `KEY`, `[NODE]`, `TRACE…`."""
    module, _, name = command.options.partition(":")
    parser = Parser()
    getattr(import_module(module), name)(parser)
    shapes = {None: "{}", "?": "[{}]", "*": "[{}…]", "+": "{}…", "A...": "{}"}
    return [
        shapes[action.nargs].format(action.metavar)
        for action in parser._get_positional_actions()
        if isinstance(action.nargs, str | None)
    ]


def test_every_make_target_is_documented() -> None:
    targets = re.findall(r"^([\w-]+):.*## ", _page("Makefile"), re.MULTILINE)
    page = _page("docs/use/commands.md")

    assert targets
    assert [target for target in targets if f"`make {target}`" not in page and f"`{target}`" not in page] == []


def test_every_policy_override_is_documented_with_its_default() -> None:
    defaults = asdict(configure(Fraction(9), Fraction(4)))
    rows = re.findall(r"^\| (`\w+_\w+`(?:, `\w+`)*) \| ([\d, ]+) \|", _page("docs/use/parameters.md"), re.MULTILINE)
    names = [name.strip("`") for names, _ in rows for name in names.split(", ")]
    values = [int(value) for _, values in rows for value in values.split(", ")]

    expected = {
        name.replace("_us", "_s"): value // US_PER_S if name.endswith("_us") else value
        for name, value in defaults.items()
    }

    assert dict(zip(names, values, strict=True)) == expected


def test_every_policy_and_every_price_sheet_is_documented() -> None:
    policies, costs = _page("docs/use/policies.md"), _page("docs/operate/costs.md")

    assert re.findall(r"`burstcache sim run --policy ([\w|-]+)`", policies) == ["|".join(POLICIES)]
    assert set(re.findall(r"^\| `([\w-]+)` \| [a-z]+-[a-z]+-\d \|", costs, re.MULTILINE)) == set(SHEETS)


@pytest.mark.parametrize("document", _DOCUMENTS, ids=str)
def test_every_path_that_is_named_exists(document: Path) -> None:
    named = _PATH.findall(_page(str(document)))

    assert [path for path in named if not list(ROOT.glob(path.rstrip("/")))] == []


@pytest.mark.parametrize("document", _DOCUMENTS, ids=str)
def test_every_link_leads_somewhere(document: Path) -> None:
    dead = []
    for target, anchor in _LINK.findall(_page(str(document))):
        path = (ROOT / document.parent / target).resolve() if target else ROOT / document
        if not path.exists() or (anchor and anchor not in _anchors(path)):
            dead.append(f"{target}#{anchor}")

    assert dead == []


@pytest.mark.parametrize("document", _DOCUMENTS, ids=str)
def test_every_benchmark_and_make_target_that_is_named_exists(document: Path) -> None:
    targets = set(re.findall(r"^([\w-]+):", _page("Makefile"), re.MULTILINE))
    page = _page(str(document))

    named_benchmarks = set(re.findall(r"`(?:python -m )?benchmarks\.([a-z]\w*)", page))
    named = set(re.findall(r"`make ([\w-]+)", page))

    assert named_benchmarks <= {path.stem for path in (ROOT / "benchmarks").iterdir()}
    assert named - targets == set()


@pytest.mark.parametrize("page", _MEASUREMENTS)
def test_every_table_of_measurements_names_its_commit(page: str) -> None:
    _, *sections = _sections(page)
    with_figures = [section for section in sections if re.search(r"^\|.*\d.*\|$", section, re.MULTILINE)]

    assert with_figures
    assert [each.partition("\n")[0] for each in with_figures if not _MEASURED_AT.search(each)] == []


@pytest.mark.parametrize("page", _MEASUREMENTS)
def test_every_page_of_measurements_begins_with_its_main_figures_and_their_commits(page: str) -> None:
    head, *sections = _sections(page)
    (table,) = re.findall(r"^\| Quantity \| Aim \| Now \| Command \| Commit \|\n\|[-|]+\|\n((?:\|.*\|\n)+)", head, re.M)
    rows = table.splitlines()
    commits = [row.rpartition(" | ")[2] for row in rows]

    measured = {f"`{commit}` |" for section in sections for commit in _MEASURED_AT.findall(section)}

    assert [row for row in rows if len(re.findall(r"(?<!\\)\|", row)) != 6] == []
    assert set(commits) - measured == set()


def test_every_page_is_two_clicks_from_the_readme_at_most() -> None:
    first = _linked_from(Path("README.md"))
    second = set().union(*(_linked_from(page) for page in first))

    assert {path for path in _DOCUMENTS if path.name != "README.md"} - first - second == set()


def test_every_package_is_in_the_architecture() -> None:
    packages = [path.parent for root in ("src", "tools") for path in (ROOT / root).glob("*/*/__init__.py")]
    packages += [
        path for path in ROOT.iterdir() if path.name[0] != "." and path.name != "build" and any(path.glob("**/*.py"))
    ]
    page = _page("docs/understand/architecture.md")

    assert packages
    assert [str(package.relative_to(ROOT)) for package in packages if f"{package.name}/" not in page] == []


def test_the_readme_fits_on_one_page() -> None:
    lines = _page("README.md").splitlines()

    assert len(lines) <= 90
    assert [line for line in lines if len(line) > 120] == []


def _sections(page: str) -> list[str]:
    """Return a page of measurements by headings: first what precedes the second heading."""
    return re.split(r"^(?=##+ )", _page(f"docs/evidence/measurements/{page}"), flags=re.MULTILINE)


def _linked_from(page: Path) -> set[Path]:
    """Return the pages that a page links to."""
    targets = {(ROOT / page.parent / target).resolve() for target, _ in _LINK.findall(_page(str(page)))}
    return {target.relative_to(ROOT) for target in targets if target.suffix == ".md"}


def _anchors(path: Path) -> set[str]:
    """Return the anchors that GitHub gives a page's headings."""
    headings = re.findall(r"^#+ (.+)$", path.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_head_of_the_resources_has_the_sections_in_their_order(text: str) -> None:
    head, _, resources = text.partition("\nResources:\n")
    contents = " ".join(line.removeprefix("# ") for line in head.rpartition("\n\n")[2].splitlines())

    sections = re.findall(r"^  # ---- (.+?) -+$", resources, re.MULTILINE)
    named = contents.removeprefix("In this order: ").removesuffix(".").split("; ")

    assert len(named) == len(sections)
    assert [section for name, section in zip(named, sections, strict=True) if not section.startswith(name)] == []
