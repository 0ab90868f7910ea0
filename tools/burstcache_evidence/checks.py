"""The registry of checks: one for each item of "Not tried on AWS" (`docs/operate/operations.md`), by its number.

A check judges the findings of a run. It never runs anything. Local clouds show nothing of AWS, so no item is reached
there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

Outcome = Literal["seen", "refuted", "not reached"]
_NO_NODE_TYPE = ("af-south-1", "ap-east-1", "ap-northeast-2", "ap-southeast-2", "ca-central-1", "eu-south-1")
_FURTHER = ("eu-west-2", "eu-west-3", "me-south-1", "sa-east-1", "us-west-1")
# Regions whose CloudFormation lacks the directory bucket, by cfn-lint 1.51, as in item 15.
_WITHOUT_EXPRESS_TYPE = (*_NO_NODE_TYPE, *_FURTHER)
_AWS = "AWS"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The outcome of a check, with the finding that decides it."""

    OUTCOMES: ClassVar[tuple[Outcome, ...]] = ("seen", "refuted", "not reached")
    outcome: Outcome
    because: str


@dataclass(frozen=True)
class Findings:
    """The findings of a run, read from its journal."""

    content: Mapping[str, Any]

    @property
    def kinds(self) -> list[str]:
        """The kinds of the run's stacks."""
        return list(self.content["kinds"])

    @property
    def region(self) -> str:
        """The run's region."""
        return str(self.content["region"])

    def found(self, kind: str, step: str) -> Mapping[str, Any]:
        """Return a step's findings in a stack, or none."""
        found: Mapping[str, Any] = self._step(f"{kind}/{step}").get("found", {})
        return found

    def problem(self, kind: str, step: str) -> str:
        """Return the error of a step in a stack, or an empty string."""
        return str(self._step(f"{kind}/{step}").get("problem", ""))

    def took_s(self, kind: str, step: str) -> float:
        """Return the duration of a step [s]."""
        return float(self._step(f"{kind}/{step}").get("took_s", 0))

    def is_deployed(self, kind: str) -> bool:
        """Return whether a stack was deployed."""
        return bool(self.found(kind, "deploy"))

    def parameter(self, kind: str, name: str) -> str:
        """Return a parameter of a deployed stack, empty for the template's default."""
        return str(self.found(kind, "deploy").get("parameters", {}).get(name, ""))

    def parts(self, kind: str) -> list[Mapping[str, Any]]:
        """Return the parts that a stack's self-test has tried."""
        return list(self.found(kind, "self-test").get("tried", ()))

    def tiers(self, kind: str) -> Mapping[str, Any]:
        """Return the tiers that served a stack's burst, with the time of the first response [s]."""
        first_s: Mapping[str, Any] = self.found(kind, "burst").get("first_s", {})
        return first_s

    @property
    def bill(self) -> Mapping[str, Any]:
        """The run's bill by Cost Explorer, or nothing."""
        found: Mapping[str, Any] = self._step("bill").get("found", {})
        return found

    def _step(self, name: str) -> Mapping[str, Any]:
        step: Mapping[str, Any] = self.content["steps"].get(name, {})
        return step


@dataclass(frozen=True, slots=True)
class ItemCheck:
    """The check of one item."""

    item: int
    name: str
    decide: Callable[[Findings], Verdict]

    def judge(self, findings: Findings) -> Verdict:
        """Return the item's verdict."""
        if findings.content["where"] != _AWS:
            return _open("local clouds show nothing of AWS")
        return self.decide(findings)


def _seen(because: str) -> Verdict:
    return Verdict("seen", because)


def _refuted(because: str) -> Verdict:
    return Verdict("refuted", because)


def _open(because: str) -> Verdict:
    return Verdict("not reached", because)


def _failed_parts(findings: Findings, kinds: list[str], word: str = "") -> Iterator[str]:
    for kind in kinds:
        for each in findings.parts(kind):
            if not each["ok"] and word in each["part"]:
                yield f"{kind}: {each['function']}: {each['part']}"


