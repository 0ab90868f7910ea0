"""Of many combinations the quick ones still have each two answers together."""

from __future__ import annotations

from itertools import combinations, product

from support.combinations import pairs_first

EVERY = [dict(zip("abcdef", values, strict=True)) for values in product("xy", "xy", "xyz", "xy", "xyz", "xy")]


def test_each_two_answers_meet_in_a_quick_combination_and_all_combinations_are_there() -> None:
    found = pairs_first(EVERY)

    quick = [each for each in found if isinstance(each, dict)]
    assert len(found) == len(EVERY)
    assert len(quick) < len(EVERY) / 5
    assert {pair for each in quick for pair in combinations(each.items(), 2)} == {
        pair for each in EVERY for pair in combinations(each.items(), 2)
    }
