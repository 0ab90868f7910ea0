"""Imports of a wrapped client: what every program pays for at its start."""

from __future__ import annotations

import subprocess
import sys

from support.project import ROOT

_PROGRAM = """
import boto3, sys
before = set(sys.modules)
import burstcache
burstcache.wrap
print(sorted({name.partition(".")[0] for name in set(sys.modules) - before} & {"asyncio", "fsspec", "nats", "redis"}))
"""


def test_wrap_imports_no_library_of_a_stack() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM],
        env={"PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout == "[]\n"


_LIST = """
import burstcache
from burstcache import client
print({*client.__all__} <= {*dir(client)}, "wrap" in dir(burstcache))
"""


def test_names_that_are_imported_at_first_use_are_listed() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _LIST],
        env={"PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout == "True True\n"
