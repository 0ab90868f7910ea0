"""Cost of a run: usage times price for every item, however small.

Source:
    InfiniCache and the thesis bill only the cache (`only_cache`). This system adds all other items.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Annotated, Any, get_origin, get_type_hints

from burstcache.core.errors import BurstcacheError, InvalidSettingError
from burstcache.core.node_kinds import node_items, without_address
from burstcache.core.prices import PriceSheet
from burstcache_sim.units import UNITS_PER_USD

Amount = Fraction | int

CONFIG_ITEM = "config-item"  # no sheet has its price, which depends on the account's recorder

_MB_PER_GB = 1024
_OF_TASK = (", processor", ", memory", ", public IPv4 address")


@dataclass(frozen=True, slots=True)
class BillingRule:
    """The label and the price item of a `Usage` field. `price` may contain `{architecture}`."""

    text: str
    price: str
    is_cache: bool = False
    is_fixed: bool = False  # hourly, with or without requests
    is_optional: bool = False  # depends on the account: billed only by a sheet that has the price

    def label(self, usage: Usage) -> str:
        """Return the label."""
        return self.text

    def parts(self, usage: Usage) -> Iterator[tuple[str, str, Fraction]]:
        """Yield a label, a price item and the units of it that one unit of the field uses."""
        yield self.text, self.price.format(architecture=usage.architecture), Fraction(1)


@dataclass(frozen=True, slots=True)
class NodeRule(BillingRule):
    """The rule of the nodes' hours: one line for an instance, several for a task."""

    price: str = ""  # that of the node's name

    def label(self, usage: Usage) -> str:
        """Return the label with the node's kind and size."""
        return f"{self.text} {without_address(usage.node_name)}"

    def parts(self, usage: Usage) -> Iterator[tuple[str, str, Fraction]]:
        """Yield the price items of a node, such as processor and memory of a task."""
        items = node_items(usage.node_name)
        for (item, units), part in zip(items, _OF_TASK if len(items) > 1 else ("",), strict=False):
            yield self.label(usage) + part, item, units


