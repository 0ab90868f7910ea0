"""Configuration (`conf`) of the documentation site, which Sphinx builds from the repository's own pages (`make site`).

The root of the sources is the repository's, so that every page keeps its path and its links.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from sphinx.application import Sphinx

import burstcache

project = "Burstcache"
author = "The Burstcache authors"
version = release = burstcache.__version__
root_doc = "README"
include_patterns = ["*.md", "docs/**.md", "docs/api/*.rst", "examples/README.md", "tools/README.md"]
exclude_patterns = [".*", "build", "**/.*", "**/node_modules"]
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]

# Tables of contents by page and caption. An entry is a page, a title with a page, or a pattern for pages that no entry
# before it names.
contents = {
    "README": {
        "": ["docs/start"],
        "Read data faster": [
            "Quickstart <docs/quickstart/read>",
            "Gateway, for any language <docs/use/gateway>",
            "docs/use/gateway-clients",
            "docs/use/gateway-deploy",
            "Client, for Python <docs/use/client>",
            "Large objects <docs/use/pool>",
            "examples/README",
        ],
        "Cache functions' results": [
            "Quickstart <docs/quickstart/results>",
            "Results <docs/use/results>",
            "State databases <docs/use/state>",
        ],
        "Decide by your log": [
            "Quickstart <docs/quickstart/decide>",
            "Advice <docs/use/advise>",
            "Traces of logs <docs/use/traces>",
            "docs/use/reports",
            "Replay <docs/use/replay>",
        ],
        "Operate a stack": [
            "Quickstart <docs/quickstart/operate>",
            "Runbook <docs/operate/runbook>",
            "docs/operate/operations",
            "Costs <docs/operate/costs>",
            "Dashboard <docs/use/dashboard>",
            "docs/operate/*",
        ],
        "Reference": [
            "docs/use/commands",
            "docs/use/parameters",
            "docs/use/policies",
            "HTTP: the front door <docs/use/http>",
            "docs/api/client",
            "docs/api/files",
            "docs/api/results",
            "docs/api/state",
            "docs/api/errors",
        ],
        "Understand": [
            "docs/understand/comparison",
            "docs/understand/glossary",
            "docs/understand/architecture",
            "Lifecycle <docs/understand/lifecycle>",
            "Consistency <docs/understand/consistency>",
            "docs/understand/*",
        ],
        "Evidence": ["docs/evidence/measurements", "docs/evidence/*"],
        "Project": ["CHANGELOG", "CONTRIBUTING", "SECURITY", "CODE_OF_CONDUCT", "tools/README"],
    },
    "docs/evidence/measurements": {"": ["docs/evidence/measurements/*"]},
    "docs/understand/decisions": {"": ["docs/understand/decisions/*"]},
}

# Pages are CommonMark with tables, as on a forge. Some of MyST's further syntax would lose text: a line that begins
# with a per cent sign is a comment.
myst_disable_syntax = ["myst_block_break", "myst_line_comment", "myst_role", "myst_target"]
myst_heading_anchors = 6
highlight_language = "text"
smartquotes_action = "D"  # dashes, which Sphinx itself writes as two hyphens; quotes stay as they are written

# Docstrings mark code by single backquotes; a name that is documented becomes a link.
default_role = "py:obj"
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True
toc_object_entries_show_parents = "hide"

html_theme = "furo"
pygments_dark_style = "a11y-high-contrast-dark"
html_title = f"{project} {version}"
html_static_path = ["site.css", "site.js"]
html_css_files = ["site.css"]
html_js_files = [("site.js", {"defer": "defer"})]
html_copy_source = html_domain_indices = html_show_copyright = html_use_index = False


def setup(app: Sphinx) -> None:
    """Add the tables of contents and the front page to Sphinx's steps."""
    app.add_config_value("contents", {}, "env", dict)  # a change of it makes Sphinx read the pages again
    app.connect("source-read", add_contents)
    app.connect("build-finished", copy_front_page)


def add_contents(app: Sphinx, page: str, source: list[str]) -> None:
    """Append a page's table of contents, which only the site's navigation shows."""
    for caption, entries in app.config.contents.get(page, {}).items():
        lines = ["```{toctree}", ":glob:", ":hidden:", *([f":caption: {caption}"] if caption else []), ""]
        lines += [entry.replace("<", "</") if "<" in entry else f"/{entry}" for entry in entries]
        source[0] += "\n\n" + "\n".join([*lines, "```", ""])


def copy_front_page(app: Sphinx, exception: Exception | None) -> None:
    """Copy the README to the name that browsers and web servers open first."""
    if exception is None:
        folder = Path(app.outdir)
        shutil.copyfile(folder / "README.html", folder / "index.html")
