"""Programs of the Redis node's instance, run with stubs for the machine, a real Redis and moto."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import redis

from burstcache.adapters.redis_connection import SERVER_NAME
from burstcache.core.digest import MAX_AGE_S
from support.node_machine import PASSWORDS, SECRETS, serving, set_up, user_data
from support.waiting import LIMIT_S


@pytest.fixture(scope="module", params=["valkey", "redis6"])
def service(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory, service: str) -> Path:
    """A machine on which the set-up has run, to be looked at; only the package `service` could be installed."""
    machine = tmp_path_factory.mktemp(service)
    set_up(machine, service)
    return machine


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
    assert float(seconds[1]) > MAX_AGE_S


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


def test_session_manager_uses_ipv4_in_a_network_without_ipv6(tmp_path: Path) -> None:
    set_up(tmp_path, "valkey", is_dual_stack=False)

    settings = json.loads((tmp_path / "etc/amazon/ssm/amazon-ssm-agent.json").read_text())
    assert settings == {"Agent": {"UseDualStackEndpoint": False}}


def test_the_service_reads_our_configuration_once(machine: Path, service: str) -> None:
    main = (machine / f"etc/{service}/{service}.conf").read_text()

    assert main.count(f"include {machine}/etc/{service}/burstcache.conf") == 1


@pytest.mark.slow
def test_redis_keeps_a_cache_and_nothing_on_disk(tmp_path: Path, service: str) -> None:
    set_up(tmp_path, service)
    names = ("maxmemory-policy", "save", "appendonly", "bind", "maxmemory")

    with (
        serving(tmp_path, service) as port,
        redis.Redis(port=port, username="control", password=PASSWORDS["control"], decode_responses=True) as client,
    ):
        asked = {name: client.config_get(name)[name] for name in names}

    assert (asked["maxmemory-policy"], asked["save"], asked["appendonly"]) == ("allkeys-lru", "", "no")
    assert asked["bind"] == "127.0.0.2 127.0.0.1"
    memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert int(asked["maxmemory"] or 0) / memory_bytes == pytest.approx(0.75, abs=0.01)


@pytest.mark.slow
@pytest.mark.parametrize("persistence", ["none", "rdb", "aof"])
def test_redis_of_a_database_of_state_evicts_nothing(tmp_path: Path, persistence: str) -> None:
    set_up(tmp_path, "valkey", node="state-orders", persistence=persistence)
    (tmp_path / "var/lib/valkey/volume/redis").mkdir(parents=True)  # as on a mounted volume

    with (
        serving(tmp_path, "valkey") as port,
        redis.Redis(port=port, username="keeper", password=PASSWORDS["keeper"]) as client,
    ):
        memory, kept = client.info("memory"), client.info("persistence")

    assert (memory["maxmemory_policy"], kept["aof_enabled"]) == ("noeviction", int(persistence == "aof"))
    assert memory["maxmemory"] / memory["total_system_memory"] == pytest.approx(0.6, abs=0.01)


@pytest.mark.parametrize("persistence", ["none", "rdb", "aof"])
def test_only_a_database_of_state_that_keeps_snapshots_has_the_program_for_them(
    tmp_path: Path, persistence: str
) -> None:
    set_up(tmp_path, "valkey", node="state-orders", persistence=persistence)

    program, password = tmp_path / "usr/local/sbin/burstcache-state", tmp_path / "etc/burstcache-keeper"
    modes = [each.stat().st_mode & 0o777 for each in (program, password) if each.exists()]
    written = {each.name for each in (tmp_path / "etc").rglob("*") if each.is_file() and holds_password(each)}

    assert modes == ([0o755, 0o600] if persistence == "rdb" else [])
    assert written == ({"burstcache-keeper"} if persistence == "rdb" else set())


def holds_password(path: Path) -> bool:
    text = path.read_text()
    return any(password in text for password in PASSWORDS.values())


def test_a_database_of_state_that_cannot_learn_how_it_is_kept_is_not_set_up_as_a_cache(tmp_path: Path) -> None:
    with pytest.raises(subprocess.CalledProcessError):
        set_up(tmp_path, "valkey", node="state-orders", persistence="")

    assert not (tmp_path / "var/lib/redis-is-set-up").exists()


def test_redis_listens_with_tls_alone(machine: Path, service: str) -> None:
    folder = machine / f"etc/{service}"

    lines = dict(line.split(" ", 1) for line in (folder / "burstcache.conf").read_text().splitlines())

    assert (lines["port"], lines["tls-port"], lines["tls-auth-clients"]) == ("0", "6379", "no")
    assert lines["tls-cert-file"] == lines["tls-key-file"] == str(folder / "burstcache.pem")
    assert (folder / "burstcache.pem").read_text() == (machine / "secrets/redis/tls").read_text()


def test_the_passwords_themselves_are_nowhere_on_the_machine(machine: Path) -> None:
    assert not [each for each in (machine / "etc").rglob("*") if each.is_file() and holds_password(each)]


@pytest.mark.parametrize("secret", ["redis/reader", "redis/control", "redis/tls"])
def test_a_set_up_without_one_of_its_secrets_has_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, secret: str
) -> None:
    monkeypatch.delitem(SECRETS, secret)

    with pytest.raises(subprocess.CalledProcessError):
        set_up(tmp_path, "valkey")

    assert not (tmp_path / "var/lib/redis-is-set-up").exists()


def test_nobody_else_reads_the_passwords_and_the_key(machine: Path, service: str) -> None:
    names = (f"{service}.conf", "burstcache.conf", "burstcache.pem")

    packaged, *ours = ((machine / f"etc/{service}" / name).stat().st_mode for name in names)

    assert ours == [packaged] * 2


def test_the_node_shows_the_name_that_readers_ask_for(resources: dict[str, Any]) -> None:
    assert resources["RedisCertificate"]["Properties"]["DnsName"] == SERVER_NAME


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


def test_a_log_is_on_a_volume_that_is_mounted_before_its_server_starts(tmp_path: Path) -> None:
    set_up(tmp_path, "valkey", node="state-orders", persistence="aof")

    unit = (tmp_path / "etc/systemd/system/valkey.service.d/state.conf").read_text().splitlines()
    environment = (tmp_path / "etc/burstcache-volume.env").read_text().splitlines()
    program = tmp_path / "usr/local/sbin/burstcache-volume"
    assert f"ExecStartPre=+{program}" in unit
    assert "TimeoutStartSec=infinity" in unit  # an update's former instance may still have the volume
    assert "After=var-lib-valkey-volume.mount" in unit  # unmounted only after the server's end
    assert environment == ["STATE_INSTANCE=token", f"STATE_POINT={tmp_path}/var/lib/valkey/volume"]
    assert program.stat().st_mode & 0o111


@pytest.mark.slow
def test_a_log_is_never_written_to_the_root_volume(tmp_path: Path) -> None:
    set_up(tmp_path, "valkey", node="state-orders", persistence="aof")

    with pytest.raises(AssertionError), serving(tmp_path, "valkey"):
        pass

    assert list((tmp_path / "var/lib/valkey").rglob("*")) == []


def test_the_first_boot_of_a_database_with_a_log_leaves_the_volume_to_the_former_instance(
    tmp_path: Path, resources: dict[str, Any]
) -> None:
    first, later = tmp_path / "first", tmp_path / "later"
    set_up(first, "valkey", node="state-orders", persistence="aof", is_first_boot=True)
    set_up(later, "valkey", node="state-orders", persistence="aof")

    assert "start" not in (first / "systemctl.log").read_text().replace("restart", "").split()
    assert "start --no-block valkey" in (later / "systemctl.log").read_text().splitlines()
    mark, start = "touch /run/burstcache-first-boot\n", "systemctl start set-up-redis"
    assert 0 < user_data(resources).index(mark) < user_data(resources).index(start)


def test_a_database_of_state_is_restored_before_its_server_starts_and_saved_before_it_ends(tmp_path: Path) -> None:
    set_up(tmp_path, "valkey", node="state-orders", persistence="rdb")

    unit = (tmp_path / "etc/systemd/system/valkey.service.d/state.conf").read_text().splitlines()
    environment = (tmp_path / "etc/burstcache-state.env").read_text().splitlines()
    program = tmp_path / "usr/local/sbin/burstcache-state"
    assert f"ExecStartPre=+{program} restore" in unit
    # Whatever stops the instance: control, a person, or the program that nobody looks after.
    stops = [line for line in unit if line.startswith("ExecStop=")]
    assert stops[0] == "ExecStop="
    assert "until $$STATE_PROGRAM save last" in stops[1]
    assert {"STATE_BUCKET=token", f"STATE_PROGRAM={program}"} <= set(environment)  # as the stand-in for tags says
    assert program.stat().st_mode & 0o111
