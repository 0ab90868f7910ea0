"""moto, quicker: the same answers, without what it computes anew at each request.

Each change names what it saves. They depend on moto's internals, as the local run's repairs do.
"""

from __future__ import annotations

import copy
import functools
import os
from typing import Any

from botocore.awsrequest import HeadersDict
from moto import backend_index
from moto.core import base_backend, models, responses, serialize
from moto.core.botocore_stubber import BotocoreStubber
from moto.dynamodb.parsing import ast_nodes
from moto.dynamodb.parsing.expressions import UpdateExpressionParser
from moto.dynamodb.parsing.validators import ActionCountValidator, UpdateExpressionValidator
from moto.dynamodb.responses import DynamoHandler

# Of the environment, what the addresses of services depend on.
_NAMES_OF_URLS = ("MOTO_ENABLE_ISO_REGIONS", "MOTO_S3_CUSTOM_ENDPOINTS")
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
    # The syntax of an update, which its validation copies before changing it; how often it has each clause, too.
    UpdateExpressionParser.make = functools.cache(_counted(UpdateExpressionParser.make))
    UpdateExpressionValidator.get_ast_processors = _but_counts(UpdateExpressionValidator.get_ast_processors)
    # The types that a pass over that syntax deals with, asked for at each node.
    ast_nodes.DepthFirstTraverser.nodes_to_be_processed = _once_each(
        ast_nodes.DepthFirstTraverser.nodes_to_be_processed
    )
    # A look at each node by the abstract classes that it might be of, and a copy of the tree as pickle would make it.
    ast_nodes.DepthFirstTraverser.traverse_node_recursively = _traverse
    ast_nodes.Node.__deepcopy__ = _copy_of_node
    # The ten types that a value of DynamoDB may have, looked for under three names each: it names its own.
    serialize.JSONSerializer._serialize_type_structure = _own_type_of_values(
        serialize.JSONSerializer._serialize_type_structure
    )
    # A request to DynamoDB as werkzeug has it, whose body is also read as a form.
    BotocoreStubber.process_request = _dynamodb_at_once(BotocoreStubber.process_request)
    # The addresses of a service, for which that of S3 reads a module anew at each request, twice.
    base_backend.BaseBackend.urls = property(_remembered_urls(base_backend.BaseBackend.urls.fget))
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
    if _is_any_of(type(node), self.nodes_to_be_processed()):
        node = self.process(node)
        node.parent = parent
        if parent:
            parent.children[child_id] = node
    return node


_is_any_of: Any = functools.cache(issubclass)


def _copy_of_node(node: Any, memo: dict[int, Any]) -> Any:
    memo[id(node)] = copied = object.__new__(type(node))
    copied.__dict__.update((name, copy.deepcopy(value, memo)) for name, value in node.__dict__.items())
    return copied


def _remembered_urls(find: Any) -> Any:
    known: dict[tuple[object, ...], Any] = {}

    def urls(self: Any) -> Any:
        key = (type(self), *map(os.environ.get, _NAMES_OF_URLS))
        if key not in known:
            known[key] = find(self)
        return known[key]

    return urls


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


class _DynamoRequest:
    """What `DynamoHandler` looks at in a request."""

    content_encoding, from_wsgi_server = None, False
    method, path, raw_path = "POST", "/", "/"

    def __init__(self, request: Any) -> None:
        self.raw_url, self.data = request.url, request.body
        self.headers = HeadersDict({name: _text(value) for name, value in request.headers.items()})
        self.headers["Host"] = request.url.split("/")[2]
        self.content_type = self.headers["Content-Type"]
        self.form: dict[str, str] = {}
        self.files: dict[str, Any] = {}
        self.values: dict[str, str] = {}


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


def _dynamodb_at_once(process: Any) -> Any:
    def process_request(self: Any, request: Any) -> Any:
        if not request.url.startswith("https://dynamodb."):
            return process(self, request)
        handler = DynamoHandler()
        handler.setup_class(_DynamoRequest(request), use_raw_body=True)
        return handler.call_action()

    return process_request
