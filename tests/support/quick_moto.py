"""moto, quicker: the same answers, without what it computes anew at each request.

Each change names what it saves. They depend on moto's internals, as the local run's repairs do.
"""

from __future__ import annotations

import functools
from typing import Any

from moto import backend_index
from moto.core import models, responses, serialize
from moto.dynamodb.parsing import ast_nodes
from moto.dynamodb.parsing.expressions import UpdateExpressionParser

_OURS = ("dynamodb", "ec2", "events", "ssm")


@functools.cache
def apply() -> None:
    """Make the moto of this process quick, once."""
    # The operations of a service, searched for among all attributes of a class.
    responses.method_names_from_class = functools.cache(responses.method_names_from_class)
    # The names under which an answer may have a field, thirty per field.
    serialize.XFormedAttributePicker.get_possible_keys = _remembered_keys(
        serialize.XFormedAttributePicker.get_possible_keys
    )
    # The syntax of an update, which its validation copies before changing it.
    UpdateExpressionParser.make = functools.cache(UpdateExpressionParser.make)
    # The types that a pass over that syntax deals with, asked for at each node.
    ast_nodes.DepthFirstTraverser.nodes_to_be_processed = _once_each(
        ast_nodes.DepthFirstTraverser.nodes_to_be_processed
    )
    # The search for the service of a request, through 230 patterns in the order of their names.
    backend_index.backend_url_patterns.sort(key=lambda pattern: pattern[0] not in _OURS)
    # 1,600 answers to the requests library, which boto3 does not use.
    models.RESPONSES_METHODS.clear()


def _remembered_keys(find: Any) -> Any:
    known: dict[tuple[type, str, Any], tuple[str, ...]] = {}

    def keys(self: Any, context: Any) -> tuple[str, ...]:
        name = (type(context.obj), context.key, context.shape)
        if name not in known:
            known[name] = tuple(dict.fromkeys(find(self, context)))
        return known[name]

    return keys


def _once_each(find: Any) -> Any:
    """Return a method that finds its answer once in an object's life."""

    def found(self: Any) -> Any:
        if "_found" not in self.__dict__:
            self._found = find(self)
        return self._found

    return found
