"""The budget: it is made only if it is asked for, sees this stack alone, and its message reaches the function."""

from __future__ import annotations

from typing import Any

from support.deployed import deployed


def _parts(cloudformation: dict[str, Any], **answers: str) -> dict[str, Any]:
    return {name: part for name, part in deployed(cloudformation, answers).items() if "Budget" in name}


def test_there_is_no_budget_unless_it_is_asked_for(cloudformation: dict[str, Any]) -> None:
    assert _parts(cloudformation) == {}
    assert "MonthlyBudget" in _parts(cloudformation, MonthlyBudgetUsd="50")
    assert _parts(cloudformation, MonthlyBudgetUsd="50", Relay="none", RedisNodeCount="0") == {}  # nothing to pause


def test_the_budget_is_that_of_the_stack_and_tells_the_topic_of_the_function(cloudformation: dict[str, Any]) -> None:
    parts = _parts(cloudformation, MonthlyBudgetUsd="50")
    budget = parts["MonthlyBudget"]["Properties"]

    assert budget["Budget"]["CostFilters"]["TagKeyValue"] == [
        {"Fn::Join": ["$", ["aws:cloudformation:stack-name", {"Ref": "AWS::StackName"}]]}
    ]
    (told,) = budget["NotificationsWithSubscribers"]
    assert told["Subscribers"] == [{"SubscriptionType": "SNS", "Address": {"Ref": "BudgetTopic"}}]
    assert parts["BudgetSubscription"]["Properties"]["TopicArn"] == {"Ref": "BudgetTopic"}
    assert parts["BudgetPermission"]["Properties"]["SourceArn"] == {"Ref": "BudgetTopic"}


def test_who_gets_alarms_by_mail_gets_the_budgets_message_too(cloudformation: dict[str, Any]) -> None:
    parts = _parts(cloudformation, MonthlyBudgetUsd="50", AlarmEmail="me@example.com")

    (told,) = parts["MonthlyBudget"]["Properties"]["NotificationsWithSubscribers"]
    assert [each["SubscriptionType"] for each in told["Subscribers"]] == ["SNS", "EMAIL"]
