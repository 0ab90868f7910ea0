"""A client without a stack, and a directory bucket."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from burstcache.adapters.clients import Clients
from burstcache.client import Client, expire_copies
from burstcache.client.boto3_wrapper import wrap
from burstcache.core.errors import InvalidSettingError
from burstcache.core.keys import key_hash
from support.aws import BUCKET, REGION, mocked_aws, session
from support.express import COPIES, URLS, make_copies, sizes_of

BODY = b"x" * 4_000


@pytest.fixture
def clients(monkeypatch: pytest.MonkeyPatch) -> Iterator[Clients]:
    with mocked_aws():
        monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")  # whose prices are known
        clients = Clients("control", session=session(), endpoint_urls=URLS)
        clients.s3.create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION})
        clients.s3.put_object(Bucket=BUCKET, Key="k", Body=BODY)
        make_copies(clients)
        yield clients


@pytest.fixture
def make(clients: Clients) -> Iterator[Callable[..., Client]]:
    made: list[Client] = []

    def make_client(**more: Any) -> Client:
        made.append(
            Client(
                bucket=BUCKET,
                express_bucket=COPIES,
                freshness="immutable",
                endpoint_urls=URLS,
                **{"memory_bytes": 0, "hit_value_usd_per_million": 0, **more},
            )
        )
        return made[-1]

    yield make_client
    for client in made:
        client.close()


def test_what_one_client_has_read_often_enough_another_one_gets_from_express(make: Callable[..., Client]) -> None:
    one, other = make(), make()

    assert [one.get("k").tier for _ in range(5)] == ["s3"] * 4 + ["express"]
    found = other.get("k")
    assert (found.tier, found.body) == ("express", BODY)
    assert other.get("k", range="bytes=0-3").body == b"xxxx"
    assert other.head("k").tier == "express"


def test_a_worthier_wait_is_copied_at_once(make: Callable[..., Client]) -> None:
    assert [make(hit_value_usd_per_million=1).get("k").tier for _ in range(2)] == ["s3", "express"]


def test_a_wrapped_client_of_boto3_copies_what_is_read_to_its_end(
    make: Callable[..., Client], clients: Clients
) -> None:
    s3 = wrap(clients.s3, client=make(hit_value_usd_per_million=1))

    assert s3.get_object(Bucket=BUCKET, Key="k")["Body"].read() == BODY

    assert sizes_of(clients).keys() == {key_hash("k")}


def test_without_the_bucket_s3_serves(make: Callable[..., Client], clients: Clients) -> None:
    clients.express.delete_bucket(Bucket=COPIES)

    assert [make().get("k").tier for _ in range(2)] == ["s3", "s3"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"freshness": "bounded"}, "accepted: immutable"),
        ({"freshness": "immutable", "bucket": "", "stack_name": "s"}, "a stack names its own"),
        ({"freshness": "immutable", "hit_value_usd_per_million": -1}, "accepted: 0 or more"),
    ],
)
def test_what_would_serve_old_objects_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidSettingError, match=message):
        Client(**{"bucket": BUCKET, "express_bucket": COPIES, **arguments})


def test_copies_expire_by_the_rules_of_the_prices(clients: Clients) -> None:
    with pytest.raises(ClientError, match="lifecycle configuration does not exist"):
        clients.express.get_bucket_lifecycle_configuration(Bucket=COPIES)

    expire_copies(COPIES, endpoint_urls=URLS)

    rules = clients.express.get_bucket_lifecycle_configuration(Bucket=COPIES)["Rules"]
    assert rules[0]["ID"] == "tombstones"
