"""S3 in moto, with a record of the reads that it answered by bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

import boto3

from burstcache_local.moto.server import MotoServer
from burstcache_local.moto.services import Services

if TYPE_CHECKING:
    from types_boto3_s3.client import S3Client

BUCKET, REGION = "clients-bucket", "eu-central-1"


@dataclass
class RecordedS3:
    """A bucket, and the paths of objects whose bytes were read."""

    client: S3Client
    url: str
    read_paths: list[str] = field(default_factory=list)


@contextmanager
def recorded_s3() -> Iterator[RecordedS3]:
    """Run moto for the duration of a `with`, and yield its S3 with an empty bucket."""
    services = Services()
    read_paths: list[str] = []
    server = MotoServer(services, before=lambda application: _recording(application, read_paths.append))
    try:
        url = server.start()
        try:
            keys = {"aws_access_key_id": "own", "aws_secret_access_key": "own"}
            client = boto3.client("s3", endpoint_url=url, region_name=REGION, **keys)
            client.create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": "eu-central-1"})
            yield RecordedS3(client, url, read_paths)
        finally:
            server.stop()
    finally:
        services.close()


def _recording(application: WSGIApplication, record: Callable[[str], object]) -> WSGIApplication:
    def serve(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        def start(status: str, headers: list[tuple[str, str]], *error: Any) -> Any:
            if environ["REQUEST_METHOD"] == "GET" and status.startswith(("200", "206")):
                record(environ["PATH_INFO"])
            return start_response(status, headers, *error)

        return application(environ, start)

    return serve
