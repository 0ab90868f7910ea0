"""Functions whose code is not touched: Lambda's handlers, and those of Functions Framework."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import flask
import pytest
from awslambdaric.bootstrap import _get_handler
from functions_framework import create_app

import burstcache.results
from burstcache.core.errors import InvalidSettingError
from burstcache.results.backends import shared_cache

_APPLICATION = """
import flask

calls = []

def thumbnail(event, context):
    calls.append(event)
    return {"of": event["image"]}

def page(request):
    calls.append(request.path)
    status = request.args.get("status", "200")
    return flask.Response(f"{request.method} {request.get_json(silent=True)}", int(status), {"X-Kind": "page"})
"""


@pytest.fixture
def application(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Any]:
    (tmp_path / "app_of_a_test.py").write_text(_APPLICATION)
    (tmp_path / "results.json").write_text('{"key": "image"}')
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("LAMBDA_TASK_ROOT", str(tmp_path))
    monkeypatch.setenv("BURSTCACHE_RESULTS_FILE", "results.json")
    monkeypatch.setenv("BURSTCACHE_HANDLER", "app_of_a_test.thumbnail")
    monkeypatch.delitem(vars(burstcache.results), "handler", raising=False)
    shared_cache.cache_clear()  # the same code has the same keys, in whichever folder it stands
    yield importlib.import_module("app_of_a_test")
    del sys.modules["app_of_a_test"]
    vars(burstcache.results).pop("handler", None)


def test_a_handler_is_cached_by_the_property_that_the_file_names(application: Any) -> None:
    handler = burstcache.results.handler

    answers = [handler({"image": "a", "id": number}, None) for number in range(3)]

    assert answers == [{"of": "a"}] * 3
    assert application.calls == [{"image": "a", "id": 0}]
    assert burstcache.results.handler is handler


def test_lambdas_runtime_finds_the_handler(application: Any) -> None:
    handler = _get_handler("burstcache.results.handler")

    assert [handler({"image": "a"}, None) for _ in range(2)] == [{"of": "a"}] * 2
    assert len(application.calls) == 1


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("[]", "accepted: a JSON object with `key`"),
        ('{"ttl_s": 5}', "accepted: a JSON object with `key`"),
        ('{"key": "image", "ttl": 5}', "'ttl'; accepted: backend, codec.*did you mean ttl_s"),
        ('{"key": "image", "ttl_s": 0}', "ttl_s=0; accepted"),
        ("{", "cannot be read"),
    ],
)
def test_a_file_that_is_not_accepted_is_an_error_at_start(
    application: Any, tmp_path: Path, file: str, message: str
) -> None:
    (tmp_path / "results.json").write_text(file)

    with pytest.raises(InvalidSettingError, match=message):
        _ = burstcache.results.handler


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("BURSTCACHE_HANDLER", "", "accepted: module.function"),
        ("BURSTCACHE_HANDLER", "app_of_a_test.other", "app_of_a_test has no 'other'"),
        ("BURSTCACHE_RESULTS_FILE", "", "BURSTCACHE_RESULTS_FILE is not set"),
        ("BURSTCACHE_RESULTS_FILE", "none.json", "cannot be read"),
    ],
)
def test_a_variable_that_is_not_accepted_is_an_error_at_start(
    application: Any, monkeypatch: pytest.MonkeyPatch, variable: str, value: str, message: str
) -> None:
    monkeypatch.setenv(variable, value)

    with pytest.raises(InvalidSettingError, match=message):
        _ = burstcache.results.handler


@pytest.fixture
def client(application: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Any]:
    monkeypatch.setenv("BURSTCACHE_HANDLER", "app_of_a_test.page")
    source = tmp_path / "cached_app_of_a_test.py"
    source.write_text("from burstcache.results.functions_framework import function\n")
    app: flask.Flask = create_app("function", str(source))  # type: ignore[no-untyped-call]
    yield app.test_client()
    vars(sys.modules["burstcache.results.functions_framework"]).pop("function", None)


def test_an_http_function_is_cached_by_method_path_and_property(client: Any, application: Any) -> None:
    def post(path: str, image: str | None) -> tuple[int, str, str]:
        answer = client.post(path, json={"image": image, "other": len(application.calls)})
        return answer.status_code, answer.text[:4], answer.headers["X-Kind"]

    answers = [post(path, image) for path in ("/a", "/b") for image in ("x", "x", "y", None, None)]

    assert answers == [(200, "POST", "page")] * 10
    assert application.calls == [*["/a"] * 4, *["/b"] * 4]


def test_the_query_and_the_form_are_looked_into_without_json(client: Any, application: Any) -> None:
    for _ in range(2):
        client.get("/a?image=x")
        client.post("/a", data={"image": "x"})

    assert application.calls == ["/a"] * 2


def test_all_values_of_a_repeated_field_decide(client: Any, application: Any) -> None:
    for query, form in [("x", {}), ("x&image=y", {}), ("y", {"image": "z"}), ("x", {"image": "z"})] * 2:
        client.post(f"/a?image={query}", data=form)

    assert application.calls == ["/a"] * 4


@pytest.mark.parametrize("status", [206, 500])
def test_an_answer_that_is_no_whole_success_is_not_kept(client: Any, application: Any, status: int) -> None:
    answers = [client.get(f"/a?image=x&status={status}").status_code for _ in range(2)]

    assert answers == [status] * 2
    assert len(application.calls) == 2


def test_an_answer_that_sets_a_cookie_is_not_kept(client: Any, application: Any) -> None:
    def with_cookie(request: Any) -> flask.Response:
        application.calls.append(request.path)
        answer = flask.Response("hello")
        answer.set_cookie("session", "1")
        return answer

    application.page = with_cookie
    from burstcache.results.functions_framework import make_function

    app = flask.Flask(__name__)
    serve = make_function()
    app.add_url_rule("/a", view_func=lambda: serve(flask.request), endpoint="a")
    for _ in range(2):
        app.test_client().get("/a?image=x")

    assert application.calls == ["/a"] * 2


def test_a_file_names_no_codec_for_http(client: Any, tmp_path: Path) -> None:
    (tmp_path / "results.json").write_text(json.dumps({"key": "image", "codec": "json"}))
    from burstcache.results.functions_framework import make_function

    with pytest.raises(InvalidSettingError, match="answers over HTTP have one of their own"):
        make_function()


@pytest.mark.slow
def test_the_decorator_imports_no_library_that_its_places_do_not_need() -> None:
    code = "import sys; from burstcache.results import cached; cached()(lambda text: text)('a'); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=True).stdout.split()

    assert {"asyncio", "boto3", "botocore", "jmespath", "nats", "redis"} & set(loaded) == set()
