"""The model of reports about one node says what the present rule gives up, and what the former gave up."""

from __future__ import annotations

import pytest

from research.reports_about_a_node import RULES, Rule, simulate


@pytest.mark.parametrize("window_s", [0.010, 0.025])
def test_at_200_reports_a_second_none_is_given_up_nor_read_again(window_s: float) -> None:
    before, now = (simulate(rule, 200, window_s, length_s=20) for rule in RULES)

    assert before.given_up_share > 0.3
    assert (now.given_up, now.reads) == (0, now.reports)
    assert now.writes <= 2 * now.reports
    assert len(now.delays_s) == now.reports
    assert now.most_pending < 40


@pytest.mark.parametrize("rule", RULES)
def test_a_report_that_meets_no_other_takes_a_read_and_a_write(rule: Rule) -> None:
    found = simulate(rule, 0.01, 0.010, length_s=10_000)

    assert (found.reads, found.writes, found.given_up) == (found.reports, found.reports, 0)
