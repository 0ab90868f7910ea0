"""The lines that carry a verdict out: they run, or name what there is to buy."""

from __future__ import annotations

import inspect
import re
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from burstcache.client import Client
from burstcache.core.prices import price_sheet
from burstcache_sim.bill.competitors import competitor_names
from burstcache_sim.bill.latency_model import LatencyModel
from burstcache_sim.bill.setup import Setup
from burstcache_sim.choose.advise.advice import Advice, advise
from burstcache_sim.choose.advise.steps import library_lines, steps
from burstcache_sim.choose.advise.systems import for_sale
from burstcache_sim.choose.advise.worth import Value
from burstcache_sim.choose.tune.workload import workload_of
from burstcache_sim.traces.trace import Trace

PRICES = price_sheet("today-us-east-1")


@cache
def found() -> Advice:
    """A day of requests for 50 objects in turn."""
    ids = np.arange(2_000, dtype=np.int32) % 50
    trace = Trace(np.arange(2_000) * 43_200_000, ids, np.full(2_000, 20_000), tuple(map(str, range(50))))
    return advise(workload_of(trace, PRICES, Setup()), Value(usd_per_hit=1e-5), LatencyModel(), candidates=8)


@pytest.fixture(scope="module", autouse=True)
def advised() -> Advice:
    """The answer, once for all tests."""
    return found()


def bought(name: str) -> Advice:
    """Return the answer if a system of this name were the best buy."""
    return replace(found(), winner=replace(found().others[-1], name=name))


@pytest.mark.parametrize("name", ["reader-memory:256MB", "reader-memory-confirmed:64MB"])
def test_the_librarys_lines_are_python_that_makes_a_client(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "b")
    install, code = library_lines(replace(found().winner, name=name)).split("\n\n", 1)

    made: dict[str, object] = {}
    exec(code, made)

    assert install.startswith("pip install ./burstcache")
    assert hasattr(made["s3"], "get_object")


@pytest.mark.parametrize("name", ["s3-express", "reader-memory+s3-express"])
def test_copies_in_express_are_read_through_the_library(name: str) -> None:
    _, lines = steps(bought(name))

    options = set(re.findall(r"(\w+)=", lines.split("client = Client(")[1]))
    assert options <= inspect.signature(Client.__init__).parameters.keys()
    assert ("memory_bytes" in options) == name.startswith("reader-memory+")
    compile(lines.split("\n\n", 1)[1], "lines", "exec")


def test_everything_that_can_be_bought_is_described() -> None:
    sold = {system.name for system in for_sale(found().others)}
    names = {name for name in competitor_names(PRICES, Setup()) if name.partition(":")[0] not in ("s3-only",)}
    hidden = {"perfect-automation", "lambda-always", "infinicache"}

    for name in sold | {name for name in names if name.partition(":")[0] not in hidden} | {"ec2:3xt4g.nano"}:
        sentence, lines = steps(bought(name))
        assert sentence or name == "s3-only", name
        assert "{" not in sentence, name
        assert lines or sentence.startswith(("Buy ", "The library keeps slices")) or name == "s3-only", name
    assert steps(bought("ec2:3xt4g.nano"))[0].startswith("Buy 3 times t4g.nano on EC2 with Valkey, always on")
    assert steps(bought("s3-only")) == ("", "")
