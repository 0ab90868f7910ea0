"""moto, quicker: the same answers, without what it computes anew at each request.

Each change names what it saves. They depend on moto's internals, as the local run's repairs do.
"""

from __future__ import annotations

import base64
import functools
import json
import os
import string
from collections import deque
from collections.abc import Mapping
from typing import Any

from botocore import parsers
from moto import backend_index
from moto.core import base_backend, models, parse, responses, serialize
from moto.core.models import botocore_stubber
from moto.dynamodb.comparisons import ConditionExpressionParser
from moto.dynamodb.parsing import ast_nodes
from moto.dynamodb.parsing.expressions import UpdateExpressionParser
from moto.dynamodb.parsing.reserved_keywords import ReservedKeywords
from moto.dynamodb.parsing.validators import ActionCountValidator, UpdateExpressionValidator
from moto.dynamodb.responses import DynamoHandler, DynamoResult
from moto.moto_api._internal.moto_random import MotoRandom
from moto.s3.responses import S3Response

from burstcache_local.functions import ACCOUNT

# Of the environment, what the addresses of services depend on.
_NAMES_OF_URLS = ("MOTO_ENABLE_ISO_REGIONS", "MOTO_S3_CUSTOM_ENDPOINTS")
_OURS = ("dynamodb", "ec2", "events", "ssm")
_OF_ITEMS = frozenset(
    {"BatchGetItem", "BatchWriteItem", "DeleteItem", "GetItem", "PutItem", "Query", "TransactWriteItems", "UpdateItem"}
)


@functools.cache
def apply() -> None:
    """Make the moto of this process quick, once."""
    # The operations of a service, searched for among all attributes of a class.
    responses.method_names_from_class = functools.cache(responses.method_names_from_class)
    # The names under which an answer may have a field, thirty per field.
    serialize.XFormedAttributePicker.get_possible_keys = _remembered_keys(
        serialize.XFormedAttributePicker.get_possible_keys
    )
    # The syntax of an update, which its validation copies before changing it; how often it has each clause, too.
    UpdateExpressionParser.make = functools.cache(_counted(UpdateExpressionParser.make))
    UpdateExpressionValidator.get_ast_processors = _but_counts(UpdateExpressionValidator.get_ast_processors)
    # The words and reserved names of a condition, searched for with patterns and in a list; and all that a second time.
    ConditionExpressionParser._lex_condition_expression = _remembered_words(
        ConditionExpressionParser._lex_condition_expression
    )
    ReservedKeywords.get_reserved_keywords = functools.cache(_as_set(ReservedKeywords.get_reserved_keywords))
    ConditionExpressionParser.parse = _parsed_once(ConditionExpressionParser.parse)
    # A choice for each letter of the random names that every answer has.
    MotoRandom.get_random_string = _random_string
    # The types that a pass over an update deals with, asked for at each node; a copy of the tree as pickle makes it.
    ast_nodes.DepthFirstTraverser.traverse_node_recursively = _traverse
    ast_nodes.Node.__deepcopy__ = _copy_of_node
    # The ten types that a value of DynamoDB may have, looked for under three names each: it names its own.
    serialize.JSONSerializer._serialize_type_structure = _own_type_of_values(
        serialize.JSONSerializer._serialize_type_structure
    )
    # The same with values in requests, and in answers as boto3 parses them; answers with items are JSON as they are.
    parse.BaseJSONParser._parse_structure = _own_type_of_parsed(parse.BaseJSONParser._parse_structure)
    answers: Any = parsers.BaseJSONParser
    answers._handle_structure = _own_type_of_parsed(answers._handle_structure)
    DynamoHandler.serialized = _items_as_they_are(DynamoHandler.serialized)
    # The addresses of a service, for which that of S3 reads a module anew at each request, twice.
    base_backend.BaseBackend.urls = property(_remembered_urls(base_backend.BaseBackend.urls.fget))
    # Whether a host names the bucket, a matter of fifteen patterns that is asked six times a request.
    S3Response.subdomain_based_buckets = staticmethod(_remembered_hosts(S3Response.subdomain_based_buckets))
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


def _counted(make: Any) -> Any:
    return lambda expression: ActionCountValidator().traverse(make(expression))


def _but_counts(processors: Any) -> Any:
    return lambda self: [each for each in processors(self) if not isinstance(each, ActionCountValidator)]


def _traverse(self: Any, node: Any, child_id: int = -1) -> Any:
    """Process the nodes of a tree, children first, as `DepthFirstTraverser` does."""
    parent = node.parent
    for place, child in enumerate(node.children or ()):
        self.pre_processing_of_child(node, place)
        if _is_any_of(type(child), ast_nodes.Node):
            _traverse(self, child, place)
    step = _step(self, type(node))
    if step is not None:
        node = step(node)
        node.parent = parent
        if parent:
            parent.children[child_id] = node
    return node


