"""`burstcache config`: ask for what matters of a stack, with its price, and keep the answers for SAM CLI."""

from __future__ import annotations

import argparse
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from itertools import product
from pathlib import Path
from typing import Any

from burstcache.core.errors import BurstcacheError
from burstcache_cli.account import Account, account_of
from burstcache_cli.monthly import MONTH_H, Prices, idle_items
from burstcache_cli.samconfig import SamConfig, overrides_of, overrides_text, read_samconfig, settings_of, toml_text
from burstcache_local.errors import RuleError, TemplateError
from burstcache_local.template.parameters import accepted, declared_values, parameter_value
from burstcache_local.template.read import read
from burstcache_terminal.exit_codes import ExitCode
from burstcache_terminal.options import UsageError
from burstcache_terminal.text import number_text, rows_text, usd_text, wrapped_text

Ask = Callable[[str], str]

_NEEDED: Mapping[str, Callable[[Mapping[str, str]], bool]] = {  # by what the questions before them were answered
    "ExistingBucketIsPublic": lambda given: given["OriginBucketName"] != "" and given["ApiAuth"] == "public",
    "JwtIssuer": lambda given: "jwt" in (given["ApiAuth"], given["Writes"]),
    "JwtAudience": lambda given: "jwt" in (given["ApiAuth"], given["Writes"]),
}

_BY_USE: Mapping[str, str] = {  # what costs nothing while nobody reads, and what it decides
    "OriginBucketName": "Costs nothing itself; S3 bills the objects.",
    "ApiAuth": "Each costs the same: 1 USD per million requests to the HTTP API.",
    "HitValueUsdPerMillion": "Costs nothing itself: the higher, the longer nodes run, which are billed by the hour.",
    "MonthlyBudgetUsd": "Costs nothing itself.",
    "ExistingBucketIsPublic": "Costs nothing itself; strangers' reads are billed as yours.",
    "JwtIssuer": "Costs nothing.",
    "JwtAudience": "Costs nothing.",
    "ZoneA": "Costs nothing; readers in another zone pay 0.02 USD per GB.",
}


class NotConfiguredError(BurstcacheError):
    """A person has not confirmed the answers."""


def config(args: argparse.Namespace) -> ExitCode:
    """Ask on the terminal and write the file; with `--check`, say what the file has.

    Raises:
        UsageError: The file, the template or the environment is missing, the file cannot be changed line by line, or
            the template refuses what it has.
        NotConfiguredError: The answers were not confirmed.
    """
    former = read_samconfig(args)
    if not args.check:
        _check_writable(args.file)
    account = account_of(region=former.region, profile=former.profile)
    try:
        wizard = Wizard(read(args.template), account.region, dict(former.overrides))
        _print_target(former, account)
        if args.check:
            wizard.check()
            print(wizard.bill_text())
            return ExitCode.SUCCESS
        given = wizard.answers(input)
    except TemplateError as error:
        raise UsageError(f"burstcache config: {args.template}: {error}") from None
    print(f"\n{wizard.bill_text()}")
    answer = _asked(input, f"\nWrite this to {args.file}, for stack {former.stack_name}? [y/N]: ")
    if answer.strip().lower() not in ("y", "yes"):
        raise NotConfiguredError("nothing was written: `y` was not the answer")
    _write(args, former, account, given)
    print(f"Written to {args.file}.")
    return ExitCode.SUCCESS


def _print_target(former: SamConfig, account: Account) -> None:
    print(f"Stack {former.stack_name} in {account.region}, account {account.number} ({account.arn}).")
    if (sheet := Prices(account.region).sheet).region != account.region:
        print(f"No prices of {account.region} are known: those of {sheet.region} are shown.")


def _write(args: argparse.Namespace, former: SamConfig, account: Account, given: Mapping[str, str]) -> None:
    """Write the file, unless SAM CLI would read something else from it."""
    settings = {"stack_name": former.stack_name, "region": account.region}
    text = former.with_settings(**settings, profile=former.profile, overrides=given)
    found = settings_of(text, former.environment)
    if not (found.items() >= settings.items() and overrides_of(found["parameter_overrides"]) == given):
        raise UsageError(
            f"burstcache config: {args.file} is not laid out as SAM CLI does; write there yourself:"
            f" parameter_overrides = {toml_text(overrides_text(given))}"
        )
    _replace(args.file.resolve(), text.encode())


