"""State databases: durable Redis databases that run only while a client holds a lease (`docs/use/state.md`)."""

from burstcache.core.errors import DatabaseAsleepError, LeaseLostError
from burstcache.state.databases import async_state, connect, state

__all__ = ["DatabaseAsleepError", "LeaseLostError", "async_state", "connect", "state"]
