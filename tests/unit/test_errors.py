"""The module `burstcache.errors`: where programs import errors from."""

from __future__ import annotations

import re

import burstcache.errors
from burstcache.core import errors
from support.project import ROOT


def test_every_error_that_a_page_for_programs_names_can_be_imported() -> None:
    pages = " ".join((ROOT / f"docs/use/{page}.md").read_text() for page in ("client", "results", "state"))
    named = {name for name in re.findall(r"`(\w+Error)`", pages) if hasattr(errors, name)}

    assert len(named) > 8
    assert named <= set(burstcache.errors.__all__)


def test_the_errors_are_those_that_the_library_raises() -> None:
    assert all(getattr(burstcache.errors, name) is getattr(errors, name) for name in burstcache.errors.__all__)
