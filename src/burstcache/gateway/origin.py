"""Origin of a gateway: sends requests to S3 with the gateway's own credentials, streaming both ways."""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import AsyncIterator, Sequence
from typing import Any
from urllib.parse import urlsplit

import aiohttp
from botocore.credentials import RefreshableCredentials
from botocore.exceptions import BotoCoreError
from botocore.httpsession import get_cert_path
from yarl import URL

from burstcache.adapters.clock import SystemClock
from burstcache.gateway.http_connection import ConnectionLostError
from burstcache.gateway.origin_signer import OriginSigner
from burstcache.gateway.s3_errors import S3Error
from burstcache.gateway.s3_requests import Target
from burstcache.gateway.upload_payload import UploadPayload
from burstcache.gateway.uploads import EMPTY_SHA256
from burstcache.logs import logger

_AWS_HOST = re.compile(
    r"(?P<service>s3[.-](?:[a-z-]+\.)*?)(?P<region>[a-z]{2}(?:-[a-z]+)+-\d)(?P<domain>\.amazonaws\..+)"
)
_IN_HOST_NAME = re.compile(r"[a-z0-9][a-z0-9-]{1,61}[a-z0-9]")  # names with dots do not match S3's certificate
_NO_AUTO_HEADERS = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")
_CONNECT_S = 5.0
_READ_S = 300.0  # S3 sends a byte every few seconds while it completes an upload; other stores may not
_GLOBAL_REGION = "us-east-1"
_REGION_HEADER = "x-amz-bucket-region"

Headers = list[tuple[str, str]]


