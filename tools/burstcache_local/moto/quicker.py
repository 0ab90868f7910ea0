"""moto, quicker: the same answers, without what it computes anew at each request.

Each change names what it saves. They depend on moto's internals, as the repairs do.
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

# Of the environment, what the addresses of services depend on.
_NAMES_OF_URLS = ("MOTO_ENABLE_ISO_REGIONS", "MOTO_S3_CUSTOM_ENDPOINTS")
_OURS = ("dynamodb", "ec2", "events", "ssm")
OF_ITEMS = frozenset(
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
    # The same with values in requests, and in answers as boto3 parses them; answers with items pass as they are.
    parse.BaseJSONParser._parse_structure = _own_type_of_parsed(parse.BaseJSONParser._parse_structure)
    answers: Any = parsers.BaseJSONParser
    answers._handle_structure = _own_type_of_parsed(answers._handle_structure)
    DynamoHandler.serialized = _items_as_they_are(DynamoHandler.serialized)
    # The name of a request, of 52 letters by chance, which is also looked for in answers that are no XML.
    responses.BaseResponse._enrich_response = staticmethod(_named(responses.BaseResponse._enrich_response))
    # The attributes of an object, looked for under thirty names per field: nearly all fields of an instance have none.
    serialize.AttributePicker.__call__ = _picked_at_once
    # The addresses of a service, for which that of S3 reads a module anew at each request, twice.
    base_backend.BaseBackend.urls = property(_remembered_urls(base_backend.BaseBackend.urls.fget))
    # Whether a host names the bucket, a matter of fifteen patterns that is asked six times a request.
    S3Response.subdomain_based_buckets = staticmethod(_remembered_hosts(S3Response.subdomain_based_buckets))
    # A copy of whole tables per transaction, for the case that it is refused: of the items that it changes.
    models.copy = SimpleNamespace(deepcopy=_copy_but_tables)
    models.DynamoDBBackend.transact_write_items = _put_back_if_refused(models.DynamoDBBackend.transact_write_items)
    # All items of a table, sorted, to find those of a key.
    models.Table.query = _of_one_key(models.Table.query)
    # The search for the service of a request, through 230 patterns in the order of their names.
    backend_index.backend_url_patterns.sort(key=lambda pattern: pattern[0] not in _OURS)


def leave_alone() -> None:
    """Have the garbage collector leave alone all that there is by now, for as long as this process lives.

    moto has 600,000 objects; each look at all of them has a whole local cloud stand still for 0.4 s.
    """
    gc.freeze()


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
    dealt_with_as = classes[kind]
    if dealt_with_as is not None:
        node = steps[dealt_with_as](node)
        node.parent = parent
        if parent:
            parent.children[child_id] = node
    return node


# Of the classes that a pass deals with, and of a node's: as which of them it is dealt with.
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


def has_items(handler: Any, action_result: Any) -> bool:
    """Whether an answer of DynamoDB consists of items, which are values of JSON already, but for bytes."""
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
    """Yield tables, keys, and copies of the items that are there, of all that a transaction may change."""
    for operation in itertools.chain.from_iterable(map(dict.values, transact_items)):
        table = backend.tables.get(operation.get("TableName"))
        if table is not None:
            key = backend.get_keys_value(table, operation.get("Key") or operation["Item"])
            yield table, *key, copy.deepcopy(table.get_item(*key))


def _of_one_key(query: Any) -> Any:
    parameters = inspect.signature(query)

    def found(self: Any, *args: Any, **named: Any) -> Any:
        asked = parameters.bind(self, *args, **named).arguments
        key = asked["hash_key"]
        if key is not None and not asked.get("index_name"):
            items, self = self.items, copy.copy(self)
            self.items = {key: items[key]} if key in items else {}
        return query(self, *args, **named)

    return found


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
    """Return the value of a field, as `AttributePicker` does, or None at once if no class or object has it."""
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
        found = (get_value(obj, name, serialize.MISSING) for name in names)
        value = next((each for each in found if each is not serialize.MISSING), None)
    for path, transform in self.response_transformers.items():
        if path.endswith(key) and f"{context.key_path}.{key}".endswith(path):
            return transform(value)
    return value


# By class, field and shape: the names under which an object may have it, and those that its class has not.
_NAMES: dict[tuple[type, str, Any], tuple[tuple[str, ...], frozenset[str] | None]] = {}
