"""A stack whose nodes take guests, through the real front door, functions, machines and Redis, without a relay."""

from __future__ import annotations

import http.client
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from burstcache.adapters.clock import SystemClock
from burstcache.adapters.key_table import KeyTable
from burstcache.core.keys import key_hash
from burstcache.results import cached, open_cache
from burstcache_local.cloud import LocalCloud, LocalOptions
from support.waiting import LIMIT_S, until

KEYS = [f"key-{number}" for number in range(4)]


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCloud]:
    parameters = {"Policy": "hazard", "HitValueUsdPerMillion": "1000", "Relay": "none"}
    options = LocalOptions(boot_s=0.2, stop_s=0.2, run_dir=tmp_path_factory.mktemp("logs"), parameters=parameters)
    with LocalCloud(options) as running:
        yield running


def tier(cloud: LocalCloud, key: str) -> str:
    """Read an object; return the tier that served it."""
    connection = http.client.HTTPConnection(urlsplit(cloud.front_url).netloc, timeout=LIMIT_S)
    connection.request("GET", f"/objects/{key}")
    answer = connection.getresponse()
    assert (answer.status, answer.read()) == (200, key.encode())
    connection.close()
    return str(answer.headers["X-Cache-Tier"])


def bring_to_redis(cloud: LocalCloud) -> None:
    for key in KEYS:
        cloud.client("s3").put_object(Bucket=cloud.bucket_name, Key=key, Body=key.encode())

    until(lambda: {tier(cloud, key) for key in KEYS} == {"redis"})


def test_repeats_of_several_keys_bring_them_all_to_redis_without_a_row_of_theirs(cloud: LocalCloud) -> None:
    bring_to_redis(cloud)

    rows = KeyTable(cloud.outputs["TableName"], cloud.client("dynamodb"), SystemClock())
    assert rows.read_many(map(key_hash, KEYS)) == {}


def test_programs_share_results_on_the_stacks_node(cloud: LocalCloud, monkeypatch: pytest.MonkeyPatch) -> None:
    bring_to_redis(cloud)
    environment = {"ACCESS_KEY_ID": "local", "SECRET_ACCESS_KEY": "local", "DEFAULT_REGION": cloud.region}
    for name, value in (environment | {"ENDPOINT_URL": cloud.endpoint_url}).items():
        monkeypatch.setenv(f"AWS_{name}", value)
    backend = f"burstcache://{cloud.stack_name}"
    one, other = (
        cached(backend=open_cache(backend, timeout_ms=LIMIT_S * 1000), version="1")(_square) for _ in range(2)
    )

    assert [one(3), other(3), one(3)] == [9, 9, 9]
    assert (one.results.stats(), other.results.stats()) == ({"computed": 1, "stack": 1}, {"stack": 1})


def _square(number: int) -> int:
    return number * number
