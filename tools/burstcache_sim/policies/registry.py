"""The registry of policies by name."""

from __future__ import annotations

from fractions import Fraction

from burstcache_sim.policies.node_use import Breakeven, Hazard
from burstcache_sim.policies.policy import Policy, WorthPolicy
from burstcache_sim.policies.thesis import Thesis

WORTH_POLICIES: dict[str, type[WorthPolicy]] = {policy.name: policy for policy in (Breakeven, Hazard)}
POLICIES: dict[str, type[Policy]] = {Thesis.name: Thesis, **WORTH_POLICIES}
DEFAULT = Thesis.name  # needs no hit value, which no trace contains
TEMPLATE, TEMPLATE_USD_PER_HIT = Breakeven.name, Fraction(1, 100_000)  # the defaults of template.yaml, as a test checks
