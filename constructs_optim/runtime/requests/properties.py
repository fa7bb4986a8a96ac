"""The properties of the custom resources, read and checked before anything is done with them.

CloudFormation delivers every number and boolean of a custom resource as a string.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeGuard

from .property_reader import Reader
from .value_shapes import COUNT, IMAGE, INSTANCE_TYPE, MODEL_ENVIRONMENT, S3_URI, is_environment, matches, object_in

# Patterns and limits are the API's (CreateOptimizationJob, CreateModel, CreateStateMachine), narrowed to what a
# deployment can mean. ASCII: \d and \w stand for the digits and letters of every script otherwise.
_MOST_CHANNELS = 5
_MOST_READS = 20
_MOST_REPOSITORIES = 10
_SHA256 = re.compile(r"[0-9a-f]{64}")
_HUB_CONTENT = re.compile(r"(?=.{1,63}\Z)[a-zA-Z0-9](-*[a-zA-Z0-9])*")
_CONFIGURATION = re.compile(r"[\w.-]{1,128}", re.ASCII)
_VERSION = re.compile(r"\d{1,4}\.\d{1,4}\.\d{1,4}", re.ASCII)
_REPOSITORY = re.compile(r"(?=.{1,255}\Z)[\w.-]+(:\d+)?(/[\w.-]+)+", re.ASCII)
_SUFFIX = re.compile(r"([\w-]+/)*", re.ASCII)
_CHANNEL = re.compile(r"[A-Za-z0-9_-]{1,64}")
_LOGICAL_ID = re.compile(r"[A-Za-z0-9]{1,255}")


@dataclass(frozen=True)
class HubSource:
    """A JumpStart model of a SageMaker hub; the newest version where ``version`` is None."""

    hub_name: str
    model_id: str
    version: str | None
    accept_eula: bool
    configuration: str | None = None


@dataclass(frozen=True)
class HubDraftSource:
    """The draft that SageMaker provides for a JumpStart model."""

    hub_name: str
    model_id: str
    version: str | None
    accept_eula: bool


@dataclass(frozen=True)
class ArtifactSource:
    """The output of another job, or what is below it."""

    artifact_key: str
    uri: str


@dataclass(frozen=True)
class S3Source:
    """Uncompressed model files under an S3 prefix."""

    bucket: str
    prefix: str
    accept_eula: bool

    @property
    def uri(self) -> str:
        """``s3://bucket/prefix``."""
        return f"s3://{self.bucket}/{self.prefix}"


Source = HubSource | HubDraftSource | S3Source | ArtifactSource


@dataclass(frozen=True)
class JobProperties:
    """What one ``Custom::OptimizationJob`` or ``Custom::TrainingJob`` asks for.

    ``reads`` is what the job reads besides its source, and ``model_channel`` the training job's input channel for that.
    ``serving_repositories`` are those (``host/repository``) that the artifact may be served from an image of; none
    where its image is not asked of the artifact.
    """

    kind: str
    recipe_key: str
    source: Source
    reads: tuple[S3Source, ...]
    model_channel: str
    request: Mapping[str, object]
    description: Mapping[str, object]
    role_arn: str
    bucket: str
    kms_key_arn: str | None
    wait_handle: str | None
    wait_seconds: int | None
    state_machine_arn: str
    serving_repositories: tuple[str, ...]
    tags: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class ModelProperties:
    """What one ``Custom::OptimizedModel`` asks for; ``image`` is None where the hub's configuration names it."""

    image: str | None
    environment: Mapping[str, str]
    instance_type: str
    source: Source
    channels: tuple[tuple[str, Source], ...]
    role_arn: str
    network_isolation: bool
    vpc_config: Mapping[str, Sequence[str]] | None
    tags: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class ArtifactProperties:
    """What one ``Custom::OptimizedArtifact`` asks for.

    ``recipe_key`` and ``source`` say what the artifact must have been made by and of; None where anything will do.
    ``serving_repositories`` is as of :class:`JobProperties`.
    """

    kind: str
    artifact_key: str
    recipe_key: str | None
    source: Source | None
    description: Mapping[str, object]
    bucket: str
    kms_key_arn: str | None
    serving_repositories: tuple[str, ...]


