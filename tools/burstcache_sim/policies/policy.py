"""The protocol of a policy: its decisions in the simulated world, and its options on the command line."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any, ClassVar, NamedTuple, Protocol, Self

from burstcache.core.breakeven import THESIS_PRICES as _THESIS
from burstcache.core.errors import InvalidSettingError
from burstcache.core.worth import TierPrices
from burstcache_sim.world.world import Decider

THESIS_PRICES = TierPrices(_THESIS.s3_get_usd, _THESIS.redis_usd_per_s, _THESIS.lambda_usd_per_s)

_PER_DECADE = 6  # settings of a curve per decade of the hit value
_DECADES = (-6, -2)  # hit values from 1e-6 to 1e-2 USD


@dataclass(frozen=True, slots=True)
class Options:
    """Command-line options of all policies. Each policy reads its own options."""

    rate: str = "9"  # expected requests per minute
    sensitivity: str = "4"
    overrides: str = ""  # single parameters, `name=value`, separated by commas
    hit_value_usd: Fraction | None = None  # value of a request served from memory
    has_relay: bool = True  # whether there are cache functions


class Policy(Decider, Protocol):
    """A policy under one setting: an immutable value that makes the decisions of `Decider`.

    A new policy is one readable module: a frozen dataclass that derives from this class, with `handle_request`,
    `handle_ready`, `check_node` and `without_redis`. The policy gets an entry in `registry.POLICIES`. A compiled engine
    is optional.
    """

    parameters: Any  # a frozen dataclass

    name: ClassVar[str]
    # The readable simulator replays about this many requests in the half second that it takes to load an engine.
    least_compiled: ClassVar[int] = 200_000
    takes_guests: ClassVar[bool] = False  # whether a running node takes read-through entries of any key
    is_ticked: ClassVar[bool] = False  # whether a ticker checks nodes; `sim run` prints the checks and one key's log

    def memory(self) -> Any:
        """Return the state of a key before its first request, or None if the window suffices."""
        return None

    def without_redis(self, requests: int) -> Self:
        """Return a variant of the policy that boots no node in a trace of this many requests."""

    def compiled(self) -> NamedTuple | None:
        """Return the setting as a row for the compiled engine of the same module name, or None without an engine."""
        return None

    def fields(self) -> dict[str, Any]:
        """Return the setting for JSON."""
        return asdict(self.parameters)

    @classmethod
    def from_options(cls, options: Options, prices: TierPrices) -> Self:
        """Build the policy from options, or raise an `InvalidSettingError`."""

    @classmethod
    def describe(cls, options: Options) -> str:
        """Describe the policy under these options in words."""

    @classmethod
    def knob(cls, options: Options, prices: TierPrices) -> tuple[str, Sequence[Self]]:
        """Return the title and the settings of a curve, from least to most memory."""


class WorthPolicy(Policy):
    """A policy with one parameter, the hit value."""

    title: ClassVar[str]

    @classmethod
    @abstractmethod
    def worth(cls, hit_value_usd: Fraction, prices: TierPrices = ...) -> Self:
        """Derive the policy from a hit value, > 0 [USD], or raise an `InvalidSettingError`."""

    def of_sample(self, rate: Fraction) -> Self:
        """Return the policy for a sample of this share of a log's keys. The default is the same policy."""
        return self

    @classmethod
    def from_options(cls, options: Options, prices: TierPrices) -> Self:
        """Build the policy from `--hit-value-usd`."""
        if options.hit_value_usd is None:
            raise InvalidSettingError(
                f"--hit-value-usd is missing: the policy {cls.name} needs it, in USD, such as 1e-4"
            )
        return cls.worth(options.hit_value_usd, prices)

    @classmethod
    def describe(cls, options: Options) -> str:
        """Describe the policy by its hit value."""
        return f"{cls.title}, a hit worth {float(options.hit_value_usd or 0):g} USD"

    @classmethod
    def knob(cls, options: Options, prices: TierPrices) -> tuple[str, Sequence[Self]]:
        """Return a curve of settings evenly spaced by the logarithm of the hit value."""
        first, last = (decade * _PER_DECADE for decade in _DECADES)
        settings = [cls.worth(Fraction(f"{10 ** (step / _PER_DECADE):.2e}"), prices) for step in range(first, last + 1)]
        return f"{cls.title}, a hit worth 1e{_DECADES[0]} to 1e{_DECADES[1]} USD", settings
