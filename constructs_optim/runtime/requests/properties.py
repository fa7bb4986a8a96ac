"""The properties of the custom resources for artifacts, their jobs, and their models, and types that all resources use.

Patterns and limits come from CreateOptimizationJob, CreateModel, and CreateAIRecommendationJob, narrowed to the needs
of a deployment. CloudFormation delivers every number and boolean of a custom resource as text; pydantic accepts both.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, TypeVar
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    model_validator,
    with_config,
)
from pydantic.alias_generators import to_pascal
from typing_extensions import TypedDict

from ..documents import is_artifact_key, is_list, is_object
from ..errors import InvalidEvent

# The DNS suffixes of AWS's partitions (botocore's endpoints.json).
_WAIT_HANDLE_HOST = re.compile(
    r"cloudformation-waitcondition-[a-z0-9-]+\.s3([.-][a-z0-9-]+)?\."
    r"(amazonaws\.com(\.cn)?|amazonaws\.eu|c2s\.ic\.gov|cloud\.adc-e\.uk|csp\.hci\.ic\.gov|sc2s\.sgov\.gov)"
)
_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
SOURCE_KINDS = frozenset({"hub", "hub_draft", "s3", "huggingface", "artifact"})


def _checked_wait_handle(url: str) -> str:
    """Require a URL of CloudFormation, or a loopback URL for the local cloud."""
    parts = urlsplit(url)
    is_local = parts.hostname in _LOOPBACK and urlsplit(os.environ.get("AWS_ENDPOINT_URL", "")).hostname in _LOOPBACK
    is_own = parts.port is None and _WAIT_HANDLE_HOST.fullmatch(parts.hostname or "") is not None
    if parts.username is not None or parts.password is not None:
        raise ValueError("it has credentials")
    if not ((parts.scheme == "https" and is_own) or (parts.scheme == "http" and is_local)):
        raise ValueError("it is not a URL of CloudFormation")
    return url


def pattern(regex: str, max_length: int | None = None) -> StringConstraints:
    """Return the type of text that matches ``regex`` as a whole."""
    return StringConstraints(pattern=f"^(?:{regex})$", max_length=max_length)


Sha256 = Annotated[str, pattern("[0-9a-f]{64}")]
Bucket = Annotated[str, pattern(r"[a-z0-9]([a-z0-9-]|\.[a-z0-9-])*[a-z0-9]", 63), StringConstraints(min_length=3)]
S3Uri = Annotated[str, pattern(r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[^\x00-\x1f\x7f]*)?", 1024)]
RoleArn = Annotated[str, pattern(r"arn:aws[a-z-]*:iam::[0-9]{12}:role/[A-Za-z0-9_+=,.@/-]+", 2048)]
KeyArn = Annotated[str, pattern(r"arn:aws[a-z-]*:kms:[a-z0-9-]+:[0-9]{12}:key/[a-zA-Z0-9-]{1,64}")]
StateMachineArn = Annotated[
    str, pattern(r"arn:aws[a-z-]*:states:[a-z0-9-]+:[0-9]{12}:stateMachine:[A-Za-z0-9_-]{1,80}")
]
StackId = Annotated[
    str, pattern(r"arn:aws[a-z-]*:cloudformation:[a-z0-9-]+:[0-9]{12}:stack/[A-Za-z0-9-]{1,128}/[A-Za-z0-9-]{1,64}")
]
InstanceType = Annotated[str, pattern(r"ml\.[a-z0-9-]{1,32}\.[a-z0-9-]{1,32}")]
ResourceName = Annotated[str, pattern("[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}")]
WaitHandle = Annotated[str, AfterValidator(_checked_wait_handle)]
Seconds = Annotated[int, Field(ge=0, le=9_999_999)]
NetworkId = Annotated[str, pattern("[-0-9a-zA-Z]{1,32}")]
_TAG_TEXT = r"[\w .:/=+@-]*"


def _tag_key(key: str) -> str:
    if key.lower().startswith("aws:"):
        raise ValueError("the prefix aws: is reserved")
    return key


@with_config(ConfigDict(extra="forbid"))
class Tag(TypedDict):
    """A tag that users may set."""

    Key: Annotated[str, pattern(_TAG_TEXT, 128), StringConstraints(min_length=1), AfterValidator(_tag_key)]
    Value: Annotated[str, pattern(_TAG_TEXT, 256)]


@with_config(ConfigDict(extra="forbid"))
class VpcConfig(TypedDict):
    """The network of a job or a model."""

    SecurityGroupIds: Annotated[Sequence[NetworkId], Field(min_length=1, max_length=5)]
    Subnets: Annotated[Sequence[NetworkId], Field(min_length=1, max_length=16)]


Tags = Annotated[list[Tag], Field(max_length=50)]


class Properties(BaseModel):
    """Properties of a custom resource, named as in the template; an empty value counts as missing."""

    model_config = ConfigDict(
        frozen=True, alias_generator=to_pascal, populate_by_name=True, defer_build=True, allow_inf_nan=False
    )

    @model_validator(mode="before")
    @classmethod
    def _without_empty(cls, properties: Any) -> Any:
        if not is_object(properties):
            return properties
        return {name: value for name, value in properties.items() if value not in (None, "", [], {})}


P = TypeVar("P", bound=Properties)


def validate(model: type[P], properties: object) -> P:
    """Parse properties; the error names every missing or malformed property."""
    try:
        return model.model_validate(properties)
    except ValidationError as error:
        problems = sorted({_problem(detail) for detail in error.errors(include_url=False, include_input=False)})
    raise InvalidEvent(f"these properties are missing or malformed: {', '.join(problems)}")


def _problem(detail: Any) -> str:
    path = ""
    for part in detail["loc"]:
        if isinstance(part, int):
            path += f"[{part}]"
        elif part != "[key]" and part not in SOURCE_KINDS:
            path += f".{part}"
    if detail["type"].startswith("union_tag"):
        path += ".Kind"
    path = path.removeprefix(".") or "ResourceProperties"
    reason = detail.get("ctx", {}).get("error")
    return f"{path} ({reason})" if reason else path


def as_delivered(value: object) -> Any:
    """Return the value with numbers and booleans as text, as CloudFormation (unlike a schedule) delivers them."""
    if is_object(value):
        return {name: as_delivered(item) for name, item in value.items()}
    if is_list(value):
        return [as_delivered(item) for item in value]
    return str(value).lower() if isinstance(value, bool) else str(value)


Delivered = Annotated[dict[str, Any], AfterValidator(as_delivered)]
"""A document in which every number and boolean is text, as CloudFormation delivers it."""


ArtifactJobName = Literal["OptimizationJob", "TrainingJob"]
_HubContent = Annotated[str, pattern("[a-zA-Z0-9](-*[a-zA-Z0-9])*", 63)]
_Version = Annotated[str, pattern(r"[0-9]{1,4}\.[0-9]{1,4}\.[0-9]{1,4}")]
_Image = Annotated[
    str,
    pattern(r"[A-Za-z0-9_.-]+(:[0-9]+)?(/[A-Za-z0-9_.-]+)*(:[A-Za-z0-9_.-]+)?(@sha256:[0-9a-f]{64})?", max_length=255),
]
_Channel = Annotated[str, pattern("[A-Za-z0-9_-]{1,64}")]


# Without the slash, the prefix "models/llama" would include "models/llama-chat/".
S3Prefix = Annotated[S3Uri, AfterValidator(lambda uri: f"{uri.rstrip('/')}/")]


class HubSource(Properties):
    """A JumpStart model in a SageMaker hub, by default its newest version, or SageMaker's draft model for it."""

    kind: Literal["hub", "hub_draft"] = "hub"
    hub_name: _HubContent
    model_id: _HubContent
    version: _Version | None = None
    accept_eula: bool = False
    configuration: Annotated[str, pattern("[A-Za-z0-9_.-]{1,128}")] | None = None
    # Whether the license of a draft model is accepted that the configuration itself serves.
    accept_draft_eula: bool = False


