"""A stack may have any name that CloudFormation takes."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator

import pytest

from burstcache_local.cloud import LocalCloud, LocalOptions
from burstcache_local.template.names import LIMITS, generated
from support.waiting import until

_NAME = "n" * 128
# With which all functions are there, which the stack's own self-test calls at its creation.
_PARAMETERS = {"StateDatabases": "orders", "ExpressZone": "use2-az1", "MonthlyBudgetUsd": "9", "Relay": "direct"}


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCloud]:
    """A stack with the longest name."""
    run_dir = tmp_path_factory.mktemp("logs")
    options = LocalOptions(boot_s=0.2, stop_s=0.2, run_dir=run_dir, parameters=_PARAMETERS, stack_name=_NAME)
    with LocalCloud(options) as running:
        yield running


def test_a_stack_with_the_longest_name_serves(cloud: LocalCloud) -> None:
    cloud.client("s3").put_object(Bucket=cloud.bucket_name, Key="a", Body=b"text")

    def tier() -> str:
        with urllib.request.urlopen(f"{cloud.front_url}/objects/a") as answer:
            return str(answer.headers["X-Cache-Tier"])

    until(lambda: tier() == "redis")


def test_every_function_has_a_name_that_lambda_takes(cloud: LocalCloud) -> None:
    names = {name: each for name, each in cloud.physical_ids.items() if name.endswith("Function")}

    assert len(names) >= 12
    assert {name for name, each in names.items() if len(each) > 64 or f"-{name}-" not in each} == set()


@pytest.mark.parametrize("type_", LIMITS)
def test_a_made_up_name_keeps_its_end_and_shortens_the_stacks(type_: str) -> None:
    _, most = LIMITS[type_]

    name = generated(_NAME, "RedisControlFunction", most, "eu-west-1")

    assert len(name) == min(most, len(f"{_NAME}-RedisControlFunction-0A1B2C3D4E5F"))
    assert name.startswith("nnn")
    assert "-RedisControlFunction-" in name
    assert generated("burstcache", "ProxyFunction", most, "eu-west-1").startswith("burstcache-ProxyFunction-")
