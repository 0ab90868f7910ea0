"""Patches for a quicker moto, which returns the same responses with less computation per request.

The comment at each patch names the work that the patch avoids. The patches depend on moto's internals, like the
repairs.
"""

from __future__ import annotations

import base64
import copy
import functools
import gc
import inspect
import itertools
import os
import string
from collections import deque
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import orjson
from botocore import parsers
from moto import backend_index
from moto.core import base_backend, parse, responses, serialize
from moto.core.utils import get_value
from moto.dynamodb import models
from moto.dynamodb.comparisons import ConditionExpressionParser
from moto.dynamodb.parsing import ast_nodes
from moto.dynamodb.parsing.expressions import UpdateExpressionParser
from moto.dynamodb.parsing.reserved_keywords import ReservedKeywords
from moto.dynamodb.parsing.validators import ActionCountValidator, UpdateExpressionValidator
from moto.dynamodb.responses import DynamoHandler, DynamoResult
from moto.moto_api._internal.moto_random import MotoRandom
from moto.s3.responses import S3Response

from burstcache_local import speed

# Environment variables that determine service URLs.
_NAMES_OF_URLS = ("MOTO_ENABLE_ISO_REGIONS", "MOTO_S3_CUSTOM_ENDPOINTS")
_OURS = ("dynamodb", "ec2", "events", "ssm")
OF_ITEMS = frozenset(
    {"BatchGetItem", "BatchWriteItem", "DeleteItem", "GetItem", "PutItem", "Query", "TransactWriteItems", "UpdateItem"}
)


@functools.cache
def apply() -> None:
    """Speed up moto in this process unless speed patches are disabled. Idempotent."""
    if not speed.ENABLED:
        return
    # A search for a service's operations in all attributes of a class.
    responses.method_names_from_class = functools.cache(responses.method_names_from_class)
    # The computation of thirty possible attribute names for each response field.
    serialize.XFormedAttributePicker.get_possible_keys = _cached_keys(
        serialize.XFormedAttributePicker.get_possible_keys
    )
    # Parsing update expressions and counting their clauses. The syntax tree can be cached, since validation copies it.
    UpdateExpressionParser.make = functools.cache(_counted(UpdateExpressionParser.make))
    UpdateExpressionValidator.get_ast_processors = _but_counts(UpdateExpressionValidator.get_ast_processors)
    # Lexing conditions by patterns, a linear search for reserved words, and a second parse of each condition.
    ConditionExpressionParser._lex_condition_expression = _cached_words(
        ConditionExpressionParser._lex_condition_expression
    )
    ReservedKeywords.get_reserved_keywords = functools.cache(_as_set(ReservedKeywords.get_reserved_keywords))
    ConditionExpressionParser.parse = _parsed_once(ConditionExpressionParser.parse)
    # A call to the random generator for each letter of random names in responses.
    MotoRandom.get_random_string = _random_string
    # Type checks at each node of an update's syntax tree, and a generic deep copy of the tree.
    ast_nodes.DepthFirstTraverser.traverse_node_recursively = _traverse
    ast_nodes.Node.__deepcopy__ = _copy_of_node
    # A search for a DynamoDB value's type among ten types with three names each, although the value names its type.
    serialize.JSONSerializer._serialize_type_structure = _own_type_of_values(
        serialize.JSONSerializer._serialize_type_structure
    )
    # The same search in requests, and in responses that boto3 parses. Responses with items skip serialization.
    parse.BaseJSONParser._parse_structure = _own_type_of_parsed(parse.BaseJSONParser._parse_structure)
    answers: Any = parsers.BaseJSONParser
    answers._handle_structure = _own_type_of_parsed(answers._handle_structure)
    DynamoHandler.serialized = _items_as_they_are(DynamoHandler.serialized)
    # A random request id of 52 letters, and its insertion into responses that are not XML.
    responses.BaseResponse._enrich_response = staticmethod(_named(responses.BaseResponse._enrich_response))
    # Attribute lookups under thirty names per field, although most objects lack nearly all fields.
    serialize.AttributePicker.__call__ = _picked_at_once
    # The computation of a service's URLs, for which moto's S3 reloads a module twice per request.
    base_backend.BaseBackend.urls = property(_cached_urls(base_backend.BaseBackend.urls.fget))
    # Matching fifteen patterns six times per request, to decide whether the host contains the bucket's name.
    S3Response.subdomain_based_buckets = staticmethod(_cached_hosts(S3Response.subdomain_based_buckets))
    # A copy of whole tables for each transaction's rollback, although copies of the changed items suffice.
    models.copy = SimpleNamespace(deepcopy=_copy_but_tables)
    models.DynamoDBBackend.transact_write_items = _put_back_if_refused(models.DynamoDBBackend.transact_write_items)
    # Sorting all items of a table to find the items of one partition key.
    models.Table.query = _of_one_key(models.Table.query)
    # A search for a request's service in 230 patterns. The services that this project uses move to the front.
    backend_index.backend_url_patterns.sort(key=lambda pattern: pattern[0] not in _OURS)


