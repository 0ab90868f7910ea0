"""Clients of AWS services, from one factory with a timeout and retry profile per kind of caller.

The clients are plain botocore clients, like those of boto3. Importing boto3 would also load its resources and
transfers, which are not used.
"""

from __future__ import annotations

import os
import random
from collections.abc import Mapping
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, Literal

from botocore.config import Config
from botocore.exceptions import ConnectionError, ConnectTimeoutError, HTTPClientError, ProfileNotFound, ReadTimeoutError
from botocore.session import Session, get_session

from burstcache.forks import Lock

if TYPE_CHECKING:
    from types_boto3_dynamodb.client import DynamoDBClient
    from types_boto3_ec2.client import EC2Client
    from types_boto3_events.client import EventBridgeClient
    from types_boto3_lambda.client import LambdaClient
    from types_boto3_s3.client import S3Client
    from types_boto3_ssm.client import SSMClient
    from types_boto3_stepfunctions.client import SFNClient

Profile = Literal["read", "write", "caller", "results", "control", "members", "wakes", "patient"]

_MAKING = Lock()
_LONGEST_S = 910  # Lambda's longest invocation plus a margin
_READERS = 80  # connection pool per service: a client's 64 threads and its background work


def _config(*, read_timeout_s: int, tries: int | None, **more: Any) -> Config:
    # A service that does not accept a connection within a second is down.
    retries: Any = None if tries is None else {"mode": "standard", "total_max_attempts": tries}
    return Config(connect_timeout=1, read_timeout=read_timeout_s, retries=retries, tcp_keepalive=True, **more)


_CONFIGS: Mapping[Profile, Config] = {
    # A read at the front door. It can fall back from every service except S3, so it fails fast.
    "read": _config(read_timeout_s=1, tries=1),
    # A write at the front door, which limits it to 29 s: first S3, then the function that invalidates copies.
    "write": _config(read_timeout_s=14, tries=2),
    # Reads in the caller's process, from many threads.
    "caller": _config(read_timeout_s=1, tries=1, max_pool_connections=_READERS),
    # Synchronous function calls, which have their own timeouts.
    "results": _config(read_timeout_s=5, tries=1, max_pool_connections=_READERS),
    # Steps of state machines. The state machines retry failed steps.
    "control": _config(read_timeout_s=5, tries=3, max_pool_connections=16),
    # Members of the pool. A retry would find the member busy and start a second environment.
    "members": _config(read_timeout_s=20, tries=1, max_pool_connections=16),
    # Serving members, and the invoker of a whole pool. Both respond only when their invocation returns.
    "wakes": _config(read_timeout_s=_LONGEST_S, tries=1, max_pool_connections=400),
    # A starting life. Nothing waits for it, and one slow response must not make its key cold.
    "patient": _config(read_timeout_s=10, tries=4, max_pool_connections=16),
}
_EXCEPTIONS: Mapping[tuple[Profile, str], Config] = {
    # A read's last resort. Together with the surrounding calls, it stays below the front door's 29 s. S3's response is
    # returned immediately, errors included.
    ("read", "s3"): _config(read_timeout_s=20, tries=1),
    ("write", "s3"): _config(read_timeout_s=12, tries=1),
    # A step that copies an object. Two attempts fit within the state's 60 s.
    ("control", "s3"): _config(read_timeout_s=25, tries=3, max_pool_connections=16),
    # A starting cache function, whose first heartbeat is due after 60 s.
    ("patient", "s3"): _config(read_timeout_s=40, tries=4, max_pool_connections=16),
    # Express responds within milliseconds. Otherwise S3 serves.
    ("read", "express"): _config(read_timeout_s=1, tries=1),
    ("caller", "express"): _config(read_timeout_s=5, tries=1, max_pool_connections=_READERS),
    # A write waits until every copy is invalidated. The call is idempotent.
    ("caller", "lambda"): _config(read_timeout_s=35, tries=2, max_pool_connections=_READERS),
    # No front door limits a caller's own read. It uses boto3's default timeout and retries, with more connections.
    ("caller", "s3"): _config(read_timeout_s=60, tries=None, max_pool_connections=_READERS),
    # Redis control has a timeout of 90 s, and must not be invoked twice.
    ("patient", "lambda"): _config(read_timeout_s=100, tries=1),
}
# Functions skip checksums, since TLS and the ETag already protect the bytes. Reads in a caller's process verify
# checksums, as boto3 does.
_BUCKET_CONFIG = Config(response_checksum_validation="when_required")
_SIGNED_CONFIG = Config(signature_version="s3v4")
# No signature_version, since setting one, even S3's own, disables the sessions of directory buckets. No dual-stack
# endpoint, since functions in the VPC reach Express over IPv4 through a gateway endpoint. Besides, not every SDK knows
# Express's IPv6 names.
_EXPRESS_CONFIG = _BUCKET_CONFIG.merge(
    Config(use_dualstack_endpoint=False, request_checksum_calculation="when_required")
)
_NO_SESSIONS: Any = {"disable_s3_express_session_auth": True}  # for S3 emulators
_STAND_IN_CONFIG = _EXPRESS_CONFIG.merge(Config(s3=_NO_SESSIONS))


