"""Test rig for one database of state: its instance's program, a real Redis, real files, moto's S3 and DynamoDB.

The program can be killed at any line that it reaches, as an instance can.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import boto3
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from burstcache_local.machines.redis_binary import redis_binary
from support.project import ROOT
from support.waiting import LIMIT_S, free_port, until, wait_for_port

TABLE, PASSWORD = "rows", "secret"
_PROGRAM = ROOT / "instance/burstcache_state.py"
_KEYS = [f"key-{number}" for number in range(20)]

# Runs the program in forks, so that boto3 is imported only once. Counts the executed lines and can die at any of them.
_RUNNER = """
import json, os, signal, sys
import boto3
for service in ("s3", "dynamodb", "cloudwatch"):
    boto3.client(service)
program = compile(open(sys.argv[1]).read(), "burstcache-state", "exec")

def run(order):
    os.environ.update(order["variables"])
    sys.stdout = sys.stderr
    sys.argv = ["burstcache-state", *order["words"]]
    lines = 0
    def trace(frame, event, argument):
        nonlocal lines
        if frame.f_code.co_filename != "burstcache-state":
            return None
        if event == "line":
            lines += 1
            if lines == order["dies_at"]:
                os.kill(os.getpid(), signal.SIGKILL)
        return trace
    sys.settrace(trace)
    try:
        exec(program, {"__name__": "__main__"})
    except BaseException as error:
        print(repr(error), file=sys.stderr, flush=True)
        os._exit(1)
    sys.settrace(None)
    os.write(pipe, str(lines).encode())
    os._exit(0)

for line in sys.stdin:
    reader, pipe = os.pipe()
    if (child := os.fork()) == 0:
        run(json.loads(line))
    os.close(pipe)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    lines = int(os.read(reader, 20) or b"0")
    os.close(reader)
    print(json.dumps([status, lines]), flush=True)
