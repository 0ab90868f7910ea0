"""The notebook, run from its first cell to its last, but for the installation."""

from __future__ import annotations

import os
import re

import nbformat
import pytest
from nbclient import NotebookClient

from support.project import ROOT
from support.waiting import LIMIT_S

pytestmark = pytest.mark.slow

_FOLDER = ROOT / "examples/notebook"


def test_the_notebook_reads_from_memory_and_ends_in_a_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{ROOT / '.venv/bin'}{os.pathsep}{os.environ['PATH']}")
    notebook = nbformat.read(  # type: ignore[no-untyped-call]
        _FOLDER / "burst.ipynb", as_version=4
    )
    notebook.cells = [cell for cell in notebook.cells if "install" not in cell.metadata.get("tags", [])]

    NotebookClient(notebook, timeout=LIMIT_S, resources={"metadata": {"path": _FOLDER}}).execute()

    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    printed = [line for output in outputs if output.output_type == "stream" for line in output.text.splitlines()]
    tiers = [line.split()[0] for line in printed if line.endswith(" ms") and " in " not in line]
    assert tiers == ["s3", "memory", "memory"]
    assert len([line for line in printed if re.match(r"(499|500),\d{3} in ", line)]) == 2
    assert any(line.startswith("DEPLOY") for line in printed)
    assert any("image/png" in output.get("data", {}) for output in outputs)
