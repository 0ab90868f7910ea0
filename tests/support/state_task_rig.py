"""Test rig for the task of a state database: both containers' programs on one volume, with real Redis servers."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, suppress
from itertools import count
from pathlib import Path

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from burstcache_local.machines.redis_binary import redis_binary
from support.project import ROOT
from support.state_rig import PASSWORD, TABLE, Program
from support.waiting import LIMIT_S, free_port, until

_INSTANCE = ROOT / "instance"
_TIMES = re.compile("(?<=SAVE_EVERY_S = )150, 1800, 60, 300$", re.MULTILINE)
_NUMBERS = count(1)


class Database:
    """A database's bucket in moto, and its tasks."""

    def __init__(self, program: Program, closers: ExitStack, *, name: str = "", first_run: int = 1) -> None:
        self.program, self._closers = program, closers
        self.name = name or f"orders-{next(_NUMBERS)}"
        self.bucket, self._runs = f"state-{self.name}", count(first_run)
        if not name:  # otherwise it has a bucket
            self.create_bucket()

    def create_bucket(self) -> None:
        self.program.s3.create_bucket(Bucket=self.bucket)

    def delete_bucket(self) -> None:
        """Delete the empty bucket, so that no save or restore succeeds."""
        self.program.s3.delete_bucket(Bucket=self.bucket)

    def snapshots(self) -> list[str]:
        """Return the keys of the snapshots in S3, oldest first."""
        listed = self.program.s3.list_objects_v2(Bucket=self.bucket)
        return sorted(each["Key"] for each in listed.get("Contents", ()))

    def task(self, *, persistence: str = "rdb", unattended_s: int = 1800) -> Task:
        """Start the next run's task."""
        return Task(self, next(self._runs), self._closers, persistence=persistence, unattended_s=unattended_s)


class Task:
    """A task: the processes of its containers, in a folder with the shared volume."""

    def __init__(
        self, database: Database, run: int, closers: ExitStack, *, persistence: str, unattended_s: int
    ) -> None:
        self.database, self.port = database, free_port()
        self.folder = Path(closers.enter_context(tempfile.TemporaryDirectory(prefix="task-")))
        self._shared = {
            "NODE": f"state-{database.name}",
            "RUN": f"{run:015d}",
            "PATH": os.pathsep.join([str(redis_binary().parent), "/usr/bin", "/bin"]),
            "REDIS_HOST": "127.0.0.1",
            "STATE_VOLUME": str(self.folder),
            "REDIS_KEEPER_PASSWORD": PASSWORD,
        }
        own = {"REDIS_DIR": str(self.folder), "REDIS_PLAIN_PORT": str(self.port), "MAXMEMORY_MB": "64"}
        self.redis = self._start(["sh", str(_INSTANCE / "state_task.sh")], {**own, "REDIS_HOLDER_PASSWORD": PASSWORD})
        node = _TIMES.sub(f"150, {unattended_s}, 60, 300", (_INSTANCE / "burstcache_node.py").read_text())
        aws = {
            "AWS_ACCESS_KEY_ID": "id",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": database.program.endpoint_url,
            "AWS_MAX_ATTEMPTS": "1",
        }
        programs = {"NODE_PROGRAM": node, "TABLE": TABLE, "STACK": "stack"}
        if persistence == "rdb":
            programs["STATE_PROGRAM_TEXT"] = (_INSTANCE / "burstcache_state.py").read_text()
            programs["STATE_BUCKET"] = database.bucket
        self.keeper = self._start([sys.executable, str(_INSTANCE / "state_keeper.py")], {**aws, **programs})
        closers.callback(self.kill)

    def _start(self, command: list[str], variables: dict[str, str]) -> subprocess.Popen[bytes]:
        log = self.database.program.log
        return subprocess.Popen(
            command, env={**self._shared, **variables}, stdout=log, stderr=log, cwd=self.folder, start_new_session=True
        )

    def ask_redis_to_stop(self) -> None:
        """Send SIGTERM to the container with Redis, and wait until it has handled the signal."""
        self.redis.terminate()
        until(lambda: self.redis.poll() is not None or _ignores_term(self.redis.pid))

    @property
    def is_restored(self) -> bool:
        return (self.folder / "redis/restored").exists()

    def client(self, user: str = "") -> redis.Redis:
        """Return a client, by default with the user of this database's holders."""
        user = user or f"holder-{self.database.name}"
        return redis.Redis(port=self.port, username=user, password=PASSWORD, retry=Retry(NoBackoff(), 0))

    def await_redis(self, *, attended: bool = False) -> None:
        """Wait until Redis answers, and attend to the task meanwhile if asked to."""

        def answers() -> bool:
            if attended:
                self.attend()
            try:
                with self.client() as client:
                    return bool(client.ping())
            except redis.ConnectionError:
                return False

        until(answers)

    def attend(self) -> None:
        """Change the database's row, as control and janitor do."""
        key = {"pk": {"S": f"NODE#{self._shared['NODE']}"}, "sk": {"S": "NODE"}}
        columns = {"phase": {"S": "running"}, "generation": {"N": str(int(self._shared["RUN"]))}}
        columns["attended_at_us"] = {"N": str(time.time_ns() // 1000)}
        self.database.program.dynamodb.put_item(TableName=TABLE, Item={**key, **columns})

    def save(self) -> int:
        """Save the database as every five minutes, and return the program's exit status."""
        data = self.folder / "redis"
        variables = {
            "NODE": self._shared["NODE"],
            "RUN": self._shared["RUN"],
            "TABLE": TABLE,
            "STACK": "stack",
            "STATE_BUCKET": self.database.bucket,
            "STATE_DIR": str(data),
            "STATE_SOCKET": str(data / "redis.sock"),
            "STATE_MARK": str(data / "restored"),
            "STATE_KEEPER": str(self.folder / "password"),
        }
        (self.folder / "password").write_text(PASSWORD)
        return self.database.program.call(["save"], variables, dies_at=0)[0]

    def stop(self) -> None:
        """Stop both containers, the one that depends on the other first, as ECS does."""
        for container in (self.keeper, self.redis):
            container.terminate()
            assert container.wait(LIMIT_S) == 0
        self.kill()

    def kill(self) -> None:
        """Kill all processes of both containers."""
        for container in (self.keeper, self.redis):
            with suppress(ProcessLookupError):
                os.killpg(container.pid, signal.SIGKILL)
            container.wait(LIMIT_S)


def _ignores_term(pid: int) -> bool:
    status = Path(f"/proc/{pid}/status").read_text()
    return bool(int(re.findall(r"SigIgn:\s+(\w+)", status)[0], 16) >> (signal.SIGTERM - 1) & 1)
