"""The thesis's published values, as printed in tables 5.1, 5.2 and A.1, in the text and in figures.

Source:
    Buner 2022, chapter 5 and appendix A.3. Prices are for eu-central-1 in 2022.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Row:
    """One row of table A.1. A cost is None if it contradicts the printed count. No total does."""

    n: int  # number of requests, derived from percentages in text and figures
    lambda_ms: int
    invocations: int
    cold_starts: int
    redis_s: int
    redis_starts: int
    s3_requests: int  # requests served by S3, plus cold starts and Redis starts
    lambda_usd: float
    invocations_usd: float
    redis_usd: float | None
    s3_usd: float | None
    total_usd: float

    @property
    def in_memory_pct(self) -> float:
        """Share of requests served by a cache [%]."""
        return 100 * (1 - (self.s3_requests - self.cold_starts - self.redis_starts) / self.n)


# 5.9a: 76 S3 requests match the printed cost and the figure's 37.29 %.
TABLE_A1 = {
    "5.3": Row(175, 556_170, 36, 3, 1020, 1, 81, 0.00929, 0.0000072, None, 0.0000348, 0.0131),
    "5.4": Row(175, 393_809, 10, 4, 2040, 2, 31, 0.00657, 0.0000020, 0.00759, 0.0000133, 0.0142),
    "5.5": Row(175, 161_806, 4, 1, 2701, 1, 13, 0.00270, 0.0000008, 0.01005, 0.0000056, 0.0128),
    "5.7a": Row(82, 328_207, 27, 1, 0, 0, 69, 0.00548, 0.0000054, 0.0, 0.0000296, 0.00552),
    "5.7b": Row(82, 499_976, 21, 1, 281, 1, 46, 0.00835, 0.0000042, 0.00105, 0.0000198, 0.00942),
    "5.8a": Row(82, 381_188, 10, 2, 859, 2, 26, 0.00637, 0.0000020, 0.00320, 0.0000112, 0.00958),
    "5.8b": Row(82, 506_881, 11, 1, 849, 2, 23, 0.00846, 0.0000022, 0.00316, None, 0.0116),
    "5.9a": Row(118, 350_962, 31, 1, 300, 1, 76, 0.00586, 0.0000062, 0.00112, 0.0000327, 0.00702),
    "5.9b": Row(118, 512_991, 31, 1, 437, 1, 62, 0.00857, 0.0000062, 0.00163, 0.0000267, 0.0102),
    "5.10a": Row(118, 817_102, 17, 1, 681, 4, 35, 0.01365, 0.0000034, 0.00253, 0.0000151, 0.0162),
    "5.10b": Row(118, 266_881, 3, 1, 1500, 2, 8, 0.00446, 0.0000006, 0.00558, 0.0000034, 0.0100),
    "5.11": Row(150, 61_531, 5, 1, 240, 1, 9, 0.00103, 0.0000010, 0.00089, 0.0000039, 0.00193),
    "5.12": Row(250, 51_477, 3, 1, 421, 1, 12, 0.00086, 0.0000006, 0.00156, 0.0000052, 0.00243),
    "5.13": Row(300, 76_754, 7, 1, 601, 1, 16, 0.00128, 0.0000014, 0.00224, 0.0000069, 0.00353),
    "5.14": Row(600, 129_234, 10, 1, 1141, 1, 31, 0.00216, 0.0000020, 0.00425, 0.0000133, 0.00642),
}
S3_ONLY_REQUESTS, S3_ONLY_USD = 175, 0.0000753  # figure 5.6a

# The configurator's parameters TICK, lambdaThreshold and redisUtilization [s], by rate per minute and sensitivity.
TABLE_5_1 = {
    (3, 2): (8, 16, 140),
    (3, 3): (12, 24, 160),
    (3, 4): (16, 32, 180),
    (4, 2): (6, 12, 105),
    (4, 3): (9, 18, 120),
    (4, 4): (12, 24, 135),
    (6, 2): (4, 8, 70),
    (6, 3): (6, 12, 80),
    (6, 4): (8, 16, 90),
    (9, 4): (5, 10, 60),
}


@dataclass(frozen=True, slots=True)
class BurstRow:
    """One row of table 5.2: the spikes per hour up to which the system is cheaper, and their share of the hour."""

    figure: str
    duration_s: int
    self_hosted: str
    elasticache: str


TABLE_5_2 = (
    BurstRow("5.11", 275, "up to 6 (45 %)", "up to 9 (68 %)"),
    BurstRow("5.12", 609, "up to 5 (84 %)", "up to 7 (> 100 %)"),
    BurstRow("5.13", 832, "up to 3 (69 %)", "up to 5 (> 100 %)"),
    BurstRow("5.14", 2126, "up to 2 (> 100 %)", "up to 2 (> 100 %)"),
)


@dataclass(frozen=True, slots=True)
class Poisson:
    """Half an hour of random requests (`poisson`, thesis, section 5.1.2). All sensitivities share one trace."""

    rate_per_min: int
    duration_s: int = 1800


@dataclass(frozen=True, slots=True)
class Spike:
    """Normally distributed arrivals around one instant (`spike-simple`, thesis, section 5.1.2)."""

    std_s: int


Workload = Poisson | Spike


@dataclass(frozen=True, slots=True)
class Experiment:
    """The experiment of one figure: a workload and the configurator's input."""

    figure: str
    workload: Workload
    rate_per_min: int
    sensitivity: int

    @property
    def published(self) -> Row:
        """The thesis's measurements."""
        return TABLE_A1[self.figure]


EXPERIMENTS = (
    *(Experiment(name, Poisson(3), 3, s) for name, s in (("5.7a", 2), ("5.7b", 3), ("5.8a", 4), ("5.8b", 5))),
    *(Experiment(name, Poisson(4), 4, s) for name, s in (("5.9a", 2), ("5.9b", 3), ("5.10a", 4), ("5.10b", 5))),
    *(Experiment(name, Spike(std), 9, 4) for name, std in (("5.11", 50), ("5.12", 100), ("5.13", 150), ("5.14", 300))),
)
LOG_SENSITIVITIES = {"5.3": 2, "5.4": 3, "5.5": 4}  # one hour of a web server's log, rate 3

# Numbers printed next to the plots and repeated in the thesis's text: mean end-to-end latency [ms] (5.5 from the text
# on 5.3), and cost of the offline endpoint scheduler's plan [USD].
MEAN_LATENCY_MS = {"5.5": 28.19, "5.7b": 49.47, "5.9b": 46.31, "5.10b": 27.16}
OFFLINE_USD = {"5.7b": 0.00704, "5.9b": 0.00703, "5.10b": 0.00703}
# Section 5.5: lower and upper bound for the share of billed Lambda duration in the total cost [%].
LAMBDA_SHARE_PCT = {"5.11": (53, 53), "5.12": (33, 36), "5.13": (33, 36), "5.14": (33, 36)}
