"""Thousands of objects of a log in a bucket: read where they are, and only once."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import boto3
import pytest
from moto.backends import get_backend
from types_boto3_s3 import S3Client

from burstcache_cli.cli import main
from burstcache_local.functions import ACCOUNT
from burstcache_sim.traces import remote
from burstcache_sim.traces.reading import LogFile
from support.aws import mocked_aws
from unit.sim.test_traces_formats import s3_row

START = datetime(2026, 3, 1, tzinfo=UTC)
URL = "s3://media-logs/access/"
OBJECTS = 2000


def test_advise_reads_two_thousand_objects_and_the_next_command_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    local = tmp_path / "local"
    local.mkdir()
    with mocked_aws():
        s3 = boto3.client("s3")
        place = {"LocationConstraint": s3.meta.region_name}
        s3.create_bucket(Bucket="media-logs", CreateBucketConfiguration=place)
        stored = get_backend("s3")[ACCOUNT]["aws"]  # filled without 2,000 requests, which take ten seconds
        for number in range(OBJECTS):
            at = START + timedelta(minutes=number)
            name = f"{at:%Y-%m-%d-%H-%M-%S}-{number:016X}"
            rows = "".join(
                s3_row(time=f"{at - timedelta(hours=late):%d/%b/%Y:%H:%M:%S} +0000", key=f"k{(number + late) % 7}")
                for late in range(3)
            )
            stored.put_object("media-logs", f"access/{name}", rows.encode())
            (local / name).write_text(rows)
        options = ["--json", "--candidates", "3", "--hit-value-usd", "1e-5"]

        assert main(["advise", URL, "--log-store", str(tmp_path / "store"), *options]) == 0
        from_s3 = json.loads(capsys.readouterr().out)
        assert main(["advise", str(local), *options]) == 0
        from_here = json.loads(capsys.readouterr().out)
        fetched: list[str] = []
        fetch = remote.fetch

        def counted(client: S3Client, file: LogFile, path: Path) -> None:
            fetched.append(file.name)
            fetch(client, file, path)

        monkeypatch.setattr("burstcache_sim.traces.sources.fetch", counted)
        assert main(["sim", "inspect", URL, "--log-store", str(tmp_path / "store"), "--json"]) == 0

    assert from_s3 == from_here
    assert json.loads(capsys.readouterr().out)["requests"] == 3 * OBJECTS
    assert len(fetched) == 1, "the first shows the format"