# Profiles of requests that a client waits for.
_INTERACTIVE: frozenset[Profile] = frozenset({"read", "write", "caller"})
_PRESIGNING: frozenset[Profile] = frozenset({"read", "write"})  # profiles of the front door
_IMMEDIATELY_S = 0
# A transaction takes about 20 ms. Exponential backoff with jitter starts there, and takes 0.6 s in total.
_TRANSACTION_S, _CONFLICT_ATTEMPTS = 0.02, 6


def _retry_if_lost(caught_exception: Exception | None = None, attempts: int = 1, **_: object) -> int | None:
    """Return the delay of the only retry after a lost or refused connection [s], or None for no retry.

    S3 closes idle connections, sometimes just as they are reused.
    """
    is_lost = isinstance(caught_exception, (HTTPClientError, ConnectionError)) and not isinstance(
        caught_exception, (ReadTimeoutError, ConnectTimeoutError)
    )
    return _IMMEDIATELY_S if is_lost and attempts == 1 else None


def _retry_after_conflict(
    response: tuple[Any, Mapping[str, Any]] | None = None, attempts: int = 1, **_: object
) -> float | None:
    """Return the delay of a retry after a TransactionConflictException [s], or None for no retry.

    A starting life writes its key's row in a transaction while most reports of the key arrive. The SDK does not retry
    these conflicts.
    """
    code = response[1].get("Error", {}).get("Code") if response is not None else ""
    if code != "TransactionConflictException" or attempts >= _CONFLICT_ATTEMPTS:
        return None
    return random.uniform(0.5, 1.5) * _TRANSACTION_S * (1 << attempts - 1)


def _no_retry_after_timeout(caught_exception: Exception | None = None, **_: object) -> bool | None:
    """Suppress retries after timeouts, and leave all other decisions to the SDK.

    A slow S3 or function is overloaded. A retry would add load and take as long. Within the front door's limit, a
    write has time for one slow response from S3 and one from the function.
    """
    return False if isinstance(caught_exception, ReadTimeoutError) else None


@cache
def _own_session() -> Session:
    """Return the process-wide session, which caches loaded service models."""
    return get_session()


