"""Losses of state in a CloudFormation change set: databases, volumes and buckets that it replaces or removes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

_MOVE = 'Copy its keys before and after (docs/use/state.md, "Move the data")'
_SNAPSHOT = "Or take a snapshot of the volume while the database sleeps (`aws ec2 create-snapshot --volume-id"


@dataclass(frozen=True, slots=True)
class Stored:
    """Databases of state of a deployed stack."""

    persistence: str  # none, rdb or aof
    databases: Sequence[str]  # in the order of the template's resources
    volumes: Set[str]  # logical ids of the existing volumes for logs


@dataclass(frozen=True, slots=True)
class Loss:
    """A resource whose data a change set would leave behind."""

    resource: str  # logical and physical id
    reason: str
    remedy: str

    @property
    def text(self) -> str:
        """The loss in one line."""
        return f"{self.resource} {self.reason}. {self.remedy}."


def losses(changes: Sequence[Mapping[str, Any]], stored: Stored, databases: Sequence[str]) -> list[Loss]:
    """Return the losses of executing a change set.

    Args:
        changes: Its resource changes, as from CloudFormation's DescribeChangeSet.
        stored: The databases before.
        databases: Their names after.
    """
    ending = {each["LogicalResourceId"]: each for each in changes if _ends(each)}
    found = [loss for name, change in ending.items() for loss in _losses_of(name, change, stored)]
    return [*found, *_renamed(stored, databases, ending.keys())]


def _ends(change: Mapping[str, Any]) -> bool:
    """Return whether a resource ends, or may end, as it is: `Conditional` depends on values of other resources."""
    return change["Action"] == "Remove" or change.get("Replacement", "False") in ("True", "Conditional")


def _losses_of(name: str, change: Mapping[str, Any], stored: Stored) -> Iterator[Loss]:
    verb = "would be removed" if change["Action"] == "Remove" else "would be replaced"
    physical_id = change.get("PhysicalResourceId", "")
    resource = f"{name} ({physical_id})"
    kind, number = name[:-1], name[-1:]
    if name == "StateBucket":
        yield Loss(resource, f"{verb}, and no database would read its snapshots any more", _MOVE)
    elif kind == "StateVolume":
        snapshot = f"{_SNAPSHOT} {physical_id}`); CloudFormation takes one, too"
        yield Loss(resource, f"{verb}, with the log of {_database(stored, number)}", f"{_MOVE}. {snapshot}")
    elif name == "StateTask" and stored.persistence == "none":
        names = " and ".join(stored.databases)
        yield Loss(resource, f"{verb}, with everything in {names} if they are awake", _MOVE)
    elif kind == "StateInstance" and stored.persistence == "none":
        yield Loss(resource, f"{verb}, with everything in {_database(stored, number)} if it is awake", _MOVE)
    elif kind == "StateInstance" and stored.persistence == "aof" and f"StateVolume{number}" not in stored.volumes:
        reason = f"{verb}, with the log of {_database(stored, number)} on its root volume"
        find = f"aws ec2 describe-volumes --filters Name=attachment.instance-id,Values={physical_id}"
        yield Loss(resource, reason, f"{_MOVE}. {_SNAPSHOT} ID`; `{find}` has the ID)")


def _renamed(stored: Stored, databases: Sequence[str], ending: Set[str]) -> Iterator[Loss]:
    """Yield the volumes that stay but would get another database."""
    for number, (former, new) in enumerate(zip(stored.databases, databases, strict=False), 1):
        name = f"StateVolume{number}"
        if former != new and name in stored.volumes and name not in ending:
            remedy = "Give StateDatabases the former names in their order, and new ones behind them"
            yield Loss(name, f"has the log of {former}, and would belong to {new}", remedy)


def _database(stored: Stored, number: str) -> str:
    index = int(number) - 1 if number.isdigit() else len(stored.databases)
    return stored.databases[index] if index < len(stored.databases) else "its database"
