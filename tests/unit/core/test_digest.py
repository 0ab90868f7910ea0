"""What a reader learns from one digest after another."""

from __future__ import annotations

import pytest

from burstcache.core.digest import Digest

DIGEST = Digest(sequence=10, changes=("a", "b", "c"))


@pytest.mark.parametrize(
    ("known", "changed"),
    [(10, ()), (9, ("c",)), (7, ("a", "b", "c")), (6, None), (0, None), (11, None)],
    ids=["all", "all but one", "none of the log", "older than the log", "nothing", "of another table"],
)
def test_changes_since_a_number_are_named_or_unknown(known: int, changed: tuple[str, ...] | None) -> None:
    assert DIGEST.changed_since(known) == changed
