"""One check per repair to moto, run in a process that has all repairs and in one that lacks just that repair.

`python repair_checks.py` prints {repair: [passes with all, passes without it]} as JSON. The processes are forks of one
that has imported everything but repaired nothing: that is what costs the time.
"""

from __future__ import annotations

import base64
import hashlib
import importlib
import json
import os
import tempfile
import threading
import time
import traceback
import urllib.error
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from botocore.exceptions import ClientError

from burstcache_local.faults import Faults
from burstcache_local.machines.nodes import NodeAgent, NodeTimes
from burstcache_local.machines.tasks import TaskRunner, TaskTimes
from burstcache_local.moto import registry as moto_repairs
from burstcache_local.moto.server import moto_server
from burstcache_local.moto.services import REGION, Services, new_client
from support.waiting import LIMIT_S

AT_ONCE = 4
CHECK_LIMIT_S = LIMIT_S // 2  # the run as a whole has LIMIT_S
_PATIENT: Any = {"Delay": 0.1, "MaxAttempts": 5 * LIMIT_S}  # what a waiter of boto3 does otherwise is over in seconds


# ---- helpers


def create_table(services: Services, name: str) -> None:
    services.client("dynamodb").create_table(
        TableName=name,
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )


def refusal(call: Callable[..., object], **arguments: Any) -> str:
    """Return the error code of a call, or nothing if it is accepted."""
    try:
        call(**arguments)
    except ClientError as error:
        return str(error.response["Error"]["Code"])
    return ""


# ---- checks, named as the repairs


