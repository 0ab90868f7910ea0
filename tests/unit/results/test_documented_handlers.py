"""The handlers of docs/use/results.md run as they are written, with Powertools, DynamoDB and pandas."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Iterator
from decimal import Decimal
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock, MagicMock

import boto3
import pytest
from aws_lambda_powertools.event_handler import APIGatewayRestResolver
from aws_lambda_powertools.utilities.data_classes import APIGatewayProxyEvent, event_source
from awslambdaric.lambda_runtime_marshaller import to_json
from moto import mock_aws

from burstcache.results import cached, open_cache
from burstcache.results.backends import shared_cache
from support.project import ROOT

pytestmark = pytest.mark.slow

_PAGE = (ROOT / "docs/use/results.md").read_text()
CONTEXT: Any = SimpleNamespace(
    function_name="f",
    memory_limit_in_mb=128,
    invoked_function_arn="arn:aws:lambda:us-east-1:1:function:f",
    aws_request_id="1",
)


@pytest.fixture(autouse=True)
def _memory(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    monkeypatch.delenv("BURSTCACHE_RESULTS", raising=False)
    shared_cache.cache_clear()
    yield
    shared_cache.cache_clear()
    sys.modules.pop("documented", None)


def documented(text: str) -> Any:
    """Return a module that is the block of code of the page in which a text occurs."""
    (block,) = [each for each in re.findall(r"```python\n(.*?)```", _PAGE, re.DOTALL) if text in each]
    module = ModuleType("documented")
    sys.modules["documented"] = module
    exec(compile(block, "documented", "exec"), vars(module))
    return module


def rest(method: str, path: str, **query: str) -> dict[str, Any]:
    return {
        "httpMethod": method, "path": path, "resource": "/{proxy+}", "body": None, "isBase64Encoded": False,
        "headers": {}, "multiValueHeaders": {}, "queryStringParameters": query, "requestContext": {"path": path},
        "multiValueQueryStringParameters": {name: [value] for name, value in query.items()}, "pathParameters": {},
    }  # fmt: skip


def http(method: str, path: str, caller: str | None) -> dict[str, Any]:
    context: dict[str, Any] = {"http": {"method": method, "path": path}, "stage": "$default"}
    if caller is not None:
        context["authorizer"] = {"jwt": {"claims": {"sub": caller}, "scopes": []}}
    return {
        "version": "2.0", "rawPath": path, "rawQueryString": "", "headers": {}, "isBase64Encoded": False,
        "requestContext": context,
    }  # fmt: skip


def test_a_rest_api_is_cached_by_path_and_query_for_get_alone() -> None:
    handler = documented("APIGatewayRestResolver").handler

    def body(*arguments: Any, **query: str) -> str:
        text: str = handler(rest(*arguments, **query), CONTEXT)["body"]
        return text

    for _ in range(2):
        assert body("GET", "/products/tea") == '{"name":"tea","page":"1"}'
        assert body("GET", "/products/tea", page="2") == '{"name":"tea","page":"2"}'
        assert body("POST", "/products/tea") == '{"renamed":"tea"}'
        assert handler(rest("GET", "/none"), CONTEXT)["statusCode"] == 404

    stats = handler.results.stats()
    assert {**stats, "not_kept": sum(stats["not_kept"].values())} == {
        "computed": 4, "memory": 2, "bypassed": 2, "not_kept": 2,
    }  # fmt: skip


def test_a_rest_api_answers_from_the_cache_as_it_did_at_first() -> None:
    handler = documented("APIGatewayRestResolver").handler

    answers = [handler(rest("GET", "/products/tea"), CONTEXT) for _ in range(2)]

    assert answers[0] == answers[1]
    assert [to_json(each) for each in answers] == [to_json(answers[0])] * 2


def test_an_http_api_is_cached_for_each_caller() -> None:
    handler = documented("APIGatewayHttpResolver").handler

    for _ in range(2):
        for caller in ("alice", "bob"):
            assert handler(http("GET", "/orders", caller), CONTEXT)["body"] == f'{{"of":"{caller}"}}'
        assert handler(http("GET", "/orders/7", "alice"), CONTEXT)["statusCode"] == 404
        assert handler(http("GET", "/now", "alice"), CONTEXT)["body"] == "now"

    stats = handler.results.stats()
    reasons = {reason.partition(":")[0]: number for reason, number in stats.pop("not_kept").items()}
    assert stats == {"computed": 6, "memory": 2}
    assert reasons == {"status 404": 2, "Cache-Control": 2}


def test_a_data_class_of_an_event_is_looked_into() -> None:
    calls = []

    @event_source(data_class=APIGatewayProxyEvent)
    @cached(key="path", backend=open_cache("memory://"))
    def handler(event: APIGatewayProxyEvent, context: object) -> dict[str, Any]:
        calls.append(event.path)
        return {"statusCode": 200, "headers": {"Vary": "Accept"}, "body": event.headers.get("accept")}

    bodies = [handler({**rest("GET", "/a"), "headers": {"Accept": each}}, CONTEXT)["body"] for each in ("a", "b", "a")]

    assert (bodies, calls) == (["a", "b", "a"], ["/a", "/a"])


def test_an_item_of_dynamodb_comes_back_with_its_decimals() -> None:
    with mock_aws():
        boto3.client("dynamodb").create_table(
            TableName="products",
            BillingMode="PAY_PER_REQUEST",
            KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
        )
        module = documented('Table("products")')
        item = {
            "id": "tea", "price": Decimal("1.15"), "sizes": {Decimal(1), Decimal(2)}, "raw": b"\x00",
            "tags": ["a", None],
        }  # fmt: skip
        module.table.put_item(Item=item)

        found = [module.handler({"id": "tea"}, CONTEXT) for _ in range(3)]
        absent = [module.handler({"id": "none"}, CONTEXT) for _ in range(2)]

    assert found[0] == found[1] == found[2]
    assert repr(found[1]["price"]) == "Decimal('1.15')"
    assert absent == [None, None]
    assert module.handler.results.stats() == {"computed": 2, "memory": 3}


def test_a_handler_and_an_awaited_function_are_computed_once() -> None:
    module = documented("async def thumbnail(")
    response = AsyncMock()
    response.read.return_value = b"image"
    session = MagicMock()
    session.get.return_value.__aenter__.return_value = response

    async def ask() -> list[bytes]:
        return [await module.thumbnail(session, "sunset.png", 64) for _ in range(2)]

    assert [module.handler({"image": {"name": "sunset.png"}}, CONTEXT) for _ in range(2)] == [
        {"thumbnail": "sunset-small.png"}
    ] * 2
    assert asyncio.run(ask()) == [b"image"] * 2
    session.get.assert_called_once_with("https://images.example.com/sunset.png?width=64")


def test_a_method_forgets_a_result_of_its_instance() -> None:
    shop = documented("class Shop").shop

    assert shop.product("tea") == {"id": "tea", "table": "products"}
    assert shop.product.results.stats() == {"computed": 2}


def test_a_route_of_its_own_is_cached_below_the_decorator_of_powertools() -> None:
    app, calls = APIGatewayRestResolver(), []

    @app.get("/products/<name>")
    @cached(backend=open_cache("memory://"))
    def product(name: str) -> dict[str, str]:
        calls.append(name)
        return {"name": name}

    bodies = [app.resolve(rest("GET", f"/products/{name}"), CONTEXT)["body"] for name in ("tea", "milk", "tea")]

    assert bodies == ['{"name":"tea"}', '{"name":"milk"}', '{"name":"tea"}']
    assert calls == ["tea", "milk"]


def test_a_codec_of_ones_own_keeps_a_data_frame() -> None:
    report = documented("Codec(").report

    frames = [report("monday") for _ in range(2)]

    assert frames[0].equals(frames[1])
    assert report.results.stats() == {"computed": 1, "memory": 1}
