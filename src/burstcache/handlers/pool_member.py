"""A pool member, which keeps chunks of large objects in memory, and serves the hub named in an invocation."""

from __future__ import annotations

import asyncio
import os
from typing import Any

from burstcache.adapters.clock import SystemClock
from burstcache.core.errors import InvalidSettingError
from burstcache.core.messages.pool import MemberState
from burstcache.core.pool.chunk_store import ChunkStore, member_bytes
from burstcache.core.pool.keep_alive import KeepAlive, keep_alive_prices
from burstcache.core.worth import sheet_of_region, wait_usd_from_text
from burstcache.handlers._init import at_init, init_s, logs_requests
from burstcache.pool.environment import MemberEnvironment
from burstcache.settings.pool_member import PoolMemberSettings

_LEFT_S = 5.0  # before the function's timeout, so that a BYE is never late
_clock = SystemClock()


@at_init
def environment() -> tuple[MemberEnvironment, asyncio.Runner]:
    """Build the environment of a member, and the event loop of all its invocations."""
    settings = PoolMemberSettings.read(os.environ)
    store = ChunkStore(member_bytes(settings.memory_mb))
    prices = keep_alive_prices(
        sheet_of_region(settings.region),
        memory_mb=settings.memory_mb,
        wait_usd=wait_usd_from_text(settings.hit_value_usd_per_million),
    )
    keep_alive = KeepAlive.initial(prices)
    runner = asyncio.Runner()
    member = MemberEnvironment(store, keep_alive, _clock, demands_tls=settings.demands_tls, init_s=init_s())
    return member, runner


@logs_requests
def handler(event: dict[str, Any], context: Any) -> MemberState:
    """Serve a hub as long as staying pays, or answer immediately. Return the state of this environment."""
    began_s = _clock.monotonic_s()
    member, runner = environment()
    match event.get("op"):
        case "serve":
            until_s = began_s + context.get_remaining_time_in_millis() / 1000 - _LEFT_S
            runner.run(member.serve(context.tenant_id, event["hub"], until_s=until_s, is_replica=event["peer"]))
        case "warm":
            pass
        case other:
            raise InvalidSettingError(f"op {other!r}: expected serve or warm")
    return member.state(began_s)
