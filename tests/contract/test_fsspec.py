"""fsspec's own tests of reading, on memory over S3."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.aws import BUCKET, clients, make_stack, mocked_aws
from support.fsspec_reading import ReadingTests, WritableFileSystem


@pytest.fixture(scope="module")
def bucket_name() -> Iterator[str]:
    with mocked_aws():
        make_stack()
        yield BUCKET


@pytest.fixture(scope="module")
def reading(bucket_name: str) -> WritableFileSystem:
    return WritableFileSystem(clients().s3)


class TestReading(ReadingTests):
    test_get_glob_edge_cases = pytest.mark.slow(ReadingTests.test_get_glob_edge_cases)  # 32 of a tenth of a second
