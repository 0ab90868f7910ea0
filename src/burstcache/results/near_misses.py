"""Near misses: other caching libraries' names for the arguments of `cached`."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

_MEANT = {
    "ttl_s": (
        "ttl ttlseconds expire expires expiry expiration expirationtime expiretime expiresin expiresafterseconds"
        " expireseconds expireafter ex maxage age lifetime seconds duration cachedtimeout staleafter"
    ),
    "stale_s": "stale stalettl staletime grace swr stalewhilerevalidate earlyttl",
    "negative_ttl_s": "negativettl nonettl negative cachenone ignorenone",
    "timeout_ms": "timeout timeouts sockettimeout deadline",
    "wait_s": "wait lock locktimeout lockexpire singleflight",
    "max_bytes": "maxsize size maxentries limit capacity maxlen",
    "backend": "cache store storage persistencestore config url urls redis backends client location",
    "codec": "serializer serialize encoder pickler format",
    "arguments": "args params on by include ignore argstoignore noself",
    "key": (
        "keys keybuilder keyfunc keyfn keymaker makekey makecachekey hashfunc hashfuncs hashmethod querystring"
        " functionkeygenerator jmespath expression eventkeyjmespath datakeywordargument path"
    ),
    "exceptions": "errors catch exception raises cacheexceptions expectedexception",
    "compress_above_bytes": "compress compressthreshold compressminsize",
    "version": "namespace prefix keyprefix region tag tags alias makename",
}


def meant_by(name: str, accepted: Iterable[str]) -> str:
    """Return the suggestion `; did you mean NAME?`, or an empty string if no accepted name is similar."""
    plain = name.lower().replace("_", "")
    synonyms = [each for each, others in _MEANT.items() if plain in others.split()]
    near = synonyms or get_close_matches(name, accepted, 1)
    return f"; did you mean {near[0]}?" if near else ""
