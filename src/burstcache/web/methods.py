"""HTTP methods supported by the front door."""

from __future__ import annotations

from collections.abc import Sequence

from burstcache.core.errors import RefusedRequestError

READS = ("GET", "HEAD")
WRITES = ("PUT", "DELETE", "POST")


def check_method(method: str, accepted: Sequence[str], *, allowed: Sequence[str]) -> None:
    """Raise RefusedRequestError (405) for a method that this function does not accept.

    Args:
        method: The request's method.
        accepted: Methods that this function accepts.
        allowed: Methods supported by all functions behind the front door together, for the `Allow` header.
    """
    if method not in accepted:
        names = ", ".join(allowed)
        message = f"the method {method[:20]!r} is not supported here; accepted: {names}"
        raise RefusedRequestError(405, "MethodNotAllowed", message, {"allow": names})
