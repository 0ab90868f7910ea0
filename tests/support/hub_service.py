"""The ECS service that runs a pool's hub, in moto."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import boto3

from burstcache.adapters.hub_service import HubService
from support.roles import REGION
from support.world import World


def add_hub_service(world: World) -> Any:
    """Add a hub service with no running task to a world's stack, and return its ECS client."""
    ecs = boto3.client("ecs", region_name=REGION)
    ecs.create_cluster(clusterName="cluster")
    ecs.register_task_definition(family="hub", containerDefinitions=[{"name": "hub", "image": "hub", "memory": 1_024}])
    ecs.create_service(cluster="cluster", serviceName="hub", taskDefinition="hub", desiredCount=0)
    world.pool = replace(world.pool, hubs=HubService("cluster/hub", lambda _: ecs))
    return ecs
