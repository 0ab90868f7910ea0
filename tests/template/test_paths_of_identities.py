"""An AWS identity's own policy keeps it below a prefix: no path that IAM lets through names another key."""

from __future__ import annotations

from contextlib import suppress
from typing import Any
from urllib.parse import unquote

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from burstcache.core.errors import RefusedRequestError
from burstcache.web.front_door import arrival
from burstcache.web.reading import read_request
from burstcache_local.front.http_events import HttpRequest, Route, http_api_event
from burstcache_local.iam.policies import Need, granting
from support.project import ROOT

_API = "arn:aws:execute-api:eu-central-1:123456789012:api"
_RESOURCE = f"{_API}/$default/GET/objects/teams/${{aws:PrincipalTag/team}}/*"


def is_let_through(path: str, team: str) -> bool:
    """Return whether IAM permits a path, sent or decoded, as AWS does not say which of them it compares."""
    policy: Any = {"Statement": [{"Effect": "Allow", "Action": "execute-api:Invoke", "Resource": _RESOURCE}]}
    context = {"aws:PrincipalTag/team": (team,)}
    paths = {path, unquote(path, errors="replace")}
    return any(granting([policy], Need("execute-api:Invoke", f"{_API}/$default/GET{each}", context)) for each in paths)


def named_key(path: str, query: str) -> str:
    request = HttpRequest("GET", path, query, (), b"", "127.0.0.1")
    event = http_api_event(request, Route("$default", "proxy"), {}, api_id="api")
    event["requestContext"]["authorizer"] = {"iam": {"userArn": "arn:aws:iam::123456789012:user/one"}}
    return read_request(arrival(event), request_id="1", at_us=0).key


@pytest.mark.parametrize(
    ("path", "is_let"),
    [
        ("/objects/teams/red/x", True),
        ("/objects/teams/red/a/b%20c", True),
        ("/objects/teams/blue/x", False),
        ("/objects/teams/redder/x", False),
        ("/objects", False),
        ("/objects/", False),
        ("/objects/teams/%72ed/x", True),
    ],
)
def test_a_team_asks_for_its_paths_alone(path: str, is_let: bool) -> None:
    assert is_let_through(path, "red") == is_let


_PIECES = st.sampled_from(
    ["teams", "red", "blue", "/", "//", "..", ".", "%2e%2e", "%2f", "%252f", "%3f", "?", "*", "ü", "%ff"]
)


@given(st.lists(_PIECES, max_size=10).map("".join), st.sampled_from(["", "key=teams/blue/x", "key="]))
@example("teams/red/..%2fblue/x", "")
@example("teams/red/x", "key=teams/blue/x")
@example("teams/red%2f%2e%2e/blue/x", "")
def test_what_is_let_through_names_a_key_of_the_team(path: str, query: str) -> None:
    path = f"/objects/{path}"
    if is_let_through(path, "red"):
        with suppress(RefusedRequestError):
            assert named_key(path, query).startswith("teams/red/")


def test_the_policy_is_the_one_of_the_documents() -> None:
    page = (ROOT / "docs/use/http.md").read_text()

    assert _RESOURCE.replace(_API, "arn:aws:execute-api:REGION:ACCOUNT:API") in page
