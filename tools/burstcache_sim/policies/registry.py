"""The policies by name."""

from __future__ import annotations

from burstcache_sim.policies.breakeven import Breakeven
from burstcache_sim.policies.hazard import Hazard
from burstcache_sim.policies.policy import Policy, WorthPolicy
from burstcache_sim.policies.thesis import Thesis

POLICIES: dict[str, type[Policy]] = {policy.name: policy for policy in (Thesis, Breakeven, Hazard)}
DEFAULT = Thesis.name  # the live system's
SIMULATED: dict[str, type[WorthPolicy]] = {policy.name: policy for policy in (Breakeven, Hazard)}  # not live yet
