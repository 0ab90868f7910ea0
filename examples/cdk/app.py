"""A CDK app with a Burstcache stack, and a role that reads through it.

Its context: `template`, the path of the packaged template; `parameters`, the stack's parameters as JSON.
"""

from __future__ import annotations

import json

from aws_cdk import App, CfnOutput, Stack
from aws_cdk.aws_iam import Role, ServicePrincipal

from burstcache_cdk import Burstcache

app = App()
stack = Stack(app, "Cached")
cache = Burstcache(
    stack,
    "Burstcache",
    template=app.node.try_get_context("template") or "../../build/packaged.yaml",
    parameters=json.loads(app.node.try_get_context("parameters") or "{}"),
)
reader = Role(stack, "Reader", assumed_by=ServicePrincipal("lambda.amazonaws.com"))
cache.grant_read(reader)

CfnOutput(stack, "Objects", value=cache.url)
CfnOutput(stack, "ReaderRole", value=reader.role_name)
CfnOutput(stack, "ReaderSettings", value=cache.reader_settings)
CfnOutput(stack, "StackName", value=cache.name)
app.synth()
