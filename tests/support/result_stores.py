"""A shared store of results under a test's control."""

from __future__ import annotations

from burstcache.core.errors import ResultStoreDownError, ResultStoreRefusalError


class HeldStore:
    """Store with its bytes and leases in dictionaries. A test can make it down or full."""

    def __init__(self, name: str = "redis") -> None:
        self.name = name
        self.kept: dict[str, bytes] = {}
        self.leases: dict[str, str] = {}
        self.is_down = False
        self.is_full = False
        self.calls: list[str] = []

    def get(self, key: str, *, most_bytes: int) -> bytes | None:
        self._ask("get")
        return self._start(key, most_bytes)

    def put(self, key: str, data: bytes, *, kept_ms: int) -> None:
        self._ask("put")
        if self.is_full:
            raise ResultStoreRefusalError("it is full")
        self.kept[key] = data

    def forget(self, key: str) -> None:
        self._ask("forget")
        self.kept.pop(key, None)

    def ping(self) -> None:
        self._ask("ping")

    def close(self) -> None:
        self.calls.append("close")

    def take_lease(self, key: str, token: str, *, lease_ms: int, most_bytes: int) -> tuple[bool, bool, bytes | None]:
        self._ask("take_lease")
        holder = self.leases.setdefault(key, token)
        return holder == token, holder == "-", self._start(key, most_bytes)

    def renew_lease(self, key: str, token: str, *, lease_ms: int) -> None:
        self._ask("renew_lease")

    def return_lease(self, key: str, token: str, *, open_ms: int) -> None:
        self._ask("return_lease")
        if open_ms:
            self.leases[key] = "-"
        else:
            self.leases.pop(key)

    def _start(self, key: str, most_bytes: int) -> bytes | None:
        return None if key not in self.kept else self.kept[key][: most_bytes + 1]

    def _ask(self, operation: str) -> None:
        self.calls.append(operation)
        if self.is_down:
            raise ResultStoreDownError("it does not answer")
