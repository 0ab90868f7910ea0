"""Deployment and deletion of a run's stacks: by SAM CLI and CloudFormation, or in local clouds."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from botocore.exceptions import WaiterError

from burstcache.core.errors import BurstcacheError
from burstcache_cli.delete import remove_stack
from burstcache_cli.samconfig import overrides_text
from burstcache_cli.stack import Stack, absent_stack, failed_resources, local_stack
from burstcache_evidence import network, visitor
from burstcache_evidence.certificate import delete_certificates, import_certificate
from burstcache_evidence.helpers import create_helper, delete_helper
from burstcache_evidence.leftovers import leftovers
from burstcache_evidence.plan import StackPlan, needs_network
from burstcache_local import state_file

TAG = "burstcache-evidence"
_BUILT = Path(".aws-sam/build/template.yaml")
_WAIT = {"Delay": 15, "MaxAttempts": 160}  # 40 min
_PAUSE_S = 0.1


class NotDeployedError(BurstcacheError):
    """A stack of the run was not deployed."""


class Deployment(Protocol):
    """Where a run's stacks are deployed. Each method may be repeated after an interruption."""

    tags: Mapping[str, str]

    def deploy(self, name: str, plan: StackPlan) -> None:
        """Deploy a stack, or wait for a deployment under way."""
        ...

    def stack(self, name: str) -> Stack:
        """Return a deployed stack."""
        ...

    def front_url(self, name: str) -> str:
        """Return the URL of a stack's front door."""
        ...

    def delete(self, name: str) -> None:
        """Delete a stack with its buckets. An absent stack counts as deleted."""
        ...

    def logs(self, name: str) -> Path | None:
        """Return the folder of a stack's logs, None if they are in CloudWatch."""
        ...

    def update(self, name: str, plan: StackPlan) -> Mapping[str, Any]:
        """Update a stack with the plan's further parameters, and return the logical ids that were replaced."""
        ...

    def leftovers(self, name: str) -> Mapping[str, list[str]]:
        """Return a stack's leftovers by kind of resource. Every kind that was looked for has an entry."""
        ...


class SamDeployment:
    """Stacks in an AWS account, by SAM CLI from the built template.

    Attributes:
        tags: The tags of the run, on every stack.
    """

    def __init__(self, session: Any, run: str, *, profile: str = "") -> None:
        self._session, self._profile = session, profile
        self.tags: Mapping[str, str] = {TAG: run}

    def deploy(self, name: str, plan: StackPlan) -> None:
        """Deploy a stack, or wait for a deployment that an interrupted run began."""
        stack = self.stack(name)
        if not absent_stack(stack):
            status = stack.version[-1]
            if status == "REVIEW_IN_PROGRESS":  # a change set that was not executed
                self.delete(name)
            else:
                return self._await(name, status)
        self._sam(name, self._parameters(name, plan), "CREATE")
        return None

    def _parameters(self, name: str, plan: StackPlan) -> dict[str, str]:
        """Return the parameters of a stack, with those of the certificate and the network that it needs."""
        parameters = dict(plan.parameters)
        if parameters.get("FrontDoor") == "alb":
            parameters["CertificateArn"] = import_certificate(self._session.client("acm"), name, self.tags)
        if needs_network(plan):
            parameters |= create_helper(self._session, name + network.SUFFIX, network.TEMPLATE, self.tags)
        return parameters

    def _sam(self, name: str, parameters: Mapping[str, str], verb: str) -> None:
        if subprocess.run(self._command(name, parameters), check=False).returncode:
            self._raise(name, verb)

    def _command(self, name: str, parameters: Mapping[str, str]) -> list[str]:
        chosen = ["--profile", self._profile] if self._profile else []
        return [
            *("sam", "deploy", "--template-file", str(_BUILT), "--stack-name", name),
            *("--region", str(self._session.region_name), *chosen),
            *("--capabilities", "CAPABILITY_IAM", "--resolve-s3", "--no-confirm-changeset"),
            *(
                "--tags",
                *(f"{key}={value}" for key, value in self.tags.items()),
                "--parameter-overrides",
                overrides_text(parameters),
            ),
        ]

    def _await(self, name: str, status: str) -> None:
        if status == "CREATE_IN_PROGRESS":
            waiter = self._session.client("cloudformation").get_waiter("stack_create_complete")
            try:
                waiter.wait(StackName=name, WaiterConfig=_WAIT)
            except WaiterError:
                self._raise(name)
        elif status != "CREATE_COMPLETE":
            self._raise(name)

    def _raise(self, name: str, verb: str = "CREATE") -> None:
        failed = list(failed_resources(self._session.client("cloudformation"), name, verb))
        raise NotDeployedError(f"{name}: {'; '.join(dict.fromkeys(failed)) or 'see the events of the stack'}")

    def stack(self, name: str) -> Stack:
        """Return a deployed stack."""
        return Stack(name, self._session, {})

    def front_url(self, name: str) -> str:
        """Return the URL of a stack's front door."""
        return self.stack(name).output("ApiUrl").rstrip("/")

    def delete(self, name: str) -> None:
        """Delete a stack with its helpers, its buckets with every version of every object, and its certificate."""
        delete_helper(self._session, name + visitor.SUFFIX)  # it uses the stack's network and policies
        stack = self.stack(name)
        if not absent_stack(stack):
            remove_stack(stack, with_buckets=True)
        delete_helper(self._session, name + network.SUFFIX)
        delete_certificates(self._session.client("acm"), name)

    def logs(self, name: str) -> Path | None:
        """Return None: logs are in CloudWatch."""
        return None

    def update(self, name: str, plan: StackPlan) -> Mapping[str, Any]:
        """Update a stack, and return the logical ids of the resources that were replaced or removed.

        Raises:
            NotDeployedError: CloudFormation has rolled the update back.
        """
        status = self.stack(name).version[-1]
        if "UPDATE" in status and status.endswith("IN_PROGRESS"):  # an interrupted run began it
            waiter = self._session.client("cloudformation").get_waiter("stack_update_complete")
            waiter.wait(StackName=name, WaiterConfig=_WAIT)
            return {"replaced": [], "is_resumed": True}
        before = self._physical_ids(name)
        self._sam(name, {**self._parameters(name, plan), **plan.update}, "UPDATE")
        after = self._physical_ids(name)
        return {"replaced": sorted(each for each in before if after.get(each) != before[each])}

    def _physical_ids(self, name: str) -> dict[str, str]:
        return {each.logical_id: each.physical_id for each in self.stack(name).resources}

    def leftovers(self, name: str) -> Mapping[str, list[str]]:
        """Return a stack's leftovers in the account by kind of resource."""
        return leftovers(self._session, name, self.tags)


