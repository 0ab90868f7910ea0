"""Tracing of a gateway: which environment variables switch it on, and that nothing is imported without them."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from burstcache.gateway.tracing import exporter_names
from support.project import PYTHONPATH

_IMPORTED = """
import os, sys
import burstcache.gateway.command
from burstcache.gateway.tracing import start_tracing
assert start_tracing(os.environ, None, None) is None
print([name for name in sys.modules if name.startswith("opentelemetry")])
"""


@pytest.mark.parametrize(
    ("variables", "names"),
    [
        ({}, []),
        ({"OTEL_SERVICE_NAME": "reader"}, []),
        ({"OTEL_TRACES_EXPORTER": "none"}, []),
        ({"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}, []),
        ({"OTEL_TRACES_EXPORTER": "otlp", "OTEL_SDK_DISABLED": "True"}, []),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, ["otlp_proto_http"]),
        ({"OTEL_TRACES_EXPORTER": " console , otlp"}, ["console", "otlp_proto_http"]),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}, ["otlp_proto_http"]),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://collector:4318/v1/traces"}, ["otlp_proto_http"]),
        ({"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, ["otlp_proto_grpc"]),
        (
            {
                "OTEL_TRACES_EXPORTER": "otlp",
                "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc",
                "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf",
            },
            ["otlp_proto_http"],
        ),
    ],
)
def test_exporters_are_those_of_the_standard_variables(variables: dict[str, str], names: list[str]) -> None:
    assert exporter_names(variables) == names


def test_an_unknown_protocol_is_named_with_those_that_are_known() -> None:
    with pytest.raises(ValueError, match="'http/json'; accepted: http/protobuf, grpc"):
        exporter_names({"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/json"})


@pytest.mark.slow
def test_nothing_of_opentelemetry_is_imported_without_an_exporter() -> None:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    done = subprocess.run(
        [sys.executable, "-c", _IMPORTED], env={**environ, "PYTHONPATH": PYTHONPATH}, capture_output=True, text=True
    )

    assert (done.stdout, done.stderr) == ("[]\n", "")
