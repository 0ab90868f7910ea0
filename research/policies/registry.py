"""The registry of the policies that judge each key by itself."""

from __future__ import annotations

from burstcache_sim.policies.policy import WorthPolicy
from research.policies.key_breakeven import KeyBreakeven
from research.policies.key_hazard import KeyHazard

PER_KEY: dict[str, type[WorthPolicy]] = {policy.name: policy for policy in (KeyBreakeven, KeyHazard)}
