"""Command lines that read S3, as clients that run the steps: each operation is a process.

    PYTHONPATH=tests python -m clients.command_lines NAME BUCKET FOLDER

The programs come from the PATH. Those that do not know AWS_ENDPOINT_URL_S3 get its value in their own way.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote, urlsplit
from xml.etree import ElementTree

from clients.steps import StepClient, show

_ENDPOINT = os.environ["AWS_ENDPOINT_URL_S3"]
_XML = "{http://s3.amazonaws.com/doc/2006-03-01/}"


def _run(*command: str | Path, **variables: str) -> bytes:
    """Return a command's output, or raise CalledProcessError with its errors shown."""
    done = subprocess.run(command, capture_output=True, check=False, env=os.environ | variables)
    if done.returncode:
        error = subprocess.CalledProcessError(done.returncode, command, done.stdout, done.stderr)
        error.add_note(done.stderr.decode(errors="replace"))
        raise error
    return done.stdout


def _version(*command: str) -> str:
    (version,) = re.findall(r"\d+\.\d+[.\d]*", _run(*command).decode())[:1]
    return str(version)


class _CommandLine(StepClient):
    missing: type[Exception] = subprocess.CalledProcessError

    def __init__(self, bucket: str, folder: str) -> None:
        self._bucket, self._folder = bucket, folder
        self._root = f"s3://{bucket}/{folder}"


class _AwsCli(_CommandLine):
    """The AWS CLI."""

    def __init__(self, bucket: str, folder: str) -> None:
        super().__init__(bucket, folder)
        self.version = _version("aws", "--version")

    def read(self, name: str) -> bytes:
        return _run("aws", "s3", "cp", self._root + name, "-")

    def read_range(self, name: str, start: int, size_bytes: int) -> bytes:
        span = f"bytes={start}-{start + size_bytes - 1}"
        with tempfile.NamedTemporaryFile() as file:
            place = ("--bucket", self._bucket, "--key", self._folder + name)
            _run("aws", "s3api", "get-object", *place, "--range", span, file.name)
            return Path(file.name).read_bytes()

    def write(self, path: Path, name: str) -> None:
        _run("aws", "s3", "cp", path, self._root + name)

    def fetch(self, name: str, path: Path) -> None:
        _run("aws", "s3", "cp", self._root + name, path)

    def list_names(self, prefix: str) -> Iterator[str]:
        place = ("--bucket", self._bucket, "--prefix", self._folder + prefix)
        found = json.loads(_run("aws", "s3api", "list-objects-v2", *place, "--output", "json"))
        return (each["Key"].removeprefix(self._folder) for each in found["Contents"])

    def copy(self, name: str, to_name: str) -> None:
        _run("aws", "s3", "cp", self._root + name, self._root + to_name)

    def delete(self, name: str) -> None:
        _run("aws", "s3", "rm", self._root + name)


class _S5cmd(_CommandLine):
    """s5cmd, by aws-sdk-go."""

    def __init__(self, bucket: str, folder: str) -> None:
        super().__init__(bucket, folder)
        built = _run("go", "version", "-m", shutil.which("s5cmd") or "").decode()  # it does not know its own
        self.version = re.findall(r"\tgithub.com/peak/s5cmd/v2\tv(\S+)", built)[0]

    def _s5cmd(self, *command: str | Path) -> bytes:
        return _run("s5cmd", "--endpoint-url", _ENDPOINT, *command)

    def read(self, name: str) -> bytes:
        return self._s5cmd("cat", "--raw", self._root + name)

    def write(self, path: Path, name: str) -> None:
        self._s5cmd("cp", "--raw", path, self._root + name)

    def fetch(self, name: str, path: Path) -> None:
        self._s5cmd("cp", "--raw", self._root + name, path)

    def list_names(self, prefix: str) -> Iterator[str]:
        lines = self._s5cmd("--json", "ls", f"{self._root}{prefix}*").decode().splitlines()
        return (json.loads(line)["key"].removeprefix(self._root) for line in lines)

    def copy(self, name: str, to_name: str) -> None:
        self._s5cmd("cp", "--raw", self._root + name, self._root + to_name)

    def delete(self, name: str) -> None:
        self._s5cmd("rm", "--raw", self._root + name)


