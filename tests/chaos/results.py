"""The results of faults, a file each: another run resumes from them, and the evidence page shows them."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from chaos.code import code_of
from chaos.faults import FAULTS, Fault
from chaos.load import Outcome
from chaos.rate import TooSlowError
from chaos.run import POLICIES, Plan, Run, Turn

Rows = list[tuple[Fault, Run]]
_INTERRUPTED = 130  # the exit code


@dataclass(frozen=True, slots=True)
class Results:
    """A folder of results. Results of another plan are ignored, results of other code are marked as such."""

    folder: Path
    plan: Plan

    @classmethod
    def of_folder(cls, folder: Path) -> Results:
        """Return the results of the folder's last run.

        Raises:
            FileNotFoundError: The folder has no results.
        """
        return cls(folder, Plan(**json.loads(_plan(folder).read_text())))

    def begin(self) -> None:
        """Store the plan, for `of_folder`."""
        write(_plan(self.folder), json.dumps(asdict(self.plan)))

    def runs(self, fault: Fault) -> list[Run]:
        """Return the runs of a fault, one for each policy; empty: it has not run."""
        path = self._path(fault.name)
        found = json.loads(path.read_text()) if path.exists() else {}
        return [parsed(run) for run in found["runs"]] if found.get("plan") == asdict(self.plan) else []

    def of_turn(self, turn: Turn) -> list[Run]:
        """Return the runs of a turn; empty: it has not run."""
        return [run for run in self.runs(turn.fault) if run.policy in turn.policies]

    def are_current(self, turn: Turn) -> bool:
        """Return whether all runs of a turn are of the current code."""
        runs = self.of_turn(turn)
        return len(runs) == len(turn.policies) and all(run.code == code_of() for run in runs)

    def keep(self, fault: Fault, runs: Iterable[Run]) -> None:
        """Store runs of a fault next to its runs under other policies."""
        of_policies = {run.policy: run for run in (*self.runs(fault), *runs)}
        kept = [asdict(of_policies[policy]) for policy in POLICIES if policy in of_policies]
        write(self._path(fault.name), json.dumps({"plan": asdict(self.plan), "runs": kept}))

    def forget(self, names: Iterable[str]) -> None:
        """Delete the results of these faults."""
        for name in names:
            self._path(name).unlink(missing_ok=True)

    def rows(self) -> Rows:
        """Return the runs of all faults."""
        return [(fault, run) for fault in FAULTS for run in self.runs(fault)]

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.json"


def exit_code(work: Callable[[], int], *, program: str, if_interrupted: str) -> int:
    """Return the exit code of `work`; on an interruption or a machine that is too slow, print why."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return work()
    except TooSlowError as error:
        print(f"{program}: {error}; --reads-per-s sets a rate", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"{program}: interrupted; {if_interrupted}", file=sys.stderr)
        return _INTERRUPTED


def parsed(run: dict[str, Any]) -> Run:
    """Parse a run from its JSON."""
    return Run(**{**run, "outcomes": [Outcome(*each) for each in run["outcomes"]]})


def write(path: Path, text: str) -> None:
    """Replace a file atomically: an interruption leaves the old one."""
    partial = path.with_suffix(".partial")
    partial.write_text(text)
    os.replace(partial, path)


def _plan(folder: Path) -> Path:
    return folder / "plan.json"
