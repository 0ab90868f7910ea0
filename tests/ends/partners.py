"""Resolve the library next to each partner: libraries that programs commonly install with it.

PYTHONPATH=tests python -m ends.partners [--python 3.11 3.13]
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

_ROOT = Path(__file__).parents[2]
_UV = Path(sys.executable).with_name("uv")
PARTNERS = (
    *("s3fs", "aioboto3", "mlflow", "pyiceberg[s3fs]", "dvc[s3]"),
    *("aws-lambda-powertools", "dask[complete]", "smart_open[s3]"),
)
_SHOWN = re.compile(r"^((?:boto3|redis|nats-py|cachetools|fsspec)==\S+)", re.MULTILINE)


def main() -> int:
    """Resolve with each partner for each Python; return the exit code."""
    parser = argparse.ArgumentParser("python -m ends.partners", description=(__doc__ or "").splitlines()[0])
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    parser.add_argument("--python", nargs="+", default=[own], metavar="VERSION", help=f"of Python (default: {own})")
    versions = parser.parse_args().python
    results = [_resolves(python, partner) for python in versions for partner in PARTNERS]
    print(f"partners: {sum(results)} resolved, {results.count(False)} failed")
    return int(not all(results))


def _resolves(python: str, partner: str) -> bool:
    """Resolve `burstcache[fsspec]` and one partner, print the versions and the time; return whether it succeeded."""
    with tempfile.TemporaryDirectory() as folder:
        wanted = Path(folder) / "requirements.in"
        wanted.write_text(f"burstcache[fsspec] @ {_ROOT.as_uri()}\n{partner}\n")
        began_s = time.monotonic()
        command = (_UV, "pip", "compile", "-q", "--no-header", "--no-annotate", "--python-version", python, wanted)
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    outcome = " ".join(_SHOWN.findall(done.stdout)) if done.returncode == 0 else f"FAILED\n{done.stderr}"
    print(f"Python {python}, {partner}: {time.monotonic() - began_s:.1f} s  {outcome}", flush=True)
    return done.returncode == 0


if __name__ == "__main__":
    sys.exit(main())
