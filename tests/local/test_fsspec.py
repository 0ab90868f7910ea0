"""fsspec's own tests of reading, on the tiers of the local run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from burstcache_local.cloud import LocalCloud
from support.fsspec_reading import ReadingTests, WritableFileSystem


@pytest.fixture(scope="module")
def bucket_name(cloud: LocalCloud) -> Iterator[str]:
    """The bucket of the stack that is in the environment."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in cloud.variables.items():
            patch.setenv(name, value)
        yield cloud.bucket_name


@pytest.fixture(scope="module")
def reading(bucket_name: str) -> WritableFileSystem:
    return WritableFileSystem()


class TestReading(ReadingTests):
    test_get_glob_edge_cases = None  # which names match does not depend on what serves the bodies