class S3Origin:
    """S3, as one endpoint and one identity. For one event loop.

    Attributes:
        endpoint: The endpoint's URL.
    """

    def __init__(self, client: Any) -> None:
        """Create the origin. No connection is opened yet.

        Args:
            client: A boto3 client of S3: its endpoint, region, credentials and configuration apply.
        """
        self._credentials: Any = client._request_signer._credentials  # None: requests are not signed
        self._signer = OriginSigner(SystemClock())
        self._region: str = client.meta.region_name or _GLOBAL_REGION
        self.endpoint: str = client.meta.endpoint_url.rstrip("/")
        config = getattr(client.meta.config, "s3", None) or {}
        self._addressing: str = config.get("addressing_style") or "auto"
        self._regions: dict[str, str] = {}  # by bucket
        self._session: aiohttp.ClientSession | None = None

    @property
    def netloc(self) -> str:
        """Host and port of the endpoint."""
        return urlsplit(self.endpoint).netloc

    @property
    def is_aws(self) -> bool:
        """Whether the endpoint is AWS's own, which has one host name per region."""
        return (urlsplit(self.endpoint).hostname or "").endswith((".amazonaws.com", ".amazonaws.com.cn"))

    async def open(self, **session_arguments: Any) -> None:
        """Create the connection pool, by an aiohttp session with further arguments."""
        context: ssl.SSLContext | bool = True
        if self.endpoint.startswith("https:"):
            certificates = get_cert_path(True)
            context = ssl.create_default_context(cafile=certificates)
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ssl=context, ttl_dns_cache=60, keepalive_timeout=15.0),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_S, sock_read=_READ_S),
            auto_decompress=False,
            cookie_jar=aiohttp.DummyCookieJar(),
            skip_auto_headers=_NO_AUTO_HEADERS,
            read_bufsize=1 << 16,
            max_line_size=1 << 16,
            max_field_size=1 << 16,
            **session_arguments,
        )

    async def close(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()

    async def send(
        self,
        method: str,
        target: Target,
        headers: Headers,
        *,
        payload: str = EMPTY_SHA256,
        body: AsyncIterator[bytes] | bytes | None = None,
    ) -> aiohttp.ClientResponse:
        """Send a request, and return the response once its headers have arrived. The caller has to release it.

        Args:
            method: The method.
            target: The bucket, key and query.
            headers: All other headers of the request, without a signature.
            payload: The value of `x-amz-content-sha256`.
            body: The body.

        Raises:
            S3Error: S3 cannot be reached, or does not respond, or there are no credentials at the moment.
        """
        region = await self._region_of(target.bucket)
        response = await self._send_to(region, method, target, headers, payload, body)
        moved = response.headers.get(_REGION_HEADER, "")
        if response.status in (301, 307, 400) and self.is_aws and moved and moved != region:
            self._regions[target.bucket] = moved
            if body is None or isinstance(body, bytes):
                response.release()
                return await self._send_to(moved, method, target, headers, payload, body)
        return response

    async def pass_on(
        self, method: str, url: str, target: Target, headers: Headers, body: AsyncIterator[bytes] | bytes | None = None
    ) -> aiohttp.ClientResponse:
        """Send a request with the headers and the signature that it has. The target is for traces. See `send`."""
        assert self._session is not None
        try:
            return await self._session.request(
                method,
                URL(url, encoded=True),
                headers=headers,
                data=UploadPayload(body) if isinstance(body, AsyncIterator) else body,
                allow_redirects=False,
                trace_request_ctx=target,
            )
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise _cause(error) from error

    async def _region_of(self, bucket: str) -> str:
        """Return the region of a bucket. The first request for a bucket asks S3, since bodies cannot be sent twice."""
        if not bucket or not self.is_aws:
            return self._region
        if bucket not in self._regions:
            response = await self._send_to(self._region, "HEAD", Target(bucket, "", "", ()), [], EMPTY_SHA256, None)
            response.release()
            if response.status == 404:
                return self._region
            self._regions[bucket] = response.headers.get(_REGION_HEADER, self._region)
        return self._regions[bucket]

    async def _send_to(
        self,
        region: str,
        method: str,
        target: Target,
        headers: Headers,
        payload: str,
        body: AsyncIterator[bytes] | bytes | None,
    ) -> aiohttp.ClientResponse:
        url = self._url(region, target)
        signed = await self._signed(region, method, url, headers, payload)
        return await self.pass_on(method, url, target, signed, body)

    def _url(self, region: str, target: Target) -> str:
        endpoint, path = self.endpoint, target.path
        if self.is_aws:
            scheme, _, host = endpoint.partition("://")
            if (found := _AWS_HOST.fullmatch(host)) is not None and region != found["region"]:
                host = f"{found['service']}{region}{found['domain']}"
            elif found is None and region != _GLOBAL_REGION and host == "s3.amazonaws.com":
                host = f"s3.{region}.amazonaws.com"
            if self._addressing != "path" and _IN_HOST_NAME.fullmatch(target.bucket):
                host, path = f"{target.bucket}.{host}", path.removeprefix(f"/{target.bucket}") or "/"
            endpoint = f"{scheme}://{host}"
        query = target.query_text
        return f"{endpoint}{path}?{query}" if query else f"{endpoint}{path}"

    async def _signed(self, region: str, method: str, url: str, headers: Headers, payload: str) -> Headers:
        """Return the headers of a request with its signature."""
        if self._credentials is None:
            return headers
        try:
            credentials = await self._frozen_credentials()
        except (BotoCoreError, RuntimeError) as error:  # RuntimeError: the new ones have expired, too
            logger().warning("the gateway's AWS credentials cannot be read", reason=str(error))
            message = "The gateway's AWS credentials cannot be read at the moment"
            raise S3Error("ServiceUnavailable", f"{message} ({type(error).__name__}). Try again.") from error
        return self._signer.sign(credentials, region, method, url, headers, payload)

    async def _frozen_credentials(self) -> Any:
        if isinstance(self._credentials, RefreshableCredentials) and self._credentials.refresh_needed():
            return await asyncio.to_thread(self._credentials.get_frozen_credentials)  # may ask another service
        return self._credentials.get_frozen_credentials()


def _cause(error: BaseException) -> Exception:
    """Return the error of a failed request: that of the client's body, or that S3 cannot be reached."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, S3Error | ConnectionLostError):
            return cause
        cause = cause.__cause__ or cause.__context__
    return unavailable(error)


def unavailable(error: BaseException) -> S3Error:
    """Return the error for an S3 that cannot be reached, or breaks off its response."""
    return S3Error("ServiceUnavailable", f"S3 cannot be reached at the moment ({type(error).__name__}). Try again.")


def lower_names(headers: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Return headers as a dictionary with lower-case names."""
    return {name.lower(): value for name, value in headers}
