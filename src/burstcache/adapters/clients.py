"""Clients of AWS's services: one factory, with a profile for each kind of caller.

They are botocore's, as boto3's are. boto3 itself would bring resources and transfers, which nothing here uses.
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
_LONGEST_S = 910  # a little more than an invocation may last
_READERS = 80  # connections per service that are kept: of a client's 64 threads, and of what runs behind them


def _config(*, read_timeout_s: int, tries: int | None, **more: Any) -> Config:
    # A service that does not even take a connection is down: one second is enough to know it.
    retries: Any = None if tries is None else {"mode": "standard", "total_max_attempts": tries}
    return Config(connect_timeout=1, read_timeout=read_timeout_s, retries=retries, tcp_keepalive=True, **more)


_CONFIGS: Mapping[Profile, Config] = {
    # A read can do without every service but S3, so it waits for none of them.
    "read": _config(read_timeout_s=1, tries=1),
    # A write at the front door, which gives up on it at 29 s: S3 first, then the function that lets copies go.
    "write": _config(read_timeout_s=14, tries=2),
    # A read in the caller's process: the same, by many threads.
    "caller": _config(read_timeout_s=1, tries=1, max_pool_connections=_READERS),
    # Results of functions, which have a time-out of their own around each call.
    "results": _config(read_timeout_s=5, tries=1, max_pool_connections=_READERS),
    # The steps of the state machines; the machines repeat them.
    "control": _config(read_timeout_s=5, tries=3, max_pool_connections=16),
    # Members of the pool: a second try would find the member busy, and make a second environment.
    "members": _config(read_timeout_s=20, tries=1, max_pool_connections=16),
    # Members that are to serve: they answer when they return, and so does whatever invokes all of a pool at once.
    "wakes": _config(read_timeout_s=_LONGEST_S, tries=1, max_pool_connections=400),
    # A life that starts: nobody waits for it, and one slow answer must not cool its key down.
    "patient": _config(read_timeout_s=10, tries=4, max_pool_connections=16),
}
_EXCEPTIONS: Mapping[tuple[Profile, str], Config] = {
    # The last resort of a read is waited for as long as the front door waits: with what a read asks before it and
    # tells after it, it stays below the proxy's 29 s. What S3 answers is passed on at once, errors too.
    ("read", "s3"): _config(read_timeout_s=20, tries=1),
    ("write", "s3"): _config(read_timeout_s=12, tries=1),
    # A step that copies an object asks twice within its state's 60 s.
    ("control", "s3"): _config(read_timeout_s=25, tries=3, max_pool_connections=16),
    # A cache function that starts has sent no heartbeat yet, and 60 s are allowed.
    ("patient", "s3"): _config(read_timeout_s=40, tries=4, max_pool_connections=16),
    # Express answers in milliseconds, or S3 does.
    ("read", "express"): _config(read_timeout_s=1, tries=1),
    ("caller", "express"): _config(read_timeout_s=5, tries=1, max_pool_connections=_READERS),
    # A write waits until every copy is let go. To ask again does no harm.
    ("caller", "lambda"): _config(read_timeout_s=35, tries=2, max_pool_connections=_READERS),
    # No front door waits for a caller's own read: it is as patient as boto3's own client, with more connections.
    ("caller", "s3"): _config(read_timeout_s=60, tries=None, max_pool_connections=_READERS),
    # Redis control may work up to its time-out of 90 s, and must not be invoked twice.
    ("patient", "lambda"): _config(read_timeout_s=100, tries=1),
}
# A function would compute checksums over bytes that TLS and the ETag protect already. A caller's reads of S3 check them
# as boto3 does.
_BUCKET_CONFIG = Config(response_checksum_validation="when_required")
_SIGNED_CONFIG = Config(signature_version="s3v4")
# No signature is named: to name one, even S3's own, switches the sessions of directory buckets off. A function in the
# network reaches Express by IPv4 as well, over a gateway endpoint; not every SDK knows its IPv6 names.
_EXPRESS_CONFIG = _BUCKET_CONFIG.merge(
    Config(use_dualstack_endpoint=False, request_checksum_calculation="when_required")
)
_NO_SESSIONS: Any = {"disable_s3_express_session_auth": True}  # for a stand-in of S3
_STAND_IN_CONFIG = _EXPRESS_CONFIG.merge(Config(s3=_NO_SESSIONS))


# Whose S3 answers somebody waits for.
_PASSED_ON: frozenset[Profile] = frozenset({"read", "write", "caller"})
_AT_ONCE_S = 0
# A transaction takes some 20 ms. A wait is about so long, then twice as long each time: 0.6 s in all.
_TRANSACTION_S, _TRIES_AFTER_TRANSACTIONS = 0.02, 6


def _again_if_lost(caught_exception: Exception | None = None, attempts: int = 1, **_: object) -> int | None:
    """Return how long to wait for a second try of a request whose connection was lost or refused; None: there is none.

    S3 closes connections that have rested, now and then just as they are used again.
    """
    is_lost = isinstance(caught_exception, (HTTPClientError, ConnectionError)) and not isinstance(
        caught_exception, (ReadTimeoutError, ConnectTimeoutError)
    )
    return _AT_ONCE_S if is_lost and attempts == 1 else None


def _again_after_the_transaction(
    response: tuple[Any, Mapping[str, Any]] | None = None, attempts: int = 1, **_: object
) -> float | None:
    """Return how long to wait for the transaction that a row is in when it is written to; None: it is in none [s].

    A key's row is, as its life starts: just when most reports of the key come. The SDK does not ask again by itself.
    """
    code = response[1].get("Error", {}).get("Code") if response is not None else ""
    if code != "TransactionConflictException" or attempts >= _TRIES_AFTER_TRANSACTIONS:
        return None
    return random.uniform(0.5, 1.5) * _TRANSACTION_S * (1 << attempts - 1)


def _is_not_for_the_slow(caught_exception: Exception | None = None, **_: object) -> bool | None:
    """Refuse a retry after a time-out, and leave all others to the SDK.

    S3 that answers late is loaded: a second request would load it more and wait as long. So is a function, and the
    front door waits for a write no longer than for one answer of each.
    """
    return False if isinstance(caught_exception, ReadTimeoutError) else None


@cache
def _own_session() -> Session:
    """Return the session of this process's environment: it keeps the models of services that it has read."""
    return get_session()


