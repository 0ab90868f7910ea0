"""Settings of a pool hub."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from burstcache.settings.environment import Settings, text, text_or_empty, whole_number


@dataclass(frozen=True)
class HubSettings(Settings):
    """Environment of a hub that serves readers unreachable from members."""

    member_function_name: Annotated[str, text, "POOL_MEMBER_FUNCTION_NAME"]
    control_function_name: Annotated[str, text, "POOL_CONTROL_FUNCTION_NAME"]
    tls_pem: Annotated[str, text_or_empty, "HUB_TLS_PEM"]  # private key and certificate; empty without TLS
    ca_pem: Annotated[str, text_or_empty, "HUB_CA_PEM"]  # CA trusted by members and readers
    port: Annotated[int, whole_number, "HUB_PORT"]
