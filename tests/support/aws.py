"""The stack's AWS resources in moto: the table as the template declares it, the bucket, the event bus, instances."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any

import boto3
import botocore.session
import pytest
from botocore import UNSIGNED
from botocore.config import Config
from botocore.handlers import disable_signing
from moto import mock_aws
from moto.backends import get_backend
from moto.core.utils import utcnow

from burstcache.adapters.clients import Clients
from burstcache.adapters.items import to_values
from burstcache_local import speed
from burstcache_local.functions import ACCOUNT
from burstcache_local.moto import registry as moto_repairs
from burstcache_local.stepfunctions.http import HttpApi
from support import dynamodb_endpoint, quick_moto
from support.answers_at_once import answer_at_once
from support.project import template
from support.roles import BUCKET as BUCKET
from support.roles import BUS as BUS
from support.roles import REGION as REGION
from support.roles import TABLE as TABLE
from support.roles import check_call

_ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "id",
    "AWS_SECRET_ACCESS_KEY": "secret",
    "AWS_DEFAULT_REGION": REGION,
    "MOTO_EC2_LOAD_DEFAULT_AMIS": "false",  # thousands of images, loaded again for every test
}


@cache
def _table_properties() -> dict[str, Any]:
    resources = template()["Resources"].values()
    (properties,) = (each["Properties"] for each in resources if each["Type"] == "AWS::DynamoDB::Table")
    return {name: properties[name] for name in ("AttributeDefinitions", "BillingMode", "KeySchema")}


@contextmanager
def mocked_aws() -> Iterator[None]:
    """Provide an empty AWS in this process."""
    moto_repairs.apply()
    quick_moto.apply()
    if dynamodb_endpoint.is_set():
        dynamodb_endpoint.apply()
        dynamodb_endpoint.wipe()
    with pytest.MonkeyPatch.context() as patch, mock_aws():
        for name in [name for name in os.environ if name.startswith("AWS_ENDPOINT_URL")]:
            patch.delenv(name)
        for name, value in _ENVIRONMENT.items():
            patch.setenv(name, value)
        try:
            yield
        finally:
            _INSTANCES.take_back()
            if dynamodb_endpoint.is_set():
                dynamodb_endpoint.wipe()


@cache
def session() -> boto3.Session:
    """Return the shared session. It caches the services' models, which take longer to load than most tests run."""
    return boto3.Session()


@cache
def clients() -> Clients:
    """Return the clients that all worlds share. moto needs neither signatures nor a user agent."""
    session = botocore.session.Session()
    session.set_default_client_config(Config(signature_version=UNSIGNED, user_agent="test"))
    session.register("before-parameter-build", check_call)
    made = Clients("control", session=boto3.Session(botocore_session=session))
    if dynamodb_endpoint.is_set():
        answer_at_once(made.dynamodb, dynamodb_endpoint.respond)
    if speed.ENABLED:
        if not dynamodb_endpoint.is_set():
            answer_at_once(made.dynamodb, quick_moto.dynamodb)
        answer_at_once(made.ec2, quick_moto.ec2)
        answer_at_once(made.s3, quick_moto.s3)
    made.s3.meta.events.register_first("choose-signer.s3", disable_signing)
    return made


def make_stack() -> None:
    """Create the table, the bucket and the event bus."""
    clients().dynamodb.create_table(TableName=TABLE, **_table_properties())
    clients().s3.create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION})
    clients().events.create_event_bus(Name=BUS)


def make_instance() -> str:
    """Create a stopped instance and return its id."""
    return _INSTANCES.hand_out()


def is_on(instance_id: str) -> bool:
    """Return whether an instance runs, without a call to EC2: a process on the instance needs none to know."""
    return bool(get_backend("ec2")[ACCOUNT][REGION].get_instance(instance_id).state == "running")


class _Instances:
    """Stopped instances in an EC2 that outlives a test: creating its default networks takes longer than most tests."""

    def __init__(self) -> None:
        self._ec2: Any = None
        self._ids: list[str] = []
        self._handed_out = 0

    def hand_out(self) -> str:
        if self._handed_out == 0:
            dict.__setitem__(get_backend("ec2"), ACCOUNT, self._ec2 or get_backend("ec2")[ACCOUNT])
        if self._handed_out == len(self._ids):
            self._ids.append(self._make())
        self._handed_out += 1
        instance = get_backend("ec2")[ACCOUNT][REGION].get_instance(self._ids[self._handed_out - 1])
        instance.launch_time = utcnow()
        return str(instance.id)

    def take_back(self) -> None:
        """Remove all instances from this AWS before moto resets it."""
        if self._handed_out:
            self._handed_out, self._ec2 = 0, get_backend("ec2").pop(ACCOUNT)
            for id_ in self._ids:
                self._ec2[REGION].get_instance(id_).stop()

    def _make(self) -> str:
        ec2 = clients().ec2
        image = ec2.register_image(Name=f"image {len(self._ids)}", RootDeviceName="/dev/xvda")["ImageId"]
        (instance,) = ec2.run_instances(ImageId=image, MinCount=1, MaxCount=1)["Instances"]
        ec2.stop_instances(InstanceIds=[instance["InstanceId"]])
        return instance["InstanceId"]


_INSTANCES = _Instances()


def put_row(pk: str, sk: str, columns: Mapping[str, Any]) -> None:
    """Put an item into the table."""
    clients().dynamodb.put_item(TableName=TABLE, Item=to_values({"pk": pk, "sk": sk, **columns}))


def answer_by(client: Any, api: HttpApi) -> None:
    """Answer a Step Functions client in this process from now on."""

    def respond(request: Mapping[str, Any]) -> tuple[int, Mapping[str, str], bytes]:
        status, body = api.respond(request["headers"]["X-Amz-Target"], request["body"])
        return status, {}, body

    answer_at_once(client, respond)
