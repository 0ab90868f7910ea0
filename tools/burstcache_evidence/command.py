"""The `burstcache research aws-evidence` command: ask, deploy, test, measure, delete, prove, and write the evidence."""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence
from typing import Any

from burstcache.core.errors import BurstcacheError, InvalidSettingError
from burstcache_cli.account import Account, account_of
from burstcache_evidence.bill import billed
from burstcache_evidence.budget import budget_messages, create_budget, delete_budget
from burstcache_evidence.deployment import Deployment, LocalDeployment, SamDeployment
from burstcache_evidence.findings import AWS
from burstcache_evidence.journal import Journal
from burstcache_evidence.page import write_evidence
from burstcache_evidence.plan import MOST_USD, StackPlan, estimated_items, plans_of, usd_of
from burstcache_evidence.steps.registry import LAST_STEPS, STEPS, Step
from burstcache_evidence.steps.requests import self_test
from burstcache_evidence.steps.target import Target
from burstcache_terminal.exit_codes import ExitCode
from burstcache_terminal.text import rows_text, wrapped_text

_LOCAL_REGION = "eu-central-1"
_POLL_S = 5.0


class NotConfirmedError(BurstcacheError):
    """The user did not agree to a run."""


def aws_evidence(args: argparse.Namespace) -> ExitCode:
    """Run the stacks of the plan one after the other, or go on with an interrupted run.

    Raises:
        NotConfirmedError: The answer was no. Nothing was deployed.
        InvalidSettingError: There is no run to delete or to bill, or one elsewhere.
    """
    account = None if args.local else account_of(region=args.region, profile=args.profile)
    region = _LOCAL_REGION if account is None else account.region
    former = Journal.read(args.folder)
    if args.bill:
        return _bill(former, account)
    if args.delete:
        if former is None:
            raise InvalidSettingError(f"--delete: {args.folder} has no run")
        deployment = _deployment(former, args, account)
        if account is not None and _has_budget(former):
            _delete_budget(former, account)
        return _finish(former, deployment, args)
    if former is not None and former.is_over and _has_budget(former):
        raise InvalidSettingError(f"{args.folder} has a run whose budget is left: --bill reads it, --delete deletes it")
    if former is None or former.is_over:
        _confirm(args, account, plans_of(args.stacks, express_zone=args.express_zone), region)
    options = {"express_zone": args.express_zone, "budget": args.budget}
    where = "local clouds" if args.local else AWS
    journal = Journal.open(args.folder, where=where, kinds=args.stacks, region=region, options=options)
    deployment = _deployment(journal, args, account)
    if journal.content["options"].get("budget") and account is not None:
        journal.run_step("budget", lambda: create_budget(account.session, journal.run, deployment.tags))
    for plan in plans_of(journal.kinds, express_zone=journal.content["options"]["express_zone"]):
        _run_stack(journal, deployment, plan, args.limit_s)
    return _finish(journal, deployment, args)


def _deployment(journal: Journal, args: argparse.Namespace, account: Account | None) -> Deployment:
    is_local = journal.content["where"] != AWS
    if is_local != args.local:
        raise InvalidSettingError(f"--local: the run in {args.folder} is on {journal.content['where']}")
    if account is None:
        return LocalDeployment(journal.folder)
    return SamDeployment(account.session, journal.run, profile=args.profile)


def _confirm(args: argparse.Namespace, account: Account | None, plans: Sequence[StackPlan], region: str) -> None:
    """Print what is deployed and what it costs at most, and ask."""
    if account is None:
        print(f"Local clouds, one after the other: {', '.join(plan.kind for plan in plans)}. This costs nothing.")
    else:
        items = estimated_items(plans, region)
        total_usd = usd_of(items)
        print(f"Account {account.number} ({account.arn}), region {region}.\n")
        rows = [(item.name, f"{float(item.usd):.4f} USD") for item in items]
        print(rows_text([*rows, ("at most", f"{total_usd:.2f} USD")], right=(1,)))
        if total_usd > MOST_USD:
            raise NotConfirmedError(
                f"nothing was deployed: the estimate is above {MOST_USD} USD; choose fewer --stacks"
            )
        text = (
            f"{len(plans)} stacks are deployed, tested and deleted, one after the other, in about an hour each. After"
            " your answer this needs nobody, but credentials that last as long. If it is interrupted or they expire,"
            " repeat it: it continues with the first step that has not ended. --delete only cleans up."
        )
        print(f"\n{wrapped_text(text)}")
    if not args.yes and _answer("\nBegin? [y/N]: ") not in ("y", "yes"):
        raise NotConfirmedError("nothing was deployed: the answer was not `y`")


def _answer(question: str) -> str:
    try:
        return input(question).strip().lower()
    except EOFError:
        return ""


