"""Places where a key may be, from the rows of nodes."""

from __future__ import annotations

import pytest

from burstcache.core.rows import NodeRow
from burstcache.queries.places import is_ever_guest

_HASH = "0123456789abcdef0123456789abcdef"


@pytest.mark.parametrize("phase", ["running", "stopped"])
def test_a_key_is_at_times_a_guest_where_a_run_of_its_home_takes_guests(phase: str) -> None:
    taking, alone, other = (
        NodeRow(name, phase, peers=peers)  # type: ignore[arg-type]
        for name, peers in (("node-1", ("node-1",)), ("node-2", ()), ("node-3", ("node-4",)))
    )

    assert is_ever_guest(_HASH, [alone, taking])
    assert not is_ever_guest(_HASH, [alone, other])
    assert not is_ever_guest(_HASH, [])
