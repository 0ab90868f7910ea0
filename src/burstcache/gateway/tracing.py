"""Tracing of a gateway with OpenTelemetry: off unless the standard variables name an exporter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from burstcache import __version__
from burstcache.gateway.s3_requests import Targets
from burstcache.logs import logger

if TYPE_CHECKING:
    from burstcache.gateway.spans import Spans

_EXPORTER = "OTEL_TRACES_EXPORTER"
_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_OTLP = {"": "otlp_proto_http", "http/protobuf": "otlp_proto_http", "grpc": "otlp_proto_grpc"}


def exporter_names(environ: Mapping[str, str]) -> list[str]:
    """Return the exporters of spans that environment variables name, as OpenTelemetry's SDKs read them.

    An endpoint for OTLP is enough. Without any of these variables there are none, although the SDKs' default is OTLP.

    Raises:
        ValueError: OTLP's protocol is unknown.
    """
    if environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return []
    given = environ.get(_EXPORTER, "").strip() or ("otlp" if any(map(environ.get, _ENDPOINTS)) else "none")
    names = [each.strip() for each in given.split(",")]
    if "otlp" in names:
        protocol = next(filter(None, (environ.get(each, "").strip() for each in _PROTOCOLS)), "")
        if protocol not in _OTLP:
            raise ValueError(f"OTLP's protocol {protocol!r}; accepted: {', '.join(filter(None, _OTLP))}")
        names[names.index("otlp")] = _OTLP[protocol]
    return [each for each in names if each not in ("", "none")]


def start_tracing(environ: Mapping[str, str], targets: Targets, s3: Any) -> Spans | None:
    """Start this process's exporters of spans. Return None if there are none, or if one does not start.

    A fork keeps no thread, so each process has to call it for itself.

    Args:
        environ: Environment variables.
        targets: Parses request targets.
        s3: A boto3 client of S3.
    """
    try:
        if not (names := exporter_names(environ)):
            return None
        from burstcache.gateway.spans import Spans, provider_of

        return Spans(provider_of(names), targets, s3)
    except ModuleNotFoundError as error:
        reason = f"{error.name} is missing. Run: pip install 'burstcache[gateway,otel]=={__version__}'"
        logger().warning("the gateway makes no spans", reason=reason)
    except Exception as error:  # a tracer that does not start must not keep the gateway from its work
        logger().warning("the gateway makes no spans", reason=f"{type(error).__name__}: {error}")
    return None
