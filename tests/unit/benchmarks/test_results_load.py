"""Evaluation of the results load: figures and tables from measurements, and their plots."""

from __future__ import annotations

import math

import pytest

from benchmarks import results_load, results_places, state_operations, state_reaction, state_students
from benchmarks.results_load import Answer, Load, Measured, Run
from benchmarks.state_students import PARTS
from burstcache_sim.report.drawing import drawing
from examples.thumbnails.pictures import SIZES_PX


def answers(status: int, per_s: int, for_s: float = 2.0) -> list[Answer]:
    return [Answer(number / per_s, status, 2.0) for number in range(int(per_s * for_s))]


def offered(per_s: float, *, hits_per_s: int, refused_per_s: int = 0) -> Run:
    return Run("rate", per_s, answers=answers(200, hits_per_s) + answers(503, refused_per_s), service_cpu_s=1.0)


@pytest.fixture
def measured() -> Measured:
    """A service that saturates at 100 requests a second, and then refuses."""
    waiting = [Run(f"{clients} × 500", answers=answers(200, 100)) for clients in (1, 5)]
    rates = [
        offered(50, hits_per_s=50),
        offered(100, hits_per_s=100),
        offered(200, hits_per_s=96, refused_per_s=104),
        offered(300, hits_per_s=80, refused_per_s=220),
    ]
    return Measured(100.0, waiting, rates, {"in process": waiting})


def test_hits_are_counted_per_second_and_refusals_are_none() -> None:
    run = Run("clients", answers=answers(200, 40) + answers(503, 40))

    assert run.hits_per_s(bin_s=0.5) == [40.0] * 3


def test_a_rate_is_that_of_the_counted_time() -> None:
    run = offered(100, hits_per_s=60, refused_per_s=40)

    assert (run.rate_per_s(200), run.rate_per_s(503), run.rate_per_s(500)) == (60, 40, 0)
    assert run.asked_per_s == pytest.approx(100, abs=2)
    assert math.isnan(run.latency_ms(500, 0.5))


def test_the_rest_of_the_peak_is_taken_at_twice_the_rate_that_saturates(measured: Measured) -> None:
    assert measured.kept_share(lambda run: run.rate_per_s(200)) == pytest.approx(0.96)


def test_rosas_load_stands_next_to_ours(measured: Measured) -> None:
    table = results_load.table_of(measured, Load(requests=(500,)))

    assert all(table.columns)
    assert table.rows == [
        ["1 client, 500 each", "16", "101", "101"],
        ["5 clients, 500 each", "65 to 75, peak 80.6", "101", "101"],
    ]
    assert "at twice as many 96% of the peak are left" in table.note
    assert "Failed: 0" in table.note


def test_the_pictures_can_be_drawn(measured: Measured) -> None:
    rows = [
        results_places.Row(size_bytes, place, [1.0] * 10, [2.0] * 10)
        for size_bytes in SIZES_PX
        for place in (*results_places.ROSA_MS[size_bytes], results_places.DELAYED)
    ]
    side = state_operations.Side()
    for _ in range(2):
        side.add({"write_ms": 1.0, "read_ms": 1.0, "delete_ms": 1.0})

    with drawing():
        figures = [
            results_load.figure_of(measured),
            results_places.figure_of(rows),
            state_operations.figure_of({"one by one": side}),
            state_reaction.figure_of([state_reaction.Reactions(1.0, [1.5, 1.6], [0.1, 0.2])]),
            state_students.figure_of([state_students.Student(dict.fromkeys(PARTS, 1.0), is_found=True, boots=2)]),
        ]

    assert [len(figure.axes) for figure in figures] == [4, 3, 1, 1, 1]