class Clients:
    """The AWS clients of one profile, created on first use, and one at a time since sessions are not thread-safe."""

    def __init__(
        self, profile: Profile, *, session: Any = None, endpoint_urls: Mapping[str, str] | None = None
    ) -> None:
        """Set the profile and endpoints. Clients are created lazily.

        Args:
            profile: Timeouts and retries of the clients.
            session: A boto3 session. None: a session from the process's environment.
            endpoint_urls: URLs by service. The key "" applies to all other services. Services without a URL use AWS's
                endpoint.
        """
        self._profile = profile
        self._session = session
        self._endpoint_urls = endpoint_urls or {}

    def like(self, profile: Profile) -> Clients:
        """Return clients with another profile, but the same session and endpoints."""
        return Clients(profile, session=self._session, endpoint_urls=self._endpoint_urls)

    def make(self, service: str) -> Any:
        """Create a client of any service. `express` is S3 for directory buckets."""
        alias = service
        config = _EXCEPTIONS.get((self._profile, service), _CONFIGS[self._profile])
        endpoint_url = self._endpoint_urls.get(service, self._endpoint_urls.get(""))
        if service == "s3":
            config = config.merge(_SIGNED_CONFIG)
            if self._profile in _PRESIGNING and not (endpoint_url or os.environ.get("AWS_ENDPOINT_URL")):
                # Presigned URLs then name the bucket's region. Without dual stack, botocore's default names S3's global
                # endpoint, which redirects requests for a new bucket. botocore also writes into this dict.
                config = config.merge(Config(s3={"addressing_style": "virtual"}))
            if self._profile != "caller":
                config = config.merge(_BUCKET_CONFIG)
            elif not self._configures_retries():
                # AWS_MAX_ATTEMPTS or three attempts. botocore writes the number into this dict.
                config = config.merge(Config(retries={"mode": "standard"}))
        elif service == "express":
            config = config.merge(_STAND_IN_CONFIG if endpoint_url else _EXPRESS_CONFIG)
            service = "s3"
        with _MAKING:
            make = _own_session().create_client if self._session is None else self._session.client
            client: Any = make(service, config=config, endpoint_url=endpoint_url)
        is_callers = alias == "s3" and self._profile == "caller"
        if (service == "s3" or self._profile == "write") and not is_callers:
            client.meta.events.register_first(f"needs-retry.{service}", _no_retry_after_timeout)
        if service == "dynamodb":
            client.meta.events.register("needs-retry.dynamodb", _retry_after_conflict)
        if alias == "s3" and self._profile in _INTERACTIVE and not is_callers:
            client.meta.events.register("needs-retry.s3", _retry_if_lost)
        return client

    def _configures_retries(self) -> bool:
        """Return True if the environment, the AWS profile or the session sets a retry mode."""
        session = getattr(self._session, "_session", None) or _own_session()
        default: Any = session.get_default_client_config()
        if default is not None and default.retries is not None:
            return True
        try:
            profile = session.get_scoped_config()
        except ProfileNotFound:  # raised again when the client is created
            profile = {}
        return "AWS_RETRY_MODE" in os.environ or "retry_mode" in profile

    @cached_property
    def dynamodb(self) -> DynamoDBClient:
        """The DynamoDB client."""
        return self.make("dynamodb")  # type: ignore[no-any-return]

    @cached_property
    def ec2(self) -> EC2Client:
        """The EC2 client."""
        return self.make("ec2")  # type: ignore[no-any-return]

    @cached_property
    def events(self) -> EventBridgeClient:
        """The EventBridge client."""
        return self.make("events")  # type: ignore[no-any-return]

    @cached_property
    def express(self) -> S3Client:
        """The S3 client for S3 Express directory buckets. It creates and renews the buckets' sessions."""
        return self.make("express")  # type: ignore[no-any-return]

    @cached_property
    def functions(self) -> LambdaClient:
        """The Lambda client."""
        return self.make("lambda")  # type: ignore[no-any-return]

    @cached_property
    def s3(self) -> S3Client:
        """The S3 client."""
        return self.make("s3")  # type: ignore[no-any-return]

    @cached_property
    def secrets(self) -> SSMClient:
        """The client of Systems Manager, which stores the secrets."""
        return self.make("ssm")  # type: ignore[no-any-return]

    @cached_property
    def states(self) -> SFNClient:
        """The Step Functions client."""
        return self.make("stepfunctions")  # type: ignore[no-any-return]
