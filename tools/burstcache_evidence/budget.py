"""A budget that is spent at once, and a queue that keeps its message until `--bill`. All of it costs nothing."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from botocore.exceptions import ClientError

_LIMIT_USD = "0.01"  # an account that ran the stacks has spent that this month
_KEEP_S = 14 * 24 * 3600  # the most of SQS


def budget_name(run: str) -> str:
    """Return the name of a run's budget, topic and queue."""
    return f"bc-evidence-budget-{run}"


def create_budget(session: Any, run: str, tags: Mapping[str, str]) -> dict[str, Any]:
    """Create a run's budget, and the queue that gets its message. May be repeated after an interruption."""
    name, account = budget_name(run), _account(session)
    sns, sqs = session.client("sns"), session.client("sqs")
    queue = sqs.create_queue(QueueName=name, Attributes={"MessageRetentionPeriod": str(_KEEP_S)}, tags=dict(tags))
    url = queue["QueueUrl"]
    queue_arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    topic = sns.create_topic(Name=name, Tags=[{"Key": key, "Value": value} for key, value in tags.items()])["TopicArn"]
    from_account = {"StringEquals": {"aws:SourceAccount": account}}
    from_topic = {"ArnEquals": {"aws:SourceArn": topic}}
    sns.set_topic_attributes(
        TopicArn=topic,
        AttributeName="Policy",
        AttributeValue=_policy("budgets.amazonaws.com", "sns:Publish", topic, from_account),
    )
    sqs.set_queue_attributes(
        QueueUrl=url, Attributes={"Policy": _policy("sns.amazonaws.com", "sqs:SendMessage", queue_arn, from_topic)}
    )
    sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=queue_arn)
    try:
        session.client("budgets", region_name="us-east-1").create_budget(
            AccountId=account,
            Budget={
                "BudgetName": name,
                "BudgetLimit": {"Amount": _LIMIT_USD, "Unit": "USD"},
                "TimeUnit": "MONTHLY",
                "BudgetType": "COST",
                "CostTypes": {"IncludeCredit": False, "IncludeRefund": False},  # as in the template
            },
            NotificationsWithSubscribers=[
                {
                    "Notification": {
                        "NotificationType": "ACTUAL",
                        "ComparisonOperator": "GREATER_THAN",
                        "Threshold": 100,
                        "ThresholdType": "PERCENTAGE",
                    },
                    "Subscribers": [{"SubscriptionType": "SNS", "Address": topic}],
                }
            ],
        )
    except ClientError as error:
        if error.response["Error"]["Code"] != "DuplicateRecordException":
            raise
    return {"budget": name, "queue": url, "topic": topic}


def budget_messages(session: Any, created: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return subject and text of each message that AWS Budgets has sent."""
    sqs, messages = session.client("sqs"), []
    while received := sqs.receive_message(QueueUrl=created["queue"], MaxNumberOfMessages=10, WaitTimeSeconds=5).get(
        "Messages"
    ):
        for each in received:
            body = json.loads(each["Body"])
            messages.append({"subject": body.get("Subject", ""), "text": body["Message"]})
            sqs.delete_message(QueueUrl=created["queue"], ReceiptHandle=each["ReceiptHandle"])
    return messages


def delete_budget(session: Any, created: Mapping[str, Any]) -> None:
    """Delete a run's budget, topic and queue. What is absent counts as deleted."""
    budgets, account = session.client("budgets", region_name="us-east-1"), _account(session)
    try:
        budgets.delete_budget(AccountId=account, BudgetName=created["budget"])
    except ClientError as error:
        if error.response["Error"]["Code"] != "NotFoundException":
            raise
    session.client("sns").delete_topic(TopicArn=created["topic"])  # with its subscription
    try:
        session.client("sqs").delete_queue(QueueUrl=created["queue"])
    except ClientError as error:
        if "NonExistentQueue" not in error.response["Error"]["Code"]:
            raise


def _account(session: Any) -> str:
    return str(session.client("sts").get_caller_identity()["Account"])


def _policy(service: str, action: str, resource: str, condition: Mapping[str, Any]) -> str:
    statement = {
        "Effect": "Allow",
        "Principal": {"Service": service},
        "Action": action,
        "Resource": resource,
        "Condition": condition,
    }
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})
