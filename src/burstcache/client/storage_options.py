"""Storage options of s3fs, as the file system takes them: how to reach S3, and as whom."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import boto3
from botocore import UNSIGNED
from botocore.config import Config

from burstcache.core.errors import InvalidSettingError

if TYPE_CHECKING:
    from types_boto3_s3.client import S3Client

_NAMES = {"key": "key", "username": "key", "secret": "secret", "password": "secret", "token": "token"}
_TYPES: Mapping[str, tuple[type, str]] = {
    **dict.fromkeys((*_NAMES, "profile", "endpoint_url"), (str, "str")),
    **dict.fromkeys(("client_kwargs", "config_kwargs"), (Mapping, "dict")),
}
_TAKEN = {"anon", "profile", "endpoint_url", "client_kwargs", "config_kwargs", "use_ssl", *_NAMES}
# What changes how s3fs writes, or how it finds a bucket's region, which boto3 does by itself.
_WITHOUT_EFFECT = frozenset({"cache_regions", "fixed_upload_size", "max_concurrency"})
REFUSED = {
    "requester_pays": "a cache would give to others what one has paid for",
    "version_aware": "the cache has current versions alone",
    "s3_additional_kwargs": "reads by the cache have no more parameters than s3fs's own",
    "session": "aiobotocore's sessions belong to s3fs; accepted: profile, or key, secret and token",
}


@dataclass(frozen=True)
class StorageOptions:
    """How a file system reaches S3, and as whom; empty: as boto3's default session does."""

    session: Mapping[str, str] = field(default_factory=dict)
    client: Mapping[str, Any] = field(default_factory=dict)
    config: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Self:
        """Return what s3fs's options mean.

        Raises:
            InvalidSettingError: An option has no meaning for a cache, or two of them contradict each other.
            TypeError: There is no such option.
        """
        given = {name: value for name, value in options.items() if value not in (None, False, {})}
        if unknown := sorted(options.keys() - _TAKEN - _WITHOUT_EFFECT - REFUSED.keys()):
            accepted = ", ".join(sorted(_TAKEN))
            raise TypeError(f"unexpected storage option {', '.join(unknown)}; accepted of s3fs's: {accepted}")
        for name, value in given.items():
            accepted_type, said = _TYPES.get(name, (object, ""))
            if not isinstance(value, accepted_type):
                raise InvalidSettingError(f"storage option {name} is of type {type(value).__name__}; accepted: {said}")
        for name in given.keys() & REFUSED.keys():
            raise InvalidSettingError(f"storage option {name}={given[name]!r}: {REFUSED[name]}")
        credentials: dict[str, str] = {}
        for name in given.keys() & _NAMES.keys():
            if credentials.setdefault(_NAMES[name], given[name]) != given[name]:
                raise InvalidSettingError(f"storage option {name} contradicts {_NAMES[name]}; accepted: one of them")
        names = {"key": "aws_access_key_id", "secret": "aws_secret_access_key", "token": "aws_session_token"}
        session = {names[name]: value for name, value in credentials.items()}
        if "profile" in given:
            session["profile_name"] = given["profile"]
        client = dict(given.get("client_kwargs", {}))
        if "endpoint_url" in given:
            client["endpoint_url"] = given["endpoint_url"]
        if options.get("use_ssl") is False:
            client["use_ssl"] = False
        config = dict(given.get("config_kwargs", {}))
        if given.get("anon"):
            if session:
                raise InvalidSettingError("storage option anon=True contradicts credentials; accepted: one of them")
            config["signature_version"] = UNSIGNED
        return cls(session, client, config)

    def make_session(self) -> Any:
        """Return a boto3 session; None: boto3's default one."""
        return boto3.Session(**self.session) if self.session else None

    def connect(self, **config: Any) -> S3Client:
        """Return boto3's client of S3; `config` gives way to the options' own."""
        make: Any = (self.make_session() or boto3).client
        options = dict(self.client)
        merged = Config(**{**config, **self.config})
        if (given := options.pop("config", None)) is not None:
            merged = merged.merge(given)
        client: S3Client = make("s3", config=merged, **options)
        return client

    @property
    def endpoint_urls(self) -> dict[str, str]:
        """The endpoint of S3, as `Client` takes it."""
        return {"s3": self.client["endpoint_url"]} if "endpoint_url" in self.client else {}
