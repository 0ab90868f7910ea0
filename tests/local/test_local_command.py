"""`burstcache local` as a person uses it: nothing is left behind, and mistakes cost one line."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest

from support.project import PYTHONPATH
from support.waiting import LIMIT_S, free_port, until


class Shell:
    """Runs the command in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.output = folder, folder / "output"
        self.up: subprocess.Popen[bytes] | None = None
        self._environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "PYTHONUNBUFFERED": "1"}

    def command(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "burstcache_cli.cli", "local", *words]

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(*words),
            cwd=self.folder,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
        )

    def start(self, *options: str) -> None:
        """Run `up` until it is ready."""
        self.launch(*options)
        until(lambda: "Ctrl-C ends everything" in self.said() or (self.up and self.up.poll() is not None))
        assert self.up
        assert self.up.poll() is None, self.said()

    def launch(self, *options: str) -> None:
        words = self.command("up", "--port", "0", "--endpoint-port", "0", "--boot-s", "0.1", *options)
        with self.output.open("wb") as output:
            self.up = subprocess.Popen(words, cwd=self.folder, env=self._environment, stdout=output, stderr=output)

    def said(self) -> str:
        return self.output.read_text()

    def state(self) -> dict[str, str]:
        return dict(json.loads((self.folder / ".burstcache" / "local.json").read_text()))

    def end(self, number: int) -> int:
        assert self.up
        self.up.send_signal(number)
        return self.up.wait(LIMIT_S)


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    shell = Shell(tmp_path)
    yield shell
    if shell.up and shell.up.poll() is None:
        shell.end(signal.SIGKILL)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    """One that is only asked."""
    shell = Shell(tmp_path_factory.mktemp("running"))
    shell.start("--verbose", "--dashboard-port", "0")
    yield shell
    shell.end(signal.SIGTERM)


