"""The account in which a command makes or deletes something: asked for first, so that nobody answers in vain."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from burstcache_cli.stack import session_of


@dataclass(frozen=True, slots=True)
class Account:
    """An account, as whom, and the region that is meant."""

    number: str
    arn: str
    region: str
    session: Any


def account_of(*, region: str, profile: str) -> Account:
    """Return the account that the credentials belong to.

    Raises:
        InvalidSettingError: There is no such profile, or no region is named.
        NoCredentialsError, ClientError: There are no credentials, or AWS refuses them.
    """
    session = session_of(region=region, profile=profile)
    told = session.client("sts").get_caller_identity()
    return Account(told["Account"], told["Arn"], session.region_name, session)