@dataclass(frozen=True, slots=True)
class Usage:
    """Usage of a run in billed units. Amounts are exact, so callers round to AWS's granularity before adding."""

    architecture: str = "arm"  # architecture of the functions
    node_name: str = "t4g.micro"  # `core.node_kinds`
    # the cache itself: the items that the thesis bills
    cache_gb_s: Annotated[
        Amount, BillingRule("cache function, duration", "lambda-duration:{architecture}", is_cache=True)
    ] = 0
    cache_requests: Annotated[Amount, BillingRule("cache function, invocations", "lambda-request", is_cache=True)] = 0
    node_h: Annotated[Amount, NodeRule("Redis node", is_cache=True)] = 0
    s3_gets: Annotated[Amount, BillingRule("S3 GET", "s3-get", is_cache=True)] = 0
    # grows with the load
    internet_gb: Annotated[Amount, BillingRule("transfer to the internet", "internet-transfer")] = 0
    zone_gb: Annotated[Amount, BillingRule("transfer between zones", "zone-transfer")] = 0
    front_door_512kb: Annotated[Amount, BillingRule("HTTP API", "http-api-request")] = 0
    alb_lcu_h: Annotated[Amount, BillingRule("ALB, capacity units", "alb-lcu")] = 0
    proxy_gb_s: Annotated[Amount, BillingRule("proxy, duration", "lambda-duration:{architecture}")] = 0
    scheduler_gb_s: Annotated[Amount, BillingRule("scheduler, duration", "lambda-duration:{architecture}")] = 0
    control_gb_s: Annotated[Amount, BillingRule("Redis control, duration", "lambda-duration:{architecture}")] = 0
    init_gb_s: Annotated[Amount, BillingRule("INIT of all functions", "lambda-duration:{architecture}")] = 0
    function_requests: Annotated[
        Amount, BillingRule("proxy, scheduler, Redis control, invocations", "lambda-request")
    ] = 0
    events_64kb: Annotated[Amount, BillingRule("EventBridge", "event")] = 0
    queue_requests: Annotated[Amount, BillingRule("queue of S3's events, messages", "sqs-request")] = 0
    dynamodb_writes: Annotated[Amount, BillingRule("DynamoDB writes", "dynamodb-write")] = 0
    dynamodb_reads: Annotated[Amount, BillingRule("DynamoDB reads", "dynamodb-read")] = 0
    transitions: Annotated[Amount, BillingRule("Step Functions", "transition")] = 0
    nlb_lcu_h: Annotated[Amount, BillingRule("NLB, capacity units", "nlb-lcu")] = 0
    logs_gb: Annotated[Amount, BillingRule("logs", "logs")] = 0
    metric_h: Annotated[Amount, BillingRule("metrics, hours with data", "metric")] = 0
    express_gets: Annotated[Amount, BillingRule("S3 Express GET, including misses", "s3-express-get")] = 0
    express_read_gb: Annotated[Amount, BillingRule("S3 Express retrieval", "s3-express-retrieval")] = 0
    express_puts: Annotated[Amount, BillingRule("S3 Express PUT", "s3-express-put")] = 0
    express_copied_gb: Annotated[Amount, BillingRule("S3 Express upload", "s3-express-upload")] = 0
    express_gb_h: Annotated[Amount, BillingRule("S3 Express storage", "s3-express-storage")] = 0
    config_items: Annotated[Amount, BillingRule("AWS Config, items", CONFIG_ITEM, is_optional=True)] = 0
    # always on, with or without requests
    volume_gb_h: Annotated[Amount, BillingRule("volume of the node", "ebs-gp3", is_fixed=True)] = 0
    nlb_h: Annotated[Amount, BillingRule("NLB of the relay", "nlb", is_fixed=True)] = 0
    relay_vcpu_h: Annotated[Amount, BillingRule("relay, processor", "fargate-spot-vcpu:arm", is_fixed=True)] = 0
    relay_gb_h: Annotated[Amount, BillingRule("relay, memory", "fargate-spot-memory:arm", is_fixed=True)] = 0
    zone_h: Annotated[Amount, BillingRule("private DNS zone of the relay", "private-zone", is_fixed=True)] = 0
    alb_h: Annotated[Amount, BillingRule("ALB", "alb", is_fixed=True)] = 0
    ipv4_h: Annotated[Amount, BillingRule("public IPv4 addresses", "ipv4", is_fixed=True)] = 0
    janitor_gb_s: Annotated[
        Amount, BillingRule("janitor, duration", "lambda-duration:{architecture}", is_fixed=True)
    ] = 0
    janitor_reads: Annotated[Amount, BillingRule("janitor, DynamoDB reads", "dynamodb-read", is_fixed=True)] = 0
    janitor_requests: Annotated[Amount, BillingRule("janitor, invocations", "lambda-request", is_fixed=True)] = 0
    queue_polls: Annotated[Amount, BillingRule("queue of S3's events, polls", "sqs-request", is_fixed=True)] = 0


BILLED: dict[str, BillingRule] = {
    name: hint.__metadata__[0]
    for name, hint in get_type_hints(Usage, include_extras=True).items()
    if get_origin(hint) is Annotated
}


class ImpossibleBillError(BurstcacheError):
    """A bill has a negative amount because of a bug in this program."""


@dataclass(frozen=True, slots=True)
class BillLine:
    """One item of a bill: `quantity` times `unit`, and the source of its price.

    Raises:
        ImpossibleBillError: An amount is below 0. `Fraction` already rejects infinity and NaN.
    """

    text: str
    quantity: Fraction
    unit: str
    usd_exact: Fraction
    is_fixed: bool
    source: str
    item: str = ""  # price sheet item

    def __post_init__(self) -> None:
        if self.quantity < 0 or self.usd_exact < 0:
            amounts = f"{float(self.quantity):g} {self.unit} for {float(self.usd_exact):g} USD"
            raise ImpossibleBillError(f"{self.text}: {amounts}, expected amounts of at least 0")

    @property
    def usd(self) -> float:
        """Cost of the item [USD]."""
        return float(self.usd_exact)


