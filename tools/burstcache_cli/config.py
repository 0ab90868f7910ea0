"""The `burstcache config` wizard, which asks for parameters, shows prices and saves the answers for SAM CLI."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

from burstcache.core.errors import BurstcacheError, InvalidSettingError
from burstcache.core.node_kinds import NodeKind, has_address, without_address
from burstcache_cli.account import Account, account_of
from burstcache_cli.monthly import MONTH_H, Prices, database_name, idle_items, node_name
from burstcache_cli.origin_bucket import bucket_warnings
from burstcache_cli.samconfig import SamConfig, overrides_of, overrides_text, read_samconfig, settings_of, toml_text
from burstcache_cli.stack import Stack, kept_values
from burstcache_local.errors import RuleError, TemplateError
from burstcache_local.template.parameters import accepted, declared_values, parameter_value
from burstcache_local.template.read import read
from burstcache_terminal.exit_codes import ExitCode
from burstcache_terminal.options import UsageError
from burstcache_terminal.text import number_text, rows_text, usd_text, wrapped_text

Ask = Callable[[str], str]
CheckBucket = Callable[[str], Sequence[str]]  # bucket → warnings; raises InvalidSettingError

# Parameter that the wizard does not always ask for → whether earlier answers require it.
_REQUIRED_IF: Mapping[str, Callable[[Mapping[str, str]], bool]] = {
    "RedisOn": lambda answers: answers["RedisNodeCount"] != "0",
    "StateOn": lambda answers: (
        answers["StateDatabases"] != "" and (answers["StatePersistence"] != "aof" or answers["StateOn"] != "ec2")
    ),
    "RedisInstanceType": lambda answers: (
        (answers["StateDatabases"] != "" and answers["StateOn"] == "ec2")
        or (answers["RedisOn"] == "ec2" and answers["RedisNodeCount"] != "0")
    ),
    "RedisTaskMemoryGb": lambda answers: (
        (answers["RedisOn"] != "ec2" and answers["RedisNodeCount"] != "0")
        or (answers["StateDatabases"] != "" and answers["StateOn"] != "ec2")
    ),
    "ExistingBucketIsPublic": lambda answers: answers["OriginBucketName"] != "" and answers["ApiAuth"] == "public",
    "JwtIssuer": lambda answers: "jwt" in (answers["ApiAuth"], answers["Writes"]),
    "JwtAudience": lambda answers: "jwt" in (answers["ApiAuth"], answers["Writes"]),
}

_USAGE_COSTS: Mapping[str, str] = {  # parameter without fixed costs → usage costs that the parameter affects
    "OriginBucketName": "Costs nothing itself; S3 bills the objects.",
    "ApiAuth": "With each 1 USD per million requests to the HTTP API. Strangers can use up ThrottleRatePerS of a public"
    " one: at 25 a second 290 USD a month, plus transfer.",
    "HitValueUsdPerMillion": "Costs nothing itself: the higher, the longer nodes run, which are billed by the hour.",
    "MonthlyBudgetUsd": "Costs nothing itself.",
    "ExistingBucketIsPublic": "Costs nothing itself; strangers' reads are billed as yours.",
    "JwtIssuer": "Costs nothing.",
    "JwtAudience": "Costs nothing.",
    "ZoneA": "Costs nothing; readers in another zone pay 0.02 USD per GB.",
}


_KINDS_BY_PRICE: tuple[NodeKind, ...] = ("fargate-spot", "ec2", "fargate")  # at the sizes that are the defaults
_KINDS_BY_PRICE_WITH_ADDRESSES: tuple[NodeKind, ...] = ("ec2", "fargate-spot", "fargate")


class NotConfiguredError(BurstcacheError):
    """The user did not complete or confirm the answers."""


def config(args: argparse.Namespace) -> ExitCode:
    """Ask for parameters in the terminal, and write the file. With `--check`, only validate it, together with
    the values that an update keeps and the bucket, and print the costs.

    Raises:
        UsageError: The file, template or environment is missing or invalid, the template rejects the file's values, or
            the file cannot be edited line by line.
        InvalidSettingError: The bucket to read from does not exist, or is in another region.
        NotConfiguredError: The answers were not completed or confirmed.
    """
    former = read_samconfig(args)
    if not args.check:
        _check_writable(args.file)
    account = account_of(region=former.region, profile=former.profile)
    try:
        template = read(args.template)
        deployed = kept_values(Stack(former.stack_name, account.session, {})) if args.check else {}
        kept = {name: value for name, value in deployed.items() if name in template["Parameters"]}
        check_bucket = partial(bucket_warnings, account.session.client("s3"), region=account.region)
        answers = {**kept, **former.overrides}
        wizard = Wizard(template, account.region, answers, is_advanced=args.advanced, check_bucket=check_bucket)
        _print_target(former, account)
        if args.check:
            wizard.check()
            for warning in check_bucket(bucket) if (bucket := answers.get("OriginBucketName")) else ():
                print(wrapped_text(f"Warning: {warning}"), file=sys.stderr)
            print(wizard.bill_text())
            return ExitCode.SUCCESS
        answers = wizard.answers(input)
    except TemplateError as error:
        remedy = "" if args.advanced or args.check else " (--advanced asks for every parameter)"
        raise UsageError(f"burstcache config: {args.template}: {error}{remedy}") from None
    if not args.advanced:
        text = f"{wizard.unasked} more parameters keep their values: `burstcache config --advanced` asks for them."
        print(f"\n{wrapped_text(text)}")
    print(f"\n{wizard.bill_text()}")
    answer = _prompt(input, f"\nWrite this to {args.file}, for stack {former.stack_name}? [y/N]: ")
    if answer.strip().lower() not in ("y", "yes"):
        raise NotConfiguredError("nothing was written: the answer was not `y`")
    _write(args, former, account, answers)
    print(f"Written to {args.file}.")
    return ExitCode.SUCCESS


def _print_target(former: SamConfig, account: Account) -> None:
    print(f"Stack {former.stack_name} in {account.region}, account {account.number} ({account.arn}).")
    if (sheet := Prices(account.region).sheet).region != account.region:
        print(f"There is no price sheet for {account.region}: prices of {sheet.region} are shown.")


def _write(args: argparse.Namespace, former: SamConfig, account: Account, answers: Mapping[str, str]) -> None:
    """Write the file after checking that SAM CLI would read the same values from the new text."""
    settings = {"stack_name": former.stack_name, "region": account.region}
    text = former.with_settings(**settings, profile=former.profile, overrides=answers)
    parsed = settings_of(text, former.environment)
    if not (parsed.items() >= settings.items() and overrides_of(parsed["parameter_overrides"]) == answers):
        raise UsageError(
            f"burstcache config: {args.file} is not laid out as SAM CLI does; add this line yourself:"
            f" parameter_overrides = {toml_text(overrides_text(answers))}"
        )
    _replace(args.file.resolve(), text.encode())


def _check_writable(file: Path) -> None:
    """Raise UsageError if the file is not writable."""
    if not file.resolve().parent.is_dir():
        raise UsageError(f"burstcache config: {file}: there is no folder {file.parent}")
    if not os.access(file if file.exists() else file.resolve().parent, os.W_OK):
        raise UsageError(f"burstcache config: {file} is not writable: change its permissions, or name another --file")


def _replace(file: Path, content: bytes) -> None:
    """Write a file atomically."""
    new = file.with_name(f".{file.name}.new")
    try:
        new.write_bytes(content)
        if file.exists():
            shutil.copymode(file, new)
        new.replace(file)
    finally:
        new.unlink(missing_ok=True)


class Wizard:
    """A wizard that asks for the template's first group of parameters, and on demand for those of the other groups."""

    def __init__(
        self,
        template: Mapping[str, Any],
        region: str,
        answers: dict[str, str],
        *,
        is_advanced: bool = False,
        check_bucket: CheckBucket = lambda bucket: (),
    ) -> None:
        """Prepare the questions.

        Args:
            template: The template.
            region: Region of the stack.
            answers: Earlier answers, which the user can keep by pressing Enter. They may include parameters that the
                wizard does not ask for.
            is_advanced: Whether to offer the parameters of the other groups, too.
            check_bucket: Checks a bucket that exists (`bucket_warnings`).
        """
        self._check_bucket = check_bucket
        self._template, self._region, self._answers = template, region, answers
        self._parameters: Mapping[str, Any] = template["Parameters"]
        first, *others = template["Metadata"]["AWS::CloudFormation::Interface"]["ParameterGroups"]
        self._first: list[str] = first["Parameters"]
        self._others = others if is_advanced else []
        self._names = [*self._first, *(name for group in self._others for name in group["Parameters"])]

    @property
    def unasked(self) -> int:
        """Number of parameters that the wizard does not ask for."""
        return len(self._parameters) - len(self._names)

    def check(self) -> None:
        """Raise TemplateError if a parameter, the caching policy or a template rule rejects an answer."""
        accepted(self._template, self._values(), self._region)

    def answers(self, ask: Ask) -> dict[str, str]:
        """Ask until the template accepts all answers, and return the answers by parameter name.

        Args:
            ask: Prints a question and returns the input line.

        Raises:
            TemplateError: The template rejects a parameter that the wizard does not ask for, or the same answers twice.
            NotConfiguredError: The input ended before the last answer.
        """
        names = self._names
        declared_values(self._parameters, {name: text for name, text in self._answers.items() if name not in names})
        self._check_possible()
        rejected = set[str]()
        asked: list[str] = []
        pending: Iterable[str] = self._chosen_names(ask)
        while True:
            for name in pending:
                asked.append(name)
                if name not in _REQUIRED_IF or _REQUIRED_IF[name](self._texts()):
                    answer = self._answer(name, ask)
                    if name == "OriginBucketName" and answer != self._answers.get(name):
                        self._answers.pop("ExistingBucketIsPublic", None)  # applied to the previous bucket
                    self._answers[name] = answer
            try:
                self.check()
                return self._answers
            except TemplateError as error:
                pending = list(dict.fromkeys(asked))
                if isinstance(error, RuleError):
                    referenced = _refs(self._template["Rules"][error.rule])
                    pending = [name for name in names if name in referenced]
                if not pending or overrides_text(self._answers) in rejected:
                    raise
                rejected.add(overrides_text(self._answers))
                print(f"\n{wrapped_text(f'Not accepted: {error}')}")

    def _chosen_names(self, ask: Ask) -> Iterator[str]:
        """Yield the first group's parameters, and then those of each other group that the user wants to change."""
        yield from self._first
        for group in self._others:
            text = f"{group['Label']['default']}: {', '.join(group['Parameters'])}"
            print(f"\n{wrapped_text(text)}")
            if _prompt(ask, "Ask for these? [y/N]: ").strip().lower() in ("y", "yes"):
                yield from group["Parameters"]

    def _check_possible(self) -> None:
        """Raise RuleError if the region or other parameters make a rule reject all possible answers."""
        try:
            self.check()
        except RuleError as error:
            referenced = _refs(self._template["Rules"][error.rule])
            names = [name for name in self._names if name in referenced]
            choices = [self._parameters[name].get("AllowedValues", ()) for name in names]
            if all(choices) and all(self._is_rejected(error.rule, names, each) for each in product(*choices)):
                raise
        except TemplateError:
            pass  # the user can correct the answer

    def _is_rejected(self, rule: str, names: Sequence[str], answers: Sequence[Any]) -> bool:
        try:
            accepted(self._template, self._values(**dict(zip(names, map(str, answers), strict=True))), self._region)
        except RuleError as error:
            return error.rule == rule
        except TemplateError:
            pass
        return False

    def bill_text(self) -> str:
        """Format the monthly costs of an idle stack by item, their sum, and the usage costs."""
        items = idle_items(self._template, self._values(), self._region)
        rows = [(item.name, usd_text(float(item.usd))) for item in items if item.usd]
        rows.append(("a month without a request, all together", usd_text(float(sum(item.usd for item in items)))))
        uses = "\n".join(wrapped_text(f"  {text}", indent="    ") for text in self._use_texts())
        return f"{rows_text(rows, right=(1,))}\n\nIn use, on top [USD]:\n{uses}"

    def _use_texts(self) -> list[str]:
        values, prices = self._values(), Prices(self._region)
        name = without_address(self._node_name(values))
        texts = []
        if values["FrontDoor"] == "http-api":
            door = number_text(float(prices.usd("http-api-request") * 10**6))
            texts.append(f"{door} per million requests to the HTTP API, and 0.27 for the proxy; transfer apart")
        if values["RedisNodeCount"] != "0":
            node = number_text(float(self._node_usd_per_h(values)))
            remark = self._fallback_text(values, "RedisOn")
            texts.append(f"{node} an hour for each Redis node that runs ({name}){remark}")
        if values["StateDatabases"]:
            name = without_address(self._node_name(values, "StateOn"))
            database = number_text(float(self._node_usd_per_h(values, "StateOn")))
            remark = self._fallback_text(values, "StateOn")
            texts.append(f"{database} an hour for each database that is awake ({name}){remark}")
        if values["Relay"] != "none":
            gb_s = prices.usd("lambda-duration:arm") * 3600 * int(values["CacheMemoryMb"]) / 1024
            texts.append(f"{number_text(float(gb_s), digits=2)} an hour for each key in a cache function")
        if values["CreateDashboard"] == "yes":
            texts.append("3.00 a month for the dashboard in an account that has three others")
        if values["Network"] == "ipv4":
            texts.append("your VPC's NAT gateway or interface endpoints, which no sum here contains")
        texts.append("docs/operate/costs.md has the rest: reports, the digest, metrics")
        return texts

    def _values(self, **changed: str) -> dict[str, Any]:
        return declared_values(self._parameters, {**self._answers, **changed})

    def _texts(self) -> dict[str, str]:
        return {name: str(value) for name, value in self._values().items()}

    def _answer(self, name: str, ask: Ask) -> str:
        """Ask for a parameter until the value is valid."""
        parameter = self._parameters[name]
        default = self._default(name)
        hint = f"{default}; - for none" if default and parameter["Default"] == "" else default
        print(f"\n{wrapped_text(parameter['Description'])}")
        if costs := self._costs_text(name):
            print(costs)
        while True:
            value = _prompt(ask, f"{name} [{hint}]: ").strip() or default
            value = "" if value == "-" and parameter["Default"] == "" else value
            try:
                if {'"', "'"} & set(value):
                    raise TemplateError(f"parameter {name}: {value!r} has a quotation mark")
                parameter_value(name, parameter, value)
                for warning in self._check_bucket(value) if name == "OriginBucketName" and value else ():
                    print(wrapped_text(f"Warning: {warning}"))
                return f"{Decimal(value).normalize():f}" if parameter["Type"] == "Number" else value  # 0.0 → 0
            except (TemplateError, InvalidSettingError) as error:
                print(wrapped_text(f"Not accepted: {error}"))

    def _default(self, name: str) -> str:
        """Return the first valid value among the earlier answer, the default and the allowed values.

        Where tasks need public addresses, the default is a node on EC2.
        """
        parameter = self._parameters[name]
        usual = self._kinds()[0] if name == "RedisOn" else str(parameter["Default"])
        present: str = self._answers.get(name, usual)
        others = [str(parameter["Default"]), *map(str, parameter.get("AllowedValues", ()))]
        is_text = parameter["Type"] == "String" and "AllowedValues" not in parameter  # no alternatives to free text
        candidates = [present] if is_text else [present, *others]
        for value in candidates:
            try:
                accepted(self._template, self._values(**{name: value}), self._region)
                return value
            except TemplateError:
                continue
        return present

    def _costs_text(self, name: str) -> str:
        """Format each choice's monthly costs for an idle stack, given the other answers, or the usage costs."""
        parameter = self._parameters[name]
        if name in _USAGE_COSTS:
            return wrapped_text(f"  {_USAGE_COSTS[name]}", indent="  ")
        if name in ("RedisOn", "StateOn"):
            return self._kinds_text(name)
        if name in ("RedisInstanceType", "RedisTaskMemoryGb"):
            texts = self._texts()
            kind = "ec2" if name == "RedisInstanceType" else texts["RedisOn"]
            if name == "RedisTaskMemoryGb" and kind == "ec2":  # only databases have tasks
                return self._sizes_text(name, "StateOn", texts["StateOn"])
            return self._sizes_text(name, "RedisOn", kind)
        choices = list(map(str, parameter.get("AllowedValues", ()))) or [_sample(parameter, self._default(name))]
        idle = {value: self._idle_usd(name, value) for value in choices}
        if not parameter.get("AllowedValues"):
            present, absent = idle[choices[0]], self._idle_usd(name, "")
            if present is None or absent is None or present == absent:
                return ""
            return f"  If given: {usd_text(present - absent)} USD a month."
        if len({usd for usd in idle.values() if usd is not None}) == 1:
            return "  A month in which nobody reads costs the same with each."
        return rows_text(
            [
                (f"  {value}", f"{usd_text(usd)} USD a month in which nobody reads, all together")
                for value, usd in idle.items()
                if usd is not None
            ]
        )

    def _sizes_text(self, name: str, part: str, kind: str) -> str:
        """Format what each size of a node or database costs on one kind of machine."""
        rows = [
            (f"  {value}", *self._node_prices(part, **{part: kind, name: value}))
            for value in self._parameters[name]["AllowedValues"]
        ]
        return rows_text(rows) + self._address_text(part, kind)

    def _kinds_text(self, part: str) -> str:
        """Format what a node (`RedisOn`) or database (`StateOn`) of each kind costs, from the cheapest on."""
        rows = []
        for kind in self._kinds(part):
            values = self._values(**{part: kind})
            size = without_address(self._node_name(values, part)).rpartition(":")[2]
            idle = f"idle stack {usd_text(self._idle_sum_usd(values))}"
            rows.append((f"  {kind}", size, *self._node_prices(part, **{part: kind}), idle))
        return rows_text(rows) + self._address_text(part, "fargate-spot")

    def _kinds(self, part: str = "RedisOn") -> tuple[NodeKind, ...]:
        """Return the kinds of nodes or databases, the cheapest of the default sizes first."""
        has_addresses = has_address(self._node_name(self._values(**{part: "fargate-spot"}), part))
        return _KINDS_BY_PRICE_WITH_ADDRESSES if has_addresses else _KINDS_BY_PRICE

    def _node_prices(self, part: str, **changed: str) -> tuple[str, str]:
        usd = self._node_usd_per_h(self._values(**changed), part)
        return f"{number_text(float(usd))} USD an hour while it runs", f"{usd_text(float(usd * MONTH_H))} a month"

    def _node_usd_per_h(self, values: Mapping[str, Any], part: str = "RedisOn") -> Fraction:
        """Return the price of an hour of a node or database [USD]."""
        return Prices(self._region).node_usd_per_h(self._node_name(values, part))

    def _node_name(self, values: Mapping[str, Any], part: str = "RedisOn") -> str:
        return (node_name if part == "RedisOn" else database_name)(self._template, values, self._region)

    def _address_text(self, part: str, kind: str) -> str:
        """Format what public addresses add to the prices of tasks, or return an empty text if they add nothing."""
        if not has_address(self._node_name(self._values(**{part: kind}), part)):
            return ""
        usd = Prices(self._region).usd("ipv4")
        text = (
            f"A task's price contains {number_text(float(usd))} USD an hour, {usd_text(float(usd * MONTH_H))} a month,"
            " for a public IPv4 address, which it needs here to reach AWS."
        )
        return "\n" + wrapped_text(f"  {text}", indent="  ")

    def _fallback_text(self, values: Mapping[str, Any], part: str) -> str:
        """Format the price of the machine that replaces a task on Fargate Spot, or return an empty text."""
        if values[part] != "fargate-spot":
            return ""
        fallback = number_text(float(self._node_usd_per_h({**values, part: "fargate"}, part)))
        return f", {fallback} where Fargate Spot has no capacity"

    def _idle_usd(self, name: str, value: str) -> float | None:
        """Return an idle stack's monthly cost if `name` has this value, or None if the value is invalid."""
        try:
            return self._idle_sum_usd(self._values(**{name: value}))
        except TemplateError:
            return None

    def _idle_sum_usd(self, values: Mapping[str, Any]) -> float:
        return float(sum(item.usd for item in idle_items(self._template, values, self._region)))


def _sample(parameter: Mapping[str, Any], default: str) -> str:
    """Return the default, or a sample value that matches the pattern if the default is empty."""
    return default or ("you@example.com" if "@" in parameter.get("AllowedPattern", "") else "x")


def _prompt(ask: Ask, question: str) -> str:
    try:
        return ask(question)
    except EOFError:
        raise NotConfiguredError("nothing was written: the input has ended before the last answer") from None


def _refs(part: Any) -> set[str]:
    """Return the names of all parameters that a template part references."""
    if isinstance(part, dict):
        own = {part["Ref"]} if part.keys() == {"Ref"} else set[str]()
        return own.union(*map(_refs, part.values()))
    return set[str]().union(*map(_refs, part)) if isinstance(part, list) else set()
