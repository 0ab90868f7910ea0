"""Access to a gateway: whose requests are answered, and for which host."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

from burstcache.adapters.clock import SystemClock
from burstcache.gateway.credentials import KeyRing
from burstcache.gateway.http_messages import HttpRequest
from burstcache.gateway.s3_errors import S3Error
from burstcache.gateway.s3_requests import Targets, host_name
from burstcache.gateway.signature_v2 import Version2Verifier, is_version_2
from burstcache.gateway.signatures import SignatureVerifier

_OF_KEYS = ("InvalidAccessKeyId", "InvalidToken", "ExpiredToken")  # the client may sign with newer keys
_KEYS_WITHIN_S = 5.0  # how long a request waits for newer keys
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
        self._version_2 = None if keys is None else Version2Verifier(keys.find, SystemClock())
        self._targets = Targets(("localhost", *domains))
        self._names = _LOOPBACK | set(domains)
        self._suffixes = tuple(f".{name}" for name in ("localhost", *domains))

    def check(self, request: HttpRequest) -> bool:
        """Verify a request's signature, and note that it may be answered. Never blocks.

        Return False if newer keys may admit it (`check_again`).

        Raises:
            S3Error: The request is refused.
        """
        try:
            self._check(request)
        except S3Error as error:
            if self._keys is None or error.code not in _OF_KEYS:
                raise
            return False
        return True

    async def check_again(self, request: HttpRequest) -> None:
        """Read the keys anew if they do not admit a request, and check it once more.

        Raises:
            S3Error: The request is refused, or the keys cannot be read in time. SDKs repeat the latter.
        """
        try:
            self._check(request)
        except S3Error as error:
            if self._keys is None or error.code not in _OF_KEYS:
                raise
            refreshed = asyncio.wrap_future(self._keys.refresh(dict(error.details).get("AWSAccessKeyId", "")))
            # Others wait for the same read, so neither the timeout nor a cancelled request may cancel it.
            done, _ = await asyncio.wait((refreshed,), timeout=_KEYS_WITHIN_S)
            if not done:
                message = "The access keys are being read. Please try again."
                raise S3Error("ServiceUnavailable", message) from None
            self._check(request)

    def _check(self, request: HttpRequest) -> None:
        if self._verifier is None or self._version_2 is None:
            name = host_name(request.header(b"host") or b"")
            if name and name not in self._names and not name.endswith(self._suffixes):  # none over a Unix socket
                raise S3Error(
                    "AccessDenied",
                    f"The host {name!r} is not a name of this gateway. Use localhost, or add it with --domain.",
                )
        elif request.method != b"OPTIONS":  # a browser's preflight has no signature: S3 answers by the bucket's rules
            if is_version_2(request.target, request.header(b"authorization")):
                bucket = self._targets.bucket_of(request.header(b"host") or b"")
                request.signature = self._version_2.verify(request.method, request.target, request.headers, bucket)
            else:
                request.signature = self._verifier.verify(request.method, request.target, request.headers)
        request.is_authorised = True
