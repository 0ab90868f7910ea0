"""The output that `burstcache explain` reads has what the functions decide by."""

from __future__ import annotations

import json
from typing import Any

import pytest

from burstcache.queries.explain import stack_rules
from support.deployed import decided, kept

Resources = dict[str, Any]
PLAIN = ("MAX_HOT_KEYS", "POLICY", "HIT_VALUE_USD_PER_MILLION", "CACHE_MEMORY_MB", "POLICY_RATE")


def settings_of(template: Resources, **answers: str) -> dict[str, str]:
    """Return the output as it is deployed with these answers, without addresses of nodes."""
    outputs = kept(template, "Outputs", decided(template, answers))
    sentence, parts = outputs["PolicySettings"]["Value"]["Fn::Sub"]
    defaults = {name: parameter["Default"] for name, parameter in template["Parameters"].items()}
    texts = {name: part for name, part in parts.items() if isinstance(part, str)}
    texts["NodeName"] = parts["NodeName"]["Fn::Sub"]  # of a task
    for name, value in {**texts, **defaults, **answers, "AWS::Region": "us-east-1"}.items():
        sentence = sentence.replace(f"${{{name}}}", str(value))
    settings: dict[str, str] = json.loads(sentence)
    return settings | {"REDIS_NODES": ""}


@pytest.mark.parametrize("policy", ["thesis", "breakeven", "hazard"])
def test_settings_of_each_policy_are_accepted(policy: str, template: Resources) -> None:
    rules = stack_rules(settings_of(template, Policy=policy, ExpressZone="use1-az4"))

    assert rules.settings.policy_name == policy
    assert rules.express is not None
    assert rules.settings.max_hot_keys == 2


def test_stack_without_copies_weighs_none(template: Resources) -> None:
    assert stack_rules(settings_of(template)).express is None


def test_settings_are_those_of_the_scheduler(template: Resources, functions: Resources) -> None:
    scheduler = functions["SchedulerFunction"]["Environment"]["Variables"]
    sentence, parts = template["Outputs"]["PolicySettings"]["Value"]["Fn::Sub"]
    settings = json.loads(sentence)

    for name in (*PLAIN, "POLICY_SENSITIVITY", "POLICY_OVERRIDES"):
        assert {"Ref": settings[name][2:-1]} == scheduler[name]
    for name in ("MAX_OBJECT_BYTES", "EXPRESS_BUCKET", "HAS_RELAY", "REDIS_NODES", "REDIS_INSTANCE_TYPE"):
        assert parts[settings[name][2:-1]] == scheduler[name]


def test_settings_are_those_of_the_proxy_and_of_redis_control(template: Resources, functions: Resources) -> None:
    settings = json.loads(template["Outputs"]["PolicySettings"]["Value"]["Fn::Sub"][0])

    for function, name in (("ProxyFunction", "MEMORY_MB"), ("RedisControlFunction", "REDIS_ALWAYS_ON_NODES")):
        assert {"Ref": settings[name][2:-1]} == functions[function]["Environment"]["Variables"][name]
