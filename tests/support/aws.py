"""What the stack has at AWS, made in moto: the table as the template declares it, the bucket, the bus, an instance."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any, Final

import boto3
import pytest
from botocore.awsrequest import AWSResponse
from botocore.compat import HTTPHeaders
from moto import mock_aws
from samtranslator.yaml_helper import yaml_parse

from burstcache.adapters.clients import Clients
from burstcache.adapters.items import to_values
from burstcache_local.moto import registry as moto_repairs
from burstcache_local.stepfunctions.http import HttpApi
from support.project import ROOT

REGION: Final = "eu-central-1"
TABLE, BUCKET, BUS = "table", "origin", "bus"
_ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "id",
    "AWS_SECRET_ACCESS_KEY": "secret",
    "AWS_DEFAULT_REGION": REGION,
    "MOTO_EC2_LOAD_DEFAULT_AMIS": "false",  # thousands of images, loaded anew for every test
}


@cache
def _table_properties() -> dict[str, Any]:
    resources = yaml_parse((ROOT / "template.yaml").read_text())["Resources"].values()
    (properties,) = (each["Properties"] for each in resources if each["Type"] == "AWS::DynamoDB::Table")
    return {name: properties[name] for name in ("AttributeDefinitions", "BillingMode", "KeySchema")}


@contextmanager
def mocked_aws() -> Iterator[None]:
    """Be an AWS that has nothing yet, in this process."""
    moto_repairs.apply()
    with pytest.MonkeyPatch.context() as patch, mock_aws():
        for name in [name for name in os.environ if name.startswith("AWS_ENDPOINT_URL")]:
            patch.delenv(name)
        for name, value in _ENVIRONMENT.items():
            patch.setenv(name, value)
        yield


@cache
def session() -> boto3.Session:
    """Return the one session: it keeps the services' models, which take longer to read than most tests."""
    return boto3.Session()


def new_clients() -> Clients:
    """Return clients of a world's own."""
    return Clients("control", session=session())


@cache
def clients() -> Clients:
    """Return the clients that all worlds share."""
    return new_clients()


def make_stack() -> None:
    """Make the table, the bucket and the bus."""
    clients().dynamodb.create_table(TableName=TABLE, **_table_properties())
    clients().s3.create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION})
    clients().events.create_event_bus(Name=BUS)


def make_instance() -> str:
    """Make an instance that is stopped, and return its id."""
    ec2 = clients().ec2
    image = ec2.register_image(Name="any", RootDeviceName="/dev/xvda")["ImageId"]
    (instance,) = ec2.run_instances(ImageId=image, MinCount=1, MaxCount=1)["Instances"]
    ec2.stop_instances(InstanceIds=[instance["InstanceId"]])
    return instance["InstanceId"]


def put_row(pk: str, sk: str, columns: Mapping[str, Any]) -> None:
    """Put an item into the table."""
    clients().dynamodb.put_item(TableName=TABLE, Item=to_values({"pk": pk, "sk": sk, **columns}))


def answer_by(client: Any, api: HttpApi) -> Any:
    """Let a boto3 client of Step Functions be answered in this process, and return it."""

    def answer(request: Any, **_: object) -> AWSResponse:
        status, body = api.respond(request.headers["X-Amz-Target"].decode(), request.body)
        return AWSResponse(request.url, status, HTTPHeaders(), _Raw(body))

    client.meta.events.register_first("before-send.sfn.*", answer)
    return client


class _Raw(io.BytesIO):
    """A body as urllib3 hands it over."""

    def stream(self, **_: object) -> Iterator[bytes]:
        yield self.read()
