"""A Redis node's machine after its set-up, in a folder."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from burstcache.adapters.redis_connection import SERVER_NAME
from burstcache_local.machines.redis_binary import redis_binary
from custom_resources.certificate import issue_certificate
from support.project import ROOT
from support.waiting import LIMIT_S, free_port, wait_for_port

PASSWORDS = {"reader": "correctHorse", "control": "batteryStaple", "holder": "letMeIn", "keeper": "safeAndSound"}
SECRETS = {
    "redis/reader": PASSWORDS["reader"],
    "redis/control": PASSWORDS["control"],
    "redis/tls": issue_certificate(SERVER_NAME, now=datetime.now(UTC))[1],
    "state/holder": PASSWORDS["holder"],
    "state/keeper": PASSWORDS["keeper"],
    "state/program": "#!/usr/bin/python3",
    "state/volume": "#!/usr/bin/python3",
}
_STAND_INS = {
    "dnf": 'test "$1" = clean || test "$*" = "install -y e2fsprogs" ||'
    ' test "$*" = "install -y python3-boto3 amazon-ssm-agent $AVAILABLE"',
    "burstcache-secret": 'cat "$MACHINE/secrets/$1/$2"',
    "curl": 'case "$*" in *local-ipv4) echo 127.0.0.2 ;; *burstcache-node) echo "$NODE" ;;'
    ' *burstcache-state) test "$PERSISTENCE" || exit 22; echo "$PERSISTENCE" ;; *) echo token ;; esac',
    "systemctl": 'echo "$@" >> "$MACHINE/systemctl.log"',
    "dd": 'test "$2" = "of=$MACHINE/var/set-up-swap" && touch "$MACHINE/var/set-up-swap"',
    "mkswap": 'test -e "$1"',
    "swapon": 'echo "on $1" >> "$MACHINE/swap.log"',
    "swapoff": 'echo "off $1" >> "$MACHINE/swap.log"',
}


def user_data(resources: dict[str, Any]) -> str:
    """Return the user data that the template's instances run at their first boot."""
    return str(
        resources["RedisLaunchTemplate"]["Properties"]["LaunchTemplateData"]["UserData"]["Fn::Base64"]["Fn::Sub"]
    )


def set_up(
    machine: Path,
    service: str,
    *,
    node: str = "node-3",
    persistence: str = "",
    is_first_boot: bool = False,
    is_dual_stack: bool = True,
) -> None:
    """Run the set-up twice, since an interrupted one is run again.

    Args:
        machine: An empty folder.
        service: The only server package that can be installed.
        node: The name in the instance's tag. A database's begins with `state-`.
        persistence: Persistence of a database of state (none, rdb, aof). Empty: the instance cannot read it.
        is_first_boot: Whether this is the instance's first boot.
        is_dual_stack: Whether the network has IPv6.

    Raises:
        subprocess.CalledProcessError: The set-up failed.
    """
    folders = ("bin", "secrets/redis", "secrets/state", "usr/local/sbin", f"var/lib/{service}")
    for folder in (*folders, f"etc/{service}", "etc/systemd/system", "etc/amazon/ssm", "etc/sysctl.d", "run"):
        (machine / folder).mkdir(parents=True)
    (machine / f"etc/{service}/{service}.conf").write_text("port 6379\n")
    (machine / f"etc/{service}/{service}.conf").chmod(0o640)
    (machine / "etc/burstcache-node.env").touch()
    if is_first_boot:
        (machine / "run/burstcache-first-boot").touch()
    for name, secret in SECRETS.items():
        (machine / "secrets" / name).write_text(f"{secret}\n")
    for name, body in _STAND_INS.items():
        (machine / "bin" / name).write_text(f"#!/bin/bash\n{body}\n")
        (machine / "bin" / name).chmod(0o755)
    path = os.pathsep.join([str(machine / "bin"), str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {
        "PATH": path,
        "AVAILABLE": service,
        "MACHINE": str(machine),
        "NODE": node,
        "PERSISTENCE": persistence,
    }
    if is_dual_stack:
        environment["AWS_USE_DUALSTACK_ENDPOINT"] = "true"
    for _ in range(2):
        subprocess.run(["bash", "-c", _script(machine)], env=environment, check=True, timeout=LIMIT_S)


def _script(machine: Path) -> str:
    """Return the set-up script, with its paths moved into a folder."""
    script = (ROOT / "instance/set_up_redis.sh").read_text()
    return re.sub(r"(?<![\w/])/(etc|run/burstcache-first|usr/local|var)(?=[/-])", rf"{machine}/\1", script)


@contextmanager
def serving(machine: Path, service: str) -> Iterator[int]:
    """Run a real Redis with the configuration that the set-up wrote. Yield its port."""
    port = free_port()
    configuration = machine / f"etc/{service}/burstcache.conf"
    without_tls = re.sub(r"^tls-.*\n", "", configuration.read_text(), flags=re.MULTILINE)
    configuration.write_text(without_tls)  # the tests' Redis is built without TLS
    process = subprocess.Popen(
        [redis_binary(), f"etc/{service}/{service}.conf", "--port", str(port)], cwd=machine, stdout=subprocess.DEVNULL
    )
    try:
        wait_for_port(port, process)
        yield port
    finally:
        process.terminate()
        process.wait(LIMIT_S)