def _deployed(findings: Findings, **parameters: str) -> list[str]:
    """Return the deployed stacks with these parameters."""
    return [
        kind
        for kind in findings.kinds
        if findings.is_deployed(kind)
        and all(findings.parameter(kind, name) == value for name, value in parameters.items())
    ]


def _tried(findings: Findings) -> list[str]:
    return [kind for kind in findings.kinds if findings.parts(kind)]


def ipv6_from_the_vpc(findings: Findings) -> Verdict:
    """Judge by the self-tests of all stacks."""
    tried = _tried(findings)
    if not tried:
        return _open("no self-test ended")
    if failed := list(_failed_parts(findings, tried)):
        return _refuted(f"self-test: {'; '.join(failed)}")
    return _seen(f"each part of the self-tests of {', '.join(tried)} was reached")


def packages_of_amazon_linux(findings: Findings) -> Verdict:
    """Judge by Redis on an instance, which serves only after its set-up."""
    kinds = _deployed(findings, RedisOn="ec2")
    if not kinds:
        return _open("no stack with a node on EC2 was deployed")
    if problem := findings.problem(kinds[0], "boot"):
        return _refuted(f"the node's boot: {problem}")
    if not findings.found(kinds[0], "boot"):
        return _open("the node was not booted")
    return _seen("Redis answered on an instance of 1 GB; smaller types were not tried")


def instance_that_switches_itself_off(findings: Findings) -> Verdict:
    """Judge by the deployment of a stack with a node on EC2."""
    return _by_deployment(findings, "the stack with an instance was created", RedisOn="ec2")


def image_by_parameter(findings: Findings) -> Verdict:
    """Judge by the deployment of a stack with a node on EC2."""
    return _by_deployment(findings, "EC2 took the image by its parameter", RedisOn="ec2")


def _by_deployment(findings: Findings, because: str, **parameters: str) -> Verdict:
    if _deployed(findings, **parameters):
        return _seen(because)
    return _open("no such stack was deployed: see the steps")


def relay_without_ipv4(findings: Findings) -> Verdict:
    """Judge by the relay's part of the self-tests, and by a read from a cache function."""
    kinds = [kind for kind in _tried(findings) if findings.parameter(kind, "Relay") in ("direct", "nlb")]
    if findings.region in ("eu-north-1", "eu-west-1"):
        return _open("in this region the relay has a public IPv4 address")
    if not kinds:
        return _open("no stack with a relay was tested")
    if failed := list(_failed_parts(findings, kinds, "relay")):
        return _refuted(f"self-test: {'; '.join(failed)}")
    if missing := [kind for kind in kinds if "lambda" not in findings.tiers(kind)]:
        return _open(f"the relay answered the self-test; no cache function served in {', '.join(missing)}")
    return _seen(f"cache functions served over the relay in {', '.join(kinds)}")


def task_answers_without_resource(findings: Findings) -> Verdict:
    """Judge by lives whose states ended through their task tokens."""
    kinds = [kind for kind in findings.kinds if {"lambda", "redis"} <= findings.tiers(kind).keys()]
    if kinds:
        return _seen(f"a life's states ended through their tokens in {', '.join(kinds)}")
    if failed := list(_failed_parts(findings, _tried(findings), "tasks")):
        return _refuted(f"self-test: {'; '.join(failed)}")
    return _open("no key went through cache function and Redis")


def length_of_head(findings: Findings) -> Verdict:
    """Judge by a HEAD over the HTTP API."""
    for kind in findings.kinds:
        read = findings.found(kind, "read")
        if read and findings.parameter(kind, "FrontDoor") != "alb":
            said = f"Content-Length {read['head_length'] or 'absent'} of {read['length']}, status {read['head_status']}"
            return (_seen if read["head_length"] == str(read["length"]) else _refuted)(said)
    return _open("no read over an HTTP API")


def powertools_layer(findings: Findings) -> Verdict:
    """Judge by the deployment of a stack with traces, whose functions have the layer."""
    return _by_deployment(
        findings, f"the layer was found in {findings.region}; other regions were not tried", Tracing="Active"
    )


