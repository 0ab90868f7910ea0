"""Plugin of pytest that writes each outcome to a file as soon as it is known. It runs in the suite's environment.

A line is JSON: a test's id and, once the test has ended, its outcome and the reason of a failure. A test without an
outcome was running when its process ended.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from botocore.httpsession import URLLib3Session

_LONGEST_REASON = 300
_SOURCES: Counter[str] = Counter()  # values of x-cache


class Outcomes:
    """Recorder of one process's outcomes.

    Args:
        path: File to append to.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._outcome, self._reason = path, "passed", ""

    def pytest_collection_finish(self) -> None:
        """Replace the suite's set-up and teardown, which make ten clients for each test."""
        _Cleaning(sys.modules["s3tests.functional"])

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Note that a test begins."""
        self._outcome, self._reason = "passed", ""
        self._write({"id": nodeid})

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Keep the first phase that did not pass: set-up, call or teardown."""
        if report.passed or self._outcome != "passed":
            return
        is_call = report.when == "call"
        self._outcome = "skipped" if report.skipped else "failed" if is_call else f"failed in {report.when}"
        self._reason = _reason(report)

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        """Note how a test ended."""
        self._write({"id": nodeid, "outcome": self._outcome, "reason": self._reason})

    def pytest_sessionfinish(self) -> None:
        """Note how many responses were hits."""
        self._write({"hits": str(_SOURCES["hit"])})

    def _write(self, line: dict[str, str]) -> None:
        with self._path.open("a") as file:
            file.write(json.dumps(line) + "\n")


def pytest_configure(config: Any) -> None:
    """Register the recorder if a file is named."""
    if path := os.environ.get("S3TESTS_OUTCOMES"):
        config.pluginmanager.register(Outcomes(Path(path)))
    if os.environ.get("S3TESTS_PREFIX"):
        _read_twice()


def _read_twice() -> None:
    """Send each GET and HEAD twice, and answer with the second response, which a cache may hold."""
    send = URLLib3Session.send

    def send_again(self: Any, request: Any) -> Any:
        if request.method in ("GET", "HEAD"):
            response = send(self, request)
            assert response.content is not None  # read to the end
        response = send(self, request)
        _SOURCES[response.headers.get("x-cache", "")] += 1
        return response

    URLLib3Session.send = send_again  # type: ignore[method-assign]


class _Cleaning:
    """Set-up and teardown of each test. Its own prefix keeps it apart from buckets that another one could not remove.

    Args:
        suite: The suite's module that has both.
    """

    def __init__(self, suite: Any) -> None:
        self._suite = suite
        self._clients: list[Any] = []
        suite.setup, suite.teardown = self.set_up, self.tear_down

    def set_up(self) -> None:
        """Choose another prefix for buckets. With a fixed prefix, the first bucket of each test has the same name."""
        self._suite.configure()
        if self._suite.prefix == os.environ.get("S3TESTS_PREFIX"):
            self._suite.bucket_counter = itertools.count(1)

    def tear_down(self) -> None:
        """Remove the test's buckets as each user."""
        suite = self._suite
        self._clients = self._clients or [suite.get_client(), suite.get_alt_client(), suite.get_tenant_client()]
        for client in self._clients:
            suite.nuke_prefixed_buckets(prefix=suite.prefix, client=client)


def _reason(report: Any) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    text = crash.message if crash is not None else str(report.longrepr or "")
    return " ".join(text.split())[:_LONGEST_REASON]
