"""The JSON fields of `burstcache advise --json`."""

from __future__ import annotations

from dataclasses import asdict
from math import isfinite
from typing import Any

from burstcache.core.parameters import US_PER_S
from burstcache_sim.bill.locality import EVERYTHING_BYTES
from burstcache_sim.choose.advise.advice import Advice, BreakEvenValue, Lasting
from burstcache_sim.choose.advise.classes import Against
from burstcache_sim.choose.advise.configurations import Choice, setup_text
from burstcache_sim.choose.advise.large_objects import LargeObjects, large_objects_lines
from burstcache_sim.choose.advise.limits import assumptions
from burstcache_sim.choose.advise.steps import steps
from burstcache_sim.choose.advise.systems import System
from burstcache_sim.choose.advise.unpriced import unpriced_fields
from burstcache_sim.choose.advise.verdict import net_range_usd, verdict_lines
from burstcache_sim.choose.tune.outcome import tried_fields
from burstcache_sim.report.bills import bill_lines


def advice_fields(advice: Advice) -> dict[str, Any]:
    """Return the complete advice for JSON."""
    demand, workload = advice.workload.demand, advice.workload
    return {
        "verdict": advice.verdict,
        "verdict_if_it_lasts": advice.verdict_if_it_lasts,
        "too_short": advice.confidence.too_short or None,
        "steps": "\n\n".join(filter(None, steps(advice))),
        "best_buy": advice.winner.name,
        "text": verdict_lines(advice),
        "n": demand.requests,
        "objects": demand.objects,
        "period_s": demand.period_us / US_PER_S,
        "repeats_per_month": float(workload.repeats_per_month),
        "reader_processes": workload.setup.reader_processes,
        "same_objects": workload.same_objects,
        "confidence": _confidence_fields(advice),
        "prices": workload.prices.name,
        **unpriced_fields(workload.prices),
        "value": asdict(advice.value),
        "redirected_requests": workload.redirected,
        "assumed_ranges": workload.trace.assumed_ranges,
        "unsized_ranges": workload.trace.unsized_ranges,
        "candidates": advice.tuned.candidates,
        "best_buy_of_bounded_age": advice.bounded_winner.name,
        "burstcache": _choice_fields(advice, advice.ours),
        "thesis_policy": _choice_fields(advice, advice.thesis_choice),
        "further": [_choice_fields(advice, choice) for choice in advice.further],
        "lasting": [_lasting_fields(one) for one in advice.lasting],
        "latency_ms": asdict(advice.latency),
        "latency_without_ms": asdict(advice.latency_without),
        "systems": [_system_fields(advice, system) for system in advice.others],
        "against_rivals": [_against_fields(one) for one in advice.against_rivals],
        "free_tiers": advice.free_tiers,
        "best_buy_by_the_other_column": advice.other_column_winner.name,
        "node_share": advice.ours.node_share,
        "never_stops": advice.ours.never_stops,
        "sensitivity": asdict(advice.sensitivity),
        "break_even_usd_per_hit": _break_even_fields(advice.per_hit),
        "break_even_usd_per_ms": _break_even_fields(advice.per_ms),
        "parameter_overrides": advice.template,
        "front": [tried_fields(tried) for tried in advice.tuned.front],
        "assumptions": assumptions(advice),
        "large_objects": _large_fields(advice.large, advice.net_usd) if advice.large else None,
    }


def _confidence_fields(advice: Advice) -> dict[str, Any]:
    confidence = advice.confidence
    points = None if confidence.is_assumed else confidence.shares[0].sure_points
    return {
        "requests_of_halves": list(confidence.halves),
        "new_objects_per_repetition": confidence.new_objects,
        "net_usd_between": None if points is None else list(net_range_usd(advice, points)),
        "hits_pct_between": confidence.bracket_pct if confidence.is_assumed else None,
        "shares": [
            {
                "memory_bytes": None if share.memory_bytes >= EVERYTHING_BYTES else share.memory_bytes,
                "month_pct": share.month_pct,
                "second_half_pct": share.measured_pct,
                "second_half_expected_pct": share.expected_pct,
                "sure_within_points": None if confidence.is_assumed else share.sure_points,
            }
            for share in confidence.shares
        ],
    }


