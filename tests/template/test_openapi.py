"""The OpenAPI document says of the front door what the template, the code and the page for people say."""

from __future__ import annotations

import json
import re
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from burstcache.web.front_door import Arrival
from burstcache.web.methods import WRITES
from burstcache.web.writing import read_write
from support.project import ROOT

_METHODS = {"get", "head", "put", "post", "delete", "patch", "options", "trace"}


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return yaml.safe_load((ROOT / "docs/use/openapi.yaml").read_text())  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def page() -> str:
    return (ROOT / "docs/use/http.md").read_text()


def test_the_document_is_one_of_openapi_3_1(document: dict[str, Any]) -> None:
    validator = distribution("openapi-spec-validator")  # whose own import takes a second
    schema = validator.locate_file("openapi_spec_validator/resources/schemas/v3.1/schema.json")

    Draft202012Validator(json.loads(Path(str(schema)).read_text())).validate(document)

    assert document["openapi"].startswith("3.1.")


@pytest.mark.slow
def test_what_it_refers_to_is_there_and_no_name_is_given_twice(document: dict[str, Any]) -> None:
    from openapi_spec_validator import validate

    validate(document)


def test_its_operations_are_the_routes_of_the_template(
    document: dict[str, Any], functions: dict[str, dict[str, Any]]
) -> None:
    doors = (functions[name]["Events"].values() for name in ("ProxyFunction", "WriterFunction"))
    events = [event["Properties"] for door in doors for event in door]
    routes = {(event["Path"].replace("{key+}", "{key}"), event["Method"]) for event in events}

    described = {
        (path, method.upper()) for path, item in document["paths"].items() for method in item.keys() & _METHODS
    }

    assert described == routes - {("$default", "ANY")}


def test_it_has_the_headers_of_ours_and_the_tiers_that_the_page_names(document: dict[str, Any], page: str) -> None:
    headers = document["components"]["headers"]

    named = dict(re.findall(r"`(X-Cache[\w-]*): ([\w|]+)`", page))

    assert {name: "|".join(headers[name]["schema"]["enum"]) for name in named} == named
    assert {name for name in headers if name.startswith("X-")} == set(re.findall(r"X-Cache(?:-\w+)*", page))


def test_it_names_each_reason_for_which_a_request_is_refused(document: dict[str, Any]) -> None:
    sources = "".join(path.read_text() for path in (ROOT / "src/burstcache/web").glob("*.py"))
    codes = set(re.findall(r'RefusedRequestError\(\s*400, "(\w+)"', sources)) - {"UnknownEvent"}

    description = document["components"]["responses"]["Refused"]["description"]

    assert codes
    assert {code for code in codes if code not in description} == set()


@pytest.mark.parametrize("method", WRITES)
def test_a_write_is_described_with_no_header_that_the_writer_refuses(document: dict[str, Any], method: str) -> None:
    for path in document["paths"].values():
        parameters = [*path["parameters"], *path[method.lower()]["parameters"]]
        described = [document["components"]["parameters"][each["$ref"].rpartition("/")[2]] for each in parameters]
        headers = {each["name"].lower(): "*" for each in described if each["in"] == "header"}

        assert headers
        read_write(Arrival(method, "/objects/a", (), headers, "1"), b"")


def test_the_page_leads_to_it(page: str) -> None:
    assert "](openapi.yaml)" in page
