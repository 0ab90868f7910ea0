"""Checks of requests: reads, writes, and the steps of a life."""

from __future__ import annotations

from burstcache_evidence.findings import Findings, Verdict, failed_parts, refuted, seen, tested, unreached


def task_answers_without_resource(findings: Findings) -> Verdict:
    """Judge by lives whose states ended through their task tokens."""
    kinds = [kind for kind in findings.kinds if {"lambda", "redis"} <= findings.tiers(kind).keys()]
    if kinds:
        return seen(f"a life's states ended through their tokens in {', '.join(kinds)}")
    if failed := list(failed_parts(findings, tested(findings), "tasks")):
        return refuted(f"self-test: {'; '.join(failed)}")
    return unreached("no key went through cache function and Redis")


def length_of_head(findings: Findings) -> Verdict:
    """Judge by a HEAD over the HTTP API."""
    for kind in findings.kinds:
        read = findings.found(kind, "read")
        if read and findings.parameter(kind, "FrontDoor") != "alb":
            said = f"Content-Length {read['head_length'] or 'absent'} of {read['length']}, status {read['head_status']}"
            return (seen if read["head_length"] == str(read["length"]) else refuted)(said)
    return unreached("no read over an HTTP API")


def keys_with_plus(findings: Findings) -> Verdict:
    """Judge by a write to a cached object whose key has `+`, `%` and a blank."""
    for kind in findings.kinds:
        burst = findings.found(kind, "burst")
        if "announced_s" in burst and not burst["tiers_missing"]:
            return seen(f"{burst['key']}: readers had the new object {burst['announced_s']} s after the write")
        if "a write to S3" in (problem := findings.problem(kind, "burst")):
            return refuted(problem)
    return unreached("no object was overwritten while a tier served it")


def trace_of_a_read(findings: Findings) -> Verdict:
    """Judge by the segments that X-Ray has of the burst's reads."""
    for kind in findings.kinds:
        if functions := findings.found(kind, "metrics").get("traced", ()):
            if any("CacheFunction" in name for name in functions):
                return seen(f"a trace has segments of {', '.join(functions)}")
            return refuted(f"no trace has a segment of the cache function, only of {', '.join(functions)}")
    return unreached("no trace was found")


def writes_at_the_front_door(findings: Findings) -> Verdict:
    """Judge by writes of text, of bytes that are no UTF-8, and of 5 MB."""
    for kind in findings.kinds:
        write = findings.found(kind, "write")
        if write:
            latin = write["latin"]
            is_safe = write["text"]["is_right"] and (latin["is_right"] or latin["status"] >= 400)
            said = f"text {write['text']['status']}, not UTF-8 {latin['status']}, 5 MB {write['large']['status']}"
            matches = write["conditional"]["status"], write["stale"]["status"]
            said += f", If-Match {matches[0]} and {matches[1]} if stale, DELETE {write['delete']['status']}"
            is_large_refused, is_conditional = write["large"]["status"] == 413, matches == (200, 412)
            is_so = is_safe and is_large_refused and is_conditional and write["delete"]["status"] in (200, 204)
            return (seen if is_so else refuted)(said)
    return unreached("no write over the front door")


_FULL, _SLOW_PER_S = 5, 150  # a batch that counts as full; uploads below this rate do not fill the queue


def queue_of_events(findings: Findings) -> Verdict:
    """Judge by the batches of a bulk upload, and by the polls of the idle queue."""
    for kind in findings.kinds:
        if problem := findings.problem(kind, "bulk"):
            return refuted(f"{kind}: {problem}")
        if bulk := findings.found(kind, "bulk"):
            rate_per_s = bulk["objects"] / max(bulk["upload_s"], 0.01)
            polls = findings.found(kind, "metrics").get("idle_polls_per_min")
            said = (
                f"{kind}: {bulk['objects']} objects at {rate_per_s:.0f}/s, followed {bulk['followed_s']} s later;"
                f" batches of {bulk['batch']['median']:g} (median), waits of {bulk['waited_ms']['median']:g} ms;"
                f" {'no data on polls' if polls is None else f'{polls} empty polls a minute'}"
            )
            if bulk["batch"]["most"] >= _FULL:
                return seen(said)
            return refuted(said) if rate_per_s > _SLOW_PER_S else unreached(f"{said}; too slow to fill batches")
    return unreached("nothing was uploaded in bulk")
