"""A patch for EC2 states, which adds the transient instance states that moto skips.

EC2 rejects some calls in transient states.
"""

from __future__ import annotations

import json
from typing import Any

from burstcache_local.moto.registry import repair
from burstcache_local.moto.services import Agent, of_region

_CODES = {"pending": 0, "running": 16, "shutting-down": 32, "terminated": 48, "stopping": 64, "stopped": 80}


def set_state(instance: Any, name: str) -> None:
    """Set the state of an instance. A terminated instance loses its volumes."""
    if name == "terminated":
        for volume in instance.ec2_backend.volumes.values():
            if volume.attachment and volume.attachment.instance is instance:
                volume.attachment = None
    instance._state.name, instance._state.code = name, _CODES[name]


def publish_state(instance: Any) -> None:
    """Publish an instance's state change on the default event bus, as EC2 does."""
    from moto.events.models import events_backends

    backend = instance.ec2_backend
    detail = {"instance-id": instance.id, "state": instance.state}
    arn = f"arn:aws:ec2:{backend.region_name}:{backend.account_id}:instance/{instance.id}"
    event = {
        "Source": "aws.ec2",
        "DetailType": "EC2 Instance State-change Notification",
        "Resources": [arn],
        "Detail": json.dumps(detail),
    }
    events_backends[backend.account_id][backend.region_name].put_events([event])


@repair
def instances_pass_through_states() -> None:
    """Add transient states. moto sets the final state immediately, and can start a stopping instance."""
    from moto.ec2.models.instances import Instance

    make = Instance.__init__

    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        make(self, *args, **kwargs)
        if agent := _agent_of(self):
            agent.created(self)

    Instance.__init__ = init
    _pass_through(Instance, "start", "pending", refused_in={"stopping", "shutting-down", "terminated"})
    _pass_through(Instance, "stop", "stopping", refused_in={"pending", "shutting-down", "terminated"})
    _pass_through(Instance, "terminate", "shutting-down", refused_in=set())


@repair
def volumes_have_tags_and_one_instance() -> None:
    """Add tags and keys of a stack's volumes, which moto ignores. moto attaches a volume to any number of instances."""
    from moto.ec2.exceptions import EC2ClientError
    from moto.ec2.models.elastic_block_store import EBSBackend, Volume

    make, attach = Volume.create_from_cloudformation_json, EBSBackend.attach_volume

    def create(cls: Any, resource_name: str, cloudformation_json: Any, *args: Any, **kwargs: Any) -> Any:
        volume = make(resource_name, cloudformation_json, *args, **kwargs)
        properties = cloudformation_json["Properties"]
        volume.kms_key_id = properties.get("KmsKeyId")
        for tag in properties.get("Tags", []):
            volume.add_tag(tag["Key"], tag["Value"])
        return volume

    def attach_volume(self: Any, volume_id: str, *args: Any, **kwargs: Any) -> Any:
        if self.get_volume(volume_id).attachment:
            raise EC2ClientError("VolumeInUse", f"{volume_id} is already attached to an instance")
        return attach(self, volume_id, *args, **kwargs)

    Volume.create_from_cloudformation_json = classmethod(create)
    EBSBackend.attach_volume = attach_volume


def _pass_through(model: Any, name: str, transient: str, *, refused_in: set[str]) -> None:
    """Wrap an instance's method so that the instance enters the transient state first."""
    from moto.ec2.exceptions import EC2ClientError

    change, done = getattr(model, name), {"start": "running", "stop": "stopped", "terminate": "terminated"}[name]

    def method(self: Any) -> Any:
        agent = _agent_of(self)
        if agent is None:
            return change(self)
        before = self.state
        if before in refused_in:
            verb = {"start": "started", "stop": "stopped"}[name]
            message = f"The instance '{self.id}' is not in a state from which it can be {verb}."
            raise EC2ClientError("IncorrectInstanceState", message)
        previous = change(self)
        if before in (transient, done):
            set_state(self, before)
        else:
            agent.enter(self, transient)
        return previous

    setattr(model, name, method)


def _agent_of(instance: Any) -> Agent | None:
    services = of_region(instance.ec2_backend.region_name)
    return services.instances if services else None
