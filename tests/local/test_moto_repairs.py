"""Every repair to moto is needed and works: its check passes with it and fails without it."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from burstcache_local.moto import registry as moto_repairs
from burstcache_local.moto.server import moto_server
from support.waiting import LIMIT_S

CHECKS = Path(__file__).parent / "repair_checks.py"


@pytest.fixture(scope="module")
def results() -> dict[str, list[bool]]:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    run = subprocess.run([sys.executable, CHECKS], env=environment, stdout=subprocess.PIPE, check=True, timeout=LIMIT_S)
    found: dict[str, list[bool]] = json.loads(run.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize("repair", moto_repairs.names())
def test_check_passes_with_the_repair_and_fails_without_it(results: dict[str, list[bool]], repair: str) -> None:
    passes_with_it, passes_without_it = results[repair]

    assert passes_with_it
    assert not passes_without_it


def test_every_repair_says_what_moto_does() -> None:
    undocumented = [name for name in moto_repairs.names() if "moto" not in (moto_repairs.purpose(name))]

    assert undocumented == []


def test_an_upload_that_is_cut_short_stores_nothing() -> None:
    with moto_server() as services:
        s3, url = services.client("s3"), urlsplit(services.cloud_url)
        s3.create_bucket(Bucket="bucket", CreateBucketConfiguration={"LocationConstraint": services.region})
        head = f"PUT /bucket/key HTTP/1.1\r\nHost: {url.netloc}\r\nContent-Length: 1000\r\n\r\n"
        with socket.create_connection((url.hostname, url.port), LIMIT_S) as link:
            link.sendall(head.encode() + b"x" * 999)
            link.shutdown(socket.SHUT_WR)
            answer = link.recv(1)  # the end of the connection: the server has dropped the request

        assert answer == b""
        assert "Contents" not in s3.list_objects_v2(Bucket="bucket")
