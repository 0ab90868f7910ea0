"""The stack that commands see."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from moto import mock_aws

from support.stack_in_moto import Aws


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[Aws]:
    monkeypatch.delenv("AWS_PROFILE", raising=False)
    with mock_aws(config={"stepfunctions": {"execute_state_machine": True}}):
        yield Aws()
