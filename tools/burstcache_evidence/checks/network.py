"""Checks of the network: IPv6, and the relay."""

from __future__ import annotations

from burstcache_evidence.findings import Findings, Verdict, failed_parts, refuted, seen, tested, unreached


def ipv6_from_the_vpc(findings: Findings) -> Verdict:
    """Judge by the self-tests of all stacks."""
    tried = tested(findings)
    if not tried:
        return unreached("no self-test ended")
    if failed := list(failed_parts(findings, tried)):
        return refuted(f"self-test: {'; '.join(failed)}")
    return seen(f"each part of the self-tests of {', '.join(tried)} was reached")


def relay_without_ipv4(findings: Findings) -> Verdict:
    """Judge by the relay's part of the self-tests, and by a read from a cache function."""
    kinds = [kind for kind in tested(findings) if findings.parameter(kind, "Relay") in ("direct", "nlb")]
    if findings.region in ("eu-north-1", "eu-west-1"):
        return unreached("in this region the relay has a public IPv4 address")
    if not kinds:
        return unreached("no stack with a relay was tested")
    if failed := list(failed_parts(findings, kinds, "relay")):
        return refuted(f"self-test: {'; '.join(failed)}")
    if missing := [kind for kind in kinds if "lambda" not in findings.tiers(kind)]:
        return unreached(f"the relay answered the self-test; no cache function served in {', '.join(missing)}")
    return seen(f"cache functions served over the relay in {', '.join(kinds)}")


def places_of_the_gateway(findings: Findings) -> Verdict:
    """Judge by reads through a gateway on the runner's machine, and in Lambda: cold, warm and thawed."""
    texts = []
    for kind in findings.kinds:
        if problem := findings.problem(kind, "gateway"):
            return refuted(f"{kind}: {problem}")
        found = findings.found(kind, "gateway")
        if not all([*found.get("here", ()), *found.get("lambda", ())]):
            return refuted(f"{kind}: the gateway answered other bytes than S3")
        if found.get("lambda"):
            cold_ms, warm_ms, thawed_ms = found["lambda_ms"]
            texts.append(f"{kind}: {cold_ms:g} ms cold, {warm_ms:g} ms warm, {thawed_ms:g} ms thawed")
    if texts:
        return seen(f"the extension read {'; '.join(texts)}; task, pod and unit were not tried")
    here = [kind for kind in findings.kinds if findings.found(kind, "gateway")]
    return unreached("a gateway on this machine read rightly" if here else "no gateway was tried")


def account_of_a_company(findings: Findings) -> Verdict:
    """Judge by a stack with IPv4 alone and every function in the VPC: its deployment, self-test, and every tier."""
    kinds = [kind for kind in findings.kinds if findings.parameter(kind, "Network") == "ipv4"]
    if problems := [f"{kind}: {text}" for kind in findings.kinds if (text := _problem(findings, kind))]:
        return refuted("; ".join(problems))
    if not kinds:
        return unreached("no stack with IPv4 alone was deployed")
    if failed := list(failed_parts(findings, kinds)):
        return refuted(f"self-test: {'; '.join(failed)}")
    if missing := [kind for kind in kinds if not {"lambda", "redis"} <= findings.tiers(kind).keys()]:
        return unreached(f"deployed; not every tier served in {', '.join(missing)}")
    return seen("every tier served with IPv4 alone; interface endpoints and an image in ECR were not tried")


def _problem(findings: Findings, kind: str) -> str:
    """Return the error that kept a company's stack from being deployed."""
    return findings.problem(kind, "deploy") if kind == "company" else ""
