"""State databases that run as tasks in the local run."""

from __future__ import annotations

from pathlib import Path

from burstcache_local.cloud import LocalCloud, LocalOptions
from burstcache_local.machines.tasks import TaskTimes
from support.waiting import until


def options_for_tasks(folder: Path, **parameters: str) -> LocalOptions:
    """Return options for a stack whose databases are tasks that end a second after their last holder."""
    quick = {"StateGraceS": "1", "PolicyOverrides": "redis_check_s=1"}
    tasks = {"Relay": "none", "StateOn": "fargate-spot", "RedisTaskMemoryGb": "0.5", **quick}
    return LocalOptions(task_times=TaskTimes(0.1, 0.1, 0.1), run_dir=folder, parameters=tasks | parameters)


class Tasks:
    """The tasks of the stack's databases."""

    def __init__(self, cloud: LocalCloud) -> None:
        self._cloud, self._ecs = cloud, cloud.client("ecs")
        self._cluster = cloud.function_variables("RedisControlFunction")["TASK_CLUSTER"]

    def phase(self, database: str) -> str:
        asked = self._cloud.invoke("StateFunction", {"op": "look", "database": database})
        return str(asked["phase"])

    def await_sleep(self, database: str) -> None:
        until(lambda: self.phase(database) == "stopped")

    def running(self) -> list[str]:
        """Return the ARNs of the tasks that nobody has asked to stop."""
        return list(self._ecs.list_tasks(cluster=self._cluster, desiredStatus="RUNNING")["taskArns"])

    def stop(self) -> None:
        """Stop all tasks, as a person does in the console."""
        for task in self.running():
            self._ecs.stop_task(cluster=self._cluster, task=task, reason="by hand")

    def snapshots(self, database: str) -> list[str]:
        bucket = self._cloud.outputs["StateBucketName"]
        listed = self._cloud.client("s3").list_objects_v2(Bucket=bucket, Prefix=f"state-{database}/")
        return [each["Key"] for each in listed.get("Contents", ())]