class Clients:
    """The clients of one profile, each made at its first use, by one thread at a time as a session demands."""

    def __init__(
        self, profile: Profile, *, session: Any = None, endpoint_urls: Mapping[str, str] | None = None
    ) -> None:
        """Remember how to make clients.

        Args:
            profile: How patient the clients are.
            session: A boto3 session; None for one of the function's environment.
            endpoint_urls: By service, or by the empty text for all others; without an entry AWS's own.
        """
        self._profile = profile
        self._session = session
        self._endpoint_urls = endpoint_urls or {}

    def like(self, profile: Profile) -> Clients:
        """Return clients of another profile that reach the same services."""
        return Clients(profile, session=self._session, endpoint_urls=self._endpoint_urls)

    def make(self, service: str) -> Any:
        """Return a new client of any service; `express` is S3's for directory buckets."""
        wanted = service
        config = _EXCEPTIONS.get((self._profile, service), _CONFIGS[self._profile])
        endpoint_url = self._endpoint_urls.get(service, self._endpoint_urls.get(""))
        if service == "s3":
            config = config.merge(_SIGNED_CONFIG)
            if self._profile != "caller":
                config = config.merge(_BUCKET_CONFIG)
            elif not self._names_retries():
                # As often as AWS_MAX_ATTEMPTS says, or three times in all; botocore writes it into this very dict.
                config = config.merge(Config(retries={"mode": "standard"}))
        elif service == "express":
            config = config.merge(_STAND_IN_CONFIG if endpoint_url else _EXPRESS_CONFIG)
            service = "s3"
        with _MAKING:
            make = _own_session().create_client if self._session is None else self._session.client
            client: Any = make(service, config=config, endpoint_url=endpoint_url)
        is_callers = wanted == "s3" and self._profile == "caller"
        if (service == "s3" or self._profile == "write") and not is_callers:
            client.meta.events.register_first(f"needs-retry.{service}", _is_not_for_the_slow)
        if service == "dynamodb":
            client.meta.events.register("needs-retry.dynamodb", _again_after_the_transaction)
        if wanted == "s3" and self._profile in _PASSED_ON and not is_callers:
            client.meta.events.register("needs-retry.s3", _again_if_lost)
        return client

    def _names_retries(self) -> bool:
        """Whether the environment, the profile or the session says which retries its clients make."""
        session = getattr(self._session, "_session", None) or _own_session()
        default: Any = session.get_default_client_config()
        if default is not None and default.retries is not None:
            return True
        try:
            profile = session.get_scoped_config()
        except ProfileNotFound:  # making the client says so
            profile = {}
        return "AWS_RETRY_MODE" in os.environ or "retry_mode" in profile

    @cached_property
    def dynamodb(self) -> DynamoDBClient:
        """The client of DynamoDB."""
        return self.make("dynamodb")  # type: ignore[no-any-return]

    @cached_property
    def ec2(self) -> EC2Client:
        """The client of EC2."""
        return self.make("ec2")  # type: ignore[no-any-return]

    @cached_property
    def events(self) -> EventBridgeClient:
        """The client of EventBridge."""
        return self.make("events")  # type: ignore[no-any-return]

    @cached_property
    def express(self) -> S3Client:
        """The client of S3 for directory buckets of S3 Express; it makes and renews their sessions."""
        return self.make("express")  # type: ignore[no-any-return]

    @cached_property
    def functions(self) -> LambdaClient:
        """The client of Lambda."""
        return self.make("lambda")  # type: ignore[no-any-return]

    @cached_property
    def s3(self) -> S3Client:
        """The client of S3."""
        return self.make("s3")  # type: ignore[no-any-return]

    @cached_property
    def secrets(self) -> SSMClient:
        """The client of Systems Manager, which keeps the secrets."""
        return self.make("ssm")  # type: ignore[no-any-return]

    @cached_property
    def states(self) -> SFNClient:
        """The client of Step Functions."""
        return self.make("stepfunctions")  # type: ignore[no-any-return]
