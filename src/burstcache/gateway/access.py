"""Access to a gateway: whose requests are answered, and for which host."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

from burstcache.adapters.clock import SystemClock
from burstcache.gateway.credentials import KeyRing
from burstcache.gateway.http_messages import HttpRequest
from burstcache.gateway.s3_errors import S3Error
from burstcache.gateway.s3_requests import host_name
from burstcache.gateway.signatures import SignatureVerifier

_LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]"})


class Access:
    """The rules for a gateway's callers."""

    def __init__(self, keys: KeyRing | None, domains: Collection[str]) -> None:
        """Create the rules.

        Args:
            keys: Secrets to verify signatures with. None: requests need no signature, but have to name this machine as
                their host. Otherwise a web page whose name resolves to it (DNS rebinding) could send requests, too.
            domains: Further names of the gateway.
        """
        self._keys = keys
        self._verifier = None if keys is None else SignatureVerifier(keys.find, SystemClock())
        self._names = _LOOPBACK | set(domains)
        self._suffixes = tuple(f".{name}" for name in ("localhost", *domains))

    def check(self, request: HttpRequest) -> None:
        """Verify a request's signature, and keep it in the request. Never blocks.

        Raises:
            S3Error: The request is refused.
        """
        if self._verifier is not None:
            if request.method != b"OPTIONS":  # a browser's preflight has no signature: S3 answers by the bucket's rules
                request.signature = self._verifier.verify(request.method, request.target, request.headers)
            return
        name = host_name(request.header(b"host") or b"")
        if name and name not in self._names and not name.endswith(self._suffixes):  # none over a Unix socket
            raise S3Error(
                "AccessDenied",
                f"The host {name!r} is not a name of this gateway. Use localhost, or add it with --domain.",
            )

    def may_know_later(self, error: S3Error) -> bool:
        """Return True if newer keys might admit a request that `check` has refused."""
        return self._keys is not None and error.code in ("InvalidAccessKeyId", "InvalidToken", "ExpiredToken")

    async def check_again(self, request: HttpRequest, error: S3Error) -> None:
        """Read the keys anew and check once more, since the client may sign with newer ones. Raise S3Error."""
        assert self._keys is not None
        access_key = dict(error.details).get("AWSAccessKeyId", "")
        await asyncio.wrap_future(self._keys.refresh(access_key))
        self.check(request)
