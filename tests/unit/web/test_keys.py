"""Keys: which object a path or ?key= names, and which names are refused."""

from __future__ import annotations

import pytest

from burstcache.core.errors import RefusedRequestError
from burstcache.web.keys import requested_key


@pytest.mark.parametrize(
    ("path", "query", "key"),
    [
        ("/objects/a", (), "a"),
        ("/objects/a/b c/ü", (), "a/b c/ü"),
        ("/objects/a/", (), "a/"),
        ("/objects//a", (), "/a"),
        ("/objects//", (), "/"),
        ("/objects/100%25", (), "100%25"),
        ("/objects/a..b/...", (), "a..b/..."),
        ("/objects/a", (("_", "1"),), "a"),
        ("/objects", (("key", "a?b"),), "a?b"),
        ("/objects/", (("key", "a/../b"),), "a/../b"),
        ("/objects", (("key", "a/\N{REPLACEMENT CHARACTER}"),), "a/\N{REPLACEMENT CHARACTER}"),
        ("/objects/" + "x" * 1024, (), "x" * 1024),
    ],
)
def test_key_is_what_the_client_named(path: str, query: tuple[tuple[str, str], ...], key: str) -> None:
    assert requested_key(path, query) == key


@pytest.mark.parametrize(
    ("path", "query", "status", "code"),
    [
        ("/", (), 404, "UnknownRoute"),
        ("/object/a", (), 404, "UnknownRoute"),
        ("/objectsx", (), 404, "UnknownRoute"),
        ("/objects", (), 400, "EmptyKey"),
        ("/objects/", (), 400, "EmptyKey"),
        ("/objects", (("key", ""),), 400, "EmptyKey"),
        ("/objects/" + "x" * 1025, (), 400, "KeyTooLong"),
        ("/objects/" + "ü" * 513, (), 400, "KeyTooLong"),
        ("/objects/a\N{REPLACEMENT CHARACTER}", (), 400, "KeyNotUtf8"),
        ("/objects/../a", (), 400, "KeyNotAPath"),
        ("/objects/a/../b", (), 400, "KeyNotAPath"),
        ("/objects/a/.", (), 400, "KeyNotAPath"),
        ("/objects", (("key", "../a"),), 400, "InvalidKey"),
        ("/objects", (("key", "a/../../b"),), 400, "InvalidKey"),
        ("/objects", (("key", "a"), ("key", "b")), 400, "AmbiguousKey"),
        ("/objects/a", (("key", "b"),), 400, "AmbiguousKey"),
        ("/objects/a", (("versionId", "1"),), 400, "UnsupportedParameter"),
    ],
)
def test_key_that_no_object_has_is_refused(
    path: str, query: tuple[tuple[str, str], ...], status: int, code: str
) -> None:
    with pytest.raises(RefusedRequestError, match="accepted: ") as refusal:
        requested_key(path, query)

    assert (refusal.value.status, refusal.value.code) == (status, code)


def test_key_with_half_a_surrogate_pair_is_refused() -> None:
    with pytest.raises(RefusedRequestError, match="not UTF-8"):
        requested_key("/objects/a\udcff", ())
