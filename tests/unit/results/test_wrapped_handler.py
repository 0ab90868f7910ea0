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

    with pytest.raises(InvalidSettingError, match="HTTP answers have their own codec"):
        make_function()


@pytest.mark.slow
def test_the_decorator_imports_no_library_that_its_places_do_not_need() -> None:
    code = "import sys; from burstcache.results import cached; cached()(lambda text: text)('a'); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=True).stdout.split()

    assert {"asyncio", "boto3", "botocore", "email", "jmespath", "nats", "redis"} & set(loaded) == set()


class Web:
    """An HTTP function whose answers have the fields that a test wants, and a client of it."""

    def __init__(self, client: Any, application: Any) -> None:
        self.client = client
        self.fields: dict[str, str] = {}
        self.status = 200
        self.calls = application.calls

        def page(request: Any) -> flask.Response:
            self.calls.append(request.method)
            answer = flask.Response(f"answer {len(self.calls)}", self.status)
            answer.headers.update(self.fields)
            return answer

        application.page = page

    def ask(self, method: str = "GET", **headers: str) -> Any:
        fields = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.client.open("/a?image=x", method=method, headers=fields)

    def texts(self, *requests: dict[str, str]) -> list[str]:
        return [self.ask(**fields).text for fields in requests]


@pytest.fixture
def served(client: Any, application: Any) -> Web:
    from burstcache.results import functions_framework

    served, app = Web(client, application), flask.Flask(__name__)
    serve = functions_framework.make_function()
    methods = ["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"]
    app.add_url_rule("/a", view_func=lambda: serve(flask.request), methods=methods, provide_automatic_options=False)
    served.client = app.test_client()
    return served


@pytest.mark.parametrize("field", ["no-store", "private", "no-cache", 'no-cache="X-Kind"', "max-age=0", "max-age=x"])
def test_an_answer_that_forbids_it_is_given_to_nobody_else(served: Web, field: str) -> None:
    served.fields = {"CACHE-control": field}

    assert served.texts({}, {}) == ["answer 1", "answer 2"]


def test_an_answer_to_one_who_is_authorized_is_kept_only_if_it_says_so(served: Web) -> None:
    assert served.texts({"Authorization": "alice"}, {"Authorization": "bob"}) == ["answer 1", "answer 2"]

    served.fields = {"Cache-Control": "public"}
    assert served.texts({"Authorization": "alice"}, {"Authorization": "bob"}, {}) == ["answer 3"] * 3


def test_answers_that_vary_go_to_requests_that_agree(served: Web) -> None:
    served.fields = {"Vary": "Accept-Language"}

    texts = served.texts(*[{"Accept-Language": each} for each in ("de", "fr", "de", "fr")], {}, {})

    assert texts == ["answer 1", "answer 2", "answer 1", "answer 2", "answer 3", "answer 3"]


def test_an_encoded_answer_goes_to_requests_that_accept_the_same_encodings(served: Web) -> None:
    served.fields = {"Content-Encoding": "gzip"}

    texts = served.texts({"Accept-Encoding": "gzip"}, {"Accept-Encoding": "identity"}, {"Accept-Encoding": "gzip"})

    assert texts == ["answer 1", "answer 2", "answer 1"]


@pytest.mark.parametrize(
    ("fields", "texts"),
    [
        ({}, ["answer 1", "answer 1"]),
        ({"Cache-Control": "no-cache"}, ["answer 2", "answer 2"]),
        ({"Pragma": "no-cache"}, ["answer 2", "answer 2"]),
        ({"Cache-Control": "max-age=0"}, ["answer 2", "answer 2"]),
        ({"Cache-Control": "no-store"}, ["answer 2", "answer 1"]),
        ({"Cache-Control": "max-age=60"}, ["answer 1", "answer 1"]),
        ({"Cache-Control": "min-fresh=400"}, ["answer 2", "answer 2"]),
        ({"Cache-Control": "only-if-cached"}, ["answer 1", "answer 1"]),
        ({"Range": "bytes=0-1"}, ["answer 2", "answer 1"]),
        ({"If-Match": '"a"'}, ["answer 2", "answer 1"]),
    ],
)
def test_a_request_gets_what_it_wants(served: Web, fields: dict[str, str], texts: list[str]) -> None:
    served.ask()

    assert served.texts(fields, {}) == texts


def test_a_request_for_what_is_kept_alone_is_not_computed(served: Web) -> None:
    assert served.ask(Cache_Control="only-if-cached").status_code == 504
    assert served.calls == []


def test_an_answer_from_the_cache_has_its_age(served: Web) -> None:
    served.fields = {"Age": "7", "Cache-Control": "max-age=60"}

    first, second = served.ask(), served.ask()

    assert (first.text, first.headers["Age"]) == (second.text, second.headers["Age"]) == ("answer 1", "7")
    assert served.texts({"Cache-Control": "max-age=6"}) == ["answer 2"]


@pytest.mark.parametrize(("stated", "age"), [("7, 9", "9"), (" 7", "7"), ("9,\t7", "9")])
def test_an_age_of_several_caches_is_the_greatest(served: Web, stated: str, age: str) -> None:
    served.fields = {"Age": stated}
    served.ask()

    answer = served.ask()

    assert (answer.status_code, answer.text, answer.headers["Age"]) == (200, "answer 1", age)


def test_a_condition_is_answered_from_the_cache(served: Web) -> None:
    served.fields = {"ETag": '"v1"'}

    answers = [served.ask(), served.ask(If_None_Match='"v1"'), served.ask(If_None_Match='"v2"')]

    assert [(each.status_code, each.text) for each in answers] == [(200, "answer 1"), (304, ""), (200, "answer 1")]


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH"])
def test_a_write_is_never_kept_and_ends_what_is(served: Web, method: str) -> None:
    served.texts({}, {})

    served.ask(method), served.ask(method)

    assert served.calls == ["GET", method, method]
    assert served.texts({}) == ["answer 4"]


def test_a_write_that_fails_ends_nothing(served: Web) -> None:
    served.ask()
    served.status = 409
    served.ask("PUT")

    assert served.texts({}) == ["answer 1"]


def test_head_and_get_have_answers_of_their_own(served: Web) -> None:
    answers = [served.ask(method) for method in ("HEAD", "GET", "HEAD", "GET")]

    assert served.calls == ["HEAD", "GET"]
    assert [each.headers["Content-Length"] for each in answers] == ["8"] * 4


def test_an_answer_whose_length_is_another_than_it_says_is_not_kept(served: Web) -> None:
    served.fields = {"Content-Length": "999"}
    served.ask("HEAD"), served.ask("HEAD")

    assert served.calls == ["HEAD"] * 2


def test_fields_of_the_connection_are_not_kept(served: Web) -> None:
    served.fields = {"Connection": "X-Hop", "X-Hop": "1", "Keep-Alive": "timeout=5", "X-Kind": "page"}

    _, second = served.ask(), served.ask()

    assert {"X-Hop", "Keep-Alive", "Connection"} & set(second.headers.keys()) == set()
    assert (second.text, second.headers["X-Kind"]) == ("answer 1", "page")


def test_a_streamed_answer_is_not_kept(served: Web, application: Any) -> None:
    def page(request: Any) -> flask.Response:
        application.calls.append(1)
        return flask.Response(iter(["a", "b"]))

    application.page = page
    from burstcache.results import functions_framework

    serve = functions_framework.make_function()
    with flask.Flask(__name__).test_request_context("/a?image=x"):
        answers = [serve(flask.request).get_data() for _ in range(2)]

    assert (answers, application.calls) == ([b"ab"] * 2, [1, 1])
