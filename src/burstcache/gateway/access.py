"""Access to a gateway: whose requests are answered, and for which host."""

from __future__ import annotations

from collections.abc import Collection

from burstcache.gateway.http_messages import HttpRequest
from burstcache.gateway.s3_errors import S3Error
from burstcache.gateway.s3_requests import host_name
from burstcache.gateway.signatures import SignatureVerifier

_LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]"})


class Access:
    """The rules for a gateway's callers."""

    def __init__(self, verifier: SignatureVerifier | None, domains: Collection[str]) -> None:
        """Create the rules.

        Args:
            verifier: Verifies signatures. None: requests need no signature, and have to address the loopback, since a
                web page that resolves its own name to this machine (DNS rebinding) could send requests, too.
            domains: Further names of the gateway.
        """
        self._verifier = verifier
        self._names = _LOOPBACK | set(domains)
        self._suffixes = tuple(f".{name}" for name in ("localhost", *domains))

    def check(self, request: HttpRequest) -> None:
        """Verify a request's signature, and remember it in the request.

        Raises:
            S3Error: The request is refused.
        """
        if self._verifier is not None:
            if request.method != b"OPTIONS":  # a browser's preflight has no signature, and S3 answers it by the bucket
                request.signature = self._verifier.verify(request.method, request.target, request.headers)
            return
        name = host_name(request.header(b"host") or b"")
        if name and name not in self._names and not name.endswith(self._suffixes):  # a Unix socket needs no host
            raise S3Error(
                "AccessDenied", f"The host {name!r} is not one of this gateway's names; accepted: localhost, --domain."
            )
