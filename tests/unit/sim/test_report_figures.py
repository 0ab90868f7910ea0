"""The pictures of a report: same bytes for the same input, every request counted, nothing covered."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from burstcache.core.errors import InvalidSettingError
from burstcache.core.prices import price_sheet
from burstcache_sim.bill.comparison import Billing, compare
from burstcache_sim.bill.setup import Setup
from burstcache_sim.bill.spending import thesis_setup
from burstcache_sim.optimum.plans import plan
from burstcache_sim.policies.offline import offline
from burstcache_sim.policies.thesis import Thesis
from burstcache_sim.replay import replay
from burstcache_sim.report import lanes
from burstcache_sim.report.cost_figures import pareto_figure
from burstcache_sim.report.drawing import image_bytes, plain, write_image
from burstcache_sim.report.labels import spread
from burstcache_sim.report.money import money_over_time
from burstcache_sim.report.pictures import representative
from burstcache_sim.report.run_figure import run_figure, shares_of
from burstcache_sim.report.timescale import step_s, unit_for
from burstcache_sim.traces.generate import poisson, spike
from burstcache_sim.traces.trace import Trace
from burstcache_sim.world.scenario import Scenario
from support.runs import run
from support.searches import search

if TYPE_CHECKING:  # a third of a second, for a process that runs other tests
    from matplotlib.figure import Figure

SECOND = 1_000_000
THESIS = Thesis.configured(9, 4)
SPANS = st.lists(st.tuples(st.integers(0, 1_000), st.integers(0, 300)).map(lambda s: (s[0], s[0] + s[1])), max_size=40)


def drawn(arrivals_us: Sequence[int], **how: Any) -> Figure:
    return run_figure(arrivals_us, run(arrivals_us, THESIS), title="trace", **how)


def texts(figure: Figure) -> list[str]:
    """All texts, of the figure and of its axes."""
    found = [text.get_text() for text in figure.texts]
    return found + [text.get_text() for axes in figure.axes for text in axes.texts]


def boxes_of_texts(figure: Figure) -> list[Any]:
    """Return the bounding boxes of the texts inside the axes [pixels]."""
    figure.canvas.draw()
    from matplotlib.text import Text

    return [Text.get_window_extent(text) for text in figure.axes[0].texts]


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".svg", ".png"])
def test_the_same_run_gives_the_same_bytes(suffix: str) -> None:
    t = spike(1, 50.0, 150)

    first, second = (image_bytes(drawn(t, offline=offline(t), optimum=plan(t)), suffix) for _ in range(2))

    assert first == second
    assert b"<dc:date>" not in first


@search(100)
@given(st.lists(st.tuples(st.integers(0, 500 * SECOND), st.sampled_from("SLR")), max_size=50), st.integers(1, 200))
def test_every_request_counts_in_its_bucket_for_the_tier_that_served_it(
    requests: list[tuple[int, str]], bucket_s: int
) -> None:
    requests.sort()

    shares = shares_of(np.array([at for at, _ in requests], np.int64), "".join(tier for _, tier in requests), bucket_s)

    for row, tier in zip(shares.served, "RLS", strict=True):
        for i, count in enumerate(row):
            begin_us, end_us = shares.edges_us[i : i + 2]
            assert count == sum(begin_us <= at_us < end_us and by == tier for at_us, by in requests)


def test_tiers_fill_a_bucket_and_a_bucket_without_requests_stays_empty() -> None:
    t = [0, 1, SECOND, 100 * SECOND]

    tops = [patch.get_data().values for patch in drawn(t).axes[1].patches]  # type: ignore[attr-defined]

    assert set(tops[-1]) == {0, 100}
    assert tops[-1][0] == tops[-1][-1] == 100


def test_what_is_billed_so_far_ends_with_the_bill_and_never_falls() -> None:
    trace, billing = Trace.of_times(spike(1, 50.0, 150)), Billing(price_sheet("today-us-east-1"), Setup())
    result = replay(THESIS, Scenario(trace))

    money = money_over_time(THESIS, trace, billing, result, ("s3-only", "ec2:t4g.micro"))

    compared = {one.name: one.usd for one in compare(THESIS, trace, billing, result=result)}
    for account in money.accounts:
        assert account.usd[-1] == pytest.approx(compared[account.name])
        assert account.usd[0] == 0
        assert list(account.usd) == sorted(account.usd)
    assert money.at_us[-1] == result.end_us
    figure = run_figure(trace.arrivals_us, result, money=money)
    assert {text.split("  ")[0] for text in texts(figure)[-3:]} == {"Burstcache", "S3 alone", "ec2:t4g.micro"}


def test_a_competitor_without_a_price_has_no_line() -> None:
    trace, prices = Trace.of_times(spike(1, 50.0, 20)), price_sheet("thesis-2022")
    billing = Billing(prices, thesis_setup(prices), only_cache=True)

    money = money_over_time(THESIS, trace, billing, replay(THESIS, Scenario(trace)), ("s3-only", "ec2:t4g.micro"))

    assert [account.name for account in money.accounts] == ["burstcache", "s3-only"]


def test_a_strip_for_each_plan_names_it_and_its_cost() -> None:
    t = spike(1, 50.0, 150)

    figure = drawn(t, offline=offline(t), optimum=plan(t), usd=0.01, offline_usd=0.005, optimum_usd=0.002)

    told = texts(figure)
    assert {"This run", "0.01 USD", "Offline", "0.005 USD", "Optimum", "0.002 USD"} <= set(told)


@pytest.mark.parametrize(("requests", "counted"), [(9_999, "requests\nper"), (10_000, "thousand\nper")])
def test_many_requests_in_a_bucket_are_counted_in_thousands(requests: int, counted: str) -> None:
    at_once = [0] * requests

    figure = run_figure(at_once, run(at_once, THESIS))

    assert any(axes.get_ylabel().startswith(counted) for axes in figure.axes)


@pytest.mark.parametrize("arrivals_us", [[], [0], [5 * SECOND, 5 * SECOND], [3_600_000 * SECOND]])
def test_a_trace_of_next_to_nothing_is_drawn(arrivals_us: list[int]) -> None:
    assert image_bytes(drawn(arrivals_us, optimum=plan(arrivals_us), offline=offline(arrivals_us)))


def test_a_horizon_cuts_the_requests_that_are_drawn() -> None:
    t = poisson(1, 9.0, 600.0)
    result = run(t, THESIS, until_us=300 * SECOND)

    figure = run_figure(t, result)

    assert result.n < len(t)
    legend = figure.axes[0].get_legend()
    assert legend is not None
    assert f"S3  {result.n_s3:,} " in legend.get_texts()[0].get_text()


@search(200)
@given(SPANS)
def test_a_lane_tells_how_many_run_at_each_instant(spans_us: list[tuple[int, int]]) -> None:
    at_us, counts = lanes.running(spans_us, 0, 1_300)

    for instant in range(0, 1_300, 7):
        position = np.searchsorted(at_us, instant, side="right") - 1
        found = counts[position] if position >= 0 else 0
        assert found == sum(begin <= instant < end for begin, end in spans_us)


def test_spans_that_follow_each_other_do_not_run_at_once() -> None:
    assert lanes.running([(0, 10), (10, 20)], 0, 30)[1].max() == 1


def test_a_lane_of_very_many_spans_keeps_the_most_in_each_column() -> None:
    spans_us = [(start, start + 400) for start in range(0, 5_000_000, 500)]
    spans_us += [(2_500_000, 2_500_100)] * 7

    at_us, counts = lanes.running(sorted(spans_us), 0, 5_000_000)

    assert len(at_us) == 2_000
    assert counts.max() == 8
    assert counts.min() == 1


def test_a_long_span_is_there_in_columns_in_which_nothing_begins() -> None:
    crowd = [(at, at + 1) for at in range(1_500)]

    at_us, counts = lanes.running([(0, 1_000_000), *crowd], 0, 2_000_000)

    assert counts[(at_us > 2_000) & (at_us < 990_000)].tolist() == [1] * len(
        counts[(at_us > 2_000) & (at_us < 990_000)]
    )
    assert counts[at_us > 1_001_000].max() == 0


@search(200)
@given(st.lists(st.floats(0, 200), max_size=12).map(sorted))
def test_labels_keep_their_distance_and_their_order(heights: list[float]) -> None:
    placed = spread(heights, least=11.0, most=200.0)

    assert all(above - below >= 11.0 - 1e-9 for below, above in pairwise(placed))
    assert len(heights) * 11 > 200 or all(height <= 200.0 for height in placed)


def test_the_pareto_plot_has_each_front_and_names_each_single_system() -> None:
    figure = pareto_figure({"ours": [(90.0, 0.2), (10.0, 0.1)]}, points={"s3": (0.0, 0.01), "ec2": (99.0, 0.3)})

    front = next(line for line in figure.axes[0].get_lines() if line.get_label() == "ours")
    assert np.asarray(front.get_xdata()).tolist() == [10.0, 90.0]
    assert {"s3", "ec2"} <= set(texts(figure))


def test_the_names_of_the_pareto_plots_knobs_stay_inside_the_picture() -> None:
    names = [f"{policy}, a hit worth 1e-6 to 1e-2 USD" for policy in ("thesis", "break-even", "hazard")]

    figure = pareto_figure({name: [(10.0, 0.1)] for name in names}, subtitle="below the title")

    legend = figure.axes[0].get_legend()
    assert legend is not None
    box = legend.get_window_extent()
    assert figure.bbox.x0 <= box.x0 < box.x1 <= figure.bbox.x1
    assert not any(box.overlaps(text.get_window_extent()) for text in figure.texts)


def test_an_empty_pareto_plot_is_drawn() -> None:
    assert image_bytes(pareto_figure({"ours": []}))


def test_names_of_points_stay_inside_the_plot() -> None:
    fronts = {"knob": [(0.0, 0.7), (5.0, 1.1), (94.0, 1.0)]}

    figure = pareto_figure(
        fronts, points={"the first": (5.0, 1.14), "the second": (7.8, 1.13), "s3-only": (0.0, 0.012)}
    )

    plot = figure.axes[0].get_window_extent()
    for box in boxes_of_texts(figure):
        assert plot.x0 - 5 <= box.x0 < box.x1 <= plot.x1 + 5
        assert plot.y0 - 5 <= box.y0 < box.y1 <= plot.y1 + 5


def test_a_person_compares_with_the_node_of_the_same_size_and_the_cheapest_memory_of_a_reader() -> None:
    names = ["burstcache", "s3-only", "ec2:t4g.micro", "ec2:t4g.nano", "elasticache-redis:t2.micro", "infinicache"]
    names += ["reader-memory:256MB", "reader-memory:64MB"]
    compared: Any = [SimpleNamespace(name=name, usd=i) for i, name in enumerate(names)]

    found = [system.name for system in representative(compared, "t4g.micro")]

    nodes = ["ec2:t4g.micro", "elasticache-redis:t2.micro"]
    assert found == ["burstcache", "s3-only", "reader-memory:256MB", *nodes]


def test_a_dollar_sign_is_drawn_as_it_is() -> None:
    assert image_bytes(run_figure([0], run([0], THESIS), title=r"a$b_{$ \frac{"))


def test_a_title_may_be_long_and_in_any_script() -> None:
    figure = run_figure([0], run([0], THESIS), title="日志 " * 100)

    assert image_bytes(figure, ".png")
    assert len(figure.texts[0].get_text()) == 70


def test_a_persons_own_settings_of_matplotlib_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    import matplotlib as mpl

    t = spike(1, 50.0, 20)
    plainly = image_bytes(drawn(t))

    monkeypatch.setitem(mpl.rcParams, "axes.facecolor", "red")
    monkeypatch.setitem(mpl.rcParams, "font.size", 30.0)

    assert image_bytes(drawn(t)) == plainly
    assert mpl.rcParams["font.size"] == 30.0


def test_another_kind_of_picture_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidSettingError, match=r"x\.gif: expected a name that ends in \.svg or \.png"):
        write_image(drawn([0]), tmp_path / "x.gif")


def test_a_picture_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidSettingError, match=r"expected a file that can be written"):
        write_image(drawn([0]), tmp_path / "absent" / "x.svg")


@pytest.mark.parametrize(("span_s", "unit"), [(1, "s"), (600, "s"), (601, "min"), (18_001, "h"), (10**6, "d")])
def test_a_span_is_printed_in_a_unit_of_its_size(span_s: int, unit: str) -> None:
    assert unit_for(span_s * SECOND).name == unit


@pytest.mark.parametrize("span_s", [1, 7, 59, 1_800, 45_358, 10**6, 10**8, 10**9])
def test_steps_are_round_and_few(span_s: int) -> None:
    step = step_s(span_s * SECOND, most=60)

    assert span_s / step <= 60


@pytest.mark.parametrize(("value", "text"), [(0.00005, "0.00005"), (20.0, "20"), (0.5, "0.5"), (5e-7, "5e-7")])
def test_a_number_has_an_exponent_only_where_zeros_would_fill_the_margin(value: float, text: str) -> None:
    assert plain(value) == text
