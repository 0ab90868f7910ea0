"""Prefixes that a token gives: which keys its bearer may name, however they are written."""

from __future__ import annotations

from contextlib import suppress
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from burstcache.core.errors import InvalidSettingError, RefusedRequestError
from burstcache.web.front_door import arrival
from burstcache.web.prefixes import allowed_prefixes, check_prefix, parse_patterns
from burstcache.web.reading import read_request
from burstcache_local.front.http_events import HttpRequest, Route, http_api_event

_PATTERNS = parse_patterns("public/,users/{sub}/")
_BOB = {"sub": "bob"}
_BOBS = ("public/", "users/bob/")


@pytest.mark.parametrize(
    ("patterns", "claims", "prefixes"),
    [
        ("public/", {}, ("public/",)),
        ("users/{sub}/", {"sub": "bob"}, ("users/bob/",)),
        ("users/{sub}/", {}, ()),
        ("users/{sub}/", {"sub": ""}, ()),
        ("users/{sub}/", {"sub": "bob/../alice"}, ()),
        ("users/{sub}/", {"sub": ".."}, ()),
        ("users/{sub}/", {"sub": "."}, ()),
        ("users/{a}{b}/", {"a": ".", "b": "."}, ()),
        ("users/x-{sub}/", {"sub": ".."}, ("users/x-../",)),
        ("users/{sub}/", {"sub": "..."}, ("users/.../",)),
        ("teams/{groups[]}/", {"groups": "[red .. blue]"}, ("teams/red/", "teams/blue/")),
        ("teams/{groups[]}/", {"groups": "[red blue]"}, ("teams/red/", "teams/blue/")),
        ("teams/{groups[]}/", {"groups": "[]"}, ()),
        ("teams/{groups[]}/", {"groups": "red"}, ()),
        ("users/{nickname}/", {"nickname": "[alice bob]"}, ("users/[alice bob]/",)),
        ("{org}/{groups[]}/x-{sub}/", {"org": "o", "groups": "[a b]", "sub": "s"}, ("o/a/x-s/", "o/b/x-s/")),
        (" a/ , a/,{sub}/", {"sub": "a"}, ("a/",)),
        ("", {"sub": "bob"}, ()),
    ],
)
def test_patterns_are_filled_with_claims(patterns: str, claims: dict[str, str], prefixes: tuple[str, ...]) -> None:
    assert allowed_prefixes(parse_patterns(patterns), claims) == prefixes


@pytest.mark.parametrize(
    "pattern", ["public", "/", "users/{sub}", "a{b/", "a}b/", "{}/", "{a[}/", "x/,users/*", "{a[]}/{b[]}/"]
)
def test_a_pattern_that_is_no_prefix_is_refused_by_name(pattern: str) -> None:
    with pytest.raises(InvalidSettingError, match="is not a key prefix; accepted: "):
        parse_patterns(pattern)


def test_a_refusal_names_the_key_and_what_is_allowed() -> None:
    with pytest.raises(RefusedRequestError) as refusal:
        check_prefix("users/alice/x", _PATTERNS, _BOB)

    assert (refusal.value.status, refusal.value.code) == (403, "PrefixNotAllowed")
    assert refusal.value.message == (
        "the token's claims do not permit the key 'users/alice/x'; accepted: keys under 'public/', 'users/bob/'"
    )


def event_of(path: str, query: str, claims: dict[str, Any] | None, method: str = "GET") -> dict[str, Any]:
    """Return the HTTP API's event for a path that is still encoded."""
    request = HttpRequest(method, path, query, (), b"", "127.0.0.1")
    event = http_api_event(request, Route("$default", "proxy"), {}, api_id="api")
    if claims is not None:
        event["requestContext"]["authorizer"] = {"jwt": {"claims": claims, "scopes": None}}
    return event


def named_key(path: str, query: str = "", claims: dict[str, Any] | None = _BOB) -> str:
    """Return the key that a request may read, or raise RefusedRequestError."""
    return read_request(arrival(event_of(path, query, claims)), request_id="1", at_us=0, prefixes=_PATTERNS).key