def descendants(pid: int) -> list[int]:
    """Return all living processes under one."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, _, rest = stat.read_text().rpartition(")")
        except OSError:
            continue
        parents[int(name.split()[0])] = int(rest.split()[1])
    found = [child for child, parent in parents.items() if parent == pid]
    return found + [below for child in found for below in descendants(child)]


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_up_answers_requests_and_says_what_to_try(running: Shell) -> None:
    state, said = running.state(), running.said()

    commands = re.findall(r"curl -i (\S+)", said)
    with urllib.request.urlopen(commands[0]) as answer:
        assert answer.read().startswith(b"Hello from the origin.")
    assert re.findall(r"for i in .* (\S+) \| grep -i x-cache-tier", said) == commands
    assert f"{state['endpoint_url']}/{state['bucket_name']}/new.txt" in said
    assert "burstcache watch hello.txt" in said


def test_dashboard_is_served_where_up_says(running: Shell) -> None:
    (address,) = re.findall(r"Dashboard: (\S+)", running.said())

    with urllib.request.urlopen(address) as answer:
        assert b"<title>Burstcache</title>" in answer.read()
    with urllib.request.urlopen(f"{address}about") as answer:
        assert json.load(answer)["isLocal"]


def test_a_write_to_the_endpoint_that_up_prints_is_read_through_the_front_door(running: Shell) -> None:
    target = re.findall(r"curl -T - (\S+)", running.said())[0]

    headers = {"Content-Type": "text/plain"}
    urllib.request.urlopen(urllib.request.Request(target, data=b"new", headers=headers, method="PUT")).close()

    with urllib.request.urlopen(f"{running.state()['front_url']}/objects/new.txt") as answer:
        assert answer.read() == b"new"


def test_a_program_reads_from_it_in_the_environment_that_it_prints(running: Shell) -> None:
    read = "from burstcache.client import Client; print(Client().get('hello.txt').body.decode())"

    exports = running.run("env").stdout
    program = subprocess.run(
        ["sh", "-c", f"{exports} exec {sys.executable} -c {shlex.quote(read)}"],
        env={"PATH": os.defpath, "PYTHONPATH": PYTHONPATH},
        capture_output=True,
        text=True,
    )

    assert program.stdout.startswith("Hello from the origin."), program.stderr


def test_a_function_outside_of_it_gets_the_environment_and_reaches_the_others(running: Shell) -> None:
    functions = json.loads(running.run("env", "--sam").stdout)
    janitor = functions["JanitorFunction"]
    session = boto3.Session("local", "local", region_name=running.state()["region"])
    invoker = session.client("lambda", endpoint_url=janitor["AWS_ENDPOINT_URL"])

    answer = invoker.invoke(
        FunctionName=janitor["REDIS_CONTROL_FUNCTION_NAME"], Payload=b'{"op": "ping", "node": "node-1"}'
    )

    assert functions["ProxyFunction"]["AWS_USE_DUALSTACK_ENDPOINT"] == "false"
    assert "FunctionError" not in answer
    assert json.loads(answer["Payload"].read())["pong"] is False


def test_a_second_write_to_the_endpoint_replaces_the_first(running: Shell) -> None:
    target = re.findall(r"curl -T - (\S+)", running.said())[0] + "2"
    headers = {"Content-Type": "text/plain"}

    for body in (b"first", b"second"):
        urllib.request.urlopen(urllib.request.Request(target, data=body, headers=headers, method="PUT")).close()

    with urllib.request.urlopen(f"{running.state()['front_url']}/objects/new.txt2") as answer:
        assert answer.read() == b"second"


def test_what_is_no_http_gets_a_400_and_no_stack_trace_on_the_terminal(running: Shell) -> None:
    port = int(running.state()["front_url"].rpartition(":")[2])

    with socket.create_connection(("127.0.0.1", port), LIMIT_S) as client:
        client.sendall(b"GET /objects/a HTTP/1.1\r\nHost: localhost\r\nRange: \x01\r\n\r\n")
        assert b" 400 " in client.recv(1000)

    # The terminal shows in order: what comes after the mistake comes after its trace.
    urllib.request.urlopen(f"{running.state()['front_url']}/objects/hello.txt").close()
    until(lambda: re.search(r" ProxyFunction \| REPORT RequestId", running.said()))
    assert "Traceback" not in running.said()


def test_status_and_a_second_up_know_of_the_first_and_down_ends_it(shell: Shell) -> None:
    for command in ("status", "env"):
        before = shell.run(command)
        assert (before.returncode, before.stdout) == (1, "")
        assert before.stderr.startswith("No local cloud runs from this folder")
    shell.start()
    state = shell.state()

    status, second, down = shell.run("status"), shell.run("up"), shell.run("down")

    assert status.returncode == 0
    assert state["front_url"] in status.stdout
    assert second.returncode == 2
    assert re.search(r"one runs already, at http://\S+ \(pid \d+\)", second.stderr)
    assert down.returncode == 0
    assert shell.up
    assert shell.up.wait(LIMIT_S) == 0
    assert shell.run("status").returncode == shell.run("env").returncode == 1
    assert shell.run("down").returncode == 0


@pytest.mark.parametrize(
    "number",
    [
        signal.SIGINT,
        pytest.param(signal.SIGTERM, marks=pytest.mark.weekly),
        pytest.param(signal.SIGHUP, marks=pytest.mark.weekly),
        signal.SIGKILL,
    ],
)
def test_nothing_survives_the_end_however_it_comes(shell: Shell, number: int) -> None:
    shell.start("--dashboard-port", "0")
    assert shell.up
    for _ in range(3):
        urllib.request.urlopen(f"{shell.state()['front_url']}/objects/hello.txt").close()
    children = descendants(shell.up.pid)

    status = shell.end(number)

    assert status == (-signal.SIGKILL if number == signal.SIGKILL else 0)
    assert len(children) > 3  # functions and the relay
    until(lambda: not any(map(is_alive, children)))
    assert shell.run("status").returncode == shell.run("env").returncode == 1


@pytest.mark.weekly
def test_a_second_interrupt_does_not_wait(shell: Shell) -> None:
    shell.start()
    assert shell.up
    children = descendants(shell.up.pid)

    shell.up.send_signal(signal.SIGINT)
    until(lambda: "Ending" in shell.said())
    status = shell.end(signal.SIGINT)

    assert status in (0, 130)
    until(lambda: not any(map(is_alive, children)))


def test_an_interrupt_during_the_start_ends_it(shell: Shell) -> None:
    shell.launch()
    assert shell.up
    until(lambda: shell.up and descendants(shell.up.pid))
    children = descendants(shell.up.pid)

    assert shell.end(signal.SIGINT) == 130

    until(lambda: not any(map(is_alive, children)))
    assert len(shell.said().splitlines()) == 1
    assert not (shell.folder / ".burstcache").exists()


def test_two_run_at_the_same_time_from_two_folders(shell: Shell, tmp_path_factory: pytest.TempPathFactory) -> None:
    other = Shell(tmp_path_factory.mktemp("other"))
    shell.start()
    other.start()

    try:
        for running in (shell, other):
            with urllib.request.urlopen(f"{running.state()['front_url']}/objects/hello.txt") as answer:
                assert answer.status == 200
    finally:
        assert other.end(signal.SIGTERM) == 0


def test_verbose_prints_the_functions_logs(running: Shell) -> None:
    urllib.request.urlopen(f"{running.state()['front_url']}/objects/hello.txt").close()

    until(lambda: re.search(r" ProxyFunction \| REPORT RequestId", running.said()))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--origin", "nowhere"], r"nowhere is not a folder: give --origin a folder"),
        (["--parameter", "CacheMemoryMb=1"], r"parameter CacheMemoryMb: 1: expected 128 to 10240"),
        (["--template", "broken.yaml"], r"broken.yaml: is not YAML: .* line 1"),
        *(
            pytest.param(*mistake, marks=pytest.mark.weekly)
            for mistake in (
                (["--parameter", "Colour=red"], r"template.yaml: has no parameter 'Colour': use AccessLogs, "),
                (["--parameter", "Colour"], r"--parameter 'Colour': expected NAME=VALUE"),
                (
                    ["--parameter", "PolicyRatePerMin=1000"],
                    r"PolicyRatePerMin, .*rate 1000 .*TICK 0.048 s; .*at most 48",
                ),
                (
                    ["--parameter", "PolicyOverrides=redis_threshold=900"],
                    r"need the last 902 requests of a key, .* holds 100",
                ),
                (["--template", "none.yaml"], r"none.yaml: does not exist"),
            )
        ),
    ],
)
def test_a_mistake_costs_one_line_and_2(shell: Shell, options: list[str], message: str) -> None:
    (shell.folder / "broken.yaml").write_text("a: [1")

    mistaken = shell.run("up", "--port", "0", "--endpoint-port", "0", *options)

    assert mistaken.returncode == 2
    assert len(mistaken.stderr.splitlines()) == 1
    assert re.search(message, mistaken.stderr)


@pytest.mark.parametrize("option", ["--port", "--endpoint-port"])
def test_a_taken_port_is_named(shell: Shell, option: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        free = "--port" if option == "--endpoint-port" else "--endpoint-port"
        mistaken = shell.run("up", option, str(port), free, "0")

    assert mistaken.returncode == 2
    assert mistaken.stderr.count("\n") == 1
    assert f"port {port} is in use" in mistaken.stderr
    assert "Starting" not in mistaken.stdout
    assert not (shell.folder / ".burstcache").exists()


def test_the_same_port_for_both_is_refused(shell: Shell) -> None:
    port = str(free_port())

    mistaken = shell.run("up", "--port", port, "--endpoint-port", port)

    assert (mistaken.returncode, mistaken.stdout) == (2, "")
    assert f"port {port} is in use" in mistaken.stderr


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (b"latin-\xe9.txt", r"latin-\\xe9.txt': its name is not UTF-8"),
        (b"/".join([b"x" * 200] * 6), r"x{200}: its key has 1205 bytes, of which S3 accepts 1024"),
    ],
    ids=["not UTF-8", "too long"],
)
def test_a_file_that_cannot_become_an_object_is_named_before_the_start(shell: Shell, name: bytes, message: str) -> None:
    path = os.fsencode(shell.folder) + b"/origin/" + name
    os.makedirs(os.path.dirname(path))
    with open(path, "wb"):
        pass

    mistaken = shell.run("up", "--port", "0", "--endpoint-port", "0", "--origin", "origin")

    assert (mistaken.returncode, mistaken.stdout, mistaken.stderr.count("\n")) == (2, "", 1)
    assert re.search(message, mistaken.stderr)


def test_odd_file_names_are_served_and_quoted_in_what_to_try(shell: Shell) -> None:
    names = [" a b.txt", "100%.txt", "a#b", "a+b&c=d", "quest?mark", "quest", "ünï 'cödé'", "tab\tbed", "new\nline"]
    (shell.folder / "origin").mkdir()
    for name in names:
        (shell.folder / "origin" / name).write_text(name)
    shell.start("--origin", "origin")

    for name in names:
        query = urllib.parse.urlencode({"key": name})  # an HTTP API would cut a path at an encoded question mark
        with urllib.request.urlopen(f"{shell.state()['front_url']}/objects?{query}") as answer:
            assert answer.read().decode() == name
    assert "/objects/%20a%20b.txt " in shell.said()
    assert "watch ' a b.txt'" in shell.said()
