"""Whole objects for the caches, out of S3."""

from __future__ import annotations

import pytest

from burstcache.adapters.clients import Clients
from burstcache.adapters.object_store import ObjectStore
from burstcache.core.errors import ObjectNotFoundError, ObjectTooLargeError, OriginError
from burstcache.web.entry import Entry
from support.aws import BUCKET
from support.read_path import Cloud, Environment


def _store() -> ObjectStore:
    return ObjectStore(BUCKET, Clients("read").s3)


@pytest.fixture
def store(cloud: Cloud) -> ObjectStore:
    cloud.put("a", b"body", ContentType="a/b", Metadata={"colour": "red"})
    return _store()


def test_fetched_entry_has_headers_and_size_of_the_object(store: ObjectStore) -> None:
    entry = store.fetch("a", max_bytes=4)

    assert (entry.body, entry.size_bytes, entry.meta["content-type"]) == (b"body", 4, "a/b")
    assert entry.meta["x-amz-meta-colour"] == "red"


def test_object_that_has_not_changed_is_none(store: ObjectStore) -> None:
    entry = store.fetch("a", max_bytes=4)

    assert store.fetch_if_newer("a", entry, max_bytes=4) is None


@pytest.mark.parametrize("of", [{"etag": '"older"'}, {"last-modified": "Mon, 01 Jan 2024 00:00:00 GMT"}])
def test_object_of_other_bytes_or_written_at_another_time_is_fetched(store: ObjectStore, of: dict[str, str]) -> None:
    entry = store.fetch("a", max_bytes=4)
    older = Entry(entry.meta | of, b"")

    assert store.fetch_if_newer("a", older, max_bytes=4) == entry


def test_fetch_names_what_went_wrong(store: ObjectStore, environment: Environment) -> None:
    with pytest.raises(ObjectNotFoundError, match="no object 'b'"):
        store.fetch("b", max_bytes=4)
    with pytest.raises(ObjectTooLargeError, match="4 bytes; a cache takes up to 3"):
        store.fetch("a", max_bytes=3)
    environment(AWS_ENDPOINT_URL_S3="http://127.0.0.1:9")
    with pytest.raises(OriginError, match="cannot be reached"):
        _store().fetch("a", max_bytes=4)
