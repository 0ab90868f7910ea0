"""The thumbnail service as it is deployed, in a local run of its own, and under functions-framework."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

import thumbnails
from burstcache_local.cloud import LocalCloud, LocalOptions
from burstcache_local.machines.redis_binary import redis_binary
from burstcache_local.stack import Stack
from examples.thumbnails.pictures import SIZES_PX, picture
from support.project import PYTHONPATH, ROOT
from support.servers import serve
from support.waiting import free_port, until, wait_for_port

pytestmark = pytest.mark.slow

EXAMPLE = ROOT / "examples" / "thumbnails"
PICTURE = picture(min(SIZES_PX))
THUMBNAIL = thumbnails.shrink(PICTURE)
PLACES = [
    "memory",
    pytest.param("unix", marks=pytest.mark.weekly),
    pytest.param("redis", marks=pytest.mark.weekly),
    "memory and redis",
]
BUCKET = "thumbnails"


@pytest.fixture(scope="module")
def server() -> Iterator[redis.Redis]:
    """A Redis that listens on a port and on a socket."""
    port = free_port()
    with tempfile.TemporaryDirectory() as folder:  # a socket's path must be short
        path = Path(folder) / "redis.sock"
        options = ["--bind", "127.0.0.1", "--port", str(port), "--unixsocket", str(path), "--save", ""]
        process = serve([str(redis_binary()), *options], port)
        with redis.Redis(unix_socket_path=str(path)) as client:
            yield client
        process.kill()
        process.wait()


@pytest.fixture(params=PLACES)
def results(request: pytest.FixtureRequest, server: redis.Redis) -> str:
    """Return the value of `BURSTCACHE_RESULTS`."""
    server.flushall()
    path = server.connection_pool.connection_kwargs["path"]
    port = server.config_get("port")["port"]
    urls = {"memory": "memory://", "unix": f"unix://{path}", "redis": f"redis://127.0.0.1:{port}"}
    return " ".join(urls[name] for name in request.param.split(" and "))


def get(url: str, body: bytes | None = None, kind: str = "image/jpeg") -> tuple[int, bytes]:
    request = urllib.request.Request(url, data=body, headers={"Content-Type": kind})
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def written(server: redis.Redis) -> int:
    """Return the number of SET commands that Redis received."""
    statistics = server.info("commandstats")
    return int(statistics.get("cmdstat_set", {"calls": 0})["calls"])


def test_the_service_runs_as_it_is_deployed_with_its_results_in_any_place(results: str, tmp_path: Path) -> None:
    options = LocalOptions(template=EXAMPLE / "template.yaml", parameters={"Results": results}, run_dir=tmp_path)
    with LocalCloud(options) as cloud:
        cloud.client("s3").put_object(Bucket=cloud.bucket_name, Key="a b/cat.jpg", Body=PICTURE)
        url = cloud.outputs["SendAPicture"].rpartition(" ")[2]

        uploaded = [get(f"{url}/a%20b/cat.jpg") for _ in range(2)]
        sent = [get(url, PICTURE) for _ in range(2)]
        absent = get(f"{url}/dog.jpg")
        text = get(url, b"no picture")

    assert uploaded + sent == [(200, THUMBNAIL)] * 4
    assert absent == (404, b"no such picture")
    assert text == (415, b"expected a picture: JPEG, PNG, GIF or WebP")


def test_a_thumbnail_is_made_at_the_upload_and_found_by_the_function_that_answers(
    server: redis.Redis, tmp_path: Path
) -> None:
    server.flushall()
    results = f"redis://127.0.0.1:{server.config_get('port')['port']}"
    options = LocalOptions(template=EXAMPLE / "template.yaml", parameters={"Results": results}, run_dir=tmp_path)
    with LocalCloud(options) as cloud:
        cloud.client("s3").put_object(Bucket=cloud.bucket_name, Key="cat.jpg", Body=PICTURE)
        until(lambda: set(server.keys("result:*")) - set(server.keys("*:lease")))
        made = written(server)

        answer = get(f"{cloud.outputs['SendAPicture'].rpartition(' ')[2]}/cat.jpg")

    assert answer == (200, THUMBNAIL)
    assert written(server) == made


def test_what_is_kept_in_s3_is_found_by_the_next_environment(tmp_path: Path) -> None:
    parameters = {"Results": f"memory:// s3://{BUCKET}/results", "ResultsBucketName": BUCKET}
    with LocalCloud(LocalOptions(template=EXAMPLE / "template.yaml", parameters=parameters, run_dir=tmp_path)) as cloud:
        s3 = cloud.client("s3")
        s3.create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": cloud.region})
        s3.put_object(Bucket=cloud.bucket_name, Key="cat.jpg", Body=PICTURE)
        kept = until(lambda: s3.list_objects_v2(Bucket=BUCKET, Prefix="results/").get("Contents"))

        answer = get(f"{cloud.outputs['SendAPicture'].rpartition(' ')[2]}/cat.jpg")

        assert answer == (200, THUMBNAIL)
        assert s3.list_objects_v2(Bucket=BUCKET)["Contents"] == kept


def test_the_service_works_next_to_a_stack_from_whose_outputs_it_learns_all_it_needs(tmp_path: Path) -> None:
    with LocalCloud(LocalOptions(parameters={"Relay": "none"}, run_dir=tmp_path)) as cloud:
        application = cloud.deploy(EXAMPLE / "template.yaml", "thumbnails", {"Results": "memory:// burstcache://"})
        body = base64.b64encode(PICTURE).decode()
        event = {"requestContext": {"http": {"method": "POST"}}, "body": body, "isBase64Encoded": True}

        answers = [invoke(cloud, application, "ThumbnailFunction", event) for _ in range(2)]

    assert application.template.parameters["ReaderSettings"] == cloud.outputs["ReaderSettings"]
    assert [base64.b64decode(answer["body"]) for answer in answers] == [THUMBNAIL] * 2


def invoke(cloud: LocalCloud, application: Stack, logical_id: str, event: object) -> Any:
    """Invoke a function of an application and return its result."""
    name = application.physical_ids[logical_id]
    answer = cloud.client("lambda").invoke(FunctionName=name, Payload=json.dumps(event))
    assert "FunctionError" not in answer, answer["Payload"].read()
    return json.loads(answer["Payload"].read())


def test_functions_framework_serves_the_same_thumbnails(results: str) -> None:
    port = free_port()
    environment = os.environ | {"PYTHONPATH": PYTHONPATH, "BURSTCACHE_RESULTS": results}
    process = subprocess.Popen([sys.executable, str(EXAMPLE / "server.py"), str(port)], env=environment)
    try:
        wait_for_port(port, process)
        body = b'{"image": "%b"}' % base64.b64encode(PICTURE)

        answers = [get(f"http://127.0.0.1:{port}/", body, "application/json") for _ in range(2)]
        wrong = get(f"http://127.0.0.1:{port}/", b'{"image": "no picture"}', "application/json")
    finally:
        process.terminate()
        process.wait()

    assert answers == [(200, THUMBNAIL)] * 2
    assert wrong[0] == 415