def items_change_one_at_a_time(services: Services) -> None:
    """Callers who each put an item unless it is there: where they look and write in turns, more than one succeeds."""
    from moto.dynamodb.models import Table

    dynamodb, callers, rows, look = services.client("dynamodb"), 8, 20, Table.get_item
    create_table(services, "items")

    def look_and_pause(*arguments: Any, **named: Any) -> Any:
        found = look(*arguments, **named)
        time.sleep(0.01)  # others have their turn
        return found

    Table.get_item = look_and_pause

    def is_first(number: int) -> bool:
        row = {"pk": {"S": str(number // callers)}}
        return not refusal(
            dynamodb.put_item, TableName="items", Item=row, ConditionExpression="attribute_not_exists(pk)"
        )

    with ThreadPoolExecutor(callers) as threads:
        assert sum(threads.map(is_first, range(rows * callers))) == rows


def impossible_writes_are_refused(services: Services) -> None:
    """A batch that puts a key twice. `tests/unit/local/test_refused_writes.py` has all others."""
    create_table(services, "items")
    puts = [{"PutRequest": {"Item": {"pk": {"S": "k"}, "n": {"N": number}}}} for number in "12"]

    assert refusal(services.client("dynamodb").batch_write_item, RequestItems={"items": puts}) == "ValidationException"


def objects_are_no_forms(services: Services) -> None:
    s3, form = services.client("s3"), "application/x-www-form-urlencoded"
    s3.create_bucket(Bucket="forms", CreateBucketConfiguration={"LocationConstraint": REGION})
    for body in (b"\x00", b"key=1&acl=%20", b"acl"):
        s3.put_object(Bucket="forms", Key="k", Body=body, ContentType=form)
        found = s3.get_object(Bucket="forms", Key="k")
        assert (found["Body"].read(), found["ContentType"]) == (body, form)


def replaced_objects_stay_readable(services: Services) -> None:
    """A PUT while another one of the same key is about to be answered."""
    from moto.s3.models import notifications

    s3, send, bodies = services.client("s3"), notifications.send_event, [b"newer"]
    s3.create_bucket(Bucket="replaced", CreateBucketConfiguration={"LocationConstraint": REGION})

    def put_another(*arguments: Any, **named: Any) -> None:
        if bodies:
            services.client("s3").put_object(Bucket="replaced", Key="k", Body=bodies.pop())
        send(*arguments, **named)

    notifications.send_event = put_another
    put = s3.put_object(Bucket="replaced", Key="k", Body=b"old")
    found = s3.get_object(Bucket="replaced", Key="k")

    assert put["ETag"] == f'"{hashlib.md5(b"old").hexdigest()}"'
    assert found["Body"].read() == b"newer"


def etags_are_of_whole_objects(services: Services) -> None:
    """An object's file, which nobody else may read while its digest is computed."""
    from moto.s3.models import FakeKey

    key = FakeKey("k", b"whole", account_id="123456789012", region_name=REGION)
    read, are_locked = key._value_buffer.read, list[bool]()

    def watched(*arguments: Any) -> Any:
        are_locked.append(key.lock.locked())
        return read(*arguments)

    key._value_buffer.read = watched

    assert key.etag == f'"{hashlib.md5(b"whole").hexdigest()}"'
    assert are_locked
    assert all(are_locked)


def _bucket(services: Services, versioning: str = "") -> Any:
    s3 = services.client("s3")
    s3.create_bucket(Bucket="bucket", CreateBucketConfiguration={"LocationConstraint": REGION})
    if versioning:
        s3.put_bucket_versioning(Bucket="bucket", VersioningConfiguration={"Status": versioning})
    return s3


def _md5(body: bytes) -> str:
    return base64.b64encode(hashlib.md5(body).digest()).decode()


def bodies_are_what_their_digest_says(services: Services) -> None:
    s3 = _bucket(services)
    put = partial(s3.put_object, Bucket="bucket", Key="k", Body=b"sent")

    assert [refusal(put, ContentMD5=digest) for digest in (_md5(b"sent"), _md5(b"other"), "zzz", "MDAw")] == [
        "",
        "BadDigest",
        "InvalidDigest",
        "InvalidDigest",
    ]
    upload = s3.create_multipart_upload(Bucket="bucket", Key="k")["UploadId"]
    part = partial(s3.upload_part, Bucket="bucket", Key="k", UploadId=upload, PartNumber=1, Body=b"sent")
    assert refusal(part, ContentMD5=_md5(b"other")) == "BadDigest"
    assert _status_of_deletion(services, b"<Delete/>", _md5(b"other")) == 400


def _status_of_deletion(services: Services, xml: bytes, digest: str) -> int:
    request = urllib.request.Request(f"{services.cloud_url}/bucket?delete", data=xml)
    request.add_header("Content-MD5", digest)
    request.add_header("Content-Type", "application/xml")
    try:
        with urllib.request.urlopen(request) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def deletions_are_xml(services: Services) -> None:
    _bucket(services)
    xml = b"<Delete><Object><Key>\x01</Key></Object></Delete>"

    assert _status_of_deletion(services, xml, _md5(xml)) == 400


def metadata_has_a_limit(services: Services) -> None:
    s3 = _bucket(services)
    put = partial(s3.put_object, Bucket="bucket", Key="k", Body=b"")

    assert refusal(put, Metadata={"name": "x" * 2_044}) == ""
    for call in (put, partial(s3.create_multipart_upload, Bucket="bucket", Key="k")):
        assert refusal(call, Metadata={"name": "x" * 2_045}) == "MetadataTooLarge"
        assert refusal(call, Metadata={"a": "x" * 1_024, "b": "x" * 1_024}) == "MetadataTooLarge"
    copy = partial(s3.copy_object, Bucket="bucket", Key="other", CopySource="bucket/k", MetadataDirective="REPLACE")
    assert refusal(copy, Metadata={"name": "x" * 2_045}) == "MetadataTooLarge"


def keys_have_a_limit(services: Services) -> None:
    s3 = _bucket(services)

    for key, code in (("x" * 1_024, ""), ("x" * 1_025, "KeyTooLongError"), ("é" * 513, "KeyTooLongError")):
        assert refusal(s3.put_object, Bucket="bucket", Key=key, Body=b"") == code
        assert refusal(s3.get_object, Bucket="bucket", Key=key) == code
        assert refusal(s3.delete_object, Bucket="bucket", Key=key) == code


def keys_may_have_line_breaks(services: Services) -> None:
    s3 = _bucket(services)
    for key in ("a\nb", "a\n", "\na", "\n", "a/\n/b", "a\r\nb", "a\tb"):
        s3.put_object(Bucket="bucket", Key=key, Body=key.encode())
        assert s3.head_object(Bucket="bucket", Key=key)["ContentLength"] == len(key)
        assert s3.get_object(Bucket="bucket", Key=key)["Body"].read() == key.encode()
        assert [each["Key"] for each in s3.list_objects_v2(Bucket="bucket")["Contents"]] == [key]
        s3.delete_objects(Bucket="bucket", Delete={"Objects": [{"Key": key}]})
        assert s3.list_objects_v2(Bucket="bucket")["KeyCount"] == 0


def unchanged_objects_say_when_they_changed(services: Services) -> None:
    s3 = _bucket(services)
    etag = s3.put_object(Bucket="bucket", Key="k", Body=b"")["ETag"]
    for read in (s3.get_object, s3.head_object):
        changed = read(Bucket="bucket", Key="k")["ResponseMetadata"]["HTTPHeaders"]["last-modified"]
        try:
            read(Bucket="bucket", Key="k", IfNoneMatch=etag)
            raise AssertionError("it is unchanged")
        except ClientError as error:
            headers = error.response["ResponseMetadata"]["HTTPHeaders"]
            assert (headers["etag"], headers["last-modified"]) == (etag, changed)


def malformed_ranges_are_ignored(services: Services) -> None:
    s3 = _bucket(services)
    s3.put_object(Bucket="bucket", Key="k", Body=b"body")

    for text in ("x", "bytes", "items=0-0", "bytes=0-0=", "bytes=+0-0", "bytes=0-0,2-2"):
        found = s3.get_object(Bucket="bucket", Key="k", Range=text)
        assert (found["ResponseMetadata"]["HTTPStatusCode"], found["Body"].read()) == (200, b"body")
        assert s3.head_object(Bucket="bucket", Key="k", Range=text)["ContentLength"] == 4
    for text, part in (("bytes=-2", b"dy"), ("Bytes=0-1", b"bo")):
        assert s3.get_object(Bucket="bucket", Key="k", Range=text)["Body"].read() == part


def deletions_of_versions_send_events(services: Services) -> None:
    s3, events = _bucket(services, "Enabled"), services.client("events")
    seen: list[dict[str, Any]] = []
    services.deliver = lambda target, payload, rule, trace: seen.append(json.loads(payload)["detail"])
    events.put_rule(Name="r", EventPattern='{"source": ["aws.s3"], "detail-type": ["Object Deleted"]}')
    arn = "arn:aws:lambda:eu-central-1:123456789012:function:f"
    events.put_targets(Rule="r", Targets=[{"Id": "t", "Arn": arn}])
    s3.put_bucket_notification_configuration(
        Bucket="bucket", NotificationConfiguration={"EventBridgeConfiguration": {}}, SkipDestinationValidation=True
    )

    def told() -> list[tuple[str, str, str]]:
        found = [(each["object"]["key"], each["object"]["version-id"], each["deletion-type"]) for each in seen]
        assert {each["reason"] for each in seen} <= {"DeleteObject"}
        seen.clear()
        return found

    versions = [s3.put_object(Bucket="bucket", Key="k", Body=body)["VersionId"] for body in (b"1", b"2")]
    s3.delete_object(Bucket="bucket", Key="k", VersionId=versions[1])
    assert told() == [("k", versions[1], "Permanently Deleted")]
    assert s3.get_object(Bucket="bucket", Key="k")["Body"].read() == b"1"

    marker = s3.delete_object(Bucket="bucket", Key="k")["VersionId"]
    assert told() == [("k", marker, "Delete Marker Created")]
    s3.delete_object(Bucket="bucket", Key="k", VersionId=marker)
    assert told() == [("k", marker, "Permanently Deleted")]

    objects = [{"Key": "k"}, {"Key": "k", "VersionId": versions[0]}, {"Key": "k", "VersionId": "unknown"}]
    (made, _, _) = s3.delete_objects(Bucket="bucket", Delete={"Objects": objects})["Deleted"]
    assert told() == [
        ("k", made["DeleteMarkerVersionId"], "Delete Marker Created"),
        ("k", versions[0], "Permanently Deleted"),
    ]
    s3.put_bucket_versioning(Bucket="bucket", VersioningConfiguration={"Status": "Suspended"})
    s3.put_object(Bucket="bucket", Key="k", Body=b"3")
    s3.delete_object(Bucket="bucket", Key="k")
    assert told() == [("k", "null", "Delete Marker Created")]


def suspended_versioning_keeps_versions(services: Services) -> None:
    s3 = _bucket(services, "Enabled")
    version = s3.put_object(Bucket="bucket", Key="k", Body=b"1")["VersionId"]
    s3.put_bucket_versioning(Bucket="bucket", VersioningConfiguration={"Status": "Suspended"})
    for body in (b"2", b"3"):
        s3.put_object(Bucket="bucket", Key="k", Body=body)

    def read(**which: str) -> bytes:
        return bytes(s3.get_object(Bucket="bucket", Key="k", **which)["Body"].read())

    listed = s3.list_object_versions(Bucket="bucket")["Versions"]
    assert {each["VersionId"] for each in listed} == {version, "null"}
    assert (read(), read(VersionId=version)) == (b"3", b"1")
    s3.delete_object(Bucket="bucket", Key="k")
    assert refusal(s3.get_object, Bucket="bucket", Key="k") == "NoSuchKey"
    s3.delete_object(Bucket="bucket", Key="k", VersionId="null")
    assert read() == b"1"


def scans_are_written_at_once(services: Services) -> None:
    from moto.core import serialize

    create_table(services, "rows")
    dynamodb = services.client("dynamodb")
    rows = [
        {"pk": {"S": str(number)}, "n": {"N": "7"}, "use": {"B": b"\x00\xff"}, "window": {"L": [{"S": "é"}]}}
        for number in range(3)
    ]
    for row in rows:
        dynamodb.put_item(TableName="rows", Item=row)
    members, write = 0, serialize.JSONSerializer._serialize

    def counting(self: Any, *arguments: Any, **named: Any) -> Any:
        nonlocal members
        members += 1
        return write(self, *arguments, **named)

    serialize.JSONSerializer._serialize = counting
    try:
        found = dynamodb.scan(TableName="rows")
    finally:
        serialize.JSONSerializer._serialize = write

    assert sorted(found["Items"], key=lambda row: row["pk"]["S"]) == rows
    assert found["Count"] == 3
    assert members == 0


def models_are_forgotten(services: Services) -> None:
    from moto.dynamodb.models.dynamo_type import Item

    create_table(services, "items")
    for number in range(3):
        services.client("dynamodb").put_item(TableName="items", Item={"pk": {"S": "k"}, "n": {"N": str(number)}})
    assert len(Item.instances_tracked) == 0


def rules_reach_functions(services: Services) -> None:
    seen: list[dict[str, Any]] = []
    services.deliver = lambda target, payload, rule, trace: seen.append(json.loads(payload))
    events = services.client("events")
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


def s3_events_use_the_default_bus(services: Services) -> None:
    events, sqs, s3 = services.client("events"), services.client("sqs"), services.client("s3")
    queue = sqs.create_queue(QueueName="q")["QueueUrl"]
    events.create_event_bus(Name="other")
    pattern = '{"source": ["aws.s3"], "detail-type": ["Object Created", "Object Deleted"]}'
    for bus in ("default", "other"):
        events.put_rule(Name=bus, EventBusName=bus, EventPattern=pattern)
        target = {"Id": "t", "Arn": f"arn:aws:sqs:{REGION}:123456789012:q"}
        events.put_targets(Rule=bus, EventBusName=bus, Targets=[target])
    s3.create_bucket(Bucket="bucket", CreateBucketConfiguration={"LocationConstraint": REGION})
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


def unsigned_requests_may_do_everything(services: Services) -> None:
    services.client("s3").create_bucket(Bucket="open", CreateBucketConfiguration={"LocationConstraint": REGION})
    url = f"{services.cloud_url}/open/k"

    for method, body in (("PUT", b"old"), ("PUT", b"new"), ("GET", None)):
        request = urllib.request.Request(url, data=body, headers={"Content-Type": "text/plain"}, method=method)
        with urllib.request.urlopen(request) as answer:
            read = answer.read()
    urllib.request.urlopen(urllib.request.Request(url, method="DELETE")).close()

    assert read == b"new"
    assert services.client("s3").list_objects_v2(Bucket="open")["KeyCount"] == 0


def tasks_pass_through_states(services: Services) -> None:
    ecs = services.client("ecs")
    with tempfile.TemporaryDirectory() as logs:
        runner = TaskRunner(services, TaskTimes(0.2, 0.2, 0.2), Path(logs), Faults())
        runner.start()
        ecs.create_cluster(clusterName="tasks")
        container = {"name": "c", "image": "i", "entryPoint": ["sleep", str(LIMIT_S)]}
        definition = ecs.register_task_definition(
            family="f", networkMode="awsvpc", cpu="256", memory="512", containerDefinitions=[container]
        )["taskDefinition"]["taskDefinitionArn"]
        network = {"awsvpcConfiguration": {"subnets": ["subnet-1"], "securityGroups": []}}
        provider = [{"capacityProvider": "FARGATE_SPOT"}]
        parts = {"capacityProviderStrategy": provider, "networkConfiguration": network, "clientToken": "t"}
        (task,) = ecs.run_task(cluster="tasks", taskDefinition=definition, **parts)["tasks"]
        (again,) = ecs.run_task(cluster="tasks", taskDefinition=definition, **parts)["tasks"]
        ids = {"cluster": "tasks", "tasks": [task["taskArn"]]}
        try:
            assert (task["lastStatus"], task["taskArn"]) == ("PROVISIONING", again["taskArn"])
            ecs.get_waiter("tasks_running").wait(**ids, WaiterConfig=_PATIENT)
            ecs.stop_task(cluster="tasks", task=task["taskArn"])
            ecs.get_waiter("tasks_stopped").wait(**ids, WaiterConfig=_PATIENT)
            assert refusal(ecs.stop_task, cluster="tasks", task="other") == "InvalidParameterException"
        finally:
            runner.stop()


def instances_pass_through_states(services: Services) -> None:
    ec2 = services.client("ec2")
    with tempfile.TemporaryDirectory() as logs:
        agent = NodeAgent(services, NodeTimes(boot_s=2, stop_s=2), Path(logs))
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
            ec2.get_waiter("instance_running").wait(**ids, WaiterConfig=_PATIENT)
            ec2.stop_instances(**ids)
            assert state() == "stopping"
            assert refusal(ec2.start_instances, **ids) == "IncorrectInstanceState"
            ec2.get_waiter("instance_stopped").wait(**ids, WaiterConfig=_PATIENT)
        finally:
            agent.stop()


def volumes_have_tags_and_one_instance(services: Services) -> None:
    ec2, tags = services.client("ec2"), [{"Key": "owner", "Value": "me"}]
    properties = {"Size": 1, "AvailabilityZone": f"{services.region}a", "Tags": tags}
    body = {"Resources": {"Volume": {"Type": "AWS::EC2::Volume", "Properties": properties}}}
    services.client("cloudformation").create_stack(StackName="volume", TemplateBody=json.dumps(body))
    (volume,) = ec2.describe_volumes(Filters=[{"Name": "size", "Values": ["1"]}])["Volumes"]
    made = ec2.run_instances(ImageId="ami-12c6146b", InstanceType="t4g.nano", MinCount=2, MaxCount=2)["Instances"]
    first, second = (each["InstanceId"] for each in made)
    ec2.attach_volume(VolumeId=volume["VolumeId"], InstanceId=first, Device="/dev/sdf")

    attached = partial(ec2.attach_volume, VolumeId=volume["VolumeId"], InstanceId=second, Device="/dev/sdf")

    assert refusal(attached) == "VolumeInUse"
    assert tags[0] in volume["Tags"]


# ---- the run


def passes(name: str, skipped: str) -> bool:
    """Run one check in a process of its own."""
    child = os.fork()
    if child == 0:
        os.environ[moto_repairs.SKIPPED] = skipped
        if skipped:  # it is meant to fail, and moto to be loud
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        threading.Timer(CHECK_LIMIT_S, os._exit, [3]).start()
        try:
            with moto_server() as services:
                globals()[name](services)
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
    for service in ("dynamodb", "ec2", "ecs", "events", "s3", "sqs"):
        new_client(service, "http://127.0.0.1:1", REGION)
        importlib.import_module(f"moto.{service}.urls")
    importlib.import_module("moto.moto_server.werkzeug_app")


if __name__ == "__main__":
    import_everything()
    main()
