"""The guard, which enforces the policies of the stack's roles and denies calls as AWS does.

A caller's access key is a function name, an instance id or a role name. All other access keys belong to users, who are
allowed everything. Denials are logged, because readers that may not use a tier silently fall back to S3.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from operator import is_not
from typing import Any
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from burstcache_local.errors import FunctionNotFoundError
from burstcache_local.functions import ACCOUNT
from burstcache_local.iam.guardrail import Guardrail
from burstcache_local.iam.needs import Place, missing_object, needs
from burstcache_local.iam.policies import Grant, Need, granting, grants
from burstcache_local.signed_requests import (
    MalformedRequestError,
    Request,
    access_denied,
    refuse,
    request_of,
    signer_of,
)
from burstcache_local.stepfunctions.errors import StateError
from burstcache_local.stepfunctions.execution import ROLE, Call

_LOG = logging.getLogger(__name__)
_EVENTS = "events.amazonaws.com"
_CACHE_SIZE = 10_000  # entries; each object key adds a few
_TASKS = {
    "lambda:invoke": ("lambda", "Invoke", "Lambda.AWSLambdaException"),
    "aws-sdk:dynamodb:updateItem": ("dynamodb", "UpdateItem", "DynamoDb.DynamoDbException"),
}


class Guard:
    """An authorizer for all roles of one region.

    Args:
        region: The region.
        documents: Returns a role's policies, given its name. None reads the policies from moto.
        guardrail: Denies calls whatever the roles' policies allow.
    """

    def __init__(
        self,
        region: str,
        documents: Callable[[str], Sequence[Mapping[str, Any]]] | None = None,
        guardrail: Guardrail | None = None,
    ) -> None:
        self._region, self._documents = region, documents or _documents
        self._boundary = _boundary if documents is None else lambda role: None
        self._guardrail = guardrail or Guardrail()
        self._place = Place(region, self._tags, self._key, self._roles)
        self.used: set[tuple[str, Grant]] = set()  # role names with grants
        self._cache: dict[tuple[object, ...], tuple[Sequence[Mapping[str, Any]], Grant | None]] = {}

    def problem(self, role: str, needed: Iterable[Need]) -> str:
        """Return AWS's error message for the first permission that a role lacks, or an empty string."""
        documents, boundary = self._documents(role), self._boundary(role)
        for need in needed:
            grant = self._granting(role, documents, need)
            reason = self._guardrail.problem(need, self._region)
            if boundary is not None and granting([boundary], need) is None:
                reason = reason or f"because no permissions boundary allows the {need.action} action"
            if grant is None or reason:
                message = (
                    f"{role} is not authorized to perform: {need.action} on resource: {need.resource} {reason}".rstrip()
                )
                _LOG.warning("%s, with %s", message, dict(need.context))
                return message
            self.used.add((role, grant))
        return ""

    def _granting(self, role: str, documents: Sequence[Mapping[str, Any]], need: Need) -> Grant | None:
        """Return the result of `granting`, cached per role, need and policies."""
        key = (role, need.action, need.resource, *need.context.items())
        policies, grant = self._cache.get(key, ((), None))
        if len(policies) != len(documents) or any(map(is_not, policies, documents)):
            grant = granting(documents, need)
            if len(self._cache) >= _CACHE_SIZE:
                self._cache.clear()
            self._cache[key] = documents, grant
        return grant

    def granted(self, role: str) -> set[Grant]:
        """Return all permissions that a role's policies grant."""
        return {grant for grant, _ in grants(self._documents(role))}

    def before(self, application: WSGIApplication) -> WSGIApplication:
        """Return a WSGI application that denies unauthorized calls and forwards all others to `application`."""

        def answer(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
            signer, _ = signer_of(environ.get("HTTP_AUTHORIZATION", ""))
            if not (role := self.role_of(signer)):
                return application(environ, start_response)
            request = request_of(environ)
            if problem := self._problem(role, request):
                return refuse(request.service, access_denied(request.service, problem), start_response)
            return application(environ, self._watched(role, request, start_response))

        return answer

    def task(self, resource: str, call: Call) -> Call:
        """Wrap a task's call so that the role of its state machine must allow the call."""
        service, operation, error = _TASKS[resource]

        async def checked(arguments: dict[str, Any]) -> Any:
            role = ROLE.get().rpartition("/")[2]
            if problem := self.problem(role, needs(service, operation, arguments, self._place)):
                raise StateError(error, problem)
            return await call(arguments)

        return checked

    def invocation_problem(self, signer: str, function: str) -> str:
        """Return the reason why a caller may not invoke a function, or an empty string if the call is allowed."""
        role = self.role_of(signer)
        return self.problem(role, needs("lambda", "Invoke", {"FunctionName": function}, self._place)) if role else ""

    def delivery_problem(self, target: Mapping[str, Any], rule: str) -> str:
        """Return the reason why a rule may not deliver events to a function, or an empty string if delivery is allowed.

        Args:
            target: The rule's target. If it names a role, that role needs the permission. Otherwise the function's
                resource policy must grant it.
            rule: ARN of the rule.

        Raises:
            FunctionNotFoundError: There is no such function.
        """
        arn = target["Arn"]
        if role := target.get("RoleArn"):
            return self.problem(role.rpartition("/")[2], needs("lambda", "Invoke", {"FunctionName": arn}, self._place))
        return _problem_of_service(_rights_at_function(self._region, arn), "lambda:InvokeFunction", arn, rule)

    def queue_problem(self, queue: str, rule: str) -> str:
        """Return the reason why a rule (ARN) may not send to a queue (ARN), or an empty string if it may."""
        return _problem_of_service(_rights_at_queue(self._region, queue), "sqs:SendMessage", queue, rule)

    def source_problem(self, function: str, queue: str) -> str:
        """Return the reason why a function may not take messages from a queue (ARN), or an empty string."""
        actions = ("sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes")
        return self.problem(self.role_of(function), [Need(action, queue) for action in actions])

    def failure_problem(self, function: str, destination: str) -> str:
        """Return the reason why a function may not send to its failure destination, or an empty string."""
        action = "events:PutEvents" if ":event-bus/" in destination else "sqs:SendMessage"
        return self.problem(self.role_of(function), [Need(action, destination)])

    def role_of(self, signer: str) -> str:
        """Return the name of an access key's role, or an empty string if the key has no role."""
        from moto.awslambda.utils import get_backend
        from moto.ec2.models import ec2_backends
        from moto.iam.models import iam_backends

        if signer.startswith("i-"):
            associations = ec2_backends[ACCOUNT][self._region].iam_instance_profile_associations
            profile = associations[signer].iam_instance_profile if signer in associations else None
            return str(profile.roles[0].name) if profile else ""
        function = get_backend(ACCOUNT, self._region)._lambdas._functions.get(signer)
        if function:
            return str(function["latest"].role.rpartition("/")[2])
        return signer if any(role.name == signer for role in iam_backends[ACCOUNT]["aws"].roles.values()) else ""

    def _problem(self, role: str, request: Request) -> str:
        try:
            needed = needs(request.service, request.operation, request.parameters, self._place)
        except KeyError as error:
            message = f"{request.operation} needs a parameter that the request lacks: {error}"
            raise MalformedRequestError(request.service, message) from error
        return self.problem(role, needed)

    def _watched(self, role: str, request: Request, start_response: StartResponse) -> StartResponse:
        """Wrap `start_response` so that a 404 checks whether the caller may learn that the object is missing."""
        if request.operation not in ("GetObject", "HeadObject", "PutObject", "DeleteObject"):  # writes with If-Match
            return start_response

        def started(status: str, *rest: Any) -> Any:
            if status.startswith("404"):
                self.problem(role, missing_object(request.parameters["Bucket"]))
            return start_response(status, *rest)

        return started

    def _tags(self, id_: str) -> Mapping[str, str]:
        from moto.ec2.exceptions import InvalidInstanceIdError, InvalidVolumeIdError
        from moto.ec2.models import ec2_backends

        if not id_.startswith(("i-", "vol-")):
            return {tag["key"]: tag["value"] for tag in _task_definition(self._region, id_).tags}
        backend = ec2_backends[ACCOUNT][self._region]
        try:
            resource = backend.get_volume(id_) if id_.startswith("vol-") else backend.get_instance(id_)
        except (InvalidInstanceIdError, InvalidVolumeIdError):
            return {}
        return {tag["key"]: tag["value"] for tag in resource.get_tags()}

    def _roles(self, definition: str) -> list[str]:
        """Return the ARNs of the roles that a task definition passes to ECS."""
        found = _task_definition(self._region, definition)
        return [role for name in ("execution_role_arn", "task_role_arn") if (role := getattr(found, name, ""))]

    def _key(self, id_: str) -> str:
        """Return the ARN of the KMS key that encrypts a bucket or an instance's volumes, or an empty string.

        EC2's default key is excluded, because EC2 uses this key without a permission of the caller.
        """
        from moto.ec2.models import ec2_backends
        from moto.s3.models import s3_backends

        if id_.startswith("i-"):
            ec2 = ec2_backends[ACCOUNT][self._region]
            attached = (each for each in ec2.volumes.values() if each.attachment and each.attachment.instance.id == id_)
            return next(
                (key for each in attached if (key := each.kms_key_id) not in (None, ec2.default_kms_key_id)), ""
            )
        bucket = s3_backends[ACCOUNT]["aws"].buckets.get(id_)
        rule = (bucket.encryption or {}).get("Rule", {}) if bucket else {}
        return str(rule.get("ApplyServerSideEncryptionByDefault", {}).get("KMSMasterKeyID", ""))


def _problem_of_service(statements: list[Mapping[str, Any]], action: str, resource: str, source: str) -> str:
    """Return the reason why EventBridge may not use a resource for a rule, or an empty string if use is allowed."""
    allowed = [each for each in statements if each["Principal"] == {"Service": _EVENTS}]
    if granting([{"Statement": allowed}], Need(action, resource, {"aws:SourceArn": (source,)})):
        return ""
    message = f"{_EVENTS} is not authorized to perform: {action} on resource: {resource}"
    _LOG.warning("%s, with %s", message, source)
    return message


def _rights_at_function(region: str, arn: str) -> list[Mapping[str, Any]]:
    """Return the statements of a function's resource policy."""
    from moto.awslambda.utils import get_backend

    function = get_backend(ACCOUNT, region)._lambdas._functions.get(arn.rpartition(":")[2])
    if function is None:
        raise FunctionNotFoundError(f"Function not found: {arn}")
    return list(function["latest"].policy.statements)


def _rights_at_queue(region: str, arn: str) -> list[Mapping[str, Any]]:
    """Return the statements of a queue's resource policy."""
    from moto.sqs.models import sqs_backends

    policy = sqs_backends[ACCOUNT][region].queues[arn.rpartition(":")[2]].policy
    return list(_parsed(policy)["Statement"]) if policy else []


def _task_definition(region: str, name: str) -> Any:
    from moto.ecs.models import ecs_backends

    return ecs_backends[ACCOUNT][region].describe_task_definition(name)


def _documents(role: str) -> list[Mapping[str, Any]]:
    from moto.iam.models import iam_backends

    backend_role = iam_backends[ACCOUNT]["aws"].get_role(role)
    managed = (policy.versions[0].document for policy in backend_role.managed_policies.values())  # one version each
    policies = (*backend_role.policies.values(), *managed)  # JSON strings, or objects from a template
    return [_parsed(policy) if isinstance(policy, str) else policy for policy in policies]


def _boundary(role: str) -> Mapping[str, Any] | None:
    """Return a role's permissions boundary, or None if there is none, or none that this account has."""
    from moto.iam.models import iam_backends

    backend = iam_backends[ACCOUNT]["aws"]
    policy = backend.managed_policies.get(backend.get_role(role).permissions_boundary_arn or "")
    return _parsed(policy.versions[0].document) if policy else None


@cache
def _parsed(policy: str) -> Mapping[str, Any]:
    return json.loads(policy)  # type: ignore[no-any-return]
