"""The results of faults, a file each: what another run goes on from, and what the evidence is made of."""

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
    """A folder of results. Those that were got by another plan count as none, those of other code as such."""

    folder: Path
    plan: Plan

    @classmethod
    def of_folder(cls, folder: Path) -> Results:
        """Return the results that were last added to.

        Raises:
            FileNotFoundError: There are none.
        """
        return cls(folder, Plan(**json.loads(_plan(folder).read_text())))

    def begin(self) -> None:
        """Have `of_folder` find these results."""
        write(_plan(self.folder), json.dumps(asdict(self.plan)))

    def runs(self, fault: Fault) -> list[Run]:
        """Return what came of a fault under each policy; empty: it has not been done."""
        path = self._path(fault.name)
        found = json.loads(path.read_text()) if path.exists() else {}
        return [parsed(run) for run in found["runs"]] if found.get("plan") == asdict(self.plan) else []

    def of_turn(self, turn: Turn) -> list[Run]:
        """Return what came of a turn; empty: it has not been done."""
        return [run for run in self.runs(turn.fault) if run.policy in turn.policies]

    def are_current(self, turn: Turn) -> bool:
        """Whether a turn has been done, and to the code as it is."""
        runs = self.of_turn(turn)
        return len(runs) == len(turn.policies) and all(run.code == code_of() for run in runs)

    def keep(self, fault: Fault, runs: Iterable[Run]) -> None:
        """Keep what came of a fault, and what had come of it under other policies."""
        of_policies = {run.policy: run for run in (*self.runs(fault), *runs)}
        kept = [asdict(of_policies[policy]) for policy in POLICIES if policy in of_policies]
        write(self._path(fault.name), json.dumps({"plan": asdict(self.plan), "runs": kept}))

    def forget(self, names: Iterable[str]) -> None:
        """Forget what came of these faults."""
        for name in names:
            self._path(name).unlink(missing_ok=True)

    def rows(self) -> Rows:
        """Return what came of all faults that were done."""
        return [(fault, run) for fault in FAULTS for run in self.runs(fault)]

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.json"


def exit_code(work: Callable[[], int], *, program: str, if_interrupted: str) -> int:
    """Return what `work` returns, or the exit code of an interruption or too slow a machine, with a line of why."""
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
    """Return a run as a file has it."""
    return Run(**{**run, "outcomes": [Outcome(*each) for each in run["outcomes"]]})


def write(path: Path, text: str) -> None:
    """Write a file as a whole: an interruption leaves the former one."""
    partial = path.with_suffix(".partial")
    partial.write_text(text)
    os.replace(partial, path)


def _plan(folder: Path) -> Path:
    return folder / "plan.json"
