"""The AWS account in which a command creates or deletes resources."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from burstcache_cli.stack import session_of


@dataclass(frozen=True, slots=True)
class Account:
    """An AWS account, with the caller's identity and the target region."""

    number: str
    arn: str
    region: str
    session: Any


def account_of(*, region: str, profile: str) -> Account:
    """Return the AWS account for the configured credentials.

    Raises:
        InvalidSettingError: The profile does not exist, or no region is configured.
        NoCredentialsError: No credentials are configured.
        ClientError: AWS rejects the credentials.
    """
    session = session_of(region=region, profile=profile)
    identity = session.client("sts").get_caller_identity()
    return Account(identity["Account"], identity["Arn"], session.region_name, session)
