"""Checks of deployments: types, layers and updates of CloudFormation."""

from __future__ import annotations

from burstcache_evidence.findings import (
    Findings,
    Verdict,
    by_deployment,
    failed_parts,
    refuted,
    seen,
    tested,
    unreached,
)

_NO_NODE_TYPE = ("af-south-1", "ap-east-1", "ap-northeast-2", "ap-southeast-2", "ca-central-1", "eu-south-1")
_FURTHER = ("eu-west-2", "eu-west-3", "me-south-1", "sa-east-1", "us-west-1")
# Regions whose CloudFormation lacks the directory bucket, by cfn-lint 1.51, as in item 15.
_WITHOUT_EXPRESS_TYPE = (*_NO_NODE_TYPE, *_FURTHER)


def powertools_layer(findings: Findings) -> Verdict:
    """Judge by the deployment of a stack with traces, whose functions have the layer."""
    return by_deployment(
        findings, f"the layer was found in {findings.region}; other regions were not tried", Tracing="Active"
    )


def directory_bucket(findings: Findings) -> Verdict:
    """Judge by the self-test of a stack with S3 Express."""
    kinds = [kind for kind in tested(findings) if findings.parameter(kind, "ExpressZone")]
    if not kinds:
        return unreached("no stack had S3 Express: --express-zone names a zone")
    if failed := list(failed_parts(findings, kinds, "bucket")):
        return refuted(f"self-test: {'; '.join(failed)}")
    return seen("the directory bucket was made and reached; the days of its rules were not waited for")


def region_without_types(findings: Findings) -> Verdict:
    """Judge by a deployment in a region whose CloudFormation lacks the types."""
    if findings.region not in _WITHOUT_EXPRESS_TYPE:
        return unreached(f"CloudFormation has the types in {findings.region}")
    return by_deployment(findings, f"the template was accepted in {findings.region}")


_REPLACED = {"nlb": ("RelayTargetGroup",), "direct": ("Alb", "AlbTargetGroup")}


def replacements(findings: Findings) -> Verdict:
    """Judge by updates that replace the relay's target group, and the ALB, and that change the HTTP API's body."""
    texts = []
    for kind in findings.kinds:
        if problem := findings.problem(kind, "update"):
            return refuted(f"{kind}: {problem}")
        update = findings.found(kind, "update")
        if problems := update.get("problems"):
            return refuted(f"{kind}: self-test after the update: {'; '.join(problems)}")
        replaced = update.get("replaced", ())
        if missing := [each for each in _REPLACED.get(kind, ()) if replaced and each not in replaced]:
            return refuted(f"{kind}: the update did not replace {', '.join(missing)}")
        if replaced:
            texts.append(f"{kind} was updated in {findings.took_s(kind, 'update'):.0f} s: {', '.join(replaced)}")
    return seen("; ".join(texts)) if texts else unreached("no stack was updated")