def freeze_garbage_collector() -> None:
    """Exclude all current objects from garbage collection.

    moto creates 600,000 objects, so each full collection would pause the whole local cloud for 0.4 s.
    """
    gc.freeze()


def _cached_keys(find: Any) -> Any:
    cache: dict[tuple[type, str, Any], tuple[str, ...]] = {}

    def keys(self: Any, context: Any) -> tuple[str, ...]:
        name = (type(context.obj), context.key, context.shape)
        if name not in cache:
            cache[name] = tuple(dict.fromkeys(find(self, context)))
        return cache[name]

    return keys


def _counted(make: Any) -> Any:
    return lambda expression: ActionCountValidator().traverse(make(expression))


def _but_counts(processors: Any) -> Any:
    return lambda self: [each for each in processors(self) if not isinstance(each, ActionCountValidator)]


def _traverse(self: Any, node: Any, child_id: int = -1) -> Any:
    """Process a syntax tree's nodes, children first, as `DepthFirstTraverser` does."""
    steps, prepare = self._processing_map(), self.pre_processing_of_child
    prepares = prepare.__func__ is not ast_nodes.DepthFirstTraverser.pre_processing_of_child
    return _walk(node, child_id, steps, _CLASSES.setdefault(tuple(steps), {}), prepare if prepares else None)


def _walk(node: Any, child_id: int, steps: Any, classes: dict[type, type | None], prepare: Any) -> Any:
    parent = node.parent
    for place, child in enumerate(node.children or ()):
        if prepare is not None:
            prepare(node, place)
        if _is_any_of(type(child), ast_nodes.Node):
            _walk(child, place, steps, classes, prepare)
    kind = type(node)
    if kind not in classes:
        classes[kind] = next((each for each in steps if issubclass(kind, each)), None)
    handled_class = classes[kind]
    if handled_class is not None:
        node = steps[handled_class](node)
        node.parent = parent
        if parent:
            parent.children[child_id] = node
    return node


# Classes that a traverser handles → a node's class → the handled class that matches the node.
_CLASSES: dict[tuple[type, ...], dict[type, type | None]] = {}
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


def _cached_words(lex: Any) -> Any:
    cache: dict[str, tuple[Any, ...]] = {}

    def words(self: Any) -> Any:
        text = self.condition_expression
        if text not in cache:
            cache[text] = tuple(lex(self))
        return deque(cache[text])

    return words


def _as_set(find: Any) -> Any:
    return lambda: frozenset(find())


def _parsed_once(parse: Any) -> Any:
    """Cache a condition parser's last result, because an update parses its condition twice."""
    last: tuple[Any, ...] = (None, None, None, None)

    def parsed(self: Any) -> Any:
        nonlocal last
        arguments = self.condition_expression, self.expression_attribute_names, self.expression_attribute_values
        last_arguments, condition, names, values = last
        if last_arguments != arguments:
            condition = parse(self)
            last = arguments, condition, self.expr_attr_names_found, self.expr_attr_values_found
        else:
            self.expr_attr_names_found, self.expr_attr_values_found = names, values
        return condition

    return parsed


def _random_string(self: Any, length: int = 20, include_digits: bool = True, lower_case: bool = False) -> str:
    letters = "".join(self.choices(string.ascii_letters + include_digits * string.digits, k=length))
    return letters.lower() if lower_case else letters


