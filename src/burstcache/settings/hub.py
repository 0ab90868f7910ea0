"""A hub's settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from burstcache.settings.environment import Settings, given, text, whole


@dataclass(frozen=True)
class HubSettings(Settings):
    """The settings of a hub for readers that members cannot dial."""

    member_function_name: Annotated[str, text, "POOL_MEMBER_FUNCTION_NAME"]
    control_function_name: Annotated[str, text, "POOL_CONTROL_FUNCTION_NAME"]
    tls_pem: Annotated[str, given, "HUB_TLS_PEM"]  # its key and certificate; empty: without TLS
    ca_pem: Annotated[str, given, "HUB_CA_PEM"]  # what members and readers trust
    port: Annotated[int, whole, "HUB_PORT"]
