"""Quick botocore: speed patches for a process that creates many AWS clients and often reads the template.

Each patch caches results that botocore recomputes for every session or client. All use private parts of botocore.
"""

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
from hypothesis.internal.conjecture import providers

from burstcache_local import speed


@functools.cache
def apply() -> None:
    """Apply the speed patches to this process once, unless they are disabled."""
    if not speed.ENABLED:
        return
    # Each session would load its services' descriptions again, which takes longer than most tests. All share a loader.
    botocore.loaders.create_loader = functools.cache(botocore.loaders.create_loader)
    # Cache event names, which each client looks up in a table of a hundred rows, and the parsing of timestamps.
    aliaser: Any = EventAliaser
    event_name = functools.cache(aliaser(None)._alias_event_name)
    aliaser._alias_event_name = lambda self, name: event_name(name)
    botocore.parsers.DEFAULT_TIMESTAMP_PARSER = functools.lru_cache(botocore.parsers.DEFAULT_TIMESTAMP_PARSER)
    # Share the shapes and methods that each client builds from a service's description, and its endpoint rules.
    creator: Any = ClientCreator
    creator._load_service_model = lambda self, name, version=None: _model(self._loader, name, version)
    creator._create_methods = _shared_methods(creator._create_methods)
    regions: Any = botocore.regions
    regions.EndpointProvider = _shared_rules
    # Check only once that each of a session's three hundred handlers accepts keyword arguments.
    hooks: Any = BaseEventHooks
    hooks._verify_accept_kwargs = _verified_once(hooks._verify_accept_kwargs)
    # libyaml reads the template six times as fast as pure Python.
    yaml.SafeLoader, yaml.BaseLoader = yaml.CSafeLoader, yaml.CBaseLoader  # type: ignore[misc, assignment]
    # Libraries and those descriptions are millions of objects that live to the end. At Python's own thresholds, a fifth
    # of the time goes into searching them for garbage.
    gc.set_threshold(200_000, 50, 1_000)


def skip_local_constants() -> None:
    """Make hypothesis search without the constants of our sources. It would read all sources first."""
    if speed.ENABLED:
        constants: Any = providers
        constants._get_local_constants = lambda: constants._local_constants


@functools.cache
def _model(loader: Any, name: str, version: str | None) -> ServiceModel:
    return ServiceModel(loader.load_service_model(name, "service-2", api_version=version), service_name=name)


def _shared_methods(create: Any) -> Any:
    methods: dict[ServiceModel, dict[str, Any]] = {}

    def shared(self: Any, service_model: ServiceModel) -> dict[str, Any]:
        if service_model not in methods:
            methods[service_model] = create(self, service_model)
        return {**methods[service_model]}

    return shared


_RULES: dict[int, tuple[object, EndpointProvider]] = {}


def _shared_rules(ruleset_data: Any, *others: Any, **named: Any) -> EndpointProvider:
    data = id(ruleset_data)  # of one service
    if data not in _RULES:
        _RULES[data] = ruleset_data, EndpointProvider(ruleset_data, *others, **named)
    return _RULES[data][1]


def _verified_once(verify: Any) -> Any:
    verified: set[Any] = set()

    def verify_once(self: Any, handler: Any) -> None:
        code = getattr(handler, "__code__", None) or getattr(type(handler).__call__, "__code__", None)
        if code not in verified:
            verify(self, handler)
            if code is not None:
                verified.add(code)

    return verify_once