def _large_fields(large: LargeObjects, verdict_net_usd: float) -> dict[str, Any]:
    return {
        "request_share": large.request_share,
        "byte_share": large.byte_share,
        "stored_bytes": large.demand.stored_bytes,
        "pays_from_usd_per_hit": large.pays_from_usd,
        "text": large_objects_lines(large, verdict_net_usd),
        "systems": [
            {
                "name": one.name,
                "usd_per_month": large.month_usd(one),
                "in_memory_pct": one.in_memory_pct,
                "mean_ms": large.mean_ms(one),
                "net_usd_per_month": large.net_usd(one),
                "note": one.note,
            }
            for one in (large.pool, *large.others)
        ],
    }


def _choice_fields(advice: Advice, choice: Choice) -> dict[str, Any]:
    tried, setup = choice.tried, choice.setup
    deployed = {
        "form": choice.form,
        "configuration": setup_text(setup),
        "policy": choice.policy,
        "relay": setup.relay,
        "express": setup.express,
        "nodes": setup.nodes,
        "always_on_nodes": setup.always_on_nodes,
        "instance_type": setup.instance_type if setup.nodes else None,
        "reader_memory_bytes": setup.reader_memory_bytes,
    }
    return ({} if tried is None else tried_fields(tried)) | deployed | _system_fields(advice, choice.system)


def _against_fields(one: Against) -> dict[str, Any]:
    ours, rival = one.ours, one.rival
    return {
        "latency_class": one.latency_class,
        "rival": rival.name,
        "rival_freshness": rival.freshness,
        "rival_usd_per_month": rival.usd_per_month,
        "rival_in_memory_pct": rival.in_memory_pct,
        "ours": ours.system.note,
        "ours_usd_per_month": ours.system.usd_per_month,
        "ours_in_memory_pct": one.ours_pct,
        "lacking_usd_per_month": one.lacking_usd,
        "excess_usd": one.excess_usd,
    }


def _system_fields(advice: Advice, system: System) -> dict[str, Any]:
    at = system.cheaper_at
    return {
        "name": system.name,
        "usd_per_month": system.usd_per_month,
        "fixed_usd_per_month": float(system.month.fixed_usd_exact),
        "free_tiers_usd_per_month": system.free_usd_per_month,
        "cloudfront_plan": system.plan,
        "hit_ms": system.hit_ms,
        "first_byte_ms": system.first_byte_ms,
        "latency_class": system.latency_class,
        "freshness": system.freshness,
        "in_memory_pct": system.in_memory_pct,
        "mean_ms": system.mean_ms,
        "net_usd_per_month": system.gain.net_usd(advice.value),
        "burstcache_cheaper_at": None if at is None else {"from": at.least, "to": at.most, "in_hours": at.window_h},
        "is_choice": not system.ruled_out,
        "note": system.ruled_out or system.note,
        "lines": bill_lines(system.bill),  # for one period of the log
    }


def _lasting_fields(one: Lasting) -> dict[str, Any]:
    usd_per_hit = one.usd_per_hit if isfinite(one.usd_per_hit) else None
    net = {"net_usd_per_month": one.net_usd, "usd_per_hit_above_s3": usd_per_hit}
    return {"tuned_on": one.tuned_on} | net | tried_fields(one.tried)


def _break_even_fields(value: BreakEvenValue) -> dict[str, Any]:
    best = value.best_buy
    return {
        "over_s3": value.over_s3_usd,
        "best_buy": None if best is None else {"from": best.from_usd, "to": best.to_usd},
    }
