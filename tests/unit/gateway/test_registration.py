"""Registration of gateways on a machine where nothing can be written."""

from __future__ import annotations

import tempfile

import pytest

from burstcache.gateway.registration import RegisteredGateway, registered, registered_gateways


def test_a_gateway_serves_where_nothing_can_be_written(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> str:
        raise FileNotFoundError("No usable temporary directory found")

    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    monkeypatch.setattr(tempfile, "gettempdir", fail)

    with registered(RegisteredGateway("http://127.0.0.1:9000", "", 1, "examples")):
        assert registered_gateways() == []

    assert "the dashboard does not find this gateway" in caplog.text