def _run_stack(journal: Journal, deployment: Deployment, plan: StackPlan, limit_s: float) -> None:
    """Take every step in one stack, then delete it."""
    kind, name = plan.kind, journal.stack_name(plan.kind)
    if journal.has(f"{kind}/delete"):
        return

    def deploy() -> Mapping[str, Any]:
        deployment.deploy(name, plan)
        return {"parameters": dict(plan.parameters)}

    if journal.run_step(f"{kind}/deploy", deploy):
        _take_steps(journal, STEPS, _target(deployment, name, plan, limit_s))
        if plan.update:
            journal.run_step(f"{kind}/update", lambda: _update(deployment, name, plan, limit_s))
        _take_steps(journal, LAST_STEPS, _target(deployment, name, plan, limit_s))
    _delete(journal, deployment, kind)


def _target(deployment: Deployment, name: str, plan: StackPlan, limit_s: float) -> Target:
    stack, url = deployment.stack(name), deployment.front_url(name)
    return Target(stack, url, plan, limit_s, deployment.logs(name), deployment.tags)


def _take_steps(journal: Journal, steps: Mapping[str, Step], target: Target) -> None:
    for step, work in steps.items():
        journal.run_step(f"{target.plan.kind}/{step}", lambda work=work: work(target))  # type: ignore[misc]


def _update(deployment: Deployment, name: str, plan: StackPlan, limit_s: float) -> Mapping[str, Any]:
    """Update a stack, and run its self-test again. Return nothing where there are no updates."""
    found = deployment.update(name, plan)
    return {**found, **self_test(_target(deployment, name, plan, limit_s))} if found else {}


def _delete(journal: Journal, deployment: Deployment, kind: str) -> None:
    step, name = f"{kind}/delete", journal.stack_name(kind)

    def delete() -> Mapping[str, Any]:
        deployment.delete(name)
        return {}

    if journal.problem(step):
        journal.forget(step)
    journal.run_step(step, delete)


def _finish(journal: Journal, deployment: Deployment, args: argparse.Namespace) -> ExitCode:
    """Delete what is left, prove that nothing is, and write the evidence."""
    for kind in journal.kinds:
        _delete(journal, deployment, kind)
    if not journal.found("proof").get("is_clean"):
        journal.forget("proof")
    journal.run_step("proof", lambda: _proof(journal, deployment, args.limit_s))
    paths = write_evidence(journal)
    print(f"\nWritten: {', '.join(map(str, paths))}. Neither names your account.")
    if journal.is_over:
        print(f"Nothing of the run is left{', but its budget until --bill' if _has_budget(journal) else ''}.")
        return ExitCode.SUCCESS
    print(wrapped_text(f"Something may be left: see the page, and repeat with --delete. {journal.problem('proof')}"))
    return ExitCode.FAILURE


def _proof(journal: Journal, deployment: Deployment, limit_s: float) -> Mapping[str, Any]:
    """List what is left of each stack until nothing is. AWS's lists follow a deletion by minutes."""
    began_s = time.monotonic()
    while True:
        left = {kind: dict(deployment.leftovers(journal.stack_name(kind))) for kind in journal.kinds}
        is_clean = not any(found for lists in left.values() for found in lists.values())
        if is_clean or time.monotonic() - began_s > limit_s:
            return {"is_clean": is_clean, "left": left}
        time.sleep(_POLL_S)


def _bill(journal: Journal | None, account: Account | None) -> ExitCode:
    """Add the bill of the run's days to its evidence, and the messages of its budget, which is then deleted."""
    if journal is None or account is None or journal.content["where"] != AWS:
        raise InvalidSettingError("--bill: there is no run in AWS to bill")
    journal.forget("bill")
    is_billed = journal.run_step("bill", lambda: billed(account.session, journal.content))
    if _has_budget(journal):
        created = journal.found("budget")
        if not journal.found("budget-messages").get("messages"):
            journal.forget("budget-messages")
            journal.run_step("budget-messages", lambda: {"messages": budget_messages(account.session, created)})
        if journal.found("budget-messages").get("messages"):
            _delete_budget(journal, account)
        else:
            print(
                "AWS Budgets has not reported yet: repeat --bill later. --delete deletes the budget without a report."
            )
    print(f"Written: {', '.join(map(str, write_evidence(journal)))}.")
    return ExitCode.SUCCESS if is_billed else ExitCode.FAILURE


def _has_budget(journal: Journal) -> bool:
    """Return whether the run's budget is left."""
    is_deleted = journal.has("budget-deleted") and not journal.problem("budget-deleted")
    return bool(journal.found("budget")) and not is_deleted


def _delete_budget(journal: Journal, account: Account) -> None:
    def delete() -> Mapping[str, Any]:
        delete_budget(account.session, journal.found("budget"))
        return {}

    journal.forget("budget-deleted")
    journal.run_step("budget-deleted", delete)
