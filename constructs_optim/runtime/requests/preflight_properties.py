"""The properties of ``Custom::Preflight``: a deployment's needs, by the subjects of the checks."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from .properties import (
    Bucket,
    HubSource,
    HuggingFaceSource,
    InstanceType,
    KeyArn,
    NetworkId,
    Properties,
    ResourceName,
    RoleArn,
    S3Source,
    S3Uri,
    Sha256,
    pattern,
)

_Count = Annotated[int, Field(ge=0, le=10_000)]
_PlanArn = Annotated[str, pattern(r"arn:aws[a-z-]*:sagemaker:[a-z0-9-]+:[0-9]{12}:[a-z-]+/[A-Za-z0-9/_.-]+", 512)]
_SecretArn = Annotated[
    str, pattern(r"arn:aws[a-z-]*:secretsmanager:[a-z0-9-]+:[0-9]{12}:secret:[A-Za-z0-9/_+=.@-]+", 2048)
]
_Host = Annotated[str, pattern("[a-z0-9][a-z0-9.-]*", 253)]
_ImageUri = Annotated[str, Field(min_length=1, max_length=255)]


class FleetNeed(Properties):
    """The instances of an endpoint. Of several types, SageMaker uses the first that it can launch.

    ``definition`` changes if an update of the endpoint launches new instances, ``batch_size`` of them beside the old
    ones.
    """

    endpoint_name: ResourceName
    instance_types: Annotated[tuple[InstanceType, ...], Field(min_length=1, max_length=5)]
    instance_count: _Count
    batch_size: _Count
    definition: str


class TrainingNeed(Properties):
    """The instances of a training job, which runs only if the store lacks the artifact.

    Its maximum runtime and the size of each instance's volume are limited by quotas too. Without ``artifact_key``, the
    key is known only after the job's source is resolved. ``definition`` changes with the artifact.
    """

    definition: str = ""
    artifact_key: Sha256 | None = None
    bucket: Bucket
    instance_type: InstanceType
    instance_count: _Count
    spot: bool = False
    max_runtime_in_seconds: int | None = Field(default=None, ge=1)
    volume_gb: int | None = Field(default=None, ge=1, alias="VolumeSizeInGB")


class CopyNeed(HuggingFaceSource):
    """A model that a job copies from Hugging Face, or from the hub at ``endpoint``."""

    endpoint: Annotated[str, pattern(r"https?://[^\s]+", 2048)] | None = None
    allow_pickle: bool = False
    token_secret_arn: _SecretArn | None = None


class StoreNeed(Properties):
    """An artifact store and its key."""

    bucket: Bucket
    kms_key_arn: KeyArn | None = None


class RoleNeed(Properties):
    """The permissions that a role needs: S3 prefixes to read and to write, and images to pull.

    ``is_of_user``: whether the user passes the role, so that its trust policy is the user's too.
    """

    role_arn: RoleArn
    is_of_user: bool = False
    reads: tuple[S3Uri, ...] = ()
    writes: tuple[S3Uri, ...] = ()
    images: tuple[_ImageUri, ...] = ()

    def since(self, before: RoleNeed) -> RoleNeed:
        """Return the permissions that ``before`` lacks."""
        lists = {name: _new(getattr(self, name), getattr(before, name)) for name in ("reads", "writes", "images")}
        return self.model_copy(update=lists)


class NetworkNeed(Properties):
    """The subnets for the network interfaces of jobs and models, and the minimum number of instances in them.

    ``hosts`` are the servers outside of AWS that jobs read from. ``services`` are AWS services that jobs call, besides
    S3.
    """

    subnet_ids: Annotated[tuple[NetworkId, ...], Field(min_length=1, max_length=16)]
    instance_count: _Count
    hosts: Annotated[tuple[_Host, ...], Field(max_length=10)] = ()
    services: Annotated[tuple[_Host, ...], Field(max_length=10)] = ()


class ReservationNeed(Properties):
    """A capacity reservation, and the instances that use it, if known."""

    arn: _PlanArn
    instance_type: InstanceType | None = None
    use: Literal["training-job", "endpoint"] | None = None


class EngineMetricNeed(Properties):
    """A construct that reads engine metrics, by its path in the stack.

    ``required`` tells whether it does not work without them: it scales on them, or a deployment must pass a limit.
    """

    used_by: Annotated[str, Field(min_length=1, max_length=1024)]
    required: bool = False


class PreflightProperties(Properties):
    """One ``Custom::Preflight``."""

    fleets: tuple[FleetNeed, ...] = ()
    trainings: tuple[TrainingNeed, ...] = ()
    # A text for each job that changes with its artifact, so that a changed job is checked again.
    optimization_jobs: tuple[str, ...] = ()
    models: tuple[Annotated[HubSource | S3Source, Field(discriminator="kind")], ...] = ()
    copies: tuple[CopyNeed, ...] = ()
    # Further inputs of jobs.
    data: tuple[S3Source, ...] = ()
    images: tuple[_ImageUri, ...] = ()
    stores: tuple[StoreNeed, ...] = ()
    roles: tuple[RoleNeed, ...] = ()
    networks: tuple[NetworkNeed, ...] = ()
    reservations: tuple[ReservationNeed, ...] = ()
    engine_metrics: tuple[EngineMetricNeed, ...] = ()

    def since(self, before: PreflightProperties) -> PreflightProperties:
        """Return the new or changed needs; those of an earlier deployment are not checked again."""
        changes = {name: _new(getattr(self, name), getattr(before, name)) for name in type(self).model_fields}
        launched = {(fleet.endpoint_name, fleet.definition) for fleet in before.fleets}
        changes["fleets"] = tuple(
            fleet for fleet in self.fleets if (fleet.endpoint_name, fleet.definition) not in launched
        )
        roles = {need.role_arn: need for need in before.roles}
        changes["roles"] = tuple(
            need.since(roles[need.role_arn]) if need.role_arn in roles else need for need in changes["roles"]
        )
        return self.model_copy(update=changes)


def _new(items: tuple[Any, ...], before: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(item for item in items if item not in before)
