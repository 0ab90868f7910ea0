"""Commands that fail, that are called wrongly or interrupted: one line, and the exit code."""

from __future__ import annotations

from pathlib import Path

import pytest

import burstcache
from burstcache.queries.watch import Watcher
from burstcache_cli import cli
from burstcache_cli.cli import main
from support.stack_in_moto import REGION, STACK, Aws


def call_wrongly(argv: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """Return the one line that a wrong call prints."""
    exit_code = main(argv)
    out, err = capsys.readouterr()
    assert (exit_code, out) == (2, "")
    assert err.endswith("\n")
    assert err.count("\n") == 1
    return err


# When the work fails


def test_state_that_is_not_reached_in_time_is_a_failure(aws: Aws, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["watch", "a.json", "--until", "Lambda", "--timeout-s", "0", *STACK]) == 1

    assert capsys.readouterr().err == "burstcache: Lambda was not entered within 0 s; the state is S3\n"


def test_missing_local_run_is_a_failure_with_a_remedy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["keys", "--state-dir", str(tmp_path)]) == 1

    assert "no local run in" in (printed := capsys.readouterr().err)
    assert "burstcache local up" in printed


def test_stack_that_is_out_of_reach_is_one_line_and_no_trace(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")

    assert main(["keys", *STACK]) == 1

    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert 'Could not connect to the endpoint URL: "http://127.0.0.1:1/": check the network' in err


def test_defect_of_ours_is_one_line_too(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def broken(name: str) -> None:
        raise ZeroDivisionError("twelve\nby nothing")

    monkeypatch.setattr(cli, "import_module", broken)

    assert main(["keys"]) == 1
    assert capsys.readouterr().err == "burstcache: ZeroDivisionError: twelve by nothing (--debug shows the traceback)\n"


def test_a_missing_library_is_named_with_the_package_that_brings_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def missing(name: str) -> None:
        raise ModuleNotFoundError("No module named 'numpy'", name="numpy")

    monkeypatch.setattr(cli, "import_module", missing)

    assert main(["sim", "run", "log.csv"]) == 1
    install = f"pip install burstcache-tools=={burstcache.__version__}"
    assert capsys.readouterr().err == f"burstcache: numpy is missing: install it with `{install}`\n"


@pytest.mark.parametrize(("argv", "environment"), [(["keys", "--debug"], ""), (["keys"], "1")])
def test_trace_of_an_error_is_shown_to_those_who_ask(
    argv: list[str], environment: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(name: str) -> None:
        raise ZeroDivisionError("twelve")

    monkeypatch.setattr(cli, "import_module", broken)
    monkeypatch.setenv("BURSTCACHE_DEBUG", environment)

    assert main(argv) == 1
    printed = capsys.readouterr().err
    assert "Traceback" in printed
    assert "in broken" in printed


# When the call is wrong


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        ([], "a command is missing: expected one of gateway, local, doctor, keys"),
        (["kyes"], "'kyes' is not a command: expected one of gateway, local, doctor, keys"),
        (["--fast"], "unrecognized arguments: --fast"),
        (["keys", "--fast"], "unrecognized arguments: --fast"),
        (["redis"], "burstcache redis: a command is missing: expected one of start, stop, ping, status"),
        (["redis", "boot"], "'boot' is not a command: expected one of start, stop, ping, status"),
        (["redis", "start", "--for-s", "soon"], "--for-s 'soon': expected a whole number of seconds from 1 to 604800"),
        (
            ["redis", "start", "--for-s", "604801"],
            "--for-s '604801': expected a whole number of seconds from 1 to 604800",
        ),
        (["redis", "start", "--for-s", "0"], "--for-s '0': expected a whole number"),
        (["lambda", "start"], "the following arguments are required: KEY"),
        (["lambda", "start", ""], "KEY '': expected the name of an object"),
        (["explain", "caf\udce9"], "KEY 'caf\\udce9': expected UTF-8"),
        (["watch"], "one of the arguments KEY --node is required"),
        (["watch", "a", "--node", "node-1"], "--node not allowed with argument KEY"),
        (["watch", "a", "--until", "Moon"], "--until 'Moon': expected one of S3, Guest, Lambda"),
        (["watch", "--node", "n", "--until", "S3"], "--until 'S3': expected one of Stopped, BootNode"),
        (["watch", "a", "--timeout-s", "-1"], "--timeout-s '-1': expected a number of seconds of at least 0"),
        (["watch", "a", "--timeout-s", "nan"], "--timeout-s 'nan': expected a number of seconds of at least 0"),
        (["keys", "--region", REGION], "--region eu-west-1: applies to deployed stacks only"),
    ],
)
def test_wrong_call_is_one_line_that_names_the_value_and_what_is_accepted(
    argv: list[str], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert line in call_wrongly(argv, capsys)


@pytest.mark.parametrize(
    "argv",
    [
        ["doctor"],
        ["keys"],
        ["purge", "a.json"],
        ["redis", "stop"],
        ["dashboard"],
        ["replay", "log.csv"],
        ["research", "evaluate", "log.csv"],
    ],
)
def test_empty_name_of_a_stack_does_not_stand_for_the_local_run(
    argv: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    line = call_wrongly([*argv, "--stack-name", ""], capsys)

    assert "--stack-name '': expected the name of a deployed stack; leave the option out" in line


@pytest.mark.usefixtures("aws")
def test_unknown_stack_and_unknown_node_are_wrong_calls(capsys: pytest.CaptureFixture[str]) -> None:
    assert "--stack-name yours: there is no such stack" in call_wrongly(
        ["keys", "--stack-name", "yours", "--region", REGION], capsys
    )
    assert "node 'node-9': stack mine has node-1" in call_wrongly(["redis", "ping", "node-9", *STACK], capsys)
    assert "node 'node-9': stack mine has node-1" in call_wrongly(["watch", "--node", "node-9", *STACK], capsys)


# Interrupts


def interrupt(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.usefixtures("aws")
@pytest.mark.parametrize(("options", "exit_code"), [((), 0), (("--until", "Lambda"), 130)])
def test_ctrl_c_ends_a_watch_quietly(
    options: tuple[str, ...], exit_code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Watcher, "poll", interrupt)

    assert main(["watch", "a.json", *options, *STACK]) == exit_code
    assert capsys.readouterr() == ("", "")


def test_ctrl_c_ends_any_command_quietly(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(cli, "import_module", interrupt)

    assert main(["keys"]) == 130
    assert capsys.readouterr() == ("", "")
