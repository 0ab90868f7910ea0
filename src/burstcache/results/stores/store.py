"""What a place that several processes share must do for results."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

PING_TIMEOUT_S = 5.0


class Store(Protocol):
    """Bytes by key, for a time. Threads share it.

    Every method raises ResultStoreDownError if the place does not answer in time, ResultStoreRefusalError if it answers
    that it does not do this.
    """

    name: str  # its kind: a value of the metrics' dimension Layer

    def get(self, key: str, *, most_bytes: int) -> bytes | None:
        """Return what is kept under a key, or of something larger its start, at least one byte more than `most_bytes`.

        Whatever somebody has put there, it does not fill the caller's memory.
        """
        ...

    def put(self, key: str, data: bytes, *, kept_ms: int) -> None:
        """Keep bytes for this long, above 0 [ms]."""
        ...

    def forget(self, key: str) -> None:
        """Remove what is kept under a key."""
        ...

    def ping(self) -> None:
        """Return if the place answers within PING_TIMEOUT_S; raises any error.

        Nobody waits for it, so it may take longer than what a caller waits for, as a first connection over TLS does.
        """
        ...

    def close(self) -> None:
        """Close the connections; a later call opens new ones."""
        ...


@runtime_checkable
class LeasingStore(Store, Protocol):
    """A store that also knows who computes a result that is missing."""

    def take_lease(self, key: str, token: str, *, lease_ms: int, most_bytes: int) -> tuple[bool, bool, bytes | None]:
        """Take the lease of a key, if nobody has it.

        Returns:
            Whether it is the caller's now, whether it is open (the last holder had no result to keep, so that nobody
            need wait), and what `get` returns, read after the lease was taken.
        """
        ...

    def renew_lease(self, key: str, token: str, *, lease_ms: int) -> None:
        """Hold a lease for longer, if it is still the caller's."""
        ...

    def return_lease(self, key: str, token: str, *, open_ms: int) -> None:
        """Give a lease back, if it is still the caller's; with `open_ms` above 0 it is open for this long [ms]."""
        ...
