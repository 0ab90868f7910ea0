"""Guardrails: policies of an organization that deny calls whatever a role's own policies allow."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from burstcache_local.errors import GuardrailError, LocalCloudError
from burstcache_local.iam.creation import StackCreation
from burstcache_local.iam.policies import Need, denying, granting


class Guardrail:
    """A service control policy, evaluated on each call of a role and on the creation of each resource.

    Args:
        document: The policy. Only statements that deny count.
        deployer: The deploying role's own policy, or None for a deploying user who may do everything.
    """

    def __init__(self, document: Mapping[str, Any] | None = None, deployer: Mapping[str, Any] | None = None) -> None:
        self._denied = [document] if document else []
        self._deployer = deployer

    def problem(self, need: Need, region: str) -> str:
        """Return the statement that denies a role's call, or an empty string."""
        if not self._denied:
            return ""
        context = {"aws:RequestedRegion": (region,), **need.context}
        sid = denying(self._denied, replace(need, context=context))
        return "" if sid is None else f"with an explicit deny in a service control policy: {sid}"

    def check(self, creation: StackCreation) -> None:
        """Raise GuardrailError with every resource that this account refuses to create."""
        refusals = list(dict.fromkeys(self._refusals(creation)))
        if refusals:
            raise GuardrailError(f"this account refuses {len(refusals)} resources or calls: {'; '.join(refusals)}")

    def _refusals(self, creation: StackCreation) -> Iterable[str]:
        if not self._denied and self._deployer is None:
            return
        for name, need in creation.needs():
            if (sid := denying(self._denied, need)) is not None:
                yield f"{name} ({need.action} on {need.resource}, denied by {sid})"
            elif self._deployer is not None and granting([self._deployer], need) is None:
                yield f"{name} ({need.action} on {need.resource}, which the deploying role may not)"


def guardrail_in(path: Path) -> dict[str, Any]:
    """Read a service control policy.

    Raises:
        LocalCloudError: The file cannot be read, or it is not a policy.
    """
    try:
        document = json.loads(path.read_text("utf-8"))
        statements = document["Statement"]
        for statement in statements if isinstance(statements, list) else [statements]:
            if statement["Effect"] not in ("Allow", "Deny"):
                raise ValueError(f"Effect {statement['Effect']!r}")
    except OSError as error:
        raise LocalCloudError(f"--guardrail {path} cannot be read: {error.strerror}") from None
    except (LookupError, TypeError, ValueError) as error:
        raise LocalCloudError(f"--guardrail {path} is not a policy: {error}") from None
    return document  # type: ignore[no-any-return]
