"""Choice of the dashboard pictures that are drawn side by side."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from benchmarks.dashboard_pictures import Frame, StateUnseenError, chosen, chosen_default, sheet


def frame(at_ms: float, **counts: int) -> Frame:
    return Frame(at_ms, Counter(counts), f"<svg>{at_ms:g}</svg>")


ONCE = [
    frame(0, S3=44),
    frame(1, S3=42, Lambda=2),
    frame(2, S3=40, Lambda=4),
    frame(3, S3=40, RedisBootup=4),
    frame(4, S3=40, RedisRunning=4),
    frame(5, S3=41, RedisShutdown=3),
    frame(6, S3=44),
]
AGAIN = [
    frame(7, S3=40, RestrictedLambda=4),
    frame(8, S3=40, RedisBootup=4),
    frame(9, S3=40, RedisRunning=4),
    frame(10, S3=44),
]


def test_each_state_has_the_diagram_with_most_keys_in_it() -> None:
    found = [(state, frame.at_ms) for state, frame in chosen([*ONCE, *AGAIN])]

    assert found == [
        ("S3", 0), ("Lambda", 2), ("RedisBootup", 3), ("RedisRunning", 4), ("RedisShutdown", 5),
        ("RestrictedLambda", 7), ("RedisRunning", 9), ("S3", 10),
    ]  # fmt: skip


def test_a_shutdown_that_was_seen_only_the_second_time_is_shown_there() -> None:
    late = [*ONCE[:5], *AGAIN[:3], frame(9.5, S3=41, RedisShutdown=3), AGAIN[3]]

    assert [state for state, _ in chosen(late)][-3:] == ["RedisRunning", "RedisShutdown", "S3"]


@pytest.mark.parametrize("state", ["Lambda", "RedisShutdown", "RestrictedLambda"])
def test_a_state_that_no_diagram_shows_is_named(state: str) -> None:
    frames = [each for each in (*ONCE, *AGAIN) if not each.counts[state]]

    with pytest.raises(StateUnseenError, match=f"no key in {state}"):
        chosen(frames)


def test_the_default_policys_burst_has_four_diagrams() -> None:
    frames = [frame(0, S3=4), frame(1, S3=3, Lambda=1), frame(2, Lambda=4), frame(3, Guest=4), frame(4, S3=4)]

    assert [(state, each.at_ms) for state, each in chosen_default(frames)] == [
        *(("S3", 0), ("Lambda", 2), ("Guest", 3), ("S3", 4)),
    ]
    with pytest.raises(StateUnseenError, match="no key in Guest"):
        chosen_default(frames[:3])


def test_a_frame_has_the_numbers_of_the_diagrams_label() -> None:
    kept: dict[str, Any] = {"at_ms": 5, "svg": "<svg/>"}
    kept["label"] = "States of keys. S3: 1,040 keys, Lambda: 1 key, Guest: 0 keys"

    assert Frame.of(kept).counts == {"S3": 1040, "Lambda": 1, "Guest": 0}


def test_a_sheet_has_each_diagram_under_its_caption_and_the_strip_below() -> None:
    html = sheet([("S3", "before & after", "<svg>one</svg>")], "<h2>key</h2>")

    caption = "<figcaption>1. S3<small>before &amp; after</small></figcaption>"
    assert f'{caption}<div id="diagram"><svg>one</svg></div>' in html
    assert html.endswith("<section><h2>key</h2></section></main>")
