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
    """Leave the item open: no gateway is deployed."""
    return unreached("no stack of a run has a gateway")


def account_of_a_company(findings: Findings) -> Verdict:
    """Leave the item open: no stack of a run is fitted to guardrails."""
    return unreached("no stack of a run has `Network` = `ipv4`, images of its own or `FunctionsInVpc` = `all`")
