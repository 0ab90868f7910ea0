"""The methods that the front door knows."""

from __future__ import annotations

from collections.abc import Sequence

from burstcache.core.errors import RefusedRequestError

READS = ("GET", "HEAD")
WRITES = ("PUT", "DELETE", "POST")


def check_method(method: str, accepted: Sequence[str], *, allowed: Sequence[str]) -> None:
    """Raise RefusedRequestError (405) for a method that is not accepted here.

    Args:
        method: The request's.
        accepted: Those that are.
        allowed: Those that the front door takes of the same object, here or elsewhere.
    """
    if method not in accepted:
        names = ", ".join(allowed)
        message = f"the method {method[:20]!r} is not supported here; accepted: {names}"
        raise RefusedRequestError(405, "MethodNotAllowed", message, {"allow": names})
