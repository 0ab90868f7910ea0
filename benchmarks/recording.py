"""Record a terminal during a burst in a local run, and render it as an animated SVG: docs/images/burst.svg.

    python -m benchmarks.recording docs/images/burst.svg

Everything shown is typed into a real shell and printed by real commands. The recording cuts idle time to 0.4 s.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path

_COLUMNS, _ROWS, _IDLE_S, _LAST_MS = 98, 24, 0.4, 8_000
_BIN = Path(sys.executable).parent
_ROOT = Path(__file__).parents[1]
_LOOP = "for i in $(seq 50); do curl -so /dev/null -D - $url | grep -i x-cache-tier; sleep 0.5; done"
_PORT = 8080


def main(image: Path) -> None:
    """Record the session and render it."""
    with tempfile.TemporaryDirectory() as folder:
        cast = Path(folder, "burst.cast")
        session = shlex.join([sys.executable, "-m", "benchmarks.recording", "--play", folder])
        size = (f"--cols={_COLUMNS}", f"--rows={_ROWS}")
        _run("asciinema", "rec", "--quiet", f"--idle-time-limit={_IDLE_S}", "--command", session, *size, str(cast))
        _run("termtosvg", "render", str(cast), str(image), "--template=window_frame", f"--loop-delay={_LAST_MS}")


def _run(*command: str) -> None:
    """Run a tool of the locked environment, which uv keeps in its cache."""
    uv = (_BIN / "uv", "run", "--quiet", "--no-project", "--with-requirements", _ROOT / "benchmarks/recording.lock")
    subprocess.run([*uv, *command], check=True, cwd=_ROOT)


def play(folder: Path) -> None:
    """Type the commands of a first look into a shell, in an empty folder."""
    run = subprocess.Popen(
        [_BIN / "burstcache", "local", "up", "--port", str(_PORT), "--endpoint-port", "0"],
        cwd=folder,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        _type("make run")
        assert run.stdout is not None
        for line in run.stdout:
            if line.startswith("Try"):
                break
            print(line, end="", flush=True)
        _type("url=http://127.0.0.1:8080/objects/hello.txt    # in a second terminal")
        for command in (_LOOP, "burstcache keys", "burstcache explain hello.txt"):
            _type(command)
            script = f"export PATH={_BIN}:$PATH url=http://127.0.0.1:{_PORT}/objects/hello.txt; {command}"
            subprocess.run(["bash", "-c", script], cwd=folder, check=True)
    finally:
        run.terminate()
        run.wait()


def _type(command: str) -> None:
    print("\033[32m$\033[0m ", end="", flush=True)
    for letter in command:
        print(letter, end="", flush=True)
        time.sleep(0.02)
    time.sleep(0.3)
    print(flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "--play":
        play(Path(sys.argv[2]))
    else:
        main(Path(sys.argv[1]).resolve())
