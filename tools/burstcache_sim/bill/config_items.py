"""Configuration items that AWS Config records of a node's run. They cost only where a recorder records EC2's types.

Continuous recording adds an item for every change of a resource, and of its relations to others. These counts follow
from that rule and were not measured. Running always-on nodes change nothing.
"""

from __future__ import annotations

from fractions import Fraction

from burstcache.core.node_kinds import node_kind
from burstcache.core.prices import PriceRow, PriceSheet
from burstcache_sim.bill.cost import CONFIG_ITEM, Bill, BillLine

LISTED_USD = "0.003"  # per item recorded continuously (vantage.sh)

# The instance is running, then stopped. Its interface and volume stay attached to it, unchanged.
_OF_INSTANCE = 2
# A task is of no type of EC2's, but its network interface is. It is created and deleted, and each time its subnet and
# VPC change, too (widdix/aws-cf-templates, pull request 754, on tasks on Fargate).
_OF_TASK = 2 * 3


def items_per_run(node_name: str) -> int:
    """Return the configuration items of one run of a node, from its start to its stop."""
    return _OF_INSTANCE if node_kind(node_name) == "ec2" else _OF_TASK


def with_config_items(prices: PriceSheet, usd: Fraction) -> PriceSheet:
    """Return a price sheet with the account's price of a configuration item [USD]. With 0, bills contain no items."""
    if not usd:
        return prices
    return prices.with_row(PriceRow(CONFIG_ITEM, str(usd), "item", "--config-item-usd"))


def config_line(bill: Bill) -> BillLine | None:
    """Return the configuration items of a bill, if it has any."""
    return next((line for line in bill.lines if line.item == CONFIG_ITEM), None)