class _Rclone(_CommandLine):
    """rclone, by aws-sdk-go-v2."""

    missing = FileNotFoundError

    def __init__(self, bucket: str, folder: str) -> None:
        super().__init__(bucket, folder)
        self._root = f":s3:{bucket}/{folder}"
        self.version = _version("rclone", "version")

    def _rclone(self, *command: str | Path) -> bytes:
        options = {
            "PROVIDER": "Other",  # with AWS as the provider, it sends what HTTPS alone can check
            "ENV_AUTH": "true",
            "ENDPOINT": _ENDPOINT,
            "REGION": os.environ["AWS_REGION"],
            "NO_CHECK_BUCKET": "true",  # otherwise it creates the bucket before its first upload
        }
        variables = {f"RCLONE_S3_{name}": value for name, value in options.items()}
        return _run("rclone", "--config", os.devnull, *command, **variables)

    def read(self, name: str) -> bytes:
        content = self._rclone("cat", self._root + name)
        if not content:  # without an object, the name is that of an empty folder for rclone
            raise FileNotFoundError(name)
        return content

    def read_range(self, name: str, start: int, size_bytes: int) -> bytes:
        return self._rclone("cat", "--offset", str(start), "--count", str(size_bytes), self._root + name)

    def write(self, path: Path, name: str) -> None:
        self._rclone("copyto", "--ignore-times", path, self._root + name)

    def fetch(self, name: str, path: Path) -> None:
        self._rclone("copyto", self._root + name, path)

    def list_names(self, prefix: str) -> Iterator[str]:
        found = json.loads(self._rclone("lsjson", self._root + prefix))
        return (prefix + each["Path"] for each in found)

    def copy(self, name: str, to_name: str) -> None:
        self._rclone("copyto", "--ignore-times", self._root + name, self._root + to_name)

    def delete(self, name: str) -> None:
        self._rclone("deletefile", self._root + name)


class _S3cmd(_CommandLine):
    """s3cmd, which signs by itself."""

    def __init__(self, bucket: str, folder: str) -> None:
        super().__init__(bucket, folder)
        self.version = _version("s3cmd", "--version")

    def _s3cmd(self, *command: str | Path) -> bytes:
        host = urlsplit(_ENDPOINT).netloc
        place = ("--no-ssl", f"--host={host}", f"--host-bucket={host}", f"--region={os.environ['AWS_REGION']}")
        return _run("s3cmd", "--no-progress", "--config", os.devnull, *place, *command)

    def read(self, name: str) -> bytes:
        return self._s3cmd("get", self._root + name, "-")

    def write(self, path: Path, name: str) -> None:
        self._s3cmd("put", path, self._root + name)

    def fetch(self, name: str, path: Path) -> None:
        self._s3cmd("get", "--force", self._root + name, path)

    def list_names(self, prefix: str) -> Iterator[str]:
        lines = self._s3cmd("ls", self._root + prefix).decode().splitlines()
        return (line.partition(self._root)[2] for line in lines)

    def copy(self, name: str, to_name: str) -> None:
        self._s3cmd("cp", self._root + name, self._root + to_name)

    def delete(self, name: str) -> None:
        self._s3cmd("del", self._root + name)


class _Curl(_CommandLine):
    """curl, which signs whatever request it is told to send."""

    def __init__(self, bucket: str, folder: str) -> None:
        super().__init__(bucket, folder)
        self.version = _version("curl", "--version")

    def _curl(self, target: str, *options: str | Path, content: bytes = b"") -> bytes:
        user = ":".join(os.environ[name] for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"))
        signed = ("--aws-sigv4", f"aws:amz:{os.environ['AWS_REGION']}:s3", "--user", user)
        digest = ("--header", f"x-amz-content-sha256: {hashlib.sha256(content).hexdigest()}")
        return _run("curl", "-sS", "--fail", *signed, *digest, *options, f"{_ENDPOINT}/{self._bucket}{target}")

    def _key(self, name: str) -> str:
        return f"/{quote(self._folder + name, safe='/~')}"

    def read(self, name: str) -> bytes:
        return self._curl(self._key(name))

    def read_range(self, name: str, start: int, size_bytes: int) -> bytes:
        return self._curl(self._key(name), "--range", f"{start}-{start + size_bytes - 1}")

    def write(self, path: Path, name: str) -> None:
        self._curl(self._key(name), "--upload-file", path, content=path.read_bytes())

    def fetch(self, name: str, path: Path) -> None:
        self._curl(self._key(name), "--output", path)

    def list_names(self, prefix: str) -> Iterator[str]:
        found = ElementTree.fromstring(self._curl(f"?list-type=2&prefix={quote(self._folder + prefix, safe='')}"))
        return ((each.text or "").removeprefix(self._folder) for each in found.iter(f"{_XML}Key"))

    def copy(self, name: str, to_name: str) -> None:
        source = f"x-amz-copy-source: /{self._bucket}{self._key(name)}"
        self._curl(self._key(to_name), "--request", "PUT", "--header", source)

    def delete(self, name: str) -> None:
        self._curl(self._key(name), "--request", "DELETE")


CLIENTS: dict[str, Callable[[str, str], StepClient]] = {
    "aws": _AwsCli,
    "s5cmd": _S5cmd,
    "rclone": _Rclone,
    "s3cmd": _S3cmd,
    "curl": _Curl,
}

if __name__ == "__main__":
    _, name, bucket, folder = sys.argv
    show(CLIENTS[name](bucket, f"{name}/"), folder)
