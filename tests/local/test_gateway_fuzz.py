"""The gateway under a few hundred requests of every kind; `make fuzz-gateway` sends a hundred thousand."""

from __future__ import annotations

import pytest

from support.gateway_fuzzing import fuzzing

pytestmark = pytest.mark.slow

_REQUESTS = 300


def test_no_request_of_any_kind_gets_a_wrong_answer_or_an_error_of_the_gateway() -> None:
    with fuzzing() as gateways:
        gateways.run(_REQUESTS, number=0)

    assert gateways.statuses.keys() >= {200, 206, 304, 400, 403, 404, 412}
