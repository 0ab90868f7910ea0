"""Checks of accounting: the bill, the budget, tags and metrics."""

from __future__ import annotations

from burstcache_evidence.findings import Findings, Verdict, refuted, seen, unreached


def starts_as_transitions(findings: Findings) -> Verdict:
    """Judge by the billed transitions, and by the run's own count of starts, entered states and retries.

    The bill is that of the account's region. Executions of others make it exceed both counts.
    """
    counts = [found for kind in findings.kinds if (found := findings.found(kind, "transitions"))]
    if not counts:
        return unreached("no executions were counted")
    starts = sum(each["starts"] for each in counts)
    entered = sum(each["entered"] + each["retries"] for each in counts)
    said = f"{starts} starts, {entered} states and retries"
    rows = [row["usage"] for row in findings.bill.get("rows", ()) if "StateTransition" in row["usage_type"]]
    if not rows:
        return unreached(f"{said}; --bill adds the billed transitions a day later")
    billed = round(sum(rows))
    if billed == entered + starts:
        return seen(f"{said}, {billed} billed: a start is a transition")
    if billed == entered:
        return refuted(f"{said}, {billed} billed: a start is no transition")
    return unreached(f"{said}, {billed} billed: other executions ran in the region")


def metric_of_no_error(findings: Findings) -> Verdict:
    """Judge by the data points of `Errors` of the janitor, which runs every five minutes."""
    for kind in findings.kinds:
        metrics = findings.found(kind, "metrics")
        if metrics.get("invocations"):
            said = f"{metrics['errors']} data points of Errors for {metrics['invocations']} of Invocations in {kind}"
            return (seen if metrics["errors"] else refuted)(f"{said}; FILL was not tried")
    return unreached("the janitor's metrics had no data")


def message_of_a_budget(findings: Findings) -> Verdict:
    """Judge by the messages of a budget that was spent at once."""
    messages = findings.budget_messages
    if messages is None:
        return unreached("--budget leaves a budget that reports within a day")
    if not messages:
        return unreached("the budget has not reported yet: --bill looks again")
    said = "; ".join(each["subject"] or each["text"][:80] for each in messages)
    if any("threshold" in f"{each['subject']} {each['text']}".lower() for each in messages):
        return seen(f"AWS Budgets sent: {said}")
    return refuted(f"no message names the threshold: {said}")


def tags_for_the_budget(findings: Findings) -> Verdict:
    """Judge by the tags of tasks and volumes while a node runs. The item supposes that some lack the budget's tag."""
    tags = [found["tags"] for kind in findings.kinds if (found := findings.found(kind, "boot"))]
    untagged = sorted({kind for each in tags for kind, is_tagged in each.items() if not is_tagged})
    tagged = sorted({kind for each in tags for kind in each} - set(untagged))
    if not (tagged or untagged):
        return unreached("neither tasks nor volumes were found")
    if untagged:
        return seen(
            f"without the budget's tag, as supposed: {', '.join(untagged)}; with it: {', '.join(tagged) or 'none'}"
        )
    return refuted(f"all have the budget's tag: {', '.join(tagged)}")
