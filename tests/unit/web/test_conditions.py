"""Conditions: RFC 9110's order of evaluation, as S3 documents it for its own GET."""

from __future__ import annotations

import pytest

from burstcache.web.conditions import failed_condition, range_applies

_ETAG = '"abc"'
_MODIFIED = "Sun, 06 Nov 1994 08:49:37 GMT"
_EARLIER, _LATER = "Sun, 06 Nov 1994 08:49:36 GMT", "Sun, 06 Nov 1994 08:49:38 GMT"


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, None),
        ({"if-match": '"abc"'}, None),
        ({"if-match": '"x", "abc"'}, None),
        ({"if-match": "*"}, None),
        ({"if-match": "abc"}, None),
        ({"if-match": '"x"'}, 412),
        ({"if-match": 'W/"abc"'}, 412),
        ({"if-none-match": '"abc"'}, 304),
        ({"if-none-match": 'W/"abc"'}, 304),
        ({"if-none-match": '"x",W/"y" , "abc"'}, 304),
        ({"if-none-match": "*"}, 304),
        ({"if-none-match": '"x"'}, None),
        ({"if-none-match": '"x'}, None),
        ({"if-modified-since": _MODIFIED}, 304),
        ({"if-modified-since": _LATER}, 304),
        ({"if-modified-since": _EARLIER}, None),
        ({"if-modified-since": "yesterday"}, None),
        ({"if-unmodified-since": _MODIFIED}, None),
        ({"if-unmodified-since": _EARLIER}, 412),
        ({"if-unmodified-since": "Sun, 99 Nov 1994 08:49:36 GMT"}, None),
        ({"if-match": '"abc"', "if-unmodified-since": _EARLIER}, None),
        ({"if-none-match": '"x"', "if-modified-since": _LATER}, None),
        ({"if-none-match": '"abc"', "if-modified-since": _EARLIER}, 304),
        ({"if-match": '"x"', "if-none-match": '"abc"'}, 412),
    ],
)
def test_conditions_end_a_read_as_the_rfc_says(headers: dict[str, str], status: int | None) -> None:
    assert failed_condition(headers, etag=_ETAG, last_modified=_MODIFIED) == status


@pytest.mark.parametrize(
    ("if_range", "applies"),
    [
        ("", True),
        ('"abc"', True),
        ('W/"abc"', False),
        ('"x"', False),
        ("*", False),
        (_MODIFIED, True),
        (_LATER, False),
        (_EARLIER, False),
    ],
)
def test_range_applies_only_to_the_object_that_if_range_names(if_range: str, applies: bool) -> None:
    assert range_applies({"if-range": if_range}, etag=_ETAG, last_modified=_MODIFIED) is applies
