"""Pool costs on the page of costs, for a pool and its competitors, compared with the code's."""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction

import pytest

from burstcache.core.pool.chunk_store import member_bytes
from burstcache.core.pool.costs import member_price
from burstcache.core.pool.redundancy import SERVE_MS, Load, choose
from burstcache.core.pool.slices import SLICE_BYTES
from burstcache.core.prices import price_sheet
from burstcache_sim.bill.nodes import ec2_nodes
from burstcache_sim.bill.pool import control_use, pool_bill
from burstcache_sim.pool.reclaims import ReclaimProcess, reclaim_process, usual
from support.project import ROOT

PRICES = price_sheet("today-us-east-1")
SLICE_GB = Fraction(SLICE_BYTES, 1024**3)
GB = 1024**3
Cells = tuple[float, float, float]  # a GB kept for an hour, a slice written, a slice read [USD per million]


def pool(members: int, reclaims: ReclaimProcess | None = None) -> Cells:
    """A pool that is full, read ten times as often as written."""
    price, held_bytes = member_price(PRICES, 1_769), member_bytes(1_769)
    load = Load(Fraction(40 * members), Fraction(4 * members), members * held_bytes * 10 // 12 // SLICE_BYTES)
    choice = choose(members, load, price, {60: (reclaims or usual(members)).day()})
    code = choice.plan.redundancy
    usable_gb = members * held_bytes * code.data / code.chunks / GB
    control_usd = pool_bill(control_use(members, Fraction(60)), PRICES).usd
    chunk_ms = SERVE_MS + -(-SLICE_BYTES // (code.data * 78_125))
    one_usd = float(price.invocations_usd(code.chunks, chunk_ms))
    upkeep_usd = float(choice.hour.upkeep_usd) + control_usd
    return upkeep_usd / usable_gb * 1e6, one_usd * 1e6, one_usd * 1e6


def express() -> Cells:
    def usd(item: str) -> float:
        return float(PRICES.usd(item)) * 1e6

    written = usd("s3-express-put") + usd("s3-express-upload") * float(SLICE_GB)
    read = usd("s3-express-get") + usd("s3-express-retrieval") * float(SLICE_GB)
    return usd("s3-express-storage"), written, read


def node(type_: str) -> Cells:
    gb = Fraction(ec2_nodes(type_).each_bytes, GB)
    return float(PRICES.usd(f"ec2:{type_}") / gb) * 1e6, 0.0, 0.0


ROWS: dict[str, Callable[[], Cells]] = {
    "A pool of 16 members": lambda: pool(16),
    "A pool of 64 members": lambda: pool(64),
    "A pool of 64 members, the paper's worst month": lambda: pool(
        64, reclaim_process(f"poisson:{7.21 * 64 / 400}", 64)
    ),
    "S3 Express One Zone": express,
    "Always-on r7g.large": lambda: node("r7g.large"),
    "Ranged GETs from S3": lambda: (0.0, 0.0, float(PRICES.usd("s3-get")) * 1e6),
}


@pytest.mark.parametrize("name", ROWS)
def test_the_page_prints_what_the_code_computes(name: str) -> None:
    page = (ROOT / "docs" / "operate" / "costs.md").read_text().partition("## A pool for large objects")[2]
    row = re.search(rf"^\| {re.escape(name)} \|(.*)\|$", page, re.M)
    cells = ROWS[name]()
    assert row, cells

    printed = [float(cell.replace(",", "")) for cell in row[1].split("|")]

    assert printed == pytest.approx(cells, rel=0.01, abs=0.05), cells


def test_a_slice_that_is_read_few_times_within_two_days_is_cheaper_in_a_pool_than_in_s3_express() -> None:
    def usd(cells: Cells, *, reads: int, hours: int) -> float:
        kept, written, read = cells
        return kept * float(SLICE_GB) * hours + written + reads * read

    ours, theirs = ROWS["A pool of 64 members"](), ROWS["S3 Express One Zone"]()

    assert usd(ours, reads=3, hours=48) < usd(theirs, reads=3, hours=48)
    assert usd(ours, reads=3, hours=96) > usd(theirs, reads=3, hours=96)
    assert usd(ours, reads=20, hours=1) > usd(theirs, reads=20, hours=1)
