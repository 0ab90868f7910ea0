"""The template with a load balancer and a directory bucket, while another moto runs in the same process."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest

from burstcache.client import Client
from burstcache_local.cloud import LocalCloud, LocalOptions
from burstcache_local.moto.server import moto_server
from burstcache_local.moto.services import REGION
from support.policies import THESIS
from support.waiting import until

PARAMETERS = {
    **THESIS,
    "FrontDoor": "alb",
    "CertificateArn": "arn:aws:acm:eu-central-1:123456789012:certificate/a",
    "ExpressZone": "usw2-az1",
    "PolicyOverrides": "lambda_threshold_s=0.001",  # no key gets hot
}


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCloud]:
    origin = tmp_path_factory.mktemp("origin")
    (origin / "a b.txt").write_text("text")
    (origin / "folder").mkdir()
    (origin / "folder" / "data.json.gz").write_bytes(b"gzip")
    with moto_server(), LocalCloud(LocalOptions(parameters=PARAMETERS, origin=origin)) as running:
        yield running


def test_an_encoded_path_is_decoded_by_the_function(cloud: LocalCloud) -> None:
    with urllib.request.urlopen(f"{cloud.front_url}/objects/a%20b.txt") as answer:
        assert (answer.status, answer.read(), answer.headers["content-type"]) == (200, b"text", "text/plain")


def test_a_path_with_a_line_break_reaches_the_function(cloud: LocalCloud) -> None:
    with pytest.raises(urllib.error.HTTPError, match="404") as answer:
        urllib.request.urlopen(f"{cloud.front_url}/objects/a%0Ab")

    assert json.load(answer.value)["error"]["code"] == "NoSuchKey"


def test_a_large_body_is_refused_by_the_load_balancer(cloud: LocalCloud) -> None:
    request = urllib.request.Request(f"{cloud.front_url}/objects/a", data=b"x" * (1024 * 1024 + 1), method="PUT")

    with pytest.raises(urllib.error.HTTPError, match="413"):
        urllib.request.urlopen(request)


def test_files_of_the_origin_have_guessed_types(cloud: LocalCloud) -> None:
    stored = cloud.client("s3").head_object(Bucket=cloud.bucket_name, Key="folder/data.json.gz")

    assert (stored["ContentType"], stored["ContentEncoding"]) == ("application/json", "gzip")


def test_a_cloud_next_to_another_moto_keeps_to_a_region_of_its_own(cloud: LocalCloud) -> None:
    tables = cloud.client("dynamodb").list_tables()["TableNames"]

    assert tables == [cloud.outputs["TableName"]]
    assert cloud.region != REGION


def _read(cloud: LocalCloud) -> tuple[str, bytes]:
    with urllib.request.urlopen(f"{cloud.front_url}/objects/k") as answer:
        return answer.headers["x-cache-tier"], answer.read()


def test_an_object_is_copied_to_express_and_a_write_takes_the_copy_away(cloud: LocalCloud) -> None:
    s3, bucket = cloud.client("s3"), json.loads(cloud.outputs["ReaderSettings"])["EXPRESS_BUCKET"]
    s3.put_object(Bucket=cloud.bucket_name, Key="k", Body=b"old")
    until(lambda: _read(cloud) == ("express", b"old"))

    s3.put_object(Bucket=cloud.bucket_name, Key="k", Body=b"new")

    until(lambda: _read(cloud) == ("express", b"new"))
    rules = s3.get_bucket_lifecycle_configuration(Bucket=bucket)["Rules"]
    assert rules[0]["ID"] == "tombstones"


def test_a_client_reads_the_copies_of_the_stack(cloud: LocalCloud, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in cloud.variables.items():
        monkeypatch.setenv(name, value)
    cloud.client("s3").put_object(Bucket=cloud.bucket_name, Key="other", Body=b"other")

    with Client(memory_bytes=0) as client:
        until(lambda: client.get("other").tier == "express")
