"""The journal of a run: which steps have ended, with their findings, in a file that survives the process."""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from burstcache.core.errors import InvalidSettingError

_NAME = "state.json"


class Journal:
    """The steps of one run. Every change is on disk before the next step begins."""

    def __init__(self, folder: Path, content: dict[str, Any]) -> None:
        self.folder, self.content = folder, content

    @classmethod
    def open(cls, folder: Path, *, where: str, kinds: list[str], region: str, options: Mapping[str, Any]) -> Journal:
        """Return the folder's journal, or begin one.

        Raises:
            InvalidSettingError: The folder has a journal of a run elsewhere.
        """
        journal = cls.read(folder)
        if journal is None or journal.is_over:
            run = uuid.uuid4().hex[:6]
            content = {
                "run": run,
                "where": where,
                "region": region,
                "kinds": kinds,
                "began_s": time.time(),
                "steps": {},
            }
            journal = cls(folder, {**content, "options": dict(options)})
            journal.save()
        found = journal.content
        if (found["where"], found["region"]) != (where, region):
            raise InvalidSettingError(
                f"--folder {folder}: an unfinished run on {found['where']} in {found['region']} is there; continue it"
                " or end it with --delete"
            )
        return journal

    @classmethod
    def read(cls, folder: Path) -> Journal | None:
        """Return the folder's journal, or None if there is none."""
        try:
            return cls(folder, json.loads((folder / _NAME).read_text("utf-8")))
        except FileNotFoundError:
            return None

    @property
    def run(self) -> str:
        """The name of the run, also the value of its tag."""
        return str(self.content["run"])

    @property
    def kinds(self) -> list[str]:
        """The kinds of the run's stacks."""
        return list(self.content["kinds"])

    @property
    def is_over(self) -> bool:
        """Whether everything of this run is deleted, and proven to be."""
        return bool(self.found("proof").get("is_clean"))

    def stack_name(self, kind: str) -> str:
        """Return the name of a stack of this run."""
        return f"bc-evidence-{kind}-{self.run}"

    def found(self, step: str) -> dict[str, Any]:
        """Return a step's findings, or none if it has not ended or has failed."""
        return dict(self.content["steps"].get(step, {}).get("found", {}))

    def problem(self, step: str) -> str:
        """Return a step's error, or an empty string."""
        return str(self.content["steps"].get(step, {}).get("problem", ""))

    def has(self, step: str) -> bool:
        """Return whether a step has ended, with or without a problem."""
        return step in self.content["steps"]

    def run_step(self, step: str, work: Callable[[], Mapping[str, Any]]) -> bool:
        """Run a step unless it has ended. Record its findings or its error. Return whether it succeeded."""
        if not self.has(step):
            print(f"{time.strftime('%H:%M:%S')}  {step} ...", flush=True)
            began_s, entry = time.time(), dict[str, Any]()
            try:
                entry["found"] = dict(work())
            except Exception as error:  # an error is a finding, and the run goes on to the deletion
                entry["problem"] = f"{type(error).__name__}: {' '.join(str(error).split())}"[:500]
                print(f"          {entry['problem']}", flush=True)
            self.content["steps"][step] = {"began_s": began_s, "took_s": round(time.time() - began_s, 1), **entry}
            self.save()
        return not self.problem(step)

    def forget(self, step: str) -> None:
        """Let a step run again."""
        self.content["steps"].pop(step, None)

    def save(self) -> None:
        """Write the file atomically."""
        self.folder.mkdir(parents=True, exist_ok=True)
        scratch = self.folder / f"{_NAME}.{os.getpid()}"
        scratch.write_text(json.dumps(self.content, indent=1) + "\n", "utf-8")
        scratch.replace(self.folder / _NAME)