def hub_on_fargate(findings: Findings) -> Verdict:
    """Judge by the self-test of a pool with a hub. The hub's task itself is not started."""
    kinds = [kind for kind in _tried(findings) if findings.parameter(kind, "PoolHub") == "fargate"]
    if not kinds:
        return _open("no pool with a hub was tested")
    if failed := list(_failed_parts(findings, kinds, "hub")):
        return _refuted(f"self-test: {'; '.join(failed)}")
    return _open("the self-test's update of the service succeeded; the hub's task was not started")


def deleting_and_tasks(findings: Findings) -> Verdict:
    """Judge by the duration of deletions, and by a node on Fargate."""
    deleted = {kind: findings.took_s(kind, "delete") for kind in findings.kinds if findings.is_deployed(kind)}
    if failed := [kind for kind in deleted if findings.problem(kind, "delete")]:
        return _refuted(f"not deleted: {', '.join(failed)}")
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
        return _refuted("; ".join(problems))
    if not (texts and boots):
        return _open("; ".join(texts) or "no stack was deleted")
    return _seen("; ".join([*texts, *boots]))


def keys_with_plus(findings: Findings) -> Verdict:
    """Judge by a write to a cached object whose key has `+`, `%` and a blank."""
    for kind in findings.kinds:
        burst = findings.found(kind, "burst")
        if "announced_s" in burst and not burst["tiers_missing"]:
            return _seen(f"{burst['key']}: readers had the new object {burst['announced_s']} s after the write")
        if "a write to S3" in (problem := findings.problem(kind, "burst")):
            return _refuted(problem)
    return _open("no object was overwritten while a tier served it")


def starts_as_transitions(findings: Findings) -> Verdict:
    """Report the billed transitions. Whether starts are among them takes a count of the run's executions."""
    billed = [row["usage"] for row in findings.bill.get("rows", ()) if "StateTransition" in row["usage_type"]]
    if not billed:
        return _open("no bill with transitions: run --bill a day later")
    return _open(f"{sum(billed):g} transitions were billed; the executions' own count was not taken")


def directory_bucket(findings: Findings) -> Verdict:
    """Judge by the self-test of a stack with S3 Express."""
    kinds = [kind for kind in _tried(findings) if findings.parameter(kind, "ExpressZone")]
    if not kinds:
        return _open("no stack had S3 Express: --express-zone names a zone")
    if failed := list(_failed_parts(findings, kinds, "bucket")):
        return _refuted(f"self-test: {'; '.join(failed)}")
    return _seen("the directory bucket was made and reached; the days of its rules were not waited for")


def promotion_in_the_first_boot(findings: Findings) -> Verdict:
    """Leave the item open: the node is booted by hand after its set-up."""
    return _open("the run waits for the node's first boot")


def region_without_types(findings: Findings) -> Verdict:
    """Judge by a deployment in a region whose CloudFormation lacks the types."""
    if findings.region not in _WITHOUT_EXPRESS_TYPE:
        return _open(f"CloudFormation has the types in {findings.region}")
    return _by_deployment(findings, f"the template was accepted in {findings.region}")


def metric_of_no_error(findings: Findings) -> Verdict:
    """Judge by the data points of `Errors` of the janitor, which runs every five minutes."""
    for kind in findings.kinds:
        metrics = findings.found(kind, "metrics")
        if metrics.get("invocations"):
            said = f"{metrics['errors']} data points of Errors for {metrics['invocations']} of Invocations in {kind}"
            return (_seen if metrics["errors"] else _refuted)(f"{said}; FILL was not tried")
    return _open("the janitor's metrics had no data yet")


def message_of_a_budget(findings: Findings) -> Verdict:
    """Leave the item open: a budget reports hours later."""
    return _open("a run ends before a budget reports")


def replacements(findings: Findings) -> Verdict:
    """Leave the item open: no stack is updated."""
    return _open("no stack of a run is updated")


