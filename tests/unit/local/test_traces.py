"""Traces of a run, read while it continues."""

from __future__ import annotations

from pathlib import Path

import pytest

from burstcache_local.traces import segments_of_run


@pytest.mark.parametrize("later", ["", "{", '{"id": "2"', '{"id": "2"}'])
def test_a_segment_whose_line_is_still_being_written_is_not_there_yet(tmp_path: Path, later: str) -> None:
    (tmp_path / "traces.jsonl").write_text(f'{{"id": "1"}}\n{later}')

    assert segments_of_run(tmp_path) == [{"id": "1"}]
