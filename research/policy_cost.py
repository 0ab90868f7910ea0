"""The cost of the policies per key at the thesis policy's own in-memory share, as `benchmarks.policy_cost` measures it.

python -m research.policy_cost [--policy NAME] [--first-seed N] [--seeds N] [--without-optimum]
"""

from __future__ import annotations

from benchmarks.policy_cost import main
from research.policies.registry import PER_KEY

if __name__ == "__main__":
    main(PER_KEY)
