"""Object keys from a request's path or query."""

from __future__ import annotations

from collections.abc import Sequence

from burstcache.core.errors import RefusedRequestError

MAX_KEY_BYTES = 1024  # S3's limit
_PREFIX = "/objects/"
_ROUTES = "accepted: /objects/{key} or /objects?key={key}"
_REPLACED = "\N{REPLACEMENT CHARACTER}"
# Parameters that select another version or part, or alter the response. Ignoring them would return the wrong object.
_UNSUPPORTED = ("versionId", "partNumber", "response-")


def requested_key(path: str, query: Sequence[tuple[str, str]]) -> str:
    """Extract the key from a decoded path or from decoded query parameters.

    Raises:
        RefusedRequestError: 404 for any other path. 400 for a key that cannot exist or is unsafe in a path.
    """
    in_query = [value for name, value in query if name == "key"]
    if path.rstrip("/") == _PREFIX.rstrip("/") and (in_query or not path.endswith("//")):
        key = _single(in_query)
    elif not path.startswith(_PREFIX):
        raise RefusedRequestError(404, "UnknownRoute", f"there is nothing at {path[:100]!r}; {_ROUTES}")
    elif in_query:
        raise RefusedRequestError(400, "AmbiguousKey", f"both the path and ?key= name an object; {_ROUTES}")
    else:
        key = path.removeprefix(_PREFIX)
        _check_path_key(key)
    _check_parameters(query)
    check_key(key)
    return key


def _single(values: Sequence[str]) -> str:
    if len(values) > 1:
        raise RefusedRequestError(400, "AmbiguousKey", f"?key= is given {len(values)} times; {_ROUTES}")
    return values[0] if values else ""


def _check_parameters(query: Sequence[tuple[str, str]]) -> None:
    for name, _ in query:
        if name.startswith(_UNSUPPORTED):
            message = f"the parameter {name[:40]!r} is not supported; accepted: the current version, whole or by Range"
            raise RefusedRequestError(400, "UnsupportedParameter", message)


def _check_path_key(key: str) -> None:
    if _REPLACED in key:
        message = (
            "the path is not UTF-8; accepted: UTF-8, percent-encoded (a U+FFFD that the key really has: /objects?key=)"
        )
        raise RefusedRequestError(400, "KeyNotUtf8", message)
    if any(segment in (".", "..") for segment in key.split("/")):
        message = "the path has a segment '.' or '..', which may be resolved on the way; accepted: /objects?key={key}"
        raise RefusedRequestError(400, "KeyNotAPath", message)


def check_key(key: str) -> None:
    """Raise RefusedRequestError (400) for a key that S3 cannot store."""
    if not key:
        raise RefusedRequestError(400, "EmptyKey", f"the key is empty; accepted: 1 to {MAX_KEY_BYTES} bytes in UTF-8")
    try:
        size_bytes = len(key.encode())
    except UnicodeEncodeError:
        raise RefusedRequestError(400, "KeyNotUtf8", "the key is not UTF-8; accepted: UTF-8, percent-encoded") from None
    if size_bytes > MAX_KEY_BYTES:
        message = f"the key has {size_bytes} bytes in UTF-8; accepted: up to {MAX_KEY_BYTES}"
        raise RefusedRequestError(400, "KeyTooLong", message)
    if _climbs_out(key):
        message = "the key's '..' segments lead out of the bucket; accepted: never more '..' than names before them"
        raise RefusedRequestError(400, "InvalidKey", message)


def _climbs_out(key: str) -> bool:
    """Return True if any leading segments have more '..' than names (S3 User Guide, "Naming objects")."""
    depth = 0
    for segment in key.split("/"):
        depth += -1 if segment == ".." else segment not in ("", ".")
        if depth < 0:
            return True
    return False
