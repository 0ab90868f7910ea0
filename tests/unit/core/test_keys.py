"""Names of executions can be read, and no two lives share one."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from burstcache.core.keys import is_life_of, key_execution_name, key_hash, slug

_EPOCH = 1_763_632_800_000


@pytest.mark.parametrize(
    ("key", "readable"),
    [
        ("k", "k"),
        ("images/cat.jpg", "images-cat-jpg"),
        ("a_b-c", "a_b-c"),
        ("/München & Zürich/", "Munchen-Zurich"),
        ("データ", ""),
        ("logs/2026/11/22/part-00001-of-00099.parquet", "logs-2026-11-22-par--01-of-00099-parquet"),
    ],
)
def test_a_name_shows_the_key(key: str, readable: str) -> None:
    assert slug(key) == readable


def test_a_name_has_the_key_its_hash_and_the_epoch() -> None:
    hash_ = key_hash("images/cat.jpg")

    assert key_execution_name("images/cat.jpg", hash_, 7) == f"images-cat-jpg-{hash_[:16]}-7"


@given(st.text(max_size=1024))
def test_step_functions_takes_every_name(key: str) -> None:
    name = key_execution_name(key, key_hash(key), _EPOCH)

    assert re.fullmatch(r"[0-9A-Za-z_-]{1,80}", name)


def test_a_name_is_that_of_a_life_of_its_own_key_alone() -> None:
    names = {key: key_execution_name(key, key_hash(key), _EPOCH) for key in ("a b", "a-b", "データ")}

    for key in names:
        assert [of for of, name in names.items() if is_life_of(name, key_hash(key))] == [key]


def test_keys_that_look_the_same_have_different_names() -> None:
    names = {key_execution_name(key, key_hash(key), _EPOCH) for key in ("a b", "a-b", "a/b", "ä b")}

    assert len(names) == 4
