"""One check per repair to moto, run in a process that has all repairs and in one that lacks just that repair.

`python repair_checks.py` prints {repair: [passes with all, passes without it]} as JSON. The processes are forks of one
that has imported everything but repaired nothing: that is what costs the time.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import json
import os
import tempfile
import threading
import time
import traceback
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from botocore.exceptions import ClientError

from burstcache_local.machines.nodes import NodeAgent, NodeTimes
from burstcache_local.moto import endpoints, event_repairs
from burstcache_local.moto import registry as moto_repairs
from burstcache_local.moto.endpoints import client
from burstcache_local.moto.server import moto_server

ROLE = "arn:aws:iam::123456789012:role/machine"
AT_ONCE = 4
LIMIT_S = 30


# ---- helpers


def start(states: dict[str, Any], *, given: object = None, name: str | None = None) -> str:
    """Start an execution of a machine that begins with the first of `states`, and return its ARN."""
    definition = {"QueryLanguage": "JSONata", "StartAt": next(iter(states)), "States": states}
    machine = client("stepfunctions").create_state_machine(
        name=f"m-{uuid.uuid4()}", definition=json.dumps(definition), roleArn=ROLE
    )["stateMachineArn"]
    options = {"name": name} if name else {}
    return client("stepfunctions").start_execution(stateMachineArn=machine, input=json.dumps(given or {}), **options)[
        "executionArn"
    ]


def finish(execution: str, limit_s: float = 5) -> dict[str, Any]:
    """Return the description of an execution that has ended, or of one that has not within the limit."""
    end_s = time.monotonic() + limit_s
    while True:
        described = client("stepfunctions").describe_execution(executionArn=execution)
        if described["status"] != "RUNNING" or time.monotonic() > end_s:
            return described
        time.sleep(0.01)


def history(execution: str) -> list[dict[str, Any]]:
    finish(execution)
    return list(client("stepfunctions").get_execution_history(executionArn=execution)["events"])


def output_of(states: dict[str, Any], *, given: object = None) -> Any:
    described = finish(start(states, given=given))
    assert described["status"] == "SUCCEEDED", described
    return json.loads(described["output"])


def token_task(**options: Any) -> dict[str, Any]:
    """A task that leaves its token in a table and waits."""
    with contextlib.suppress(ClientError):
        client("dynamodb").create_table(
            TableName="tokens",
            KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
            BillingMode="PAY_PER_REQUEST",
        )
    return {
        "Type": "Task",
        "Resource": "arn:aws:states:::aws-sdk:dynamodb:updateItem.waitForTaskToken",
        "Arguments": {
            "TableName": "tokens",
            "Key": {"pk": {"S": "token"}},
            "UpdateExpression": "SET #token = :token",
            "ExpressionAttributeNames": {"#token": "token"},
            "ExpressionAttributeValues": {":token": {"S": "{% $states.context.Task.Token %}"}},
        },
        **options,
    }


def token(other_than: str = "") -> str:
    """Return the token that a task has left."""
    for _ in range(500):
        item = client("dynamodb").get_item(TableName="tokens", Key={"pk": {"S": "token"}}).get("Item")
        if item and item["token"]["S"] != other_than:
            return str(item["token"]["S"])
        time.sleep(0.01)
    raise AssertionError("no task has left its token")


def refusal(call: Callable[..., object], **arguments: Any) -> str:
    """Return the error code of a call, or nothing if it is accepted."""
    try:
        call(**arguments)
    except ClientError as error:
        return str(error.response["Error"]["Code"])
    return ""


def caught(error: str) -> dict[str, Any]:
    return {"Catch": [{"ErrorEquals": [error], "Output": "{% $states.errorOutput %}", "Next": "Caught"}], "End": True}


CAUGHT = {"Caught": {"Type": "Pass", "End": True}}


@contextlib.contextmanager
def recorded_invocations(work: Callable[[Any], object] = id) -> Iterator[list[dict[str, str]]]:
    """Stand for the Lambda Invoke API, doing `work` with each payload; give the headers of what arrives."""
    seen: list[dict[str, str]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            work(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            seen.append({name.lower(): value for name, value in self.headers.items()})
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    endpoints.here.lambda_url = f"http://127.0.0.1:{server.server_port}"
    yield seen


def invoke_task(**arguments: Any) -> dict[str, Any]:
    given = {"FunctionName": "f", "Payload": {"a": 1}, **arguments}
    return {"Type": "Task", "Resource": "arn:aws:states:::lambda:invoke", "Arguments": given, "End": True}


# ---- checks, named as the repairs


def jsonata_is_evaluated() -> None:
    assert output_of({"A": {"Type": "Pass", "Output": "{% $states.input.a + 1 %}", "End": True}}, given={"a": 1}) == 2


def hash_and_uuid_are_functions() -> None:
    made = output_of({"A": {"Type": "Pass", "Output": ["{% $hash('a', 'SHA-256') %}", "{% $uuid() %}"], "End": True}})
    assert made[0] == hashlib.sha256(b"a").hexdigest()
    assert str(uuid.UUID(made[1])) == made[1]


def text_variables_are_escaped() -> None:
    text = 'a "quoted" \\ text'
    states = {
        "A": {"Type": "Pass", "Assign": {"x": "{% $states.input.text %}"}, "Next": "B"},
        "B": {"Type": "Pass", "Output": "{% $x %}", "End": True},
    }
    assert output_of(states, given={"text": text}) == text


def failed_expressions_have_their_error_name() -> None:
    task = invoke_task(Payload="{% $number('no number') %}") | caught("States.QueryEvaluationError")
    assert output_of({"A": task, **CAUGHT})["Error"] == "States.QueryEvaluationError"


def texts_are_evaluated_once() -> None:
    from moto.stepfunctions.parser.asl.jsonata import jsonata

    evaluate, evaluated = jsonata._eval_jsonata, []
    jsonata._eval_jsonata = lambda text: (evaluated.append(text), evaluate(text))[1]
    assert output_of({"A": {"Type": "Pass", "Output": "{% 'a' & 'b' %}", "End": True}}) == "ab"
    assert len(evaluated) == 1


def waits_end_at_their_instant() -> None:
    at = (datetime.now(UTC) + timedelta(seconds=3)).replace(microsecond=900_000)
    text = at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    execution = start({"A": {"Type": "Wait", "Timestamp": text, "End": True}})
    late_s = (finish(execution, limit_s=8)["stopDate"] - at).total_seconds()
    assert -0.01 < late_s < 3


def sdk_tasks_use_sdk_names() -> None:
    task = {
        "Type": "Task",
        "Resource": "arn:aws:states:::aws-sdk:sfn:describeExecution",
        "Arguments": {"ExecutionArn": "{% $states.context.Execution.Id %}"},
        "Output": "{% $states.result.StartDate %}",
        "End": True,
    }
    assert datetime.fromisoformat(output_of({"A": task})) <= datetime.now(UTC)
    arguments = {"StateMachineArn": "{% $states.context.StateMachine.Id %}", "Input": {"again": False}}
    repeat = {"Type": "Task", "Resource": "arn:aws:states:::states:startExecution", "Arguments": arguments, "End": True}
    first = {
        "Type": "Choice",
        "Choices": [{"Condition": "{% $states.input.again %}", "Next": "B"}],
        "Default": "Caught",
    }
    assert "ExecutionArn" in output_of({"A": first, "B": repeat, **CAUGHT}, given={"again": True})


def invocation_type_reaches_lambda() -> None:
    with recorded_invocations() as seen:
        output_of({"A": invoke_task(InvocationType="Event")})
    assert seen[0]["x-amz-invocation-type"] == "Event"


def tasks_share_clients() -> None:
    with recorded_invocations() as seen:
        output_of({"A": invoke_task()})
    assert len(seen) == 1


def states_errors_are_passed_on() -> None:
    branch = {"StartAt": "B", "States": {"B": token_task(TimeoutSeconds=1, End=True)}}
    both = {"Type": "Parallel", "Branches": [branch], **caught("States.Timeout")}
    assert output_of({"A": both, **CAUGHT})["Error"] == "States.Timeout"
    assert finish(start({"A": {"Type": "Fail", "Error": "{% 'States.Timeout' %}"}}))["error"] == "States.Timeout"


def lost_heartbeats_have_their_error_name() -> None:
    task = token_task(TimeoutSeconds=20, HeartbeatSeconds=1) | caught("States.HeartbeatTimeout")
    assert output_of({"A": task, **CAUGHT})["Error"] == "States.HeartbeatTimeout"


def items_change_one_at_a_time() -> None:
    """A refused transaction beside writes: moto puts back the table as it was before, and the writes are lost."""
    dynamodb = client("dynamodb")
    token_task()  # makes the table
    for i in range(300):  # what takes long to copy
        dynamodb.put_item(TableName="tokens", Item={"pk": {"S": str(i)}, "filling": {"S": "x" * 100}})
    refused = {
        "Update": {
            "TableName": "tokens",
            "Key": {"pk": {"S": "other"}},
            "UpdateExpression": "SET a = :a",
            "ConditionExpression": "attribute_exists(never)",
            "ExpressionAttributeValues": {":a": {"S": "x"}},
        }
    }

    def write(i: int) -> None:
        if i % 2:
            with contextlib.suppress(ClientError):
                dynamodb.transact_write_items(TransactItems=[refused])
        else:
            dynamodb.update_item(
                TableName="tokens",
                Key={"pk": {"S": "counter"}},
                UpdateExpression="ADD n :one",
                ExpressionAttributeValues={":one": {"N": "1"}},
            )

    with ThreadPoolExecutor(16) as callers:
        list(callers.map(write, range(200)))
    counted = dynamodb.get_item(TableName="tokens", Key={"pk": {"S": "counter"}})["Item"]["n"]["N"]
    assert counted == "100"


def quick_completions_are_seen() -> None:
    task = invoke_task(Payload={"token": "{% $states.context.Task.Token %}"})
    task |= {"Resource": "arn:aws:states:::lambda:invoke.waitForTaskToken", "HeartbeatSeconds": 3}
    with recorded_invocations(
        lambda payload: client("stepfunctions").send_task_success(taskToken=payload["token"], output="1")
    ):
        assert output_of({"A": task}) == 1


def definitions_are_parsed_once() -> None:
    from moto.stepfunctions.parser.asl.parse.asl_parser import AmazonStateLanguageParser

    retry = [{"ErrorEquals": ["States.ALL"], "IntervalSeconds": 1, "MaxAttempts": 1}]
    states = {"A": invoke_task(FunctionName="{% $error('no') %}") | {"Retry": retry}}
    definition = json.dumps({"QueryLanguage": "JSONata", "StartAt": "A", "States": states})
    first, second = (AmazonStateLanguageParser.parse(definition)[0] for _ in range(2))
    assert first is second
    for _ in range(2):  # attempts are counted per execution
        types = [event["type"] for event in history(start(states))]
        assert types.count("EvaluationFailed") == 2


def models_are_forgotten() -> None:
    from moto.dynamodb.models.dynamo_type import Item

    token_task()
    for number in range(3):
        client("dynamodb").put_item(TableName="tokens", Item={"pk": {"S": "k"}, "n": {"N": str(number)}})
    assert len(Item.instances_tracked) == 0


def finished_threads_are_forgotten() -> None:
    from moto.stepfunctions.parser.backend import execution_worker

    output_of({"A": {"Type": "Pass", "Output": 1, "End": True}})
    assert len(execution_worker.TMP_THREADS) == 0


def tokens_close() -> None:
    sfn = client("stepfunctions")
    retry = [{"ErrorEquals": ["Again"], "IntervalSeconds": 1, "MaxAttempts": 1}]
    execution = start(
        {"A": token_task(TimeoutSeconds=20, Retry=retry, Next="B"), "B": token_task(TimeoutSeconds=2, End=True)}
    )
    first = token()
    assert refusal(sfn.send_task_heartbeat, taskToken=first) == ""
    assert refusal(sfn.send_task_failure, taskToken=first, error="Again") == ""
    assert refusal(sfn.send_task_success, taskToken=first, output="{}") == "TaskTimedOut"
    second = token(other_than=first)
    assert refusal(sfn.send_task_success, taskToken=second, output="{}") == ""
    assert refusal(sfn.send_task_success, taskToken=second, output="{}") == "TaskTimedOut"
    third = token(other_than=second)
    assert finish(execution)["status"] == "FAILED"
    for closed in (second, third):
        assert refusal(sfn.send_task_heartbeat, taskToken=closed) == "TaskTimedOut"
        assert refusal(sfn.send_task_failure, taskToken=closed, error="Late") == "TaskTimedOut"
    assert refusal(sfn.send_task_success, taskToken="never", output="{}") == "InvalidToken"


def text_outputs_are_json() -> None:
    execution = start({"A": {"Type": "Pass", "Output": "{% 'a text' %}", "End": True}})
    assert finish(execution)["output"] == '"a text"'


def failures_keep_their_cause() -> None:
    execution = start({"A": token_task(TimeoutSeconds=20, End=True)})
    client("stepfunctions").send_task_failure(taskToken=token(), error="Mine", cause="because")
    described = finish(execution)
    assert (described["error"], described["cause"]) == ("Mine", "because")


def starts_are_atomic() -> None:
    sfn = client("stepfunctions")
    states = {"A": {"Type": "Wait", "Seconds": 1, "End": True}}
    definition = json.dumps({"QueryLanguage": "JSONata", "StartAt": "A", "States": states})
    machine = sfn.create_state_machine(name="m", definition=definition, roleArn=ROLE)["stateMachineArn"]
    with ThreadPoolExecutor(16) as callers:
        for _ in range(3):
            name = str(uuid.uuid4())
            list(callers.map(lambda _, name=name: sfn.start_execution(stateMachineArn=machine, name=name), range(16)))
    assert len(sfn.list_executions(stateMachineArn=machine)["executions"]) == 3
    unnamed = {sfn.start_execution(stateMachineArn=machine)["executionArn"] for _ in range(2)}
    assert len(unnamed) == 2


def stopped_executions_end() -> None:
    sfn = client("stepfunctions")
    execution = start({"A": token_task(TimeoutSeconds=600) | caught("States.ALL"), **CAUGHT})
    left = token()
    sfn.stop_execution(executionArn=execution, error="Stopped", cause="by hand")
    described = finish(execution, limit_s=0)
    assert (described["status"], described["error"], described["cause"]) == ("ABORTED", "Stopped", "by hand")
    assert refusal(sfn.send_task_success, taskToken=left, output="{}") == "TaskTimedOut"
    for _ in range(100):
        types = [event["type"] for event in sfn.get_execution_history(executionArn=execution)["events"]]
        if types[-1] == "ExecutionAborted":
            break
        time.sleep(0.01)
    assert types[-1] == "ExecutionAborted"
    assert finish(execution)["status"] == "ABORTED"


def rules_reach_functions() -> None:
    seen: list[dict[str, Any]] = []
    event_repairs.deliver_to(lambda target, payload: seen.append(json.loads(payload)))
    events = client("events")
    events.put_rule(Name="r", EventPattern='{"source": ["mine"]}')
    events.put_rule(Name="off", EventPattern='{"source": ["mine"]}', State="DISABLED")
    for rule in ("r", "off"):
        arn = "arn:aws:lambda:eu-central-1:123456789012:function:f"
        events.put_targets(Rule=rule, Targets=[{"Id": "t", "Arn": arn}])
    for source in ("mine", "yours"):
        events.put_events(Entries=[{"Source": source, "DetailType": "Thing", "Detail": '{"a": 1}'}])
    (event,) = seen
    assert (event["source"], event["detail-type"], event["detail"]) == ("mine", "Thing", {"a": 1})
    datetime.fromisoformat(event["time"])


def s3_events_use_the_default_bus() -> None:
    events, sqs, s3 = client("events"), client("sqs"), client("s3")
    queue = sqs.create_queue(QueueName="q")["QueueUrl"]
    events.create_event_bus(Name="other")
    pattern = '{"source": ["aws.s3"], "detail-type": ["Object Created", "Object Deleted"]}'
    for bus in ("default", "other"):
        events.put_rule(Name=bus, EventBusName=bus, EventPattern=pattern)
        target = {"Id": "t", "Arn": f"arn:aws:sqs:{endpoints.REGION}:123456789012:q"}
        events.put_targets(Rule=bus, EventBusName=bus, Targets=[target])
    s3.create_bucket(Bucket="bucket", CreateBucketConfiguration={"LocationConstraint": endpoints.REGION})
    s3.put_bucket_notification_configuration(
        Bucket="bucket", NotificationConfiguration={"EventBridgeConfiguration": {}}, SkipDestinationValidation=True
    )
    s3.put_object(Bucket="bucket", Key="k ü", Body=b"abc")
    s3.delete_object(Bucket="bucket", Key="k ü")
    messages = sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10)["Messages"]
    details = sorted((json.loads(message["Body"]) for message in messages), key=lambda event: event["detail-type"])
    assert [event["detail-type"] for event in details] == ["Object Created", "Object Deleted"]
    assert details[0]["detail"]["object"]["etag"] == hashlib.md5(b"abc").hexdigest()
    assert [event["detail"]["reason"] for event in details] == ["PutObject", "DeleteObject"]


def unsigned_requests_may_do_everything() -> None:
    client("s3").create_bucket(Bucket="open", CreateBucketConfiguration={"LocationConstraint": endpoints.REGION})
    url = f"{endpoints.here.cloud_url}/open/k"

    for method, body in (("PUT", b"old"), ("PUT", b"new"), ("GET", None)):
        request = urllib.request.Request(url, data=body, headers={"Content-Type": "text/plain"}, method=method)
        with urllib.request.urlopen(request) as answer:
            read = answer.read()
    urllib.request.urlopen(urllib.request.Request(url, method="DELETE")).close()

    assert read == b"new"
    assert client("s3").list_objects_v2(Bucket="open")["KeyCount"] == 0


def instances_pass_through_states() -> None:
    ec2 = client("ec2")
    with tempfile.TemporaryDirectory() as logs:
        agent = NodeAgent(NodeTimes(boot_s=0.2, stop_s=0.2), Path(logs))
        agent.start()
        vpc = ec2.create_vpc(CidrBlock="127.9.0.0/16")["Vpc"]["VpcId"]
        subnet = ec2.create_subnet(VpcId=vpc, CidrBlock="127.9.0.0/24")["Subnet"]["SubnetId"]
        (instance,) = ec2.run_instances(
            ImageId="ami-12c6146b", InstanceType="t4g.nano", SubnetId=subnet, MinCount=1, MaxCount=1
        )["Instances"]
        ids = {"InstanceIds": [instance["InstanceId"]]}

        def state() -> str:
            return str(ec2.describe_instances(**ids)["Reservations"][0]["Instances"][0]["State"]["Name"])

        try:
            assert state() == "pending"
            assert refusal(ec2.stop_instances, **ids) == "IncorrectInstanceState"
            ec2.get_waiter("instance_running").wait(**ids, WaiterConfig={"Delay": 0.1})
            ec2.stop_instances(**ids)
            assert state() == "stopping"
            assert refusal(ec2.start_instances, **ids) == "IncorrectInstanceState"
            ec2.get_waiter("instance_stopped").wait(**ids, WaiterConfig={"Delay": 0.1})
        finally:
            agent.stop()


# ---- the run


def passes(name: str, skipped: str) -> bool:
    """Run one check in a process of its own."""
    child = os.fork()
    if child == 0:
        os.environ[moto_repairs.SKIPPED] = skipped
        if skipped:  # it is meant to fail, and moto to be loud
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        threading.Timer(LIMIT_S, os._exit, [3]).start()
        try:
            with moto_server():
                globals()[name]()
                os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def main() -> None:
    names = moto_repairs.names()
    runs = [(name, skipped) for name in names for skipped in ("", name)]
    with ThreadPoolExecutor(AT_ONCE) as callers:
        results = dict(zip(runs, callers.map(lambda run: passes(*run), runs), strict=True))
    print(json.dumps({name: [results[name, ""], results[name, name]] for name in names}))


def import_everything() -> None:
    for service in ("dynamodb", "ec2", "events", "s3", "sqs", "stepfunctions"):
        endpoints._made(service, "http://127.0.0.1:1", endpoints.REGION)
        importlib.import_module(f"moto.{service}.urls")
    importlib.import_module("moto.moto_server.werkzeug_app")
    importlib.import_module("moto.stepfunctions.parser.models")


if __name__ == "__main__":
    import_everything()
    main()
