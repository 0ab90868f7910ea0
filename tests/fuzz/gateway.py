"""A hundred thousand requests of every kind to two gateways in front of moto. Exit code 1 for the first wrong answer.

PYTHONPATH=tests python -m fuzz.gateway [REQUESTS] [SEED]     (100,000 by default, from seed 0)

A wrong answer is one that differs from S3's, or a status of 500 or above that S3 has not given; 501 refuses what a
gateway does not do. Of a piece of a thousand requests, the seed is its number.
"""

from __future__ import annotations

import sys


def main() -> int:
    """Send the requests; return the exit code."""
    from support.gateway_fuzzing import fuzzing  # with moto, when it is needed

    wanted = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    number = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    with fuzzing() as gateways:
        while gateways.statuses.total() < wanted:
            gateways.run(min(1_000, wanted), number=number)
            number += 1
            counts = ", ".join(f"{status or 'none'} {count:,}" for status, count in sorted(gateways.statuses.items()))
            failed = f"{gateways.failures_of_s3.total():,} failures of moto's own"
            print(f"{gateways.statuses.total():,} of {wanted:,} requests, by status: {counts}; {failed}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