@pytest.mark.parametrize(
    ("path", "query", "key"),
    [
        ("/objects/users/bob/x", "", "users/bob/x"),
        ("/objects/users%2Fbob/x", "", "users/bob/x"),
        ("/objects/public/%252e%252e/users/alice/x", "", "public/%2e%2e/users/alice/x"),  # such a key, and no way up
        ("/objects", "key=users/bob/x", "users/bob/x"),
    ],
)
def test_a_key_below_the_prefix_is_read(path: str, query: str, key: str) -> None:
    assert named_key(path, query) == key


@pytest.mark.parametrize(
    ("path", "query"),
    [
        ("/objects/users/alice/x", ""),
        ("/objects/users/bob", ""),
        ("/objects/users/bobby/x", ""),
        ("/objects/Users/bob/x", ""),
        ("/objects//users/bob/x", ""),
        ("/objects/users/bob%252F../alice/x", ""),
        ("/objects/users/bob/../alice/x", ""),
        ("/objects/users/bob/%2e%2e/alice/x", ""),
        ("/objects/users/bob/..%2Falice/x", ""),
        ("/objects/users%2f%62ob%2f%2e%2E%2fpublic%2f..", ""),
        ("/objects/users\N{FULLWIDTH SOLIDUS}bob/x", ""),
        ("/objects/users/bo\N{ZERO WIDTH SPACE}b/x", ""),
        ("/objects", "key=users/alice/x"),
        ("/objects/users/bob/x", "key=users/alice/x"),
        ("/objects", "key=users/bob/x&key=users/alice/x"),
    ],
)
def test_no_spelling_leads_out_of_the_prefix(path: str, query: str) -> None:
    with pytest.raises(RefusedRequestError):
        named_key(path, query)


@pytest.mark.parametrize("claims", [None, {}, {"sub": None}, {"sub": ["bob"]}, {"sub": "alice"}])
def test_a_token_without_the_claim_gives_none_of_its_prefixes(claims: dict[str, Any] | None) -> None:
    with pytest.raises(RefusedRequestError, match="accepted: keys under 'public/'"):
        named_key("/objects/users/bob/x", claims=claims)


_PIECES = st.sampled_from(
    [
        *("users", "bob", "alice", "public", "/", "//", "..", ".", "?", "ü"),
        *("%2e", "%2E%2e", "%2f", "%252f", "%25", "%00", "%ff"),
    ]
)


@given(st.lists(_PIECES, max_size=12).map("".join), st.none() | st.lists(_PIECES, max_size=8).map("".join))
@example("users/bob/%2e%2e/alice", None)
@example("", "users/bob/../alice/x")
def test_what_is_read_always_begins_with_a_prefix_of_the_token(path: str, key: str | None) -> None:
    query = "" if key is None else f"key={key}"
    with suppress(RefusedRequestError):
        assert named_key(f"/objects/{path}", query).startswith(_BOBS)


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40))
def test_a_key_is_read_by_its_query_exactly_if_it_begins_with_a_prefix(tail: str) -> None:
    for key in (tail, f"users/bob/{tail}", f"users/bob{tail}", f"users/{tail}bob/x"):
        query = f"key={quote(key, safe='')}"
        if key.startswith(_BOBS):
            assume(".." not in key.split("/"))
            assert named_key("/objects", query) == key
        else:
            with pytest.raises(RefusedRequestError):
                named_key("/objects", query)


@given(st.text(max_size=20), st.text(max_size=20))
def test_one_claim_never_gives_more_than_one_folder(sub: str, other: str) -> None:
    prefixes = allowed_prefixes(("users/{sub}/",), {"sub": sub})

    assert all(prefix.count("/") == 2 and prefix.startswith("users/") for prefix in prefixes)
    assert sub == other or not set(prefixes) & set(allowed_prefixes(("users/{sub}/",), {"sub": other}))