@dataclass(frozen=True)
class Bill:
    """The items of one period, and their sum."""

    sheet: str
    lines: tuple[BillLine, ...]

    @cached_property
    def usd_exact(self) -> Fraction:
        """The sum, without rounding [USD]."""
        return sum((line.usd_exact for line in self.lines), Fraction(0))

    @property
    def usd(self) -> float:
        """The sum [USD]."""
        return float(self.usd_exact)

    @property
    def fixed_usd_exact(self) -> Fraction:
        """The cost of always-on resources, with or without requests [USD]."""
        return sum((line.usd_exact for line in self.lines if line.is_fixed), Fraction(0))

    @property
    def variable_usd_exact(self) -> Fraction:
        """The cost that requests add [USD]."""
        return self.usd_exact - self.fixed_usd_exact

    def month(self, *, periods: Fraction, repeats: Fraction) -> Bill:
        """Return the bill of a month.

        Args:
            periods: Number of this bill's periods in a month.
            repeats: Repetitions of the load in a month.
        """
        return replace(self, lines=tuple(_times(line, periods if line.is_fixed else repeats) for line in self.lines))


def bill(usage: Usage, prices: PriceSheet, *, only_cache: bool = False) -> Bill:
    """Return a run's bill. Unused items are left out and need no price, nor do optional ones.

    Args:
        usage: Usage of the run.
        prices: Prices of the region.
        only_cache: As in the thesis: bill cache function, node and S3 only.

    Raises:
        PriceMissingError: The sheet has no price for an item in use.
    """
    lines = (
        bill_line(prices, item, quantity * units, text, is_fixed=rule.is_fixed)
        for name, rule in BILLED.items()
        if (quantity := getattr(usage, name)) and (rule.is_cache or not only_cache)
        for text, item, units in rule.parts(usage)
        if not rule.is_optional or prices.has(item)
    )
    return Bill(prices.name, tuple(lines))


def bill_line(prices: PriceSheet, item: str, quantity: Amount, text: str, *, is_fixed: bool = False) -> BillLine:
    """Return one item of a bill. Raises `PriceMissingError`."""
    row = prices.row(item)
    exact = Fraction(quantity)
    return BillLine(text, exact, row.unit, exact * row.usd_exact, is_fixed, row.source, item)


def cost_units(bills: Iterable[Bill]) -> int:
    """Return the sum of bills in cost units of 1e-11/3600 USD.

    Raises:
        InvalidSettingError: The sum is not a whole number of cost units. Only `thesis-2022` prices guarantee one.
    """
    units = sum((bill.usd_exact for bill in bills), Fraction(0)) * UNITS_PER_USD
    if units.denominator != 1:
        raise InvalidSettingError("cost units: expected the prices of thesis-2022, whose prices are all whole units")
    return int(units)


def add(usages: Iterable[Usage]) -> Usage:
    """Return the total usage of several runs of one system."""
    first, *others = usages
    sums: dict[str, Any] = {}
    for usage in others:
        for name in BILLED:
            if amount := getattr(usage, name):  # most amounts are 0
                sums[name] = sums.get(name, getattr(first, name)) + amount
    return replace(first, **sums)


def _times(line: BillLine, factor: Fraction) -> BillLine:
    return replace(line, quantity=line.quantity * factor, usd_exact=line.usd_exact * factor)


def gb_s(milliseconds: Fraction | int, memory_mb: int) -> Fraction:
    """Return the billed duration of functions with this memory size [GB-s]."""
    return Fraction(milliseconds) * memory_mb / (1000 * _MB_PER_GB)
