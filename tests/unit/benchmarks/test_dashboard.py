"""The dashboard's widgets, computed from metrics as CloudWatch computes them."""

from __future__ import annotations

import pytest

from benchmarks.dashboard import Series, Widget, evaluated, template_widgets
from burstcache_local.emf import MetricId, Sample


def _told(tier: str, at_s: int, latencies_ms: list[float]) -> tuple[MetricId, list[Sample]]:
    metric = MetricId("Burstcache", "LatencyMs", frozenset({("Stack", "burstcache"), ("Tier", tier)}))
    return metric, [Sample(metric, "Milliseconds", latency_ms, at_s * 1000) for latency_ms in latencies_ms]


def _drawn(title: str, told: dict[MetricId, list[Sample]]) -> dict[str, Series]:
    (widget,) = (widget for each in template_widgets() if title in (widget := Widget.of(each)).title)
    return {line.label: series for line, series in widget.series(told)}


def test_reads_are_counted_by_tier() -> None:
    told = dict([_told("s3", 0, [50, 60]), _told("redis", 10, [1, 1, 1])])

    drawn = _drawn("Reads by what answers", told)

    assert drawn["S3"] == {0: 2}
    assert drawn["Redis"] == {10: 3}


def test_what_is_saved_is_waited_for_s3_and_not_for_a_tier() -> None:
    told = dict([_told("s3", 0, [40, 60]), _told("redis", 10, [1, 1]), _told("lambda", 10, [2])])

    drawn = _drawn("Waiting, compared with S3", told)

    assert drawn["seconds not waited for S3"] == {0: 0, 10: pytest.approx((3 * 50 - 4) / 1000)}


def test_every_expression_of_the_dashboard_can_be_computed() -> None:
    for widget in map(Widget.of, template_widgets()):
        assert [series for _, series in widget.series({})] == [{}] * sum(line.is_visible for line in widget.lines)


def test_what_is_no_sum_or_product_is_refused() -> None:
    with pytest.raises(ValueError, match=r"expression 'RATE\(a\)'"):
        evaluated("RATE(a)", {"a": {0: 1.0}})
