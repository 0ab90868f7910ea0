"""Checks of machines: instances, tasks and databases."""

from __future__ import annotations

from burstcache_evidence.findings import (
    Findings,
    Verdict,
    by_deployment,
    deployed,
    failed_parts,
    refuted,
    seen,
    tested,
    unreached,
)


def packages_of_amazon_linux(findings: Findings) -> Verdict:
    """Judge by Redis on an instance, which serves only after its set-up."""
    kinds = deployed(findings, RedisOn="ec2")
    if not kinds:
        return unreached("no stack with a node on EC2 was deployed")
    if problem := findings.problem(kinds[0], "boot"):
        return refuted(f"the node's boot: {problem}")
    if not findings.found(kinds[0], "boot"):
        return unreached("the node was not booted")
    return seen("Redis answered on an instance of 1 GB; smaller types were not tried")


def instance_that_switches_itself_off(findings: Findings) -> Verdict:
    """Judge by the deployment of a stack with a node on EC2."""
    return by_deployment(findings, "the stack with an instance was created", RedisOn="ec2")


def image_by_parameter(findings: Findings) -> Verdict:
    """Judge by the deployment of a stack with a node on EC2."""
    return by_deployment(findings, "EC2 took the image by its parameter", RedisOn="ec2")


def hub_on_fargate(findings: Findings) -> Verdict:
    """Judge by the report of a hub, which its task sends, and by the self-test of its service."""
    kinds = [kind for kind in tested(findings) if findings.parameter(kind, "PoolHub") == "fargate"]
    if not kinds:
        return unreached("no pool with a hub was tested")
    if failed := list(failed_parts(findings, kinds, "hub")):
        return refuted(f"self-test: {'; '.join(failed)}")
    if problems := [f"{kind}: {text}" for kind in kinds if (text := findings.problem(kind, "pool"))]:
        return refuted("; ".join(problems))
    pools = [pool for kind in kinds if (pool := findings.found(kind, "pool"))]
    if not pools:
        return unreached("the self-test reached the hub's service; no hub was started")
    return seen(f"the hub reported {pools[0]['hub_s']} s after the first read; tiers: {', '.join(pools[0]['tiers'])}")


def deleting_and_tasks(findings: Findings) -> Verdict:
    """Judge by the duration of deletions, and by a node on Fargate."""
    deleted = {kind: findings.took_s(kind, "delete") for kind in findings.kinds if findings.is_deployed(kind)}
    if failed := [kind for kind in deleted if findings.problem(kind, "delete")]:
        return refuted(f"not deleted: {', '.join(failed)}")
    texts = [f"{kind} was deleted in {took_s:.0f} s" for kind, took_s in deleted.items() if took_s]
    boots = [
        f"{boot['task_kind'] or 'a task'} booted in {boot['boot_s']} s"
        for kind in findings.kinds
        if (boot := findings.found(kind, "boot")) and boot["machine"] == "task"
    ]
    problems = [
        f"{kind}: {problem}"
        for kind in deleted
        if findings.parameter(kind, "RedisOn") != "ec2" and (problem := findings.problem(kind, "boot"))
    ]
    if problems:
        return refuted("; ".join(problems))
    if not (texts and boots):
        return unreached("; ".join(texts) or "no stack was deleted")
    return seen("; ".join([*texts, *boots]))


def promotion_in_the_first_boot(findings: Findings) -> Verdict:
    """Judge by reads that began while the instance was in its first boot, if the deployment did not outlast that."""
    if problems := [f"{kind}: {text}" for kind in findings.kinds if (text := findings.problem(kind, "first-boot"))]:
        return refuted("; ".join(problems))
    boots = {kind: boot for kind in findings.kinds if (boot := findings.found(kind, "first-boot"))}
    if not boots:
        return unreached("no stack with an instance was read")
    texts = []
    for kind, boot in boots.items():
        if boot.get("failed"):
            return refuted(f"{kind}: {boot['failed']} reads failed during the first boot")
        texts.append(
            f"{kind}: read through {', '.join(boot['tiers'])}, Redis after {boot['redis_s']} s"
            if "tiers" in boot
            else f"{kind}: the first boot had ended with the deployment ({boot['instance']})"
        )
    return seen("; ".join(texts))


def databases_of_state(findings: Findings) -> Verdict:
    """Judge by databases that woke up, slept and left a snapshot."""
    kinds = [kind for kind in findings.kinds if findings.parameter(kind, "StateDatabases")]
    if problems := [f"{kind}: {text}" for kind in kinds if (text := findings.problem(kind, "state"))]:
        return refuted("; ".join(problems))
    states = {kind: state for kind in kinds if (state := findings.found(kind, "state"))}
    if not states:
        return unreached("no database was woken")
    texts = [
        f"{kind} woke in {each['awake_s']} s and slept after {each['asleep_s']} s" for kind, each in states.items()
    ]
    if wrong := [kind for kind, each in states.items() if not (each["is_right"] and each["snapshots"])]:
        return refuted(f"{'; '.join(texts)}; written, but not saved in {', '.join(wrong)}")
    return seen(f"{'; '.join(texts)}, and left a snapshot; neither `aof` nor a KMS key was tried")
