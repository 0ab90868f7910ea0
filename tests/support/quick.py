"""What makes a process quick that has many clients of AWS and reads the template often: importing it is enough."""

from __future__ import annotations

import functools
import gc
from typing import Any

import botocore.loaders
import botocore.parsers
import botocore.regions
import yaml
from botocore.client import ClientCreator
from botocore.endpoint_provider import EndpointProvider
from botocore.hooks import BaseEventHooks, EventAliaser
from botocore.model import ServiceModel

# Each session reads the descriptions of its services anew, which takes longer than most tests: all share one reader.
botocore.loaders.create_loader = functools.cache(botocore.loaders.create_loader)

# So it is with the names of events, which each client looks up in a table of a hundred rows, and with times in answers.
_Aliaser: Any = EventAliaser
_event_name = functools.cache(_Aliaser(None)._alias_event_name)
_Aliaser._alias_event_name = lambda self, event_name: _event_name(event_name)
botocore.parsers.DEFAULT_TIMESTAMP_PARSER = functools.lru_cache(botocore.parsers.DEFAULT_TIMESTAMP_PARSER)

# Each client takes the description apart anew: it makes shapes of it, a method for each operation, and of another one
# the rules for addresses.
_Creator: Any = ClientCreator
_make_methods = _Creator._create_methods
_METHODS: dict[ServiceModel, dict[str, Any]] = {}
_RULES: dict[int, tuple[object, EndpointProvider]] = {}


@functools.cache
def _model(loader: Any, name: str, version: str | None) -> ServiceModel:
    return ServiceModel(loader.load_service_model(name, "service-2", api_version=version), service_name=name)


def _methods(self: Any, service_model: ServiceModel) -> dict[str, Any]:
    if service_model not in _METHODS:
        _METHODS[service_model] = _make_methods(self, service_model)
    return {**_METHODS[service_model]}


def _rules(ruleset_data: Any, *others: Any, **named: Any) -> EndpointProvider:
    data = id(ruleset_data)  # of one service
    if data not in _RULES:
        _RULES[data] = ruleset_data, EndpointProvider(ruleset_data, *others, **named)
    return _RULES[data][1]


_Creator._load_service_model = lambda self, name, version=None: _model(self._loader, name, version)
_Creator._create_methods = _methods
_Regions: Any = botocore.regions
_Regions.EndpointProvider = _rules

# Each session asks of three hundred handlers, and each client of thirty, whether they take every argument.
_Hooks: Any = BaseEventHooks
_verify = _Hooks._verify_accept_kwargs
_VERIFIED: set[Any] = set()


def _verify_once(self: Any, handler: Any) -> None:
    code = getattr(handler, "__code__", None) or getattr(type(handler).__call__, "__code__", None)
    if code not in _VERIFIED:
        _verify(self, handler)
        if code is not None:
            _VERIFIED.add(code)


_Hooks._verify_accept_kwargs = _verify_once

# libyaml reads the template six times as fast as Python does.
yaml.SafeLoader, yaml.BaseLoader = yaml.CSafeLoader, yaml.CBaseLoader  # type: ignore[misc, assignment]

# Libraries and those descriptions are millions of objects that live to the end: at Python's own thresholds a fifth of
# the time goes into looking through them for garbage.
gc.set_threshold(200_000, 50, 1_000)
