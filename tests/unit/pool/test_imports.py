"""Imports of a member: only the contents of its function's package, without codecs or certificate issuing."""

from __future__ import annotations

import subprocess
import sys

from support.project import ROOT

_NOT_PACKAGED = ("cffi", "pyeclib", "cryptography", "uvloop")
_PROGRAM = """
import sys
for name in {names!r}:
    sys.modules[name] = None
import burstcache.handlers.pool_member, burstcache.pool.hub
"""


def test_members_and_hubs_do_without_the_libraries_of_readers() -> None:
    program = _PROGRAM.format(names=_NOT_PACKAGED)

    done = subprocess.run([sys.executable, "-c", program], env={"PYTHONPATH": str(ROOT / "src")}, capture_output=True)

    assert done.stderr == b""