@dataclass(frozen=True)
class CapacityProperties:
    """What one ``Custom::ComponentCapacity`` asks for: the copies of a component of its own stack."""

    component_logical_id: str
    initial_copies: int


def parse_job_properties(properties: Mapping[str, object]) -> JobProperties:
    """Read ``ResourceProperties`` of ``Custom::OptimizationJob`` and ``Custom::TrainingJob``.

    Raises:
        InvalidEvent: naming every property that is missing or malformed.
    """
    reader = Reader(properties)
    kind = reader.job_kind()
    parsed = JobProperties(
        kind=kind,
        recipe_key=reader.text("RecipeKey", _SHA256),
        source=_source(properties.get("Source"), "Source", reader.problems),
        reads=_reads(reader),
        model_channel=reader.text("ModelChannel", _CHANNEL) if kind == "TrainingJob" else "",
        request=reader.request(kind),
        description=reader.description(),
        role_arn=reader.role_arn(),
        bucket=reader.bucket(),
        kms_key_arn=reader.kms_key_arn(),
        wait_handle=reader.wait_handle(),
        wait_seconds=reader.seconds("WaitSeconds"),
        state_machine_arn=reader.state_machine_arn(),
        serving_repositories=reader.texts("ServingRepositories", _REPOSITORY, _MOST_REPOSITORIES),
        tags=reader.tags(),
    )
    reader.finish()
    return parsed


def parse_model_properties(properties: Mapping[str, object]) -> ModelProperties:
    """Read ``ResourceProperties`` of ``Custom::OptimizedModel``.

    Raises:
        InvalidEvent: naming every property that is missing or malformed.
    """
    reader = Reader(properties)
    environment = properties.get("Environment") or dict[str, str]()
    if not is_environment(environment, MODEL_ENVIRONMENT):
        reader.problems.append("Environment")
        environment = dict[str, str]()
    channels: list[tuple[str, Source]] = []
    for place, given in enumerate(reader.listed("Channels", _MOST_CHANNELS)):
        channel = object_in(given)
        name = channel.get("Name")
        if not matches(name, _CHANNEL) or name in [known for known, _ in channels]:
            reader.problems.append(f"Channels[{place}].Name")
            continue
        channels.append((name, _source(channel.get("Source"), f"Channels[{place}].Source", reader.problems)))
    isolation = str(properties.get("EnableNetworkIsolation", "true")).lower()
    if isolation not in ("true", "false"):
        reader.problems.append("EnableNetworkIsolation")
    parsed = ModelProperties(
        image=reader.optional("Image", IMAGE),
        environment=environment,
        instance_type=reader.text("InstanceType", INSTANCE_TYPE),
        source=_source(properties.get("Source"), "Source", reader.problems),
        channels=tuple(channels),
        role_arn=reader.role_arn(),
        network_isolation=isolation != "false",
        vpc_config=reader.network(properties, "VpcConfig"),
        tags=reader.tags(),
    )
    reader.finish()
    return parsed


def parse_artifact_properties(properties: Mapping[str, object]) -> ArtifactProperties:
    """Read ``ResourceProperties`` of ``Custom::OptimizedArtifact``.

    Raises:
        InvalidEvent: naming every property that is missing or malformed.
    """
    reader = Reader(properties)
    key = properties.get("ArtifactKey")
    if not is_artifact_key(key):
        # It may come from a parameter or another stack's output: the value says what went wrong there.
        reader.problems.append(f"ArtifactKey ({key!r}, where a key is 64 hexadecimal digits in lower case)")
    parsed = ArtifactProperties(
        kind=reader.job_kind(),
        artifact_key=str(key),
        recipe_key=reader.optional("RecipeKey", _SHA256),
        source=_source(properties["Source"], "Source", reader.problems) if properties.get("Source") else None,
        description=reader.description(),
        bucket=reader.bucket(),
        kms_key_arn=reader.kms_key_arn(),
        serving_repositories=reader.texts("ServingRepositories", _REPOSITORY, _MOST_REPOSITORIES),
    )
    reader.finish()
    return parsed