def trace_of_a_read(findings: Findings) -> Verdict:
    """Judge by the segments that X-Ray has of the burst's reads."""
    for kind in findings.kinds:
        if functions := findings.found(kind, "metrics").get("traced", ()):
            if any("CacheFunction" in name for name in functions):
                return _seen(f"a trace has segments of {', '.join(functions)}")
            return _refuted(f"no trace has a segment of the cache function, only of {', '.join(functions)}")
    return _open("no trace was found")


def tags_for_the_budget(findings: Findings) -> Verdict:
    """Judge by the tags of tasks and volumes."""
    tags = {kind: tags for kind in findings.kinds if (tags := findings.found(kind, "metrics").get("tagged"))}
    untagged = sorted({what for each in tags.values() for what, is_tagged in each.items() if not is_tagged})
    if not tags:
        return _open("neither tasks nor volumes were found")
    if untagged:
        return _seen(f"without the stack's tag, as supposed: {', '.join(untagged)}")
    return _refuted(f"all have the stack's tag: {', '.join(sorted({what for each in tags.values() for what in each}))}")


def databases_of_state(findings: Findings) -> Verdict:
    """Judge by databases that woke up, slept and left a snapshot."""
    kinds = [kind for kind in findings.kinds if findings.parameter(kind, "StateDatabases")]
    if problems := [f"{kind}: {text}" for kind in kinds if (text := findings.problem(kind, "state"))]:
        return _refuted("; ".join(problems))
    states = {kind: state for kind in kinds if (state := findings.found(kind, "state"))}
    if not states:
        return _open("no database was woken")
    texts = [
        f"{kind} woke in {each['awake_s']} s and slept after {each['asleep_s']} s" for kind, each in states.items()
    ]
    if not all(each["snapshots"] for each in states.values()):  # an empty database has nothing to save
        return _open(f"{'; '.join(texts)}; nothing was saved")
    return _seen(f"{'; '.join(texts)}, and left a snapshot; neither `aof` nor a KMS key was tried")


def writes_at_the_front_door(findings: Findings) -> Verdict:
    """Judge by writes of text, of bytes that are no UTF-8, and of 5 MB."""
    for kind in findings.kinds:
        write = findings.found(kind, "write")
        if write:
            latin = write["latin"]
            is_safe = write["text"]["is_right"] and (latin["is_right"] or latin["status"] >= 400)
            said = f"text {write['text']['status']}, not UTF-8 {latin['status']}, 5 MB {write['large']['status']}"
            is_so = is_safe and write["large"]["status"] == 413 and write["delete"]["status"] in (200, 204)
            return (_seen if is_so else _refuted)(f"{said}; a PUT with If-Match was not tried")
    return _open("no write over the front door")


def places_of_the_gateway(findings: Findings) -> Verdict:
    """Leave the item open: no gateway is deployed."""
    return _open("no stack of a run has a gateway")


def account_of_a_company(findings: Findings) -> Verdict:
    """Leave the item open: no stack of a run is fitted to guardrails."""
    return _open("no stack of a run has `Network` = `ipv4`, images of its own or `FunctionsInVpc` = `all`")


def queue_of_events(findings: Findings) -> Verdict:
    """Leave the item open: nothing is uploaded in bulk."""
    return _open("no run uploads in bulk")


CHECKS = tuple(
    ItemCheck(number, function.__name__.replace("_", "-"), function)
    for number, function in enumerate(
        (
            ipv6_from_the_vpc,
            packages_of_amazon_linux,
            instance_that_switches_itself_off,
            image_by_parameter,
            relay_without_ipv4,
            task_answers_without_resource,
            length_of_head,
            powertools_layer,
            hub_on_fargate,
            deleting_and_tasks,
            keys_with_plus,
            starts_as_transitions,
            directory_bucket,
            promotion_in_the_first_boot,
            region_without_types,
            metric_of_no_error,
            message_of_a_budget,
            replacements,
            trace_of_a_read,
            tags_for_the_budget,
            databases_of_state,
            writes_at_the_front_door,
            places_of_the_gateway,
            account_of_a_company,
            queue_of_events,
        ),
        1,
    )
)
