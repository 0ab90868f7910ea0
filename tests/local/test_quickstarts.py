"""The quickstarts, typed from the first block to the last in an environment that has nothing."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.support.quickstarts import bucket, commands, on_free_ports
from local.test_installation import tracked
from support.project import ROOT
from support.waiting import LIMIT_S, free_port

pytestmark = pytest.mark.slow

_UV = Path(sys.executable).with_name("uv")
# `make setup` has filled uv's cache, so most packages need no network.
_PRELUDE = f"""set -eo pipefail
trap 'kill $(jobs -p) 2>/dev/null || true' EXIT
pip() {{ shift; {_UV} pip install -q --offline "$@" 2>/dev/null || {_UV} pip install -q "$@"; }}
"""


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that holds a clone called `burstcache`, as the pages expect."""
    folder = tmp_path_factory.mktemp("quickstarts")
    packages = ("pyproject.toml", "README.md", "LICENSE", "src", "tools")
    stack = ("template.yaml", "statemachines", "cloudformation", "instance")
    for name in tracked(*packages, *stack, "examples/logs"):
        (folder / "burstcache" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / "burstcache" / name)
    return folder


@pytest.fixture(scope="module", name="bucket")
def _bucket() -> Iterator[dict[str, str]]:
    with bucket() as variables:
        yield variables


def typed(page: str, folder: Path, variables: dict[str, str]) -> str:
    """Type a page's blocks into one shell, in order; return what it prints."""
    port = free_port()
    script = _PRELUDE + "".join(on_free_ports(port, block) for block in commands(page))
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), **variables}
    environment |= {name: os.environ[name] for name in ("UV_CACHE_DIR", "SSL_CERT_FILE") if name in os.environ}
    done = subprocess.run(
        ["bash"], input=script, cwd=folder, env=environment, capture_output=True, text=True, timeout=LIMIT_S
    )

    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_reader_gets_bytes_from_memory_files_and_the_gateway(clone: Path, bucket: dict[str, str]) -> None:
    printed = typed("read.md", clone, bucket)

    assert printed.splitlines()[:3] == ["b'Hello' s3", "b'Hello' memory", "b'Hello' memory"]
    assert re.search(r"^amount +5\.5$", printed, re.MULTILINE)
    assert printed.endswith("ok\nb'Hello'\n")


def test_a_function_is_called_once_and_a_database_keeps_state(clone: Path, bucket: dict[str, str]) -> None:
    printed = typed("results.md", clone, bucket)

    assert printed.count("computing") == 1
    assert "{'statusCode': 200, 'body': 'SUNSET'}\n25\n" in printed
    assert "\norder 1\norder 2\n" in printed
    assert printed.endswith("Ended.\n")


def test_the_wait_for_a_local_run_ends_if_the_run_cannot_start(tmp_path: Path) -> None:
    (block,) = [each for each in commands("results.md") if "local up" in each]
    block = block.replace("burstcache/template.yaml", str(ROOT / "template.yaml"))
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        block = block.replace("local up", f"local up --port {port} --endpoint-port 0")
        script = _PRELUDE + block.replace("pip install", "true") + "echo ended\n"
        done = subprocess.run(
            ["bash"], input=script, cwd=tmp_path, env={"PATH": path}, capture_output=True, text=True, timeout=LIMIT_S
        )

    assert (done.returncode, done.stdout) == (0, "ended\n")
    assert re.fullmatch(rf".*port {port} is in use.*\n", done.stderr)


@pytest.mark.weekly
def test_the_sample_log_ends_in_the_verdict_that_the_page_names(clone: Path, bucket: dict[str, str]) -> None:
    (clone / "access.log.gz").write_bytes((ROOT / "examples/logs/bursts.csv.gz").read_bytes())

    printed = typed("decide.md", clone, bucket)

    verdict = "DEPLOY the stack with nodes: fargate-spot:0.5GB, the breakeven policy. 0.47 USD a month, 89.4 %"
    assert verdict in " ".join(printed.split())


@pytest.mark.weekly
def test_an_operator_sees_a_burst_pass_through_the_tiers(tmp_path: Path) -> None:
    front = str(free_port())
    make = ["make", "--no-print-directory", "--dry-run", "--assume-old=setup", "--directory", str(ROOT)]
    recipes = {name: subprocess.check_output([*make, name], text=True).splitlines()[-1] for name in ("run", "stop")}
    ports = f" --port {front} --endpoint-port 0"
    (tmp_path / ".venv").symlink_to(Path(sys.executable).parents[1])
    blocks = commands("operate.md")
    assert (blocks[0], blocks[-1]) == ("make run\n", "make stop\n")
    up = shlex.split(recipes["run"].replace("8082", "0") + ports)
    with subprocess.Popen(up, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as run:
        try:
            assert run.stdout is not None
            next(line for line in run.stdout if "Ctrl-C" in line)
            script = "".join([_PRELUDE, *blocks[1:-1], recipes["stop"], "\n"]).replace("8080", front)
            done = subprocess.run(["bash"], input=script, cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT_S)

            assert done.returncode == 0, done.stdout + done.stderr
            tiers = re.findall(r"^x-cache-tier: (\w+)", done.stdout, re.MULTILINE | re.IGNORECASE)
            assert [tier for at, tier in enumerate(tiers) if tier not in tiers[:at]] == ["s3", "lambda", "redis"]
            assert run.wait(LIMIT_S) == 0
        finally:
            run.terminate()
