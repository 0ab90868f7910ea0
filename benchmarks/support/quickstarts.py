"""The quickstarts as shell scripts, and a bucket for their programs."""

from __future__ import annotations

import contextlib
import re
import tempfile
from collections.abc import Iterator

import boto3
import pandas as pd
from moto.server import ThreadedMotoServer

from benchmarks.support.common import PROJECT

_BLOCK = re.compile(r"^```(sh|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_GATEWAY_PORT = "9000"


def commands(page: str) -> list[str]:
    """Return the blocks of a page as they are typed into one shell, the Python ones into an interpreter."""
    found = _BLOCK.findall((PROJECT / "docs/quickstart" / page).read_text())
    return [block if language == "sh" else f"python - <<'END'\n{block}END\n" for language, block in found]


def on_free_ports(gateway_port: int, block: str) -> str:
    """Return a block whose gateway listens on this port, and whose local run on any free ones."""
    block = block.replace("burstcache gateway", f"burstcache gateway --port {gateway_port}")
    block = block.replace("burstcache local up", "burstcache local up --port 0 --endpoint-port 0")
    return block.replace(_GATEWAY_PORT, str(gateway_port))


@contextlib.contextmanager
def bucket() -> Iterator[dict[str, str]]:
    """Serve `my-bucket`; yield the environment of a program that can read it."""
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        session = boto3.Session("key", "secret", region_name="us-east-1")
        s3 = session.client("s3", endpoint_url=f"http://{host}:{port}")
        s3.create_bucket(Bucket="my-bucket")
        s3.put_object(Bucket="my-bucket", Key="hello.txt", Body=b"Hello")
        with tempfile.NamedTemporaryFile(suffix=".parquet") as table:
            pd.DataFrame({"amount": [2.0, 3.5], "place": ["a", "b"]}).to_parquet(table.name)
            s3.upload_file(table.name, "my-bucket", "sales.parquet")
        credentials = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_DEFAULT_REGION": "us-east-1"}
        yield {"AWS_ENDPOINT_URL": f"http://{host}:{port}", **credentials}
    finally:
        server.stop()
