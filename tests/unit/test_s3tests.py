"""Tables of outcomes of Ceph's conformance tests, and the comparison of two of them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from s3tests.suite import USERS, write_settings
from s3tests.tables import Explanation, Outcome, compare, merge_rounds, read_table, write_table

_PASSED, _FAILED, _SKIPPED = Outcome("passed"), Outcome("failed", 'assert "a\tb" == 1'), Outcome("skipped")


def test_a_table_is_read_as_it_was_written(tmp_path: Path) -> None:
    table = {"test_s3.py::test_a[\u00e9]": _PASSED, "test_s3.py::test_b": _FAILED}

    write_table(tmp_path / "new" / "moto.tsv", table)

    assert read_table(tmp_path / "new" / "moto.tsv") == table


def test_a_test_that_fails_in_one_round_of_two_is_flaky() -> None:
    merged = merge_rounds([{"a": _PASSED, "b": _FAILED, "c": _PASSED}, {"a": _FAILED, "b": _FAILED, "c": _PASSED}])

    assert merged == {"a": Outcome("flaky", _FAILED.reason), "b": _FAILED, "c": _PASSED}


@pytest.mark.parametrize("result", ["failed", "failed in teardown", "hangs", "flaky"])
def test_a_test_that_fails_only_through_the_endpoint_is_a_fault(result: str) -> None:
    there = Outcome(result)

    found = compare({"f::a": _PASSED, "f::b": _PASSED}, {"f::a": _PASSED, "f::b": there}, [])

    assert found.faults == {"f::b": there}


def test_a_test_that_did_not_run_through_the_endpoint_is_a_fault() -> None:
    assert compare({"f::a": _PASSED}, {}, []).faults == {"f::a": Outcome("not run")}


def test_a_test_that_fails_straight_is_no_fault() -> None:
    straight = {"f::a": _FAILED, "f::b": Outcome("flaky"), "f::c": _SKIPPED}

    assert compare(straight, {"f::a": _FAILED, "f::b": _FAILED, "f::c": _SKIPPED}, []).faults == {}


def test_a_failure_that_is_explained_counts_for_its_kind() -> None:
    straight = {"f::test_acl": _PASSED, "f::test_acl_b": _PASSED, "f::test_get": _PASSED}
    through = dict.fromkeys(straight, Outcome("failed", "AccessDenied"))
    users = Explanation("a second user", re.compile("AccessDenied"), frozenset({"test_acl", "test_acl_b"}))

    found = compare(straight, through, [users])

    assert (found.faults, found.explained) == ({"f::test_get": through["f::test_get"]}, {"a second user": 2})


def test_another_failure_of_a_test_that_is_explained_is_a_fault() -> None:
    users = Explanation("a second user", re.compile("AccessDenied"), frozenset({"test_acl"}))

    found = compare({"f::test_acl": _PASSED}, {"f::test_acl": Outcome("failed", "InternalError")}, [users])

    assert (found.faults, found.explained) == ({"f::test_acl": Outcome("failed", "InternalError")}, {})


def test_the_suites_settings_name_the_endpoint_and_each_user(tmp_path: Path) -> None:
    path = tmp_path / "s3tests.conf"

    write_settings(path, "http://127.0.0.1:9000", "owner")

    lines = path.read_text().splitlines()
    assert {"host = 127.0.0.1", "port = 9000", "user_id = owner"} <= {*lines}
    assert {f"access_key = {user.access_key}" for user in USERS} <= {*lines}
