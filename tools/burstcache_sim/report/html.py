"""Self-contained HTML pages: embedded pictures, no script, no network, readable in dark and light mode."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from burstcache_sim.report.drawing import INK, image_bytes

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_STYLE = """
:root { color-scheme: light dark; --ink: #1f2328; --page: #ffffff; --line: #d5d9de; --faint: #5d646c; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e4e7ea; --page: #14171a; --line: #363c43; --faint: #9aa2ab; }
}
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 64rem; padding: 2rem 1.25rem 4rem; color: var(--ink); background: var(--page);
  font: 1rem/1.55 system-ui, sans-serif; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0 0 .5rem; overflow-wrap: anywhere; }
h2 { font-size: 1.15rem; margin: 2.5rem 0 .5rem; padding-top: 1rem; border-top: 1px solid var(--line); }
p { margin: .4rem 0 .8rem; max-width: 46rem; overflow-wrap: anywhere; }
p.lead { color: var(--faint); }
figure { margin: 1rem 0; overflow-x: auto; }
figure svg { display: block; width: 100%; height: auto; min-width: 38rem; }
.table { overflow-x: auto; margin: .8rem 0; }
table { border-collapse: collapse; font-size: .875rem; }
th, td { padding: .3rem .9rem .3rem 0; text-align: left; vertical-align: top; border-bottom: 1px solid var(--line); }
th { font-weight: 600; white-space: nowrap; }
td:last-child:not(.number) { min-width: 14rem; }
tbody th { font-weight: inherit; white-space: normal; min-width: 6rem; }
caption { text-align: left; padding: .3rem 0; color: var(--faint); }
summary { cursor: pointer; margin: .6rem 0; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
tr.strong :is(th, td) { font-weight: 600; }
@media print {
  :root { color-scheme: light; --ink: #1f2328; --page: #ffffff; --line: #d5d9de; --faint: #5d646c; }
  body { max-width: none; padding: 0; }
  figure, .table { overflow: visible; }
  figure svg { min-width: 0; }
  table { font-size: .7rem; }
  h2 { break-after: avoid; }
  figure, tr { break-inside: avoid; }
}
""".strip()
_NOTHING_FROM_OUTSIDE = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


@dataclass(frozen=True, slots=True)
class Section:
    """A heading and the HTML fragments below it, built by `text`, `table`, `folded` or `picture`."""

    heading: str
    parts: tuple[str, ...]


def page(title: str, sections: Sequence[Section], *, lead: str = "") -> str:
    """Return a page as HTML.

    Args:
        title: Plain text.
        sections: Sections of the page.
        lead: Plain text below the title.
    """
    body = [f"<h1>{escape(title)}</h1>"]
    if lead:
        body.append(f'<p class="lead">{escape(lead)}</p>')
    for section in sections:
        body += ["<section>", f"<h2>{escape(section.heading)}</h2>", *section.parts, "</section>"]
    return "\n".join(
        (
            "<!doctype html>",
            '<html lang="en">',
            "<head>",
            '<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{_NOTHING_FROM_OUTSIDE}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(title)}</title>",
            f"<style>\n{_STYLE}\n</style>",
            "</head>",
            "<body>",
            "<main>",
            *body,
            "</main>",
            "</body>",
            "</html>\n",
        )
    )


def text(paragraph: str) -> str:
    """Return plain text as a paragraph."""
    return f"<p>{escape(paragraph)}</p>"


def folded(summary: str, *parts: str) -> str:
    """Return HTML fragments in a section that is collapsed at first. `summary` is plain text."""
    return f"<details>\n<summary>{escape(summary)}</summary>\n{chr(10).join(parts)}\n</details>"


def table(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    caption: str,
    right: Collection[int] = (),
    strong: Collection[int] = (),
) -> str:
    """Return an HTML table with row names in the first column.

    Args:
        header: Column names.
        rows: Cells, one per column in each row.
        caption: Caption in plain text.
        right: Indexes of right-aligned number columns.
        strong: Indexes of bold rows, such as a sum.
    """
    kinds = [' class="number"' if i in right else "" for i in range(len(header))]

    def row(cells: Sequence[str], tags: Sequence[str], attributes: str = "") -> str:
        columns = (
            f"<{tag}{kind}>{escape(cell)}</{tag[:2]}>" for tag, kind, cell in zip(tags, kinds, cells, strict=True)
        )
        return f"<tr{attributes}>{''.join(columns)}</tr>"

    head = row(header, ['th scope="col"'] * len(header))
    tags = ['th scope="row"', *["td"] * (len(header) - 1)]
    body = "\n".join(row(cells, tags, ' class="strong"' if i in strong else "") for i, cells in enumerate(rows))
    name = escape(caption)  # scrollable parts need a name and keyboard focus
    return (
        f'<div class="table" tabindex="0" role="region" aria-label="{name}"><table>\n<caption>{name}</caption>\n'
        f"<thead>{head}</thead>\n<tbody>\n{body}\n</tbody>\n</table></div>"
    )


def picture(figure: Figure, *, name: str, alternative: str) -> str:
    """Return a figure as inline SVG, with text and background in the page's colours.

    Args:
        figure: The figure.
        name: A word that is unique on the page. It prefixes the ids inside the SVG.
        alternative: Alternative text for readers who cannot see the picture.
    """
    svg = image_bytes(figure, ".svg").decode("utf-8")
    svg = svg[svg.index("<svg ") :].replace(INK, "currentColor").replace("#ffffff", "var(--page)")
    svg = re.sub(r"<metadata>.*?</metadata>\s*", "", svg, flags=re.DOTALL)
    svg = re.sub(r'\bid="', f'id="{name}-', svg)
    svg = re.sub(r'(url\(|xlink:href=")#', rf"\1#{name}-", svg)
    svg = svg.replace("<svg ", f'<svg role="img" aria-label="{escape(alternative)}" ', 1)
    return f'<figure tabindex="0">\n{svg.strip()}\n</figure>'
