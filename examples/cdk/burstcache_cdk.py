"""A CDK construct for a Burstcache stack: the packaged template as a nested stack, with its outputs as attributes.

CDK's CfnInclude refuses references to resources that SAM generates, such as the functions' roles. CloudFormation
transforms a nested stack's template, as it does for `make deploy`.
"""

from __future__ import annotations

from collections.abc import Mapping

from aws_cdk import CfnStack, Fn
from aws_cdk.aws_iam import IManagedPolicy, IRole, ManagedPolicy
from aws_cdk.aws_s3_assets import Asset
from constructs import Construct


class Burstcache(Construct):
    """A Burstcache stack within a CDK stack.

    Args:
        scope: The CDK stack.
        id: The construct's name within it.
        template: The template that `make package` wrote, for the CDK stack's account and region.
        parameters: Values of the template's parameters. Those left out keep their defaults.
    """

    def __init__(
        self, scope: Construct, id: str, *, template: str, parameters: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(scope, id)
        asset = Asset(self, "Template", path=template)
        self._stack = CfnStack(self, "Stack", template_url=asset.http_url, parameters=dict(parameters or {}))
        self.name = Fn.select(1, Fn.split("/", self._stack.ref))
        """The nested stack's name, for `burstcache --stack-name`."""
        self.url = f"{self.output('ApiUrl')}/objects/"
        """The front door. An object's key follows."""
        self.reader_settings = self.output("ReaderSettings")
        """A program's environment variable BURSTCACHE_READER."""
        self.reader_policy = self._policy("ReaderPolicyArn")
        self.writer_policy = self._policy("WriterPolicyArn")

    def output(self, name: str) -> str:
        """Return an output of the nested stack. If its condition is false, the deployment fails."""
        return str(self._stack.get_att(f"Outputs.{name}").to_string())

    def grant_read(self, role: IRole) -> None:
        """Let a role read with `burstcache.client`."""
        role.add_managed_policy(self.reader_policy)

    def grant_write(self, role: IRole) -> None:
        """Let a role read and write with `burstcache.client`."""
        self.grant_read(role)
        role.add_managed_policy(self.writer_policy)

    def _policy(self, output: str) -> IManagedPolicy:
        return ManagedPolicy.from_managed_policy_arn(self, output, self.output(output))
