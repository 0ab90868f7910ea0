"""The load on a stack, the stack's settings, and the quotas of its account."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from math import ceil
from typing import Literal

from burstcache.core.batching import MIN_BATCH_AGE_US, batch_rule
from burstcache.core.digest import MAX_AGE_S, REFRESH_AT
from burstcache.core.messages.events import REPORT_EVERY_S
from burstcache.core.parameters import US_PER_S, Parameters, parameters_from_text
from burstcache.core.prices import price_sheet
from burstcache.core.worth import MICRO, Worth, reading_prices, tier_prices
from burstcache_sim.bill.setup import TEMPLATE_NODE, TEMPLATE_RELAY, OriginEvents, Relay
from burstcache_sim.bill.usage import ORIGIN_MS, PROXY_S3_MS

ORIGIN_CONCURRENCY, ORIGIN_BATCH = 2, 10  # of the queue of S3's events: `MaximumConcurrency` and the batch size
_CONTROL_BATCH_MS = 90  # of Redis control, for all keys of a batch (assumed)
Region = Literal["us-east-1", "eu-central-1"]

_MS_PER_S = 1_000
_SHEET = "today-us-east-1"
_CACHE_MEMORY_MB = 256
# Defaults of the template, compared by a test.
TEMPLATE_THROTTLE_PER_S, TEMPLATE_MAX_HOT_KEYS, TEMPLATE_HIT_VALUE_USD = 25, 2, Fraction(10, MICRO)
_TEMPLATE_RATE_PER_MIN, _TEMPLATE_SENSITIVITY = "9", "4"


@dataclass(frozen=True, slots=True)
class Quotas:
    """The quotas of an account in a region. Amounts per second, unless the name says otherwise.

    Source:
        AWS's documented defaults, as named in `docs/operate/capacity.md`.
    """

    concurrency: int = 1_000  # Lambda, concurrent executions
    api_requests: int = 10_000  # all HTTP APIs of the region
    new_environments: int = 1_000  # of one function, in ten seconds
    invocations_per_unit: int = 10  # synchronous invocations per unit of concurrency
    put_events: int = 10_000
    event_deliveries: int = 18_750
    start_executions: int = 300
    state_transitions: int = 5_000
    execution_events: int = 25_000  # of one execution's history
    get_parameters: int = 40
    partition_write_units: int = 1_000
    partition_read_units: int = 3_000
    table_write_units: int = 4_000  # of a new table on demand, which doubles within half an hour of use
    table_read_units: int = 12_000
    s3_gets: int = 5_500  # per prefix
    s3_puts: int = 3_500  # per prefix
    ec2_vcpus: int = 5  # running on-demand standard instances
    spot_task_vcpus: int = 6
    on_demand_task_vcpus: int = 6
    node_clients: int = 10_000  # Redis's `maxclients`


# Quotas that differ in a region that is not one of AWS's largest.
_SMALLER_REGION = {
    "put_events": 2_400,
    "event_deliveries": 4_500,
    "start_executions": 150,
    "state_transitions": 800,
}
REGIONS: dict[Region, dict[str, int]] = {"us-east-1": {}, "eu-central-1": _SMALLER_REGION}
# Values that a sweep lets grow, to these largest ones. `load` lets keys and reads grow together.
DIMENSIONS = {
    "keys": 1_000_000,
    "reads_per_s": 100_000,
    "readers": 100_000,
    "writes_per_s": 10_000,
    "load": 100_000,
    "stacks": 1_000,
}


@dataclass(frozen=True)
class StackLoad:
    """A load at its peak: a burst that begins while no node runs, so that S3 serves each read.

    Attributes:
        keys: Keys that are read.
        reads_per_s: Reads of all readers.
        readers: Processes with the client library. 0: programs read through the HTTP API.
        writes_per_s: Writes to the bucket.
        object_bytes: Mean size of an object.
        top_share: Share of the reads that go to the most-read key.
        policy: The stack's policy.
        relay: How readers reach cache functions.
        nodes: Redis nodes.
        node: Kind and size of a node, such as `fargate-spot:2GB`.
        max_hot_keys: `MaxHotKeys`.
        origin_events: `OriginEvents`: how S3's events of writes are followed.
        stacks: Stacks of the bucket, each for a prefix (`OriginPrefix`) with an equal share of keys, reads and writes.
        throttle_per_s: `ThrottleRatePerS`.
        proxy_ms: Duration of the proxy's read from S3.
        origin_batch_ms: The origin function's own time for a batch of events.
        quotas: The account's quotas.
    """

    keys: int = 1_000
    reads_per_s: float = 10.0
    readers: int = 0
    writes_per_s: float = 1.0
    object_bytes: int = 10_000
    top_share: float = 0.1
    policy: str = "breakeven"
    relay: Relay = TEMPLATE_RELAY
    nodes: int = 1
    node: str = TEMPLATE_NODE
    max_hot_keys: int = TEMPLATE_MAX_HOT_KEYS
    origin_events: OriginEvents = "queue"
    stacks: int = 1
    throttle_per_s: int = TEMPLATE_THROTTLE_PER_S
    proxy_ms: float = PROXY_S3_MS
    origin_batch_ms: float = ORIGIN_MS
    quotas: Quotas = field(default_factory=Quotas)

    @property
    def batch_s(self) -> float:
        """The duration of a batch of S3's events, which is followed in one go [s]."""
        return (self.origin_batch_ms + _CONTROL_BATCH_MS) / _MS_PER_S

    @property
    def followed_per_s(self) -> float:
        """The events of S3 that the queue's batches follow per second at most."""
        return ORIGIN_CONCURRENCY * ORIGIN_BATCH / self.batch_s

    @property
    def of_one_stack(self) -> StackLoad:
        """The load on each of several stacks. Each reader reads keys of every stack."""
        return replace(
            self,
            keys=ceil(self.keys / self.stacks),
            reads_per_s=self.reads_per_s / self.stacks,
            writes_per_s=self.writes_per_s / self.stacks,
            stacks=1,
        )

    @property
    def is_proxied(self) -> bool:
        """Whether programs read through the HTTP API."""
        return not self.readers

    @property
    def has_leases(self) -> bool:
        """Whether each hot key has a life and a lease of its own."""
        return self.policy == "thesis"

    @property
    def has_cache_functions(self) -> bool:
        """Whether cache functions serve hot keys."""
        return self.relay != "none"

    @property
    def has_lives(self) -> bool:
        """Whether keys have lives: under `thesis`, and in cache functions."""
        return self.has_leases or self.has_cache_functions

    @property
    def has_guests(self) -> bool:
        """Whether nodes hold read-through entries."""
        return self.nodes > 0 and not self.has_leases

    @property
    def has_tiers(self) -> bool:
        """Whether there is a tier above S3, and so anything to decide."""
        return self.nodes > 0 or self.has_cache_functions

    @property
    def proxy_units(self) -> float:
        """Concurrent executions of the proxy."""
        return self.reads_per_s * self.proxy_ms / _MS_PER_S if self.is_proxied else 0.0

    @property
    def processes(self) -> float:
        """Programs with the library, or environments of the proxy: each reads the digest and reports for itself."""
        return float(self.readers) if self.readers else self.proxy_units

    @property
    def looks_per_s(self) -> float:
        """Queries of the digest: at most one per process and interval, and none without reads."""
        return min(self.processes / (MAX_AGE_S * REFRESH_AT), self.reads_per_s)

    @property
    def reports_per_s(self) -> float:
        """Events with reports of reads, an upper bound."""
        if not self.has_tiers:
            return 0.0
        if self.has_leases and self.is_proxied:
            return self.reads_per_s  # the proxy reports each read from S3
        per_report = 1.0 if self.has_leases else self._reads_per_report
        every_s = REPORT_EVERY_S if self.has_leases else MIN_BATCH_AGE_US / US_PER_S
        return min(self.processes / every_s, self.reads_per_s / per_report)

    @property
    def hot_keys(self) -> float:
        """Keys that these reads may make hot, regardless of `MaxHotKeys`."""
        return min(self.keys, self.reads_per_s / self._hot_rate_per_s) if self.has_lives else 0.0

    @property
    def admitted_keys(self) -> float:
        """Keys that are hot at the same time."""
        return min(self.hot_keys, self.max_hot_keys)

    @property
    def starts_per_s(self) -> float:
        """Keys that get hot, if all do within the time in which a policy notices it."""
        return self.admitted_keys / self._noticed_within_s

    @property
    def parameters(self) -> Parameters:
        """Parameters of the thesis policy, by the template's defaults."""
        return parameters_from_text(rate=_TEMPLATE_RATE_PER_MIN, sensitivity=_TEMPLATE_SENSITIVITY)

    @cached_property
    def _worth(self) -> Worth:
        sheet = price_sheet(_SHEET)
        return Worth(TEMPLATE_HIT_VALUE_USD, reading_prices(sheet, has_express=False))

    @cached_property
    def _reads_per_report(self) -> float:
        return batch_rule(self._worth).threshold / MICRO

    @cached_property
    def _hot_rate_per_s(self) -> float:
        """Reads a second that make a key hot: by the thesis's window, or those that pay for a cache function."""
        if self.has_leases:
            return self.parameters.lambda_window_elements * US_PER_S / self.parameters.lambda_threshold_us
        prices = tier_prices(price_sheet(_SHEET), node_type=self.node, cache_memory_mb=_CACHE_MEMORY_MB)
        return float(prices.lambda_usd_per_s / self._worth.hit_usd)

    @property
    def _noticed_within_s(self) -> float:
        return (self.parameters.lambda_threshold_us if self.has_leases else MIN_BATCH_AGE_US) / US_PER_S
