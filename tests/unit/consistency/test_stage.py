"""A short history of a whole stack on the virtual clock is recorded, and right."""

from __future__ import annotations

from collections import Counter

import pytest

from consistency.__main__ import check, record
from consistency.setting import Setting

_SETTINGS = [
    Setting("thesis", False, "api"),
    Setting("thesis", True, "direct", has_faults=False),
    Setting("breakeven", False, "direct"),
    Setting("breakeven", True, "api", has_queue=False),
]


@pytest.mark.slow
@pytest.mark.parametrize("setting", _SETTINGS, ids=lambda each: f"{each.policy}-{each.has_express}-{each.way}")
def test_the_histories_of_a_stack_have_no_violation(setting: Setting) -> None:
    history, _, events = record(setting, seed=1, operations=1_500)

    kinds = Counter(each.kind for each in history)
    assert kinds["read"] > 1_000
    assert kinds["write"] > 3
    assert all(each.is_known for each in history if each.kind == "read")
    assert {"s3", "memory"} < {each.tier for each in history if each.kind == "read"}
    assert {"announce", "S3's event is followed"} <= {event.what for event in events}
    assert check(history, events=events) == ""
