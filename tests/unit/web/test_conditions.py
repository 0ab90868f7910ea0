"""Conditions: RFC 9110's order of evaluation, as S3 documents it for its own GET."""

from __future__ import annotations

import pytest

from burstcache.web.conditions import failed_condition, passed_on, range_applies

_ETAG = '"abc"'
_MODIFIED = "Sun, 06 Nov 1994 08:49:37 GMT"
_EARLIER, _LATER = "Sun, 06 Nov 1994 08:49:36 GMT", "Sun, 06 Nov 1994 08:49:38 GMT"
_AT_US, _TO_COME = 1_795_168_800_000_000, "Sat, 21 Nov 2026 10:00:00 GMT"  # a request, and a day after it


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
        ({"if-none-match": ', "x",, , "abc",'}, 304),
        ({"if-none-match": '"x" y, "abc"'}, None),
        ({"if-match": '"x" y, "abc"'}, 412),
        ({"if-modified-since": _MODIFIED}, 304),
        ({"if-modified-since": _LATER}, 304),
        ({"if-modified-since": _EARLIER}, None),
        ({"if-modified-since": "yesterday"}, None),
        ({"if-modified-since": "Sunday, 06-Nov-94 08:49:38 GMT"}, 304),
        ({"if-modified-since": "Sun Nov  6 08:49:38 1994"}, 304),
        ({"if-modified-since": "Sun, 06 Nov 1994 10:49:38 +0100"}, None),
        ({"if-modified-since": _TO_COME}, None),
        ({"if-unmodified-since": _TO_COME}, None),
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
    assert failed_condition(headers, etag=_ETAG, last_modified=_MODIFIED, at_us=_AT_US) == status


def test_the_date_of_an_object_that_is_newer_than_our_clock_is_no_date_to_come() -> None:
    headers = {"if-modified-since": _MODIFIED}

    assert failed_condition(headers, etag=_ETAG, last_modified=_MODIFIED, at_us=0) == 304


@pytest.mark.parametrize(
    ("headers", "passed"),
    [
        ({}, {}),
        ({"if-match": "abc "}, {"if_match": '"abc"'}),
        ({"if-match": '"x", "abc"'}, {}),
        ({"if-match": "*", "if-unmodified-since": _EARLIER}, {}),
        ({"if-match": 'W/"abc"', "if-none-match": '"abc"'}, {}),
        ({"if-match": '"x", "abc"', "if-modified-since": _EARLIER}, {}),
        ({"if-match": "*", "if-none-match": '"abc"'}, {"if_none_match": '"abc"'}),
        ({"if-match": '""'}, {"if_match": '""'}),
        ({"if-none-match": 'W/"abc"', "if-modified-since": _EARLIER}, {"if_none_match": '"abc"'}),
        ({"if-none-match": "*"}, {}),
        (
            {"if-unmodified-since": _LATER, "if-modified-since": _EARLIER},
            {"if_unmodified_since": _LATER, "if_modified_since": _EARLIER},
        ),
        ({"if-modified-since": _TO_COME}, {}),
    ],
)
def test_s3_is_asked_with_conditions_on_which_it_agrees(headers: dict[str, str], passed: dict[str, str]) -> None:
    assert passed_on(headers, at_us=_AT_US) == passed


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
