"""The front door under a few hundred requests of every kind; `make fuzz` sends a hundred thousand."""

from __future__ import annotations

from contextlib import closing

from burstcache_local.cloud import LocalCloud
from support.fuzzing import Fuzzing

_REQUESTS = 400


def test_every_request_is_answered_as_described_or_refused(cloud: LocalCloud) -> None:
    with closing(Fuzzing(cloud)) as fuzzing:
        fuzzing.run(_REQUESTS, number=1)

    assert fuzzing.tried.statuses.total() >= _REQUESTS
    assert {200, 206, 304, 400, 404, 405, 412, 416} <= fuzzing.tried.statuses.keys()
