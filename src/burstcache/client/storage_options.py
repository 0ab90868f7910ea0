"""Storage options of the file system, as in s3fs: endpoint, credentials and configuration of S3."""

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
# Options for s3fs's writes, or for its lookup of a bucket's region, which boto3 does itself.
_WITHOUT_EFFECT = frozenset({"cache_regions", "fixed_upload_size", "max_concurrency"})
REFUSED = {
    "requester_pays": "the cache would give others the objects that one requester has paid for",
    "version_aware": "the cache only has current versions",
    "s3_additional_kwargs": "reads by the cache have no more parameters than s3fs's own",
    "session": "aiobotocore's sessions belong to s3fs; accepted: profile, or key, secret and token",
}


@dataclass(frozen=True)
class StorageOptions:
    """Session, client and configuration options for S3. Empty: boto3's defaults."""

    session: Mapping[str, str] = field(default_factory=dict)
    client: Mapping[str, Any] = field(default_factory=dict)
    config: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Self:
        """Convert options of s3fs to options for boto3.

        Raises:
            InvalidSettingError: An option makes no sense for a cache, or two options contradict each other.
            TypeError: An option is unknown.
        """
        present = {name: value for name, value in options.items() if value not in (None, False, {})}
        if unknown := sorted(options.keys() - _TAKEN - _WITHOUT_EFFECT - REFUSED.keys()):
            accepted = ", ".join(sorted(_TAKEN))
            raise TypeError(f"unexpected storage option {', '.join(unknown)}; accepted of s3fs's: {accepted}")
        for name, value in present.items():
            accepted_type, type_name = _TYPES.get(name, (object, ""))
            if not isinstance(value, accepted_type):
                raise InvalidSettingError(
                    f"storage option {name} is of type {type(value).__name__}; accepted: {type_name}"
                )
        for name in present.keys() & REFUSED.keys():
            raise InvalidSettingError(f"storage option {name}={present[name]!r}: {REFUSED[name]}")
        credentials: dict[str, str] = {}
        for name in present.keys() & _NAMES.keys():
            if credentials.setdefault(_NAMES[name], present[name]) != present[name]:
                raise InvalidSettingError(f"storage option {name} contradicts {_NAMES[name]}; accepted: one of them")
        names = {"key": "aws_access_key_id", "secret": "aws_secret_access_key", "token": "aws_session_token"}
        session = {names[name]: value for name, value in credentials.items()}
        if "profile" in present:
            session["profile_name"] = present["profile"]
        client = dict(present.get("client_kwargs", {}))
        if "endpoint_url" in present:
            client["endpoint_url"] = present["endpoint_url"]
        if options.get("use_ssl") is False:
            client["use_ssl"] = False
        config = dict(present.get("config_kwargs", {}))
        if present.get("anon"):
            if session:
                raise InvalidSettingError("storage option anon=True contradicts credentials; accepted: one of them")
            config["signature_version"] = UNSIGNED
        return cls(session, client, config)

    def make_session(self) -> Any:
        """Return a boto3 session. None: use boto3's default session."""
        return boto3.Session(**self.session) if self.session else None

    def connect(self, **config: Any) -> S3Client:
        """Return a boto3 S3 client. The options' own configuration overrides `config`."""
        make: Any = (self.make_session() or boto3).client
        options = dict(self.client)
        merged = Config(**{**config, **self.config})
        if (own_config := options.pop("config", None)) is not None:
            merged = merged.merge(own_config)
        client: S3Client = make("s3", config=merged, **options)
        return client

    @property
    def endpoint_urls(self) -> dict[str, str]:
        """The endpoint of S3, in the format of `Client`."""
        return {"s3": self.client["endpoint_url"]} if "endpoint_url" in self.client else {}
