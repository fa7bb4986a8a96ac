"""The permissions that roles need, and the decisions about them, while the local cloud enforces IAM."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

from constructs_optim_local.api.call_log import MOST_RECORDS
from constructs_optim_local.api.error import ApiError

ALLOW = "Allow"


@dataclass(frozen=True)
class Permission:
    """An action on a resource, with the request's condition keys."""

    action: str
    resource: str
    context: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True)
class Refused(Permission):
    """A refused permission; ``reason`` is the end of IAM's message about it."""

    reason: str = ""


def through_s3(action: str, key_arn: str) -> Permission:
    """Return the permission to use a KMS key through S3, for a caller that reads or writes an object.

    Source: KMS developer guide, "kms:ViaService".
    """
    return Permission(action, key_arn, {"kms:ViaService": f"s3.{key_arn.split(':')[3]}.amazonaws.com"})


@dataclass(frozen=True)
class Authorization:
    """One evaluation of policies.

    Attributes:
        account: the role's account. Several accounts may have a role of the same name.
        role: name of the evaluated role.
        action: for example ``s3:GetObject``; ``sts:AssumeRole`` if a service assumed the role.
        resource: the ARN, or ``*``.
        decision: Allow, Deny (a statement denies it) or ImplicitDeny (none allows it).
        statement: ``Sid`` of the deciding statement; empty without a Sid or a deciding statement.
        time: time in seconds since 1970.
    """

    account: str
    role: str
    action: str
    resource: str
    decision: str
    statement: str
    time: float


class AuthorizationLog:
    """The newest evaluations, in order; ``most`` is how many."""

    def __init__(self, most: int = MOST_RECORDS) -> None:
        self._lock = threading.Lock()
        self._evaluated = deque[Authorization](maxlen=most)

    def add(self, account: str, role: str, action: str, resource: str, decision: str, statement: str) -> None:
        """Record an evaluation."""
        found = Authorization(account, role, action, resource, decision, statement, time.time())
        with self._lock:
            self._evaluated.append(found)

    def to_json(self, role: str | None = None) -> list[dict[str, Any]]:
        """Return the evaluations, or those of one role."""
        with self._lock:
            return [asdict(found) for found in self._evaluated if role in (None, found.role)]


@dataclass(frozen=True)
class StoredObject:
    """An object of a bucket; ``key_arn`` is the KMS key that encrypts it, if any."""

    name: str
    key_arn: str | None


class Roles(Protocol):
    """The roles that services assume, and their permissions."""

    def trusts(self, role_arn: str, service: str, source_arn: str) -> bool:
        """Return whether ``service`` may assume the role for the resource ``source_arn``."""
        ...

    def allows(self, role_arn: str, permission: Permission) -> bool:
        """Return whether the role's policies, its permissions boundary and the resource's policy allow it."""
        ...

    def refused(self, role_arn: str, permission: Permission) -> Refused | None:
        """Return the permission with the reason for its refusal; None if it is allowed."""
        ...

    def objects(self, bucket: str, prefix: str) -> list[StoredObject]:
        """Return the objects below a prefix; empty if this cloud does not have the bucket."""
        ...

    def default_key(self, bucket: str) -> str | None:
        """Return the KMS key that encrypts new objects of a bucket."""
        ...

    def credentials(self, role_arn: str) -> dict[str, str]:
        """Return variables that make an SDK use the role."""
        ...


class Unchecked:
    """The roles of a cloud that does not enforce IAM: every role has all permissions."""

    def trusts(self, role_arn: str, service: str, source_arn: str) -> bool:
        """Return True."""
        return True

    def allows(self, role_arn: str, permission: Permission) -> bool:
        """Return True."""
        return True

    def refused(self, role_arn: str, permission: Permission) -> Refused | None:
        """Return None: nothing is refused."""
        return None

    def objects(self, bucket: str, prefix: str) -> list[StoredObject]:
        """Return no objects, because there is nothing to check."""
        return []

    def default_key(self, bucket: str) -> str | None:
        """Return no key, because there is nothing to check."""
        return None

    def credentials(self, role_arn: str) -> dict[str, str]:
        """Return no variables: callers keep their permissions."""
        return {}


def access_denied(message: str) -> ApiError:
    """Return a JSON service's response to a caller without permission."""
    return ApiError("AccessDeniedException", message)


# The kinds of SageMaker resources whose ARN ends in the request's name.
_KINDS = {
    "AIBenchmarkJob": "ai-benchmark-job",
    "AIRecommendationJob": "ai-recommendation-job",
    "AIWorkloadConfig": "ai-workload-config",
    "EndpointConfig": "endpoint-config",
    "Endpoint": "endpoint",
    "InferenceComponent": "inference-component",
    "Model": "model",
    "OptimizationJob": "optimization-job",
    "TrainingJob": "training-job",
}
# Operations on two resources, with the second kind; and operations whose name does not end in the kind.
_OTHER_KINDS = {
    "AIBenchmarkJob": "ai-benchmark-job",
    "AIRecommendationJob": "ai-recommendation-job",
    "AIWorkloadConfig": "ai-workload-config",
    "CreateEndpoint": ("EndpointConfig",),
    "UpdateEndpoint": ("EndpointConfig",),
    "CreateInferenceComponent": ("Endpoint",),
}
_ALTERATIONS = {
    "DeleteEndpointPolicy": "DeleteEndpoint",
    "GetEndpointPolicy": "GetEndpoint",
    "PutEndpointPolicy": "PutEndpoint",
    "UpdateEndpointWeightsAndCapacities": "UpdateEndpoint",
    "UpdateInferenceComponentRuntimeConfig": "UpdateInferenceComponent",
}
_ROLE_MEMBERS = ("RoleArn", "ExecutionRoleArn")


