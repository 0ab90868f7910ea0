"""A deployed stack in moto, as commands see it: outputs, a table and the state machine of keys."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import boto3

from burstcache.adapters.items import to_values
from burstcache.core.keys import key_hash
from support.policies import DECIDES_BY
from support.waiting import until

REGION = "eu-west-1"
BUCKET = "mine-origin"
STACK = ("--stack-name", "mine", "--region", REGION)
TEMPLATE = {
    "Parameters": {"Tracing": {"Type": "String", "Default": "Active"}},
    "Resources": {
        "Table": {
            "Type": "AWS::DynamoDB::Table",
            "Properties": {
                "BillingMode": "PAY_PER_REQUEST",
                "KeySchema": [
                    {"AttributeName": "pk", "KeyType": "HASH"},
                    {"AttributeName": "sk", "KeyType": "RANGE"},
                ],
                "AttributeDefinitions": [
                    {"AttributeName": "pk", "AttributeType": "S"},
                    {"AttributeName": "sk", "AttributeType": "S"},
                ],
            },
        }
    },
    "Outputs": {
        "TableName": {"Value": {"Ref": "Table"}},
        "BucketName": {"Value": BUCKET},
        "KeyLifecycleArn": {"Value": f"arn:aws:states:{REGION}:123456789012:stateMachine:mine-key-lifecycle"},
        "RedisNodeArn": {"Value": f"arn:aws:states:{REGION}:123456789012:stateMachine:mine-redis-node"},
        "RedisNodes": {"Value": "node-1=i-1@10.0.0.5:6379"},
        "PolicySettings": {"Value": json.dumps({**DECIDES_BY, "AWS_REGION": REGION})},
        "PoolSettings": {"Value": json.dumps({"AWS_REGION": REGION, "POOL_MEMORY_MB": "1769"})},
    },
}
LIFE = {
    "StartAt": "Lambda",
    "States": {
        "Lambda": {"Type": "Pass", "Next": "RedisBootup"},
        "RedisBootup": {"Type": "Pass", "Next": "RedisRunning"},
        "RedisRunning": {"Type": "Wait", "Seconds": 1, "Next": "RedisShutdown"},
        "RedisShutdown": {"Type": "Pass", "End": True},
    },
}


class Aws:
    """AWS account with the deployed stack."""

    def __init__(self) -> None:
        cloudformation = self.client("cloudformation")
        cloudformation.create_stack(StackName="mine", TemplateBody=json.dumps(TEMPLATE))
        outputs = cloudformation.describe_stacks(StackName="mine")["Stacks"][0]["Outputs"]
        self.table_name = next(o["OutputValue"] for o in outputs if o["OutputKey"] == "TableName")

    def update(self, template: Mapping[str, Any], **parameters: str) -> None:
        """Deploy another template, or other parameters."""
        values = [{"ParameterKey": name, "ParameterValue": value} for name, value in parameters.items()]
        body = json.dumps(template)
        self.client("cloudformation").update_stack(StackName="mine", TemplateBody=body, Parameters=values)

    @staticmethod
    def client(service: str) -> Any:
        return boto3.client(service, region_name=REGION)

    def put(self, pk: str, sk: str, **fields: Any) -> None:
        item = to_values({"pk": pk, "sk": sk, **fields})
        self.client("dynamodb").put_item(TableName=self.table_name, Item=item)

    def put_object(self, key: str) -> None:
        """Put an object into the origin bucket."""
        s3 = self.client("s3")
        s3.create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION})
        s3.put_object(Bucket=BUCKET, Key=key, Body=b"text")

    def put_key(self, key: str, **fields: Any) -> None:
        self.put(f"KEY#{key_hash(key)}", "ROUTE", **{"key": key, "phase": "s3", "window": [], **fields})

    def start_life(self, name: str, *, on_redis_s: int = 1) -> None:
        """Start a key's execution and wait until it has entered its first state."""
        states = self.client("stepfunctions")
        machine = self.make_machine("mine-key-lifecycle", on_redis_s=on_redis_s)
        life = states.start_execution(stateMachineArn=machine, name=name, input="{}")["executionArn"]
        until(lambda: any(map(_is_entry, states.get_execution_history(executionArn=life)["events"])))

    def make_machine(self, name: str, *, on_redis_s: int = 1) -> str:
        """Create a state machine with a key's states and return its ARN."""
        role = "arn:aws:iam::123456789012:role/any"
        definition = json.dumps(LIFE).replace('"Seconds": 1', f'"Seconds": {on_redis_s}')
        made = self.client("stepfunctions").create_state_machine(name=name, definition=definition, roleArn=role)
        return str(made["stateMachineArn"])


def _is_entry(event: Any) -> bool:
    return str(event["type"]).endswith("StateEntered")