class LocalDeployment:
    """Stacks in local clouds, one process each, that survive this one as CloudFormation's stacks do."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder.resolve() / "local"
        self.tags: Mapping[str, str] = {}
        self._started: dict[str, subprocess.Popen[bytes]] = {}  # by this process

    def deploy(self, name: str, plan: StackPlan) -> None:
        """Start a local cloud, or wait for the start that an interrupted run began."""
        folder = self._folder / name
        folder.mkdir(parents=True, exist_ok=True)
        if not self._is_alive(name):
            parameters = dict(plan.parameters)
            if parameters.get("FrontDoor") == "alb":
                parameters["CertificateArn"] = "arn:aws:acm:eu-west-1:123456789012:certificate/local"
            command = [sys.executable, "-m", "burstcache_cli.cli", "local", "up", "--port", "0", "--endpoint-port", "0"]
            command += ["--state-dir", str(folder), "--boot-s", "1"]
            command += [word for each in parameters.items() for word in ("--parameter", "=".join(each))]
            environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
            with (folder / "up.log").open("wb") as log:
                up = self._started[name] = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, env=environment
                )
            (folder / "up.pid").write_text(f"{up.pid} {state_file.start_of(up.pid)}")
        while state_file.read(folder) is None:
            if not self._is_alive(name):
                raise NotDeployedError(f"{name}: {(folder / 'up.log').read_text()[-400:]}")
            time.sleep(_PAUSE_S)

    def _is_alive(self, name: str) -> bool:
        try:
            pid, started = (self._folder / name / "up.pid").read_text().split()
        except (OSError, ValueError):
            return False
        return state_file.start_of(int(pid)) == started

    def stack(self, name: str) -> Stack:
        """Return a running cloud's stack."""
        return local_stack(self._running(name))

    def front_url(self, name: str) -> str:
        """Return the URL of a cloud's front door."""
        return self._running(name).front_url

    def _running(self, name: str) -> state_file.RunningCloud:
        running = state_file.read(self._folder / name)
        if running is None:
            raise NotDeployedError(f"{name}: no local cloud of this name runs")
        return running

    def delete(self, name: str) -> None:
        """End a local cloud."""
        while self._is_alive(name):
            pid = int((self._folder / name / "up.pid").read_text().split()[0])
            os.kill(pid, 15)
            self._await_end(name)

    def _await_end(self, name: str) -> None:
        while self._is_alive(name):
            time.sleep(_PAUSE_S)
        if started := self._started.pop(name, None):
            started.wait()

    def logs(self, name: str) -> Path | None:
        """Return the folder of a cloud's logs."""
        return Path(self._running(name).log_dir)

    def update(self, name: str, plan: StackPlan) -> Mapping[str, Any]:
        """Return nothing: a local cloud has no updates."""
        return {}

    def leftovers(self, name: str) -> Mapping[str, list[str]]:
        """Return the cloud's process if it is alive."""
        return {"processes": [name] if self._is_alive(name) else []}
