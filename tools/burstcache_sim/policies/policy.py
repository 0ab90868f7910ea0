"""A policy: decisions over the simulated world, and how a person chooses its settings."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any, ClassVar, NamedTuple, Protocol, Self

from burstcache.core.breakeven import THESIS_PRICES as _THESIS
from burstcache.core.breakeven import BreakevenPrices
from burstcache.core.errors import InvalidSettingError
from burstcache.core.worth import TierPrices
from burstcache_sim.world.world import Decider

THESIS_PRICES = TierPrices(_THESIS.s3_get_usd, _THESIS.redis_usd_per_s, _THESIS.lambda_usd_per_s)

_PER_DECADE = 6  # steps of a hit's worth, for curves
_DECADES = (-6, -2)  # a hit worth 1e-6 to 1e-2 USD


@dataclass(frozen=True, slots=True)
class Options:
    """A person's options for a policy; each policy reads those that concern it."""

    rate: str = "9"  # expected requests per minute
    sensitivity: str = "4"
    overrides: str = ""  # single parameters, `name=value` with commas between
    hit_value_usd: Fraction | None = None  # what a request served from memory is worth
    has_relay: bool = True  # without one there are no cache functions


class Policy(Decider, Protocol):
    """A policy under one setting: an immutable value that makes the decisions of `Decider`.

    A new policy is one readable file: a frozen dataclass that derives from this class, `request`, `look`, `ready`,
    `without_redis`, and an entry in `registry.POLICIES`. `compiled` comes later, if speed is wanted.
    """

    parameters: Any  # a frozen dataclass of what it decides by

    name: ClassVar[str]
    # Loading a compiled engine takes half a second; the readable simulator replays about this many requests meanwhile.
    least_compiled: ClassVar[int] = 200_000
    takes_guests: ClassVar[bool] = False  # readers ask a running node for any of its keys, and bring what it misses
    is_ticked: ClassVar[bool] = False  # a ticker judges its nodes: `sim run` prints the checks, and the log of one key

    def memory(self) -> Any:
        """Return the memory of a key without a request yet; None if the window is enough."""
        return None

    def without_redis(self, requests: int) -> Self:
        """Return the policy under a setting that boots no node for a trace of that many requests."""

    def compiled(self) -> NamedTuple | None:
        """Return the setting as a row for `engine.<name>`; None if there is only the readable policy."""
        return None

    def fields(self) -> dict[str, Any]:
        """Return the setting for JSON."""
        return asdict(self.parameters)

    @classmethod
    def from_options(cls, options: Options, prices: TierPrices) -> Self:
        """Return the policy that the options ask for; raises `InvalidSettingError`."""

    @classmethod
    def described(cls, options: Options) -> str:
        """Return the policy in words, as the options ask for it."""

    @classmethod
    def knob(cls, options: Options, prices: TierPrices) -> tuple[str, Sequence[Self]]:
        """Return the settings for a curve, from little memory to much, and a name for what varies."""


def weighed_by_keys(prices: TierPrices) -> BreakevenPrices:
    """Return the prices of a policy that judges each key by itself: control is free."""
    return BreakevenPrices(prices.lambda_usd_per_s, prices.redis_usd_per_s, prices.s3_get_usd)


class WorthPolicy(Policy):
    """A policy with one knob: what a hit is worth."""

    title: ClassVar[str]

    @classmethod
    @abstractmethod
    def worth(cls, hit_value_usd: Fraction, prices: TierPrices = ...) -> Self:
        """Return the policy for which a hit has that worth, > 0 [USD]; raises `InvalidSettingError`."""

    def of_sample(self, rate: Fraction) -> Self:
        """Return the policy for a sample of a log's keys, a share of them; one that judges each key is the same."""
        return self

    @classmethod
    def from_options(cls, options: Options, prices: TierPrices) -> Self:
        """Return the policy for the worth that a person names."""
        if options.hit_value_usd is None:
            raise InvalidSettingError(
                f"--hit-value-usd is missing: the policy {cls.name} needs it, in USD, such as 1e-4"
            )
        return cls.worth(options.hit_value_usd, prices)

    @classmethod
    def described(cls, options: Options) -> str:
        """Return the worth in words."""
        return f"{cls.title}, a hit worth {float(options.hit_value_usd or 0):g} USD"

    @classmethod
    def knob(cls, options: Options, prices: TierPrices) -> tuple[str, Sequence[Self]]:
        """Return settings evenly apart by the logarithm of the worth."""
        first, last = (decade * _PER_DECADE for decade in _DECADES)
        settings = [cls.worth(Fraction(f"{10 ** (step / _PER_DECADE):.2e}"), prices) for step in range(first, last + 1)]
        return f"{cls.title}, a hit worth 1e{_DECADES[0]} to 1e{_DECADES[1]} USD", settings
