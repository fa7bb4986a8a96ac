"""The permissions that roles requested, and the decisions, while the local cloud enforces IAM."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

from constructs_optim_local.api.error import ApiError

ALLOW = "Allow"


@dataclass(frozen=True)
class Permission:
    """An action on a resource, with the condition keys that the request carries."""

    action: str
    resource: str
    context: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True)
class Refused(Permission):
    """A permission that was refused; ``reason`` is how IAM's sentence about it ends."""

    reason: str = ""


def through_s3(action: str, key_arn: str) -> Permission:
    """The use of a KMS key by S3, on behalf of the caller that reads or writes an object.

    Source: KMS developer guide, "kms:ViaService".
    """
    return Permission(action, key_arn, {"kms:ViaService": f"s3.{key_arn.split(':')[3]}.amazonaws.com"})


@dataclass(frozen=True)
class Authorization:
    """One evaluation.

    Attributes:
        account: that of the role: two accounts may have roles of one name.
        role: name of the role whose policies were evaluated.
        action: for instance ``s3:GetObject``; ``sts:AssumeRole`` where a service took the role on.
        resource: the ARN, or ``*``.
        decision: Allow, Deny (a statement denies it) or ImplicitDeny (none allows it).
        statement: ``Sid`` of the statement that decided; empty where it has none, or no statement did.
        time: seconds since 1970.
    """

    account: str
    role: str
    action: str
    resource: str
    decision: str
    statement: str
    time: float


class AuthorizationLog:
    """The evaluations, in the order they came."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._evaluated: list[Authorization] = []

    def add(self, account: str, role: str, action: str, resource: str, decision: str, statement: str) -> None:
        """Record an evaluation."""
        found = Authorization(account, role, action, resource, decision, statement, time.time())
        with self._lock:
            self._evaluated.append(found)

    def to_json(self, role: str | None = None) -> list[dict[str, Any]]:
        """The evaluations, or those of one role."""
        with self._lock:
            return [asdict(found) for found in self._evaluated if role in (None, found.role)]


@dataclass(frozen=True)
class StoredObject:
    """An object of a bucket; ``key_arn`` is the KMS key it is encrypted with, if it is."""

    name: str
    key_arn: str | None


class Roles(Protocol):
    """The roles that services take on, and what these may do."""

    def trusts(self, role_arn: str, service: str, source_arn: str) -> bool:
        """Whether ``service`` may take the role on, on behalf of the resource ``source_arn``."""
        ...

    def allows(self, role_arn: str, permission: Permission) -> bool:
        """Whether the role's policies, its permissions boundary and the resource's policy allow it."""
        ...

    def refused(self, role_arn: str, permission: Permission) -> Refused | None:
        """The permission with the reason why the role may not; None where it may."""
        ...

    def objects(self, bucket: str, prefix: str) -> list[StoredObject]:
        """What is below a prefix; nothing for a bucket that is not of this cloud."""
        ...

    def default_key(self, bucket: str) -> str | None:
        """The KMS key that new objects of a bucket are encrypted with."""
        ...

    def credentials(self, role_arn: str) -> dict[str, str]:
        """The variables that have an SDK act under the role."""
        ...


class Unchecked:
    """The roles of a cloud that does not enforce IAM: every one may do everything."""

    def trusts(self, role_arn: str, service: str, source_arn: str) -> bool:
        """Always."""
        return True

    def allows(self, role_arn: str, permission: Permission) -> bool:
        """Always."""
        return True

    def refused(self, role_arn: str, permission: Permission) -> Refused | None:
        """Never."""
        return None

    def objects(self, bucket: str, prefix: str) -> list[StoredObject]:
        """Nobody asks: without a check, it makes no difference what is there."""
        return []

    def default_key(self, bucket: str) -> str | None:
        """As for the objects."""
        return None

    def credentials(self, role_arn: str) -> dict[str, str]:
        """None of its own: callers keep their permissions."""
        return {}


def access_denied(message: str) -> ApiError:
    """The response of a JSON service to a caller without permission."""
    return ApiError("AccessDeniedException", message)


# The kinds of SageMaker resources whose ARN ends in the name that the request gives.
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
# Operations on two resources, and what the second is; and those whose name does not end in the kind.
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
    """The grant that lets SageMaker use a KMS key for the volumes of instances, for the caller that has them launched.

    Sources: developer guide, "SageMaker API Permissions" (CreateEndpoint: "kms:CreateGrant (required only if the
    associated EndPointConfig has a KmsKeyId specified)"); API reference, CreateEndpointConfig, ``KmsKeyId``: "The KMS
    key policy must grant permission to the IAM role that you specify in your CreateEndpoint, UpdateEndpoint requests".
    """
    service = f"sagemaker.{key_arn.split(':')[3]}.amazonaws.com"
    return Permission("kms:CreateGrant", key_arn, {"kms:ViaService": service, "kms:GrantIsForAWSResource": "true"})


def needed_permissions(
    service: str, operation: str, request: Mapping[str, Any], *, account: str, region: str
) -> Iterator[Permission]:
    """What a caller of one of the added services must be allowed.

    Source: Service Authorization Reference, "Actions, resources, and condition keys for Amazon SageMaker": a tagged
    create depends on AddTags, and one that names a role on PassRole.
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
    """What changes of a scalable target need. Its ARN ends in an id that no request names.

    Sources: Service Authorization Reference, "Actions, resources, and condition keys for Application Auto Scaling";
    for what registering needs of SageMaker, the SageMaker developer guide, "Auto scaling prerequisites".
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