"""


class Program:
    """Runner of the instance's program in forks of one process, and the program's AWS."""

    def __init__(self, closers: ExitStack) -> None:
        self.root = Path(closers.enter_context(tempfile.TemporaryDirectory(prefix="state-")))
        port = free_port()
        command = [sys.executable, "-m", "moto.server", "-p", str(port)]
        moto = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        closers.callback(moto.wait, LIMIT_S)
        closers.callback(moto.terminate)
        self.endpoint_url = f"http://127.0.0.1:{port}"
        wait_for_port(port, moto)
        self.s3, self.dynamodb, self.cloudwatch = map(self._client, ("s3", "dynamodb", "cloudwatch"))
        keys = [{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}]
        types = [{"AttributeName": name, "AttributeType": "S"} for name in ("pk", "sk")]
        self.dynamodb.create_table(
            TableName=TABLE, KeySchema=keys, AttributeDefinitions=types, BillingMode="PAY_PER_REQUEST"
        )
        self.log = closers.enter_context((self.root / "log").open("w+"))
        self._runner = self._start_runner()
        closers.callback(self._runner.wait, LIMIT_S)
        closers.callback(self._runner.communicate)

    def failures(self) -> int:
        """Return the number of counted failures to save or restore."""
        now = datetime.now(UTC)
        found = self.cloudwatch.get_metric_statistics(
            Namespace="Burstcache",
            MetricName="StateSaveFailures",
            StartTime=now - timedelta(hours=1),
            EndTime=now + timedelta(hours=1),
            Period=7200,
            Statistics=["Sum"],
        )
        return int(sum(point["Sum"] for point in found["Datapoints"]))

    def _client(self, service: str) -> Any:
        keys = {"aws_access_key_id": "id", "aws_secret_access_key": "secret", "region_name": "us-east-1"}
        return boto3.client(service, endpoint_url=self.endpoint_url, **keys)

    def _start_runner(self) -> subprocess.Popen[str]:
        variables = {
            "AWS_ACCESS_KEY_ID": "id",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": self.endpoint_url,
            "AWS_MAX_ATTEMPTS": "1",
        }
        command = [sys.executable, "-c", _RUNNER, str(_PROGRAM)]
        pipe = subprocess.PIPE
        return subprocess.Popen(command, env=variables, stdin=pipe, stdout=pipe, stderr=self.log, text=True)

    def call(self, words: Sequence[str], variables: Mapping[str, str], *, dies_at: int) -> tuple[int, int]:
        """Run the program.

        Args:
            words: Its arguments.
            variables: Additional environment variables.
            dies_at: Number of the executed line at which it is killed, from 1 on. 0: never.

        Returns:
            Its exit status, below 0 if it was killed, and the number of lines it executed, 0 if it failed.
        """
        assert self._runner.stdin is not None
        assert self._runner.stdout is not None
        order = {"words": words, "dies_at": dies_at, "variables": dict(variables)}
        self._runner.stdin.write(json.dumps(order) + "\n")
        self._runner.stdin.flush()
        status, lines = json.loads(self._runner.stdout.readline())
        return status, lines


class StateRig:
    """Instance that boots, works, saves and stops."""

    def __init__(self, program: Program, closers: ExitStack, *, persistence: str = "rdb") -> None:
        self.program, self.persistence, self.run = program, persistence, 1_000
        self.root = Path(tempfile.mkdtemp(dir=program.root))
        self.node = self.bucket = f"state-{self.root.name.strip('_').replace('_', '-')}"
        self.volume, self.port = self.root / "volume", free_port()
        self.volume.mkdir()
        (self.root / "keeper").write_text(f"{PASSWORD}\n")
        program.s3.create_bucket(Bucket=self.bucket)
        self.server: subprocess.Popen[bytes] | None = None
        closers.callback(self.kill)

    def call(self, *words: str, dies_at: int = 0, **variables: str) -> tuple[int, int]:
        """Run the program by `Program.call`, with `variables` in its environment."""
        own = {
            "NODE": self.node,
            "TABLE": TABLE,
            "STACK": "stack",
            "STATE_BUCKET": self.bucket,
            "STATE_DIR": str(self.volume),
            "STATE_SOCKET": str(self.root / "redis.sock"),
            "STATE_MARK": str(self.root / "restored"),
            "STATE_KEEPER": str(self.root / "keeper"),
        }
        return self.program.call(words, own | variables, dies_at=dies_at)

    def begin_boot(self) -> None:
        """Start the boot of the next run."""
        self.run += 1
        (self.root / "restored").unlink(missing_ok=True)
        item = {"pk": {"S": f"NODE#{self.node}"}, "sk": {"S": "NODE"}, "generation": {"N": str(self.run)}}
        self.program.dynamodb.put_item(TableName=TABLE, Item=item)

    def start_redis(self) -> None:
        """Start the server on the volume's data."""
        users = ["--user", "default", "off", "--user", "holder", "on", f">{PASSWORD}", "~*", "&*", "+@all", "-@admin"]
        users += ["--user", "keeper", "on", f">{PASSWORD}", "+save", "+bgsave", "+info", "+acl|setuser", "+client|kill"]
        kept = ["--dir", str(self.volume), "--save", "", "--appendonly", "yes" if self.persistence == "aof" else "no"]
        socket = ["--unixsocket", str(self.root / "redis.sock"), "--bind", "127.0.0.1", "--port", str(self.port)]
        self.server = subprocess.Popen(
            [redis_binary(), *socket, *kept, *users], stdout=self.program.log, stderr=self.program.log, cwd=self.root
        )
        wait_for_port(self.port, self.server)

    def holder(self) -> redis.Redis:
        """Return a client with a holder's credentials."""
        return redis.Redis(port=self.port, username="holder", password=PASSWORD, retry=Retry(NoBackoff(), 0))

    def write(self, version: int) -> None:
        """Write a version to every key and return after the acknowledgement."""
        with self.holder() as client, client.pipeline() as transaction:
            for key in _KEYS:
                transaction.set(key, version)
            transaction.execute()

    def read(self) -> set[int]:
        """Return the set of the keys' versions. More than one means a mixture; 0 means a missing key."""
        with self.holder() as client:
            until(lambda: client.info("persistence")["loading"] == 0)
            values: Any = client.mget(_KEYS)
            return {int(value or 0) for value in values}

    def boots(self) -> set[int]:
        """Boot and return the database's versions."""
        self.begin_boot()
        status, _ = self.call("restore")
        assert status == 0
        self.start_redis()
        return self.read()

    def stops(self) -> None:
        """Save and stop the server, as a stopping instance does."""
        status, _ = self.call("save", "last")
        assert status == 0
        self.end_redis()

    def end_redis(self) -> None:
        """Stop the server gracefully."""
        assert self.server is not None
        self.server.terminate()
        self.server.wait(LIMIT_S)

    def kill(self) -> None:
        """Kill the server, as in a power loss."""
        if self.server is not None:
            self.server.kill()
            self.server.wait(LIMIT_S)

    def lose_volume(self) -> None:
        """Empty the volume, as when the instance is replaced."""
        for path in self.volume.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    def snapshots(self) -> list[str]:
        """Return the keys of the snapshots in S3, oldest first."""
        listed = self.program.s3.list_objects_v2(Bucket=self.bucket)
        return sorted(each["Key"] for each in listed.get("Contents", ()))
