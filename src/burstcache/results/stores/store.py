"""Store protocols: a shared store of results, and a shared store with leases."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

PING_TIMEOUT_S = 5.0


class Store(Protocol):
    """A thread-safe store of bytes by key, each with a lifetime.

    Every method raises ResultStoreDownError if the store times out or is unreachable, and ResultStoreRefusalError if
    the store refuses the operation.
    """

    name: str  # the kind of store, a value of the metrics' dimension Source

    def get(self, key: str, *, most_bytes: int) -> bytes | None:
        """Return the value at a key. A value larger than `most_bytes` may be truncated to `most_bytes` + 1 bytes.

        The limit protects the caller's memory, since stored values are untrusted.
        """
        ...

    def put(self, key: str, data: bytes, *, kept_ms: int) -> None:
        """Store bytes for this time, above 0 [ms]."""
        ...

    def forget(self, key: str) -> None:
        """Remove the value at a key."""
        ...

    def ping(self) -> None:
        """Raise an error unless the store responds within PING_TIMEOUT_S.

        No caller waits for a ping, so its timeout is longer: a first connection over TLS takes time.
        """
        ...

    def close(self) -> None:
        """Close the connections. A later call opens new ones."""
        ...


@runtime_checkable
class LeasingStore(Store, Protocol):
    """A store that also grants leases to compute missing results."""

    def take_lease(self, key: str, token: str, *, lease_ms: int, most_bytes: int) -> tuple[bool, bool, bytes | None]:
        """Take the lease of a key, if it is free.

        Returns:
            Whether the caller holds the lease, whether the lease is open (the last holder's result was not cacheable,
            so no caller need wait), and the result of `get`, read after the lease was taken.
        """
        ...

    def renew_lease(self, key: str, token: str, *, lease_ms: int) -> None:
        """Extend the caller's lease, unless it has expired."""
        ...

    def return_lease(self, key: str, token: str, *, open_ms: int) -> None:
        """Release the caller's lease, unless it has expired. `open_ms` above 0 leaves it open for that time [ms]."""
        ...