def _check_writable(file: Path) -> None:
    """Raise UsageError if the answers could not be kept, before anybody gives them."""
    if not file.resolve().parent.is_dir():
        raise UsageError(f"burstcache config: {file}: there is no folder {file.parent}")
    if not os.access(file if file.exists() else file.resolve().parent, os.W_OK):
        raise UsageError(
            f"burstcache config: {file} may not be written: change its permissions, or give another --file"
        )


def _replace(file: Path, content: bytes) -> None:
    """Write a file whole or not at all."""
    new = file.with_name(f".{file.name}.new")
    try:
        new.write_bytes(content)
        if file.exists():
            shutil.copymode(file, new)
        new.replace(file)
    finally:
        new.unlink(missing_ok=True)


class Wizard:
    """Asks for the first group of the template's parameters, and for those that the answers need."""

    def __init__(self, template: Mapping[str, Any], region: str, given: dict[str, str]) -> None:
        """Have asked nothing yet.

        Args:
            template: The template.
            region: Where the stack will be.
            given: Answers of an earlier time, also to what is not asked; Enter keeps them.
        """
        self._template, self._region, self._given = template, region, given
        self._parameters: Mapping[str, Any] = template["Parameters"]
        groups = template["Metadata"]["AWS::CloudFormation::Interface"]["ParameterGroups"]
        self._first: list[str] = groups[0]["Parameters"]

    def check(self) -> None:
        """Raise TemplateError if the template refuses the answers: by a parameter, the policy or a rule."""
        accepted(self._template, self._values(), self._region)

    def answers(self, ask: Ask) -> dict[str, str]:
        """Return names and values that the template accepts: what a rule refuses is asked for again.

        Args:
            ask: Prints a question and returns what is typed.

        Raises:
            TemplateError: What is not asked for is refused, or the same answers once more.
            NotConfiguredError: The input has ended.
        """
        first = {*self._first, *_NEEDED}
        declared_values(self._parameters, {name: text for name, text in self._given.items() if name not in first})
        self._check_possible()
        refused = set[str]()
        asked = [*self._first, *_NEEDED]
        while True:
            for name in asked:
                if name not in _NEEDED or _NEEDED[name](self._answered()):
                    answer = self._answer(name, ask)
                    if name == "OriginBucketName" and answer != self._given.get(name):
                        self._given.pop("ExistingBucketIsPublic", None)  # it was said of another bucket
                    self._given[name] = answer
            try:
                self.check()
                return self._given
            except TemplateError as error:
                asked = [*self._first, *_NEEDED]
                if isinstance(error, RuleError):
                    meant = _refs(self._template["Rules"][error.rule])
                    asked = [name for name in asked if name in meant]
                if not asked or overrides_text(self._given) in refused:
                    raise
                refused.add(overrides_text(self._given))
                print(f"\n{wrapped_text(f'Not accepted: {error}')}")

    def _check_possible(self) -> None:
        """Raise RuleError if a rule refuses every answer, in this region or with what is not asked for."""
        try:
            self.check()
        except RuleError as error:
            meant = _refs(self._template["Rules"][error.rule])
            asked = [name for name in (*self._first, *_NEEDED) if name in meant]
            choices = [self._parameters[name].get("AllowedValues", ()) for name in asked]
            if all(choices) and all(self._is_refused(error.rule, asked, each) for each in product(*choices)):
                raise
        except TemplateError:
            pass  # of an answer that is asked for again

    def _is_refused(self, rule: str, names: Sequence[str], answers: Sequence[Any]) -> bool:
        try:
            accepted(self._template, self._values(**dict(zip(names, map(str, answers), strict=True))), self._region)
        except RuleError as error:
            return error.rule == rule
        except TemplateError:
            pass
        return False

    def bill_text(self) -> str:
        """Return what the answers cost, item by item, with the sum, and what is paid by use."""
        items = idle_items(self._template, self._values(), self._region)
        rows = [(item.name, usd_text(float(item.usd))) for item in items if item.usd]
        rows.append(("a month without a request, all together", usd_text(float(sum(item.usd for item in items)))))
        uses = "\n".join(wrapped_text(f"  {text}", indent="    ") for text in self._use_texts())
        return f"{rows_text(rows, right=(1,))}\n\nIn use, on top [USD]:\n{uses}"

    def _use_texts(self) -> list[str]:
        values, prices = self._values(), Prices(self._region)
        node = number_text(float(prices.usd(f"ec2:{values['RedisInstanceType']}")))
        texts = []
        if values["FrontDoor"] == "http-api":
            door = number_text(float(prices.usd("http-api-request") * 10**6))
            texts.append(f"{door} per million requests to the HTTP API, and 0.27 for the proxy; transfer apart")
        if values["RedisNodeCount"] != "0":
            texts.append(f"{node} an hour for each Redis node that runs ({values['RedisInstanceType']})")
        if values["Relay"] != "none":
            gb_s = prices.usd("lambda-duration:arm") * 3600 * int(values["CacheMemoryMb"]) / 1024
            texts.append(f"{number_text(float(gb_s), digits=2)} an hour for each key in a cache function")
        texts.append("docs/operate/costs.md has the rest: reports, the digest, metrics")
        return texts

    def _values(self, **changed: str) -> dict[str, Any]:
        return declared_values(self._parameters, {**self._given, **changed})

    def _answered(self) -> dict[str, str]:
        return {name: str(value) for name, value in self._values().items()}

    def _answer(self, name: str, ask: Ask) -> str:
        """Ask until the template would accept the answer."""
        parameter = self._parameters[name]
        default = self._default(name)
        hint = f"{default}; - for none" if default and parameter["Default"] == "" else default
        print(f"\n{wrapped_text(parameter['Description'])}")
        if costs := self._costs_text(name):
            print(costs)
        while True:
            value = _asked(ask, f"{name} [{hint}]: ").strip() or default
            value = "" if value == "-" and parameter["Default"] == "" else value
            try:
                if {'"', "'"} & set(value):
                    raise TemplateError(f"parameter {name}: {value!r} has a quotation mark")
                parameter_value(name, parameter, value)
                return f"{Decimal(value).normalize():f}" if parameter["Type"] == "Number" else value  # 0.0 is 0
            except TemplateError as error:
                print(wrapped_text(f"Not accepted: {error}"))

    def _default(self, name: str) -> str:
        """Return what Enter takes: the earlier answer or the template's default, if no rule refuses that."""
        parameter = self._parameters[name]
        present: str = self._given.get(name, str(parameter["Default"]))
        others = [str(parameter["Default"]), *map(str, parameter.get("AllowedValues", ()))]
        is_text = parameter["Type"] == "String" and "AllowedValues" not in parameter  # which nothing else stands for
        candidates = [present] if is_text else [present, *others]
        for value in candidates:
            try:
                accepted(self._template, self._values(**{name: value}), self._region)
                return value
            except TemplateError:
                continue
        return present

    def _costs_text(self, name: str) -> str:
        """Return what each choice costs: in a month without a request with the other answers, and by use."""
        parameter, prices = self._parameters[name], Prices(self._region)
        if name in _BY_USE:
            return wrapped_text(f"  {_BY_USE[name]}", indent="  ")
        if name == "RedisInstanceType":
            rows = [
                (
                    value,
                    f"{number_text(float(usd))} USD an hour while it runs",
                    f"{usd_text(float(usd * MONTH_H))} a month",
                )
                for value in parameter["AllowedValues"]
                for usd in [prices.usd(f"ec2:{value}")]
            ]
            return rows_text([(f"  {value}", an_hour, a_month) for value, an_hour, a_month in rows])
        choices = list(map(str, parameter.get("AllowedValues", ()))) or [_sample(parameter, self._default(name))]
        idle = {value: self._idle_usd(name, value) for value in choices}
        if not parameter.get("AllowedValues"):
            given, absent = idle[choices[0]], self._idle_usd(name, "")
            if given is None or absent is None or given == absent:
                return ""
            return f"  If given: {usd_text(given - absent)} USD a month."
        return rows_text(
            [
                (f"  {value}", f"{usd_text(usd)} USD a month in which nobody reads, all together")
                for value, usd in idle.items()
                if usd is not None
            ]
        )

    def _idle_usd(self, name: str, value: str) -> float | None:
        """Return what a stack costs a month with another answer; None if that is none."""
        try:
            return float(
                sum(item.usd for item in idle_items(self._template, self._values(**{name: value}), self._region))
            )
        except TemplateError:
            return None


def _sample(parameter: Mapping[str, Any], default: str) -> str:
    """Return a value that is not empty: a default, or an address."""
    return default or ("you@example.com" if "@" in parameter.get("AllowedPattern", "") else "x")


def _asked(ask: Ask, question: str) -> str:
    try:
        return ask(question)
    except EOFError:
        raise NotConfiguredError("nothing was written: the input has ended before the last answer") from None


def _refs(part: Any) -> set[str]:
    """Return the names of all parameters that a part of the template refers to."""
    if isinstance(part, dict):
        own = {part["Ref"]} if part.keys() == {"Ref"} else set[str]()
        return own.union(*map(_refs, part.values()))
    return set[str]().union(*map(_refs, part)) if isinstance(part, list) else set()
