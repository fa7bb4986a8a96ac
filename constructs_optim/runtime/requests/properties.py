"""The properties of the custom resources about artifacts, their jobs and the models that serve them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from ..documents import is_artifact_key
from . import fields
from .fields import Bucket, InstanceType, KeyArn, Properties, RoleArn, S3Uri, Sha256, Tag, Tags, Watch, pattern

JobKind = Literal["OptimizationJob", "TrainingJob"]
_HubContent = Annotated[str, pattern("[a-zA-Z0-9](-*[a-zA-Z0-9])*", 63)]
_Version = Annotated[str, pattern(r"[0-9]{1,4}\.[0-9]{1,4}\.[0-9]{1,4}")]
_Image = Annotated[
    str,
    pattern(r"[A-Za-z0-9_.-]+(:[0-9]+)?(/[A-Za-z0-9_.-]+)*(:[A-Za-z0-9_.-]+)?(@sha256:[0-9a-f]{64})?", max_length=255),
]
_Repository = Annotated[str, pattern("[A-Za-z0-9_.-]+(:[0-9]+)?(/[A-Za-z0-9_.-]+)+", 255)]
_Repositories = Annotated[tuple[_Repository, ...], Field(max_length=10)]
_Channel = Annotated[str, pattern("[A-Za-z0-9_-]{1,64}")]


# Without the slash, the prefix "models/llama" would include "models/llama-chat/".
S3Prefix = Annotated[S3Uri, AfterValidator(lambda uri: f"{uri.rstrip('/')}/")]


class HubSource(Properties):
    """A JumpStart model of a SageMaker hub, by default its newest version, or SageMaker's draft model for it."""

    kind: Literal["hub", "hub_draft"] = "hub"
    hub_name: _HubContent
    model_id: _HubContent
    version: _Version | None = None
    accept_eula: bool = False
    configuration: Annotated[str, pattern("[A-Za-z0-9_.-]{1,128}")] | None = None


class S3Source(Properties):
    """Uncompressed model files under an S3 prefix."""

    kind: Literal["s3"] = "s3"
    uri: S3Prefix = Field(alias="S3Uri")
    accept_eula: bool = False

    @property
    def location(self) -> tuple[str, str]:
        """The bucket, and the prefix, which is empty for the whole bucket or ends in a slash."""
        bucket, _, prefix = self.uri.removeprefix("s3://").partition("/")
        return bucket, prefix


class ArtifactSource(Properties):
    """The output of another job, or a folder of it."""

    kind: Literal["artifact"] = "artifact"
    artifact_key: Sha256
    s3_uri: S3Uri
    suffix: Annotated[str, pattern("([A-Za-z0-9_-]+/)*")] = ""

    @property
    def uri(self) -> str:
        """The S3 prefix."""
        return f"{self.s3_uri}{self.suffix}"


Source = Annotated[HubSource | S3Source | ArtifactSource, Field(discriminator="kind")]


class StoreProperties(Properties):
    """The artifact store and the kind of job, which a deletion needs."""

    job_kind: JobKind = "OptimizationJob"
    bucket: Bucket
    kms_key_arn: KeyArn | None = None


class WatchedProperties(Properties):
    """A resource whose job a state machine watches, and whose stack may wait for it."""

    state_machine_arn: fields.StateMachineArn
    wait_handle: fields.WaitHandle | None = None
    wait_seconds: fields.Seconds | None = None


class JobProperties(StoreProperties, WatchedProperties):
    """One ``Custom::OptimizationJob`` or ``Custom::TrainingJob``; recipe key and source decide the artifact."""

    recipe_key: Sha256
    source: Source
    # Further inputs of the job.
    reads: Annotated[tuple[S3Source, ...], Field(max_length=20)] = ()
    # The training job's input channel for the source.
    model_channel: _Channel | None = None
    # The job's request without the members that the handler sets, validated by botocore.
    request: dict[str, Any]
    # The manifest's description of the recipe.
    description: dict[str, Any] = Field(default_factory=dict)
    role_arn: RoleArn
    # host/repository of the images that the artifact may be served with; empty for any.
    serving_repositories: _Repositories = ()
    tags: Tags = Field(default_factory=list[Tag])


class ArtifactWatch(Watch):
    """The input of the execution that watches an artifact's job; ``account`` is that of the stack."""

    kind: JobKind = "OptimizationJob"
    bucket: Bucket
    kms_key_arn: KeyArn | None = None
    artifact_key: Sha256
    attempt: int
    account: str = ""
    serving_repositories: tuple[str, ...] = ()


class Channel(Properties):
    """Further files of a model."""

    name: _Channel
    source: Source


_Variable = Annotated[str, pattern("[a-zA-Z_][a-zA-Z0-9_]*", 1024)]


class ModelProperties(Properties):
    """One ``Custom::OptimizedModel``; without ``image``, with that of the hub's configuration."""

    image: _Image | None = None
    environment: Annotated[dict[_Variable, Annotated[str, Field(max_length=1024)]], Field(max_length=100)] = Field(
        default_factory=dict
    )
    instance_type: InstanceType
    source: Source
    channels: Annotated[tuple[Channel, ...], Field(max_length=5)] = ()
    role_arn: RoleArn
    enable_network_isolation: bool = True
    vpc_config: fields.VpcConfig | None = None
    tags: Tags = Field(default_factory=list[Tag])


def _artifact_key(key: object) -> object:
    # The value is in the message, as it may come from a parameter or another stack's output.
    if not is_artifact_key(key):
        raise ValueError(f"{key!r}, where a key is 64 hexadecimal digits in lower case")
    return key


class ArtifactProperties(StoreProperties):
    """One ``Custom::OptimizedArtifact``, with the recipe and source of the artifact; None for any."""

    artifact_key: Annotated[str, BeforeValidator(_artifact_key)]
    recipe_key: Sha256 | None = None
    source: Source | None = None
    description: Mapping[str, Any] = Field(default_factory=dict)
    serving_repositories: _Repositories = ()


class CapacityProperties(Properties):
    """One ``Custom::ComponentCapacity``."""

    component_logical_id: Annotated[str, pattern("[A-Za-z0-9]{1,255}")]
    initial_copy_count: Annotated[int, Field(ge=0, le=9999)]