class S3Source(Properties):
    """Uncompressed model files under an S3 prefix."""

    kind: Literal["s3"] = "s3"
    uri: S3Prefix = Field(alias="S3Uri")
    accept_eula: bool = False
    # For a served model: the file that lists its files, and that file's version.
    manifest_s3_uri: S3Uri | None = None
    manifest_etag: Annotated[str, pattern("[!-~]{1,128}")] | None = None

    @property
    def manifest(self) -> dict[str, str]:
        """The manifest as members of a model's ``S3DataSource``."""
        members = {"ManifestS3Uri": self.manifest_s3_uri, "ManifestEtag": self.manifest_etag}
        return {name: value for name, value in members.items() if value is not None}

    @property
    def location(self) -> tuple[str, str]:
        """The bucket and the prefix; the prefix is empty for the whole bucket, or ends in a slash."""
        bucket, _, prefix = self.uri.removeprefix("s3://").partition("/")
        return bucket, prefix


class HuggingFaceSource(Properties):
    """A Hugging Face model at a commit, which the job itself copies."""

    kind: Literal["huggingface"] = "huggingface"
    model_id: Annotated[str, pattern(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,95}/[A-Za-z0-9_][A-Za-z0-9_.-]{0,95}")]
    revision: Annotated[str, pattern("[0-9a-f]{40}")]


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


Source = Annotated[HubSource | S3Source | HuggingFaceSource | ArtifactSource, Field(discriminator="kind")]


class StoreProperties(Properties):
    """The properties that a deletion needs: the artifact store and the kind of job."""

    job_kind: ArtifactJobName = "OptimizationJob"
    bucket: Bucket
    kms_key_arn: KeyArn | None = None


class WatchedProperties(Properties):
    """A resource whose job a state machine watches, and whose stack may wait for it."""

    state_machine_arn: StateMachineArn
    wait_handle: WaitHandle | None = None
    wait_seconds: Seconds | None = None


class JobProperties(StoreProperties, WatchedProperties):
    """One ``Custom::OptimizationJob`` or ``Custom::TrainingJob``; recipe key and source determine the artifact."""

    recipe_key: Sha256
    source: Source
    # Further inputs of the job.
    reads: Annotated[tuple[S3Source, ...], Field(max_length=20)] = ()
    # The training job's input channel for the source; None if the job fetches the source itself.
    model_channel: _Channel | None = None
    # The job's request without the members that the handler sets, validated by botocore.
    request: dict[str, Any]
    # The manifest's description of the recipe.
    description: dict[str, Any] = Field(default_factory=dict)
    role_arn: RoleArn
    tags: Tags = Field(default_factory=list[Tag])


class Watch(Properties):
    """The input of an execution that watches a job."""

    # The handle of the stack's wait condition, if any.
    wait_handle: str | None = None
    # When the watcher fails the wait condition, in seconds since 1970.
    deadline: int | None = None
    # The error that the state machine caught, if it failed.
    error: Any = None
    # The output of the last poll.
    look: dict[str, Any] = Field(default_factory=dict)


class ArtifactWatch(Watch):
    """The input of the execution that watches an artifact's job; ``account`` is the stack's account."""

    kind: ArtifactJobName = "OptimizationJob"
    bucket: Bucket
    kms_key_arn: KeyArn | None = None
    artifact_key: Sha256
    attempt: int
    account: str = ""


class Channel(Properties):
    """Further files of a model."""

    name: _Channel
    source: Source


def _distinct(channels: tuple[Channel, ...]) -> tuple[Channel, ...]:
    if len({channel.name for channel in channels}) < len(channels):
        raise ValueError("two of them have the same name")
    return channels


_Variable = Annotated[str, pattern("[a-zA-Z_][a-zA-Z0-9_]*", 1024)]


class ModelHost(Properties):
    """What the variant that hosts a model decides, and the model's hub document can therefore not.

    ``inference_ami_version`` is None for SageMaker's default. ``enable_network_isolation`` is None if the user decided
    it, whatever the document says.
    """

    inference_ami_version: str | None = None
    enable_network_isolation: bool | None = None
    # Whether it is a shadow variant, which has instances of its own.
    is_shadow: bool = False


class ModelProperties(Properties):
    """One ``Custom::OptimizedModel``; the default of ``image`` is the image of the hub's configuration.

    ``enable_network_isolation`` is None if the hub's configuration decides it. ``host`` is None if the variant follows
    the configuration.
    """

    image: _Image | None = None
    environment: Annotated[dict[_Variable, Annotated[str, Field(max_length=1024)]], Field(max_length=100)] = Field(
        default_factory=dict
    )
    instance_type: InstanceType
    source: Source
    channels: Annotated[tuple[Channel, ...], Field(max_length=5), AfterValidator(_distinct)] = ()
    role_arn: RoleArn
    enable_network_isolation: bool | None = None
    host: ModelHost | None = None
    vpc_config: VpcConfig | None = None
    tags: Tags = Field(default_factory=list[Tag])


class EndpointConfigProperties(Properties):
    """One ``Custom::OptimizedEndpointConfig``: the members of CreateEndpointConfig, validated by botocore."""

    model_config = ConfigDict(extra="allow")

    production_variants: Annotated[list[dict[str, Any]], Field(min_length=1)]
    tags: Tags = Field(default_factory=list[Tag])


class ComponentProperties(WatchedProperties):
    """One ``Custom::OptimizedInferenceComponent``, with the API's members, which the API validates."""

    inference_component_name: ResourceName
    endpoint_name: ResourceName
    variant_name: ResourceName
    specification: dict[str, Any]
    runtime_config: dict[str, Any]
    deployment_config: dict[str, Any] | None = None
    tags: Tags = Field(default_factory=list[Tag])


class ComponentWatch(Properties):
    """The input of an execution that applies a request to a component.

    ``until`` is when it gives up, in seconds since 1970. ``settle``: an earlier execution was stopped for this one.
    ``look`` is the output of the last poll.
    """

    event: Any
    until: int
    settle: bool = False
    look: dict[str, Any] = Field(default_factory=dict)
    error: Any = None


def _artifact_key(key: object) -> object:
    # The message has the value, because it may come from a parameter or another stack's output.
    if not is_artifact_key(key):
        raise ValueError(f"{key!r}, but a key has 64 hexadecimal digits in lower case")
    return key


class ArtifactProperties(StoreProperties):
    """One ``Custom::OptimizedArtifact``, with the recipe and source of the artifact; None for any."""

    artifact_key: Annotated[str, BeforeValidator(_artifact_key)]
    recipe_key: Sha256 | None = None
    source: Source | None = None
    description: Mapping[str, Any] = Field(default_factory=dict)


class CapacityProperties(Properties):
    """One ``Custom::ComponentCapacity``."""

    component_logical_id: Annotated[str, pattern("[A-Za-z0-9]{1,255}")]
    initial_copy_count: Annotated[int, Field(ge=0, le=9999)]
