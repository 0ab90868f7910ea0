"""Checks of accounting: the bill, the budget, tags and metrics."""

from __future__ import annotations

from burstcache_evidence.findings import Findings, Verdict, refuted, seen, unreached


def starts_as_transitions(findings: Findings) -> Verdict:
    """Report the billed transitions. Whether starts are among them takes a count of the run's executions."""
    billed = [row["usage"] for row in findings.bill.get("rows", ()) if "StateTransition" in row["usage_type"]]
    if not billed:
        return unreached("no bill with transitions: run --bill a day later")
    return unreached(f"{sum(billed):g} transitions were billed; the executions' own count was not taken")


def metric_of_no_error(findings: Findings) -> Verdict:
    """Judge by the data points of `Errors` of the janitor, which runs every five minutes."""
    for kind in findings.kinds:
        metrics = findings.found(kind, "metrics")
        if metrics.get("invocations"):
            said = f"{metrics['errors']} data points of Errors for {metrics['invocations']} of Invocations in {kind}"
            return (seen if metrics["errors"] else refuted)(f"{said}; FILL was not tried")
    return unreached("the janitor's metrics had no data yet")


def message_of_a_budget(findings: Findings) -> Verdict:
    """Leave the item open: a budget reports hours later."""
    return unreached("a run ends before a budget reports")


def tags_for_the_budget(findings: Findings) -> Verdict:
    """Judge by the tags of tasks and volumes."""
    tags = {kind: tags for kind in findings.kinds if (tags := findings.found(kind, "metrics").get("tagged"))}
    untagged = sorted({what for each in tags.values() for what, is_tagged in each.items() if not is_tagged})
    if not tags:
        return unreached("neither tasks nor volumes were found")
    if untagged:
        return seen(f"without the stack's tag, as supposed: {', '.join(untagged)}")
    return refuted(f"all have the stack's tag: {', '.join(sorted({what for each in tags.values() for what in each}))}")
