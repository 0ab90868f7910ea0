"""Install the library with the oldest and the newest versions that its ranges accept, and run a program with each.

    PYTHONPATH=tests python -m ends [--python 3.11 3.13]

Each environment is fresh and has nothing of the project but the library and its extra `fsspec`. S3 is moto's server.
"""

from __future__ import annotations

import argparse
import logging
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from moto.server import ThreadedMotoServer

_ROOT = Path(__file__).parents[2]
_PROGRAM = Path(__file__).with_name("program.py")
_ENDS = {"oldest": "lowest-direct", "newest": "highest"}
_SHOWN = ("boto3", "redis", "nats-py", "cachetools", "fsspec")
_UV = Path(sys.executable).with_name("uv")


def main() -> int:
    """Run the program at both ends with each Python; return the exit code."""
    parser = argparse.ArgumentParser("python -m ends", description=__doc__.splitlines()[0])
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    parser.add_argument("--python", nargs="+", default=[own], metavar="VERSION", help=f"of Python (default: {own})")
    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # a line for each request
    failed = 0
    versions = parser.parse_args().python
    for python in versions:
        for end, resolution in _ENDS.items():
            with tempfile.TemporaryDirectory() as folder:
                try:
                    failed += not _runs(Path(folder), python, end, resolution)
                except subprocess.CalledProcessError as problem:  # uv has said why
                    print(f"Python {python}, {end}: FAILED, {problem.cmd[1]} did not end well", flush=True)
                    failed += 1
    print(f"ends: {len(_ENDS) * len(versions) - failed} passed, {failed} failed")
    return int(failed > 0)


def _runs(folder: Path, python: str, end: str, resolution: str) -> bool:
    """Install one end and run the program; return whether it came to its end."""
    interpreter = folder / "bin" / "python"
    subprocess.run([_UV, "venv", "-q", "--python", python, folder], check=True)
    install = [str(_UV), "pip", "install", "-q", "--python", str(interpreter), "--resolution", resolution]
    subprocess.run([*install, f"{_ROOT}[fsspec]"], check=True)
    listed = subprocess.run(
        [_UV, "pip", "freeze", "--python", interpreter], check=True, capture_output=True, text=True
    ).stdout
    versions = [line for line in listed.splitlines() if line.partition("==")[0] in _SHOWN]
    s3 = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    s3.start()
    try:
        host, port = s3.get_host_and_port()
        ran = subprocess.run([interpreter, _PROGRAM], env=_environment(f"http://{host}:{port}"), cwd=folder)
    finally:
        s3.stop()
    print(f"Python {python}, {end}: {'ok' if ran.returncode == 0 else 'FAILED'}  {' '.join(versions)}", flush=True)
    return ran.returncode == 0


def _environment(endpoint_url: str) -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "AWS_ENDPOINT_URL": endpoint_url,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
        "PYTHONWARNINGS": "error::DeprecationWarning:burstcache",
    }


if __name__ == "__main__":
    sys.exit(main())
