"""A hundred thousand requests of every kind to the local run's front door. Exit code 1 for the first wrong answer.

PYTHONPATH=tests python -m fuzz [REQUESTS]     (100,000 by default)

What was sent is kept in `build/fuzz.json`: a run that was cut off is continued, unless the code has changed since, and
one that is through begins anew.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from contextlib import closing
from pathlib import Path

from chaos.code import code_of
from support.policies import THESIS

_KEPT = Path("build/fuzz.json")
_PIECE = 1_000


def main() -> int:
    """Send what is left to send; return the exit code."""
    wanted = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    code = code_of(also=("tests/fuzz", "tests/support", "tools"))
    kept = json.loads(_KEPT.read_text()) if _KEPT.exists() else {}
    if kept.get("code") != code or sum(kept.get("statuses", {}).values()) >= wanted:
        kept = {}
    from burstcache_local.cloud import LocalCloud, LocalOptions  # with moto and schemathesis, when they are needed
    from support.fuzzing import Fuzzing

    statuses, tiers = Counter(kept.get("statuses", {})), Counter(kept.get("tiers", {}))
    options = LocalOptions(boot_s=0.2, stop_s=0.2, parameters={**THESIS, "Writes": "iam"})
    with LocalCloud(options) as cloud, closing(Fuzzing(cloud)) as fuzzing:
        for number in range(kept.get("pieces", 0), sys.maxsize):
            if statuses.total() >= wanted:
                break
            fuzzing.run(_PIECE, number=number)
            statuses.update({str(status): count for status, count in fuzzing.tried.statuses.items()})
            tiers.update(fuzzing.tried.tiers)
            fuzzing.tried.clear()
            _keep({"code": code, "pieces": number + 1, "statuses": statuses, "tiers": tiers})
            print(f"{statuses.total():,} of {wanted:,} requests, by status: {_text(statuses)}; by tier: {_text(tiers)}")
    return 0


def _keep(state: dict[str, object]) -> None:
    _KEPT.parent.mkdir(exist_ok=True)
    _KEPT.write_text(json.dumps(state))


def _text(counts: Counter[str]) -> str:
    return ", ".join(f"{name or 'none'} {count:,}" for name, count in sorted(counts.items()))


if __name__ == "__main__":
    sys.exit(main())
