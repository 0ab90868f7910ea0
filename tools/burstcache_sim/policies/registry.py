"""The policies by name."""

from __future__ import annotations

from fractions import Fraction

from burstcache_sim.policies.key_breakeven import KeyBreakeven
from burstcache_sim.policies.key_hazard import KeyHazard
from burstcache_sim.policies.node_use import Breakeven, Hazard
from burstcache_sim.policies.policy import Policy, WorthPolicy
from burstcache_sim.policies.thesis import Thesis

LIVE: dict[str, type[Policy]] = {policy.name: policy for policy in (Thesis, Breakeven, Hazard)}
WEIGHING: dict[str, type[WorthPolicy]] = {p.name: p for p in (Breakeven, Hazard, KeyBreakeven, KeyHazard)}
POLICIES = LIVE | {policy.name: policy for policy in (KeyBreakeven, KeyHazard)}  # what these two were compared by
DEFAULT = Thesis.name  # the one that needs no worth of a hit, which a trace does not have
TEMPLATE, TEMPLATE_USD_PER_HIT = Breakeven.name, Fraction(1, 100_000)  # what template.yaml deploys; a test compares
SIMULATED: dict[str, type[WorthPolicy]] = {policy.name: policy for policy in (Breakeven, Hazard)}
