"""Keep a database of state in a task: restore it, run the program that announces it, and save it before the end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SERVER_ID, RETRY_S, SAVE_WITHIN_S = 65534, 1, 100


def install(folder: Path, name: str, text: str) -> str:
    """Write a program for this one's interpreter, and return its path."""
    path = folder / name
    path.write_text(f"#!{sys.executable}\n{text}")
    path.chmod(0o700)
    return str(path)


def save(program: str) -> None:
    """Save the database, with retries for as long as the task may take to stop."""
    end_s = time.monotonic() + SAVE_WITHIN_S
    while (left_s := int(end_s - time.monotonic())) > 0:
        if subprocess.run([program, "save", "last"], env={**os.environ, "STATE_LIMIT_S": str(left_s)}).returncode == 0:
            return
        time.sleep(RETRY_S)
    print("the task ends without its last save", flush=True)


def main() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    data, own = Path(os.environ.get("STATE_VOLUME", "/state"), "redis"), Path(tempfile.mkdtemp())
    data.mkdir(mode=0o700, exist_ok=True)
    if os.geteuid() == 0:  # a task's volume belongs to root
        os.chown(data, SERVER_ID, SERVER_ID)
    node = install(own, "burstcache-node", os.environ.pop("NODE_PROGRAM"))
    password = os.environ.pop("REDIS_KEEPER_PASSWORD")
    restored, program, text = data / "restored", "", os.environ.pop("STATE_PROGRAM_TEXT", "")
    if text:
        program = os.environ["STATE_PROGRAM"] = install(own, "burstcache-state", text)
        (own / "password").touch(0o600)
        (own / "password").write_text(password)
        os.environ["STATE_HOLDER"] = "holder-" + os.environ["NODE"][len("state-") :]
        os.environ["STATE_KEEPER"], os.environ["STATE_MARK"] = str(own / "password"), str(restored)
        os.environ["STATE_DIR"], os.environ["STATE_SOCKET"] = str(data), str(data / "redis.sock")
    else:
        restored.touch()
    os.environ.setdefault("REDIS_HOST", "localhost")

    restoring = subprocess.Popen([program, "restore"]) if program else None
    announcing = subprocess.Popen([node])
    while announcing.poll() != 0 and signal.sigtimedwait([signal.SIGTERM], RETRY_S) is None:
        if announcing.poll():
            announcing = subprocess.Popen([node])
        if restoring and restoring.poll():
            restoring = subprocess.Popen([program, "restore"])
    if program and restored.exists():
        save(program)
    (data / "saved").touch()


if __name__ == "__main__":
    main()