def _step(self: Any, kind: type) -> Any:
    """Return how a pass over an update deals with nodes of a class; None: not at all."""
    if "_map" not in self.__dict__:
        self._map = self._processing_map()
    key = type(self), kind
    if key not in _CLASSES:
        _CLASSES[key] = next((each for each in self._map if issubclass(kind, each)), None)
    return self._map.get(_CLASSES[key])


# Of a pass and a node: the class as which the one deals with the other.
_CLASSES: dict[tuple[type, type], type | None] = {}
_is_any_of: Any = functools.cache(issubclass)


def _copy_of_node(node: Any, memo: object, parent: Any = None) -> Any:
    copied = object.__new__(type(node))
    copied.__dict__ = {**node.__dict__, "parent": parent}
    if node.children is not None:
        copied.children = [
            _copy_of_node(child, memo, copied) if _is_any_of(type(child), ast_nodes.Node) else child
            for child in node.children
        ]
    return copied


def _remembered_words(lex: Any) -> Any:
    known: dict[str, tuple[Any, ...]] = {}

    def words(self: Any) -> Any:
        text = self.condition_expression
        if text not in known:
            known[text] = tuple(lex(self))
        return deque(known[text])

    return words


def _as_set(find: Any) -> Any:
    return lambda: frozenset(find())


def _parsed_once(parse: Any) -> Any:
    """Return a method that parses a condition once: an update looks at its own twice."""
    last: tuple[Any, ...] = (None, None, None, None)

    def parsed(self: Any) -> Any:
        nonlocal last
        asked = self.condition_expression, self.expression_attribute_names, self.expression_attribute_values
        known, condition, names, values = last
        if known != asked:
            condition = parse(self)
            last = asked, condition, self.expr_attr_names_found, self.expr_attr_values_found
        else:
            self.expr_attr_names_found, self.expr_attr_values_found = names, values
        return condition

    return parsed


def _random_string(self: Any, length: int = 20, include_digits: bool = True, lower_case: bool = False) -> str:
    letters = "".join(self.choices(string.ascii_letters + include_digits * string.digits, k=length))
    return letters.lower() if lower_case else letters


def _remembered_urls(find: Any) -> Any:
    known: dict[tuple[object, ...], Any] = {}

    def urls(self: Any) -> Any:
        key = (type(self), *map(os.environ.get, _NAMES_OF_URLS))
        if key not in known:
            known[key] = find(self)
        return known[key]

    return urls


def _remembered_hosts(ask: Any) -> Any:
    known: dict[tuple[object, ...], bool] = {}

    def names_the_bucket(request: Any) -> bool:
        host = request.headers.get("host")
        if not host:
            return bool(ask(request))
        key = (host, *map(os.environ.get, _NAMES_OF_URLS))
        if key not in known:
            known[key] = ask(request)
        return known[key]

    return names_the_bucket


def _own_type_of_values(serialize_structure: Any) -> Any:
    def structure(self: Any, serialized: Any, value: Any, shape: Any, key: str) -> None:
        if shape.name != "AttributeValue" or type(value) is not dict:
            serialize_structure(self, serialized, value, shape, key)
            return
        typed: dict[str, Any] = {}
        for name, content in value.items():
            self._serialize(typed, content, shape.members[name], name)
        self._default_serialize(serialized, typed, shape, key)

    return structure


def _own_type_of_parsed(parse_structure: Any) -> Any:
    def structure(self: Any, shape: Any, value: Any) -> Any:
        if shape.name != "AttributeValue" or not value:
            return parse_structure(self, shape, value)
        return {name: self._parse_shape(shape.members[name], content) for name, content in value.items()}

    return structure


def _items_as_they_are(serialized: Any) -> Any:
    def answer(self: Any, action_result: Any) -> Any:
        if type(action_result) is not DynamoResult or self._get_action() not in _OF_ITEMS:
            return serialized(self, action_result)
        return 200, self.response_headers, json.dumps(action_result.result, default=_base64)

    return answer


def _base64(value: bytes) -> str:
    return base64.b64encode(value).decode()


def dynamodb(request: Mapping[str, Any]) -> tuple[int, Mapping[str, str], bytes]:
    """Let moto's DynamoDB answer a request of boto3's: not through werkzeug, which also reads the body as a form."""
    assert botocore_stubber.enabled, "there is no AWS outside of `mocked_aws`"
    handler = DynamoHandler()
    handler.headers, handler.querystring, handler.uri_match, handler.response_headers = request["headers"], {}, {}, {}
    handler.region, handler.current_account = request["url"].split(".")[1], ACCOUNT
    handler.parse_parameters(_Json(request["headers"], request["body"]))
    status, headers, body = handler.call_action()
    return status, headers, body.encode()


class _Json:
    """What `DynamoHandler` parses of a request."""

    method, path, values = "POST", "/", None

    def __init__(self, headers: Mapping[str, str], body: bytes) -> None:
        self.headers, self.data, self.content_type = headers, body, headers["Content-Type"]
