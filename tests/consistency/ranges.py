"""A hundred thousand steps of `support.any_range`: any range of any version. Exit code 1 for the first wrong answer.

    PYTHONPATH=tests python -m consistency.ranges [STEPS]     (`make consistency-ranges`, 100,000 by default)

Steps and answers are counted in `build/ranges.json`. An interrupted run continues, unless the code has changed since,
and a complete one begins anew.
"""

from __future__ import annotations

import json
import logging
import sys
import traceback
from collections import Counter
from pathlib import Path

from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from chaos.code import code_of
from support import quick
from support.any_range import AnyRange

_KEPT = Path("build/ranges.json")
_EXAMPLES, _STEPS = 200, 60  # of a piece: runs, and steps of a run at most
_STEP = "step: "


def main() -> int:
    """Run the steps that are missing; return the exit code."""
    quick.apply()
    logging.getLogger("burstcache").setLevel(logging.CRITICAL)  # damage and failures are many
    wanted = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    code = code_of(also=("tests/consistency", "tests/support"))
    kept = json.loads(_KEPT.read_text()) if _KEPT.exists() else {}
    if kept.get("code") != code or _steps(kept.get("counts", {})) >= wanted:
        kept = {"counts": {}}
    while _steps(kept["counts"]) < wanted:
        AnyRange.counts.clear()
        try:
            run_piece()
        except Exception:
            traceback.print_exc()
            return 1
        kept = {"code": code, "counts": dict(sorted((Counter(kept["counts"]) + AnyRange.counts).items()))}
        _KEPT.parent.mkdir(exist_ok=True)
        _KEPT.write_text(json.dumps(kept))
        print(f"{_steps(kept['counts']):,} of {wanted:,} steps", flush=True)
    print("\n".join(f"{count:>9,} {name}" for name, count in kept["counts"].items()))
    return 0


def run_piece() -> None:
    """Run some random steps. Raises AssertionError for a wrong answer, with the shortest steps to it."""
    effort = settings(
        max_examples=_EXAMPLES,
        stateful_step_count=_STEPS,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate, Phase.shrink],
    )
    run_state_machine_as_test(AnyRange, settings=effort)


def _steps(counts: dict[str, int]) -> int:
    return sum(count for name, count in counts.items() if name.startswith(_STEP))


if __name__ == "__main__":
    sys.exit(main())
