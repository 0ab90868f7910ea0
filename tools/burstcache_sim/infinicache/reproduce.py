"""Functions that reproduce InfiniCache's evaluation as tables and pictures."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from burstcache_sim.infinicache import published
from burstcache_sim.infinicache.dallas import all_objects, large_objects
from burstcache_sim.infinicache.formulas import formulas_table
from burstcache_sim.infinicache.pictures import infinicache_pictures
from burstcache_sim.infinicache.replays import Replay, replay, replays_table
from burstcache_sim.output import made_folder, write_lines
from burstcache_sim.progress import progress


def reproduce(folder: Path) -> Iterator[str]:
    """Reproduce the parts that do not need the original trace. Every call writes identical files.

    Args:
        folder: Folder for `tables.md` and the pictures, created if missing.

    Yields:
        Lines to print: tables and file names.

    Raises:
        InvalidSettingError: The folder cannot be written.
    """
    made_folder("--out", folder)
    formulas = formulas_table()
    yield f"{formulas.text()}\n"
    replays = list(_replays())
    simulated = replays_table(replays)
    yield f"{simulated.text()}\n"
    write_lines("--out", str(folder / "tables.md"), [f"{formulas.markdown()}\n\n{simulated.markdown()}\n"])
    pictures = infinicache_pictures(replays, folder)
    yield f"{folder}: tables.md, {len(pictures)} pictures"


def _replays() -> Iterator[Replay]:
    traces = {True: large_objects(), False: all_objects()}
    zipf, poisson = published.LOW[1], published.LOW[0]
    work = [(setting, zipf) for setting in published.SETTINGS] + [(published.SETTINGS[1], poisson)]
    for setting, reclaims in progress(work, text="50 hours"):
        yield replay(setting, traces[setting.is_large_only], reclaims)
