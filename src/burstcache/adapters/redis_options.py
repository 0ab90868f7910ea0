"""Options of redis-py connections, with names that differ between supported versions."""

from __future__ import annotations

from inspect import signature
from typing import Any

from redis.connection import AbstractConnection

# Disable CLIENT SETINFO, which costs two round trips per connection. redis-py 7 has one option, 5 and 6 have two.
WITHOUT_SETINFO: dict[str, Any] = (
    {"driver_info": None}
    if "driver_info" in signature(AbstractConnection.__init__).parameters
    else {"lib_name": None, "lib_version": None}
)