def through_sagemaker(key_arn: str) -> Permission:
    """Return the caller's permission to grant SageMaker a KMS key for the volumes of launched instances.

    Sources: developer guide, "SageMaker API Permissions" (CreateEndpoint: "kms:CreateGrant (required only if the
    associated EndPointConfig has a KmsKeyId specified)"); API reference, CreateEndpointConfig, ``KmsKeyId``: "The KMS
    key policy must grant permission to the IAM role that you specify in your CreateEndpoint, UpdateEndpoint requests".
    """
    service = f"sagemaker.{key_arn.split(':')[3]}.amazonaws.com"
    return Permission("kms:CreateGrant", key_arn, {"kms:ViaService": service, "kms:GrantIsForAWSResource": "true"})


def needed_permissions(
    service: str, operation: str, request: Mapping[str, Any], *, account: str, region: str
) -> Iterator[Permission]:
    """Yield the permissions that a caller of this package's services needs.

    Source: Service Authorization Reference, "Actions, resources, and condition keys for Amazon SageMaker": a creation
    with tags depends on AddTags, and one with a role on PassRole.
    """
    if service == "application-autoscaling" and not operation.startswith("Describe"):
        yield from _scaling_permissions(operation, request, account=account, region=region)
        return
    if service != "sagemaker":
        yield Permission(f"{service}:{operation}", "*")
        return
    prefix = f"arn:aws:sagemaker:{region}"
    if operation == "DescribeHubContent":
        hub = str(request.get("HubName")).rpartition("/")[2]
        version = request.get("HubContentVersion") or "latest"
        yield Permission("sagemaker:DescribeHubContent", f"{prefix}:aws:hub/{hub}")
        content = f"{request.get('HubContentType')}/{request.get('HubContentName')}/{version}"
        yield Permission("sagemaker:DescribeHubContent", f"{prefix}:aws:hub-content/{hub}/{content}")
        return
    resource = _named_resource(operation, request, f"{prefix}:{account}")
    yield Permission(f"sagemaker:{operation}", resource)
    for kind in _OTHER_KINDS.get(operation, ()):
        name = str(request.get(f"{kind}Name")).lower()
        yield Permission(f"sagemaker:{operation}", f"{prefix}:{account}:{_KINDS[kind]}/{name}")
    if operation.startswith("Create") and request.get("Tags"):
        yield Permission("sagemaker:AddTags", resource)
    for member in _ROLE_MEMBERS:
        if request.get(member):
            yield Permission("iam:PassRole", request[member], {"iam:PassedToService": "sagemaker.amazonaws.com"})


def _scaling_permissions(
    operation: str, request: Mapping[str, Any], *, account: str, region: str
) -> Iterator[Permission]:
    """Yield the permissions to change a scalable target. Its ARN ends in an ID that requests do not contain.

    Sources: Service Authorization Reference, "Actions, resources, and condition keys for Application Auto Scaling"; for
    SageMaker's permissions to register a target, the SageMaker developer guide, "Auto scaling prerequisites".
    """
    target = f"arn:aws:application-autoscaling:{region}:{account}:scalable-target/{'0' * 34}"
    if "ResourceARN" in request:
        yield Permission(f"application-autoscaling:{operation}", request["ResourceARN"])
        return
    context = {
        "application-autoscaling:scalable-dimension": str(request.get("ScalableDimension")),
        "application-autoscaling:service-namespace": str(request.get("ServiceNamespace")),
    }
    yield Permission(f"application-autoscaling:{operation}", target, context)
    if request.get("Tags"):
        yield Permission("application-autoscaling:TagResource", target)
    kind, _, name = str(request.get("ResourceId")).partition("/")
    if operation == "RegisterScalableTarget" and kind == "endpoint":
        endpoint = f"arn:aws:sagemaker:{region}:{account}:endpoint/{name.partition('/')[0].lower()}"
        for action in ("DescribeEndpoint", "UpdateEndpointWeightsAndCapacities"):
            yield Permission(f"sagemaker:{action}", endpoint)


def _named_resource(operation: str, request: Mapping[str, Any], prefix: str) -> str:
    if request.get("ResourceArn"):
        return str(request["ResourceArn"])
    ending = _ALTERATIONS.get(operation, operation)
    for kind, path in _KINDS.items():
        name = request.get(f"{kind}Name")
        if ending.endswith(kind) and name:
            return f"{prefix}:{path}/{str(name).lower()}"
    return "*"