def parse_capacity_properties(properties: Mapping[str, object]) -> CapacityProperties:
    """Read ``ResourceProperties`` of ``Custom::ComponentCapacity``.

    ``Component`` is there to change when the component does, and not looked at.

    Raises:
        InvalidEvent: naming every property that is missing or malformed.
    """
    reader = Reader(properties)
    parsed = CapacityProperties(
        component_logical_id=reader.text("ComponentLogicalId", _LOGICAL_ID),
        initial_copies=int(reader.text("InitialCopyCount", COUNT) or 0),
    )
    reader.finish()
    return parsed


def parse_store(properties: Mapping[str, object]) -> tuple[str, str | None]:
    """The artifact store's bucket and KMS key, all that a Delete needs.

    Raises:
        InvalidEvent: naming what is missing or malformed.
    """
    reader = Reader(properties)
    store = reader.bucket(), reader.kms_key_arn()
    reader.finish()
    return store


def parse_job_kind(properties: Mapping[str, object]) -> str:
    """The kind of a resource's job, all that a Delete needs besides the store.

    Raises:
        InvalidEvent: where it is none.
    """
    reader = Reader(properties)
    kind = reader.job_kind()
    reader.finish()
    return kind


def is_artifact_key(value: object) -> TypeGuard[str]:
    """Whether ``value`` is a SHA-256 in lower-case hexadecimal, as every artifact key is."""
    return matches(value, _SHA256)


def _reads(reader: Reader) -> tuple[S3Source, ...]:
    listed = reader.listed("Reads", _MOST_READS)
    found = [_source(value, f"Reads[{place}]", reader.problems) for place, value in enumerate(listed)]
    reader.problems += [f"Reads[{place}].Kind" for place, read in enumerate(found) if not isinstance(read, S3Source)]
    return tuple(read for read in found if isinstance(read, S3Source))


def _source(value: object, place: str, problems: list[str]) -> Source:
    fields = object_in(value)
    accept_eula = str(fields.get("AcceptEula", "false")).lower() == "true"
    kind = fields.get("Kind")
    match kind:
        case "hub" | "hub_draft":
            version = fields.get("Version") or None
            if not _HUB_CONTENT.fullmatch(str(fields.get("ModelId", ""))):
                problems.append(f"{place}.ModelId")
            if not _HUB_CONTENT.fullmatch(str(fields.get("HubName", ""))):
                problems.append(f"{place}.HubName")
            version = str(version) if version is not None else None
            if version is not None and not _VERSION.fullmatch(version):
                problems.append(f"{place}.Version")
            configuration = fields.get("Configuration") or None
            if configuration is not None and not matches(configuration, _CONFIGURATION):
                problems.append(f"{place}.Configuration")
                configuration = None
            named = (str(fields.get("HubName")), str(fields.get("ModelId")), version, accept_eula)
            if kind == "hub_draft":
                return HubDraftSource(*named)
            return HubSource(*named, configuration=configuration)
        case "s3":
            found = S3_URI.fullmatch(str(fields.get("S3Uri", "")))
            if not found:
                problems.append(f"{place}.S3Uri")
                return S3Source("", "", accept_eula)
            # Without the slash the prefix "models/llama" would take in "models/llama-chat/" as well.
            path = found[2] or ""
            prefix = path.rstrip("/") + "/" if path.strip("/") else ""
            return S3Source(found[1], prefix, accept_eula)
        case "artifact":
            if not is_artifact_key(fields.get("ArtifactKey")):
                problems.append(f"{place}.ArtifactKey")
            if not S3_URI.fullmatch(str(fields.get("S3Uri", ""))):
                problems.append(f"{place}.S3Uri")
            suffix = str(fields.get("Suffix") or "")
            if not _SUFFIX.fullmatch(suffix):
                problems.append(f"{place}.Suffix")
            return ArtifactSource(str(fields.get("ArtifactKey")), f"{fields.get('S3Uri')}{suffix}")
        case _:
            problems.append(f"{place}.Kind")
            return S3Source("", "", accept_eula)
