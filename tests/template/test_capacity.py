"""The page on capacity: its tables are those that the command prints."""

from __future__ import annotations

import pytest

from benchmarks.support.capacity_page import PAGE, renewed, table_of

_MARKED = "<!-- burstcache research scale --sweep writes_per_s -->\n{}<!-- end -->"


def test_the_tables_are_those_of_the_command() -> None:
    page = PAGE.read_text()

    assert page.count("<!-- burstcache research scale") == page.count("<!-- end -->") >= 5
    assert renewed(page) == page, "`make capacity` writes them anew"


def test_a_table_that_is_not_todays_is_replaced() -> None:
    today = f"\n{table_of('research scale --sweep writes_per_s')}\n\n"

    written = renewed(f"# Page\n\n{_MARKED.format('| old |')}\n\nText.")

    assert written == f"# Page\n\n{_MARKED.format(today)}\n\nText."
    assert renewed(written) == written


def test_a_command_that_is_refused_is_named() -> None:
    with pytest.raises(ValueError, match="--nothing"):
        table_of("research scale --nothing")