def _cached_urls(find: Any) -> Any:
    cache: dict[tuple[object, ...], Any] = {}

    def urls(self: Any) -> Any:
        key = (type(self), *map(os.environ.get, _NAMES_OF_URLS))
        if key not in cache:
            cache[key] = find(self)
        return cache[key]

    return urls


def _cached_hosts(ask: Any) -> Any:
    cache: dict[tuple[object, ...], bool] = {}

    def names_the_bucket(request: Any) -> bool:
        host = request.headers.get("host")
        if not host:
            return bool(ask(request))
        key = (host, *map(os.environ.get, _NAMES_OF_URLS))
        if key not in cache:
            cache[key] = ask(request)
        return cache[key]

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


def has_items(handler: Any, action_result: Any) -> bool:
    """Return whether a DynamoDB response consists of items. Items already are JSON values, except for bytes."""
    return type(action_result) is DynamoResult and handler._get_action() in OF_ITEMS


def _items_as_they_are(serialized: Any) -> Any:
    def answer(self: Any, action_result: Any) -> Any:
        if not has_items(self, action_result):
            return serialized(self, action_result)
        body = orjson.dumps(action_result.result, default=_base64).decode()
        return 200, self.response_headers, body

    return answer


def _base64(value: bytes) -> str:
    return base64.b64encode(value).decode()


def _copy_but_tables(value: Any) -> Any:
    return value if isinstance(value, models.Table) else copy.deepcopy(value)


def _put_back_if_refused(transact: Any) -> Any:
    def transacted(self: Any, transact_items: Any) -> None:
        before = [*_items(self, transact_items)]
        try:
            transact(self, transact_items)
        except Exception:
            for table, hash_value, range_value, item in before:
                table.delete_item(hash_value, range_value)
                if item is not None:
                    place, name = (table.items[hash_value], range_value) if range_value else (table.items, hash_value)
                    place[name] = item
            raise

    return transacted


def _items(backend: Any, transact_items: Any) -> Iterator[tuple[Any, ...]]:
    """Yield table, keys and a copy for each item that a transaction may change."""
    for operation in itertools.chain.from_iterable(map(dict.values, transact_items)):
        table = backend.tables.get(operation.get("TableName"))
        if table is not None:
            key = backend.get_keys_value(table, operation.get("Key") or operation["Item"])
            yield table, *key, copy.deepcopy(table.get_item(*key))


def _of_one_key(query: Any) -> Any:
    parameters = inspect.signature(query)

    def query_key(self: Any, *args: Any, **named: Any) -> Any:
        arguments = parameters.bind(self, *args, **named).arguments
        key = arguments["hash_key"]
        if key is not None and not arguments.get("index_name"):
            items, self = self.items, copy.copy(self)
            self.items = {key: items[key]} if key in items else {}
        return query(self, *args, **named)

    return query_key


def _named(enrich: Any) -> Any:
    numbers = itertools.count()

    def enriched(headers: dict[str, str], body: Any) -> Any:
        if isinstance(body, str) and body.startswith("<"):
            return enrich(headers, body)
        if "status" in headers:
            headers["status"] = str(headers["status"])
        headers["x-amzn-requestid"] = f"{next(numbers):052}"
        return headers, body

    return enriched


def _picked_at_once(self: Any, context: Any) -> Any:
    """Return a field's value, as `AttributePicker` does, with a shortcut if neither class nor object has the field."""
    obj, key = context.obj, context.key
    field = type(obj), key, context.shape
    if field not in _NAMES:
        names = tuple(self.get_possible_keys(context))
        is_plain = not hasattr(obj, "__getitem__") and not hasattr(obj, "__getattr__")
        is_plain &= not any("." in name or hasattr(field[0], name) for name in names)
        _NAMES[field] = names, frozenset(names) if is_plain else None
    names, of_objects = _NAMES[field]
    value = None
    if of_objects is None or not of_objects.isdisjoint(vars(obj)):
        values = (get_value(obj, name, serialize.MISSING) for name in names)
        value = next((each for each in values if each is not serialize.MISSING), None)
    for path, transform in self.response_transformers.items():
        if path.endswith(key) and f"{context.key_path}.{key}".endswith(path):
            return transform(value)
    return value


# Class, field and shape → the field's possible attribute names, and the names as a set if only instances can have them.
_NAMES: dict[tuple[type, str, Any], tuple[tuple[str, ...], frozenset[str] | None]] = {}
