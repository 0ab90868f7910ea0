"""The imports that are measured are those of the functions that are deployed."""

from __future__ import annotations

from benchmarks.import_time import functions
from support.project import ROOT


def test_every_handler_is_measured_and_every_code_folder_has_requirements() -> None:
    known = functions()

    handlers = (ROOT / "src" / "burstcache" / "handlers").glob("[!_]*.py")
    expected = {f"burstcache.handlers.{path.stem}" for path in handlers} | {
        "custom_resources.credentials",
        "custom_resources.redis_tasks",
    }
    assert {function.module for function in known} == expected
    assert [each.code for each in known if not (ROOT / each.code / "requirements.txt").is_file()] == []
