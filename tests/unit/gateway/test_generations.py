"""Generations of keys, which a gateway's processes share."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from burstcache.gateway.generations import GenerationCheck, Generations

PROCESSES, HASHES = 3, ("0000" + 28 * "a", "0000" + 28 * "b", "ffff" + 28 * "c")
STEPS = st.lists(
    st.tuples(st.sampled_from(["read", "write", "die"]), st.integers(0, PROCESSES - 1), st.sampled_from(HASHES)),
    max_size=60,
)


@given(STEPS)
def test_no_process_reads_a_copy_from_before_another_ones_write(steps: list[tuple[str, int, str]]) -> None:
    generations, versions = Generations(PROCESSES), dict.fromkeys(HASHES, 0)
    copies: list[dict[str, int]] = [{} for _ in range(PROCESSES)]
    checks = [GenerationCheck(generations, each, _dropping(copies[each])) for each in range(PROCESSES)]
    for kind, process, hash_ in steps:
        if kind == "read":
            checks[process].refresh(hash_)
            assert copies[process].setdefault(hash_, versions[hash_]) == versions[hash_]
        elif kind == "write":
            checks[process].invalidate(hash_)
            versions[hash_] += 1
            checks[process].invalidate(hash_)
        else:  # in the middle of a write, whose second half another process does
            generations.increment(hash_, process)
            versions[hash_] += 1
            generations.increment_all()
            copies[process].clear()


def _dropping(copies: dict[str, int]) -> Callable[[str], None]:
    def drop(hash_: str) -> None:
        copies.pop(hash_, None)

    return drop


def test_a_key_that_nobody_writes_is_never_dropped() -> None:
    dropped: list[str] = []
    generations = Generations(1)
    check = GenerationCheck(generations, 0, dropped.append)
    check.invalidate(HASHES[2])
    dropped.clear()
    for _ in range(3):
        check.refresh(HASHES[0])
    assert dropped == []
