import base64, io, json, os, sys, tempfile, zipfile
import boto3
answer = boto3.client("lambda").invoke(
    FunctionName=os.environ["POOL_CONTROL_FUNCTION_NAME"], Payload=b'{"op": "code"}'
)
package = json.load(answer["Payload"])
if "FunctionError" in answer:
    sys.exit(f"pool control gives no code: {package}")
folder = tempfile.mkdtemp()
zipfile.ZipFile(io.BytesIO(base64.b64decode(package["zip"]))).extractall(folder)
os.environ["PYTHONPATH"] = os.pathsep.join([folder, *filter(None, [os.environ.get("PYTHONPATH")])])
os.execvp("python3", ["python3", "-m", "burstcache.pool.hub_service"])
