"""Start the pool's hub with the code of the stack, which pool control has."""

import base64
import io
import json
import os
import sys
import tempfile
import zipfile

import boto3


def main() -> None:
    control = os.environ["POOL_CONTROL_FUNCTION_NAME"]
    answer = boto3.client("lambda").invoke(FunctionName=control, Payload=b'{"op": "code"}')
    package = json.load(answer["Payload"])
    if "FunctionError" in answer:
        sys.exit(f"pool control gives no code: {package}")
    folder = tempfile.mkdtemp()
    zipfile.ZipFile(io.BytesIO(base64.b64decode(package["zip"]))).extractall(folder)
    os.environ["PYTHONPATH"] = os.pathsep.join([folder, *filter(None, [os.environ.get("PYTHONPATH")])])
    os.execvp("python3", ["python3", "-m", "burstcache.pool.hub_service"])


if __name__ == "__main__":
    main()
