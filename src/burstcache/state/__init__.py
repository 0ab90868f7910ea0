"""Redis databases that are awake while somebody holds them, and keep what they hold: `docs/use/state.md`."""

from burstcache.core.errors import DatabaseAsleepError, LeaseLostError
from burstcache.state.databases import async_state, connect, state

__all__ = ["DatabaseAsleepError", "LeaseLostError", "async_state", "connect", "state"]
