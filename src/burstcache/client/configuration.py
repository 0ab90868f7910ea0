"""The configuration of a client, from the environment, a stack's outputs, or a local run's file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import boto3

from burstcache.access import ExpressAccess, RedisAccess, RelayAccess
from burstcache.adapters import stack_outputs
from burstcache.adapters.clients import Clients
from burstcache.adapters.clock import SystemClock
from burstcache.adapters.stack_outputs import outputs_with, variables_in
from burstcache.core.errors import InvalidSettingError
from burstcache.settings.pool import PoolAccess
from burstcache.settings.reader import ReaderSettings

if TYPE_CHECKING:
    from types_boto3_s3.client import S3Client

    from burstcache.client.pool import PoolOpener
    from burstcache.pool.open_pool import OpenPool

_LIMIT_BYTES = 4 << 20  # size limit of objects in the tiers of a stack without an ALB
_WHOLE_BYTES = 8 << 20  # size limit of objects that memory keeps whole. Larger ones are kept in slices
VARIABLE = "BURSTCACHE_READER"
OUTPUT = "ReaderSettings"
POOL_VARIABLE = "BURSTCACHE_POOL"
POOL_OUTPUT = "PoolSettings"
ZONE_VARIABLE = "BURSTCACHE_ZONE"
_ACCEPTED = (
    f"accepted: stack_name=..., bucket=..., or the environment variable {VARIABLE} (the stack's output {OUTPUT})"
)


@dataclass(frozen=True)
class ClientConfiguration:
    """The bucket and tiers to read, and how to reach AWS."""

    settings: ReaderSettings
    session: Any
    endpoint_urls: Mapping[str, str] = field(default_factory=dict)
    s3: S3Client | None = None
    pool: PoolOpener | None = None  # None: S3 alone serves objects above the limit
    has_slices_on_nodes: bool = False  # whether slices of large objects are kept on the stack's Redis nodes

    def make_clients(self) -> Clients:
        """Return new AWS clients for a reader in the caller's process, with the caller's S3 client if there is one."""
        clients = Clients("caller", session=self.session, endpoint_urls=self.endpoint_urls)
        if self.s3 is not None:
            clients.s3 = self.s3
        return clients


def configure(
    *,
    stack_name: str,
    bucket: str,
    session: Any,
    endpoint_urls: Mapping[str, str] | None,
    express_bucket: str = "",
    hit_value_usd_per_million: float = 0,
) -> ClientConfiguration:
    """Return the configuration from the arguments, or from the environment if they name no source.

    Raises:
        InvalidSettingError: No source is named, arguments contradict each other, or there is no such stack.
    """
    if stack_name and bucket:
        raise InvalidSettingError(f"stack_name={stack_name!r} and bucket={bucket!r} exclude each other; {_ACCEPTED}")
    urls = dict(endpoint_urls or {})
    if express_bucket and not bucket:
        raise InvalidSettingError(f"express_bucket={express_bucket!r} without bucket=...; a stack names its own")
    if bucket:
        session = session or boto3.Session()
        express = ExpressAccess(express_bucket, f"{hit_value_usd_per_million:f}", session.region_name or "")
        return ClientConfiguration(_without_stack(bucket, express), session, urls)
    if stack_name:
        session = session or boto3.Session()
        texts = outputs_with(OUTPUT, stack_name, session, urls)
        return _of_stack(texts, f"output {{}} of stack {stack_name}", session, urls)
    if text := os.environ.get(VARIABLE, ""):
        return _of_stack({OUTPUT: text, POOL_OUTPUT: os.environ.get(POOL_VARIABLE, "")}, "{1}", session, urls)
    raise InvalidSettingError(f"nothing says what to read; {_ACCEPTED}")


def with_pool(configuration: ClientConfiguration, pool: PoolOpener | bool) -> ClientConfiguration:
    """Return a configuration with another pool for large objects.

    Args:
        configuration: The current configuration.
        pool: Opens the pool. False: S3 alone serves large objects. True: require the stack's pool.

    Raises:
        InvalidSettingError: The stack's pool is required, but the stack has none.
    """
    if pool is False:
        return replace(configuration, pool=None)
    if pool is True:
        if configuration.pool is None:
            raise InvalidSettingError(
                f"pool=True without a pool; accepted: a stack with the output {POOL_OUTPUT} (parameter PoolMembers),"
                f" or the environment variable {POOL_VARIABLE} next to {VARIABLE}"
            )
        return configuration
    settings = configuration.settings
    limit = min(settings.max_object_bytes, _LIMIT_BYTES)
    return replace(configuration, pool=pool, settings=replace(settings, max_object_bytes=limit))


def local_run(folder: Path) -> ClientConfiguration:
    """Return the configuration of the local run described in `folder`, which `burstcache local up` writes.

    Raises:
        InvalidSettingError: No local run is active there.
    """
    run = stack_outputs.local_run(folder)
    session = boto3.Session(aws_access_key_id="local", aws_secret_access_key="local", region_name=run["region"])
    return _of_stack(run["outputs"], f"output {{}} in {folder}", session, {"": run["endpoint_url"]})


def _of_stack(texts: Mapping[str, str], source: str, session: Any, urls: Mapping[str, str]) -> ClientConfiguration:
    """Return the configuration in a stack's outputs.

    Args:
        texts: The outputs by name.
        source: Their source, for error messages: a format string that takes the names of an output and its variable.
        session: As for `Client`.
        urls: As for `Client`.
    """
    variables = variables_in(texts.get(OUTPUT, ""), source.format(OUTPUT, VARIABLE), OUTPUT)
    session = session or boto3.Session(region_name=variables.get("AWS_REGION"))
    settings, pool = ReaderSettings.read(variables), None
    if text := texts.get(POOL_OUTPUT, ""):
        access = PoolAccess.read(variables_in(text, source.format(POOL_OUTPUT, POOL_VARIABLE), POOL_OUTPUT))
        pool = partial(_open_pool, access, settings.express, session, urls)
    return ClientConfiguration(
        settings, session, urls, pool=pool, has_slices_on_nodes=_slices_pay_on_nodes(settings, variables)
    )


def _slices_pay_on_nodes(settings: ReaderSettings, variables: Mapping[str, str]) -> bool:
    """Return True if slices pay on the stack's nodes for this reader. An older stack does not name their type and zone.

    Only the environment knows the reader's zone. Without it, the reader counts as in another zone than the nodes.
    """
    node_type, zone = variables.get("REDIS_INSTANCE_TYPE", ""), variables.get("REDIS_ZONE", "")
    if not (settings.takes_guests and settings.redis_nodes and node_type):
        return False
    # Lazy imports: only readers of nodes need the price sheets.
    from burstcache.core.slice_worth import slice_pays
    from burstcache.core.worth import sheet_of_region, wait_usd_from_text

    return slice_pays(
        node_type,
        is_same_zone=bool(zone) and os.environ.get(ZONE_VARIABLE) == zone,
        wait_usd=wait_usd_from_text(settings.express.hit_value_usd_per_million),
        sheet=sheet_of_region(settings.express.region),
    )


def _open_pool(
    access: PoolAccess, worth: ExpressAccess, session: Any, urls: Mapping[str, str]
) -> AbstractAsyncContextManager[OpenPool]:
    clients = Clients("control", session=session, endpoint_urls=urls)
    # Lazy imports: erasure codes and checksums need the extra `pool`.
    if access.hub == "none":
        from burstcache.client.stack_pool import open_stack_pool

        return open_stack_pool(access, worth, clients, SystemClock())
    from burstcache.client.remote_pool import open_remote_pool

    return open_remote_pool(access, worth, clients, SystemClock())


def _without_stack(bucket: str, express: ExpressAccess) -> ReaderSettings:
    return ReaderSettings(
        table_name="",
        bucket_name=bucket,
        origin_prefix="",
        bus_name="",
        relay=RelayAccess(""),
        redis=RedisAccess(),
        redis_nodes=(),
        max_object_bytes=_WHOLE_BYTES,
        express=express,
        takes_guests=False,
        origin_function_name="",
    )
