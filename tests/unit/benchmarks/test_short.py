"""Short forms: every benchmark has one, and each ends with whatever it has started."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks import short
from benchmarks.short import SHORT, Short, main
from support.project import ROOT
from support.waiting import LIMIT_S

_FOLDER = ROOT / "benchmarks"
_HANGS = "import time; time.sleep(3600)"


def test_every_benchmark_has_a_short_form() -> None:
    modules = [path for path in _FOLDER.glob("*.py") if "__main__" in path.read_text()]
    runnable = {path.stem for path in modules} | {path.parent.name for path in _FOLDER.glob("*/__main__.py")}

    assert set(SHORT) == runnable - {"short"}


def test_every_benchmark_of_the_documents_exists() -> None:
    named = {
        name
        for path in ROOT.glob("docs/**/*.md")
        for name in re.findall(r"(?:python -m |`)benchmarks\.([a-z_]+)", path.read_text())
    }

    assert named <= {*SHORT, "short"}


def test_arguments_are_those_that_the_benchmark_has() -> None:
    """Check that the options exist. Running the benchmark checks their values."""
    for name, form in SHORT.items():
        path = _FOLDER / f"{name}.py"
        source = (path if path.exists() else _FOLDER / name / "__main__.py").read_text()
        for option in re.findall(r"--[a-z-]+", form.arguments):
            assert f'"{option}"' in source or "add_options" in source, f"{name} {option}"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "judges", "passed"),
    [
        ("print('done')", False, True),
        ("raise SystemExit(1)", False, False),
        ("raise SystemExit(1)", True, True),
        ("raise ValueError('broken')", True, False),
        (_HANGS, False, False),
    ],
)
def test_short_form_fails_unless_it_runs_to_its_end(
    program: str,
    judges: bool,
    passed: bool,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks" / "one.py").write_text(program)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(short, "SHORT", {"one": Short(judges=judges)})
    monkeypatch.setattr(short, "_LIMIT_S", 5 if program == _HANGS else LIMIT_S)

    assert main([]) == (0 if passed else 1)

    assert f"benchmarks: {int(passed)} passed, {int(not passed)} failed" in capfd.readouterr().out


def test_unknown_name_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["hit"])

    assert "hit: expected some of advice, advice_time, bulk_upload" in capsys.readouterr().err
