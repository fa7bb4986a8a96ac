"""The properties of ``Custom::OptimizationJob``, read and checked before anything is done with them.

CloudFormation delivers every number and boolean of a custom resource as a string.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from .errors import InvalidEvent

_SHA256 = re.compile(r"[0-9a-f]{64}")
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_S3_URI = re.compile(r"s3://([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])/?(.*)", re.DOTALL)
_ROLE_ARN = re.compile(r"arn:aws[a-z-]*:iam::\d{12}:role/[\w+=,.@/-]+")
_KEY_ARN = re.compile(r"arn:aws[a-z-]*:kms:[a-z0-9-]+:\d{12}:key/[a-zA-Z0-9-]+")
_HUB_CONTENT = re.compile(r"[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}")
_VERSION = re.compile(r"\d{1,4}\.\d{1,4}\.\d{1,4}")
_REQUEST_MEMBERS = frozenset(
    {
        "DeploymentInstanceType",
        "MaxInstanceCount",
        "OptimizationConfigs",
        "OptimizationEnvironment",
        "StoppingCondition",
        "VpcConfig",
    }
)
_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})


@dataclass(frozen=True)
class HubSource:
    """A JumpStart model of a SageMaker hub; the newest version where ``version`` is None."""

    hub_name: str
    model_id: str
    version: str | None
    accept_eula: bool


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


@dataclass(frozen=True)
class JobProperties:
    """What one ``Custom::OptimizationJob`` asks for."""

    recipe_key: str
    source: HubSource | S3Source
    request: Mapping[str, Any]
    description: Mapping[str, Any]
    role_arn: str
    bucket: str
    kms_key_arn: str | None
    wait_handle: str | None
    state_machine_arn: str
    tags: tuple[tuple[str, str], ...]


def parse_job_properties(properties: Mapping[str, Any]) -> JobProperties:
    """Read ``ResourceProperties``.

    Raises:
        InvalidEvent: naming every property that is missing or malformed.
    """
    problems: list[str] = []

    def text(name: str, pattern: re.Pattern[str] | None = None) -> str:
        value = properties.get(name)
        if not isinstance(value, str) or not value or (pattern and not pattern.fullmatch(value)):
            problems.append(name)
            return ""
        return value

    def optional(name: str, pattern: re.Pattern[str]) -> str | None:
        return text(name, pattern) if properties.get(name) else None

    request = properties.get("Request")
    if not isinstance(request, dict) or not request or set(request) - _REQUEST_MEMBERS:
        problems.append("Request")
        request = {}
    handle = properties.get("WaitHandle") or None
    if handle is not None and not _is_safe_url(handle):
        problems.append("WaitHandle")
    source = _source(properties.get("Source"), problems)
    tags = properties.get("Tags") or []
    if not isinstance(tags, list) or not all(isinstance(tag, dict) and {"Key", "Value"} == set(tag) for tag in tags):
        problems.append("Tags")
        tags = []
    parsed = JobProperties(
        recipe_key=text("RecipeKey", _SHA256),
        source=source,
        request=request,
        description=properties.get("Description") or {},
        role_arn=text("RoleArn", _ROLE_ARN),
        bucket=text("Bucket", _BUCKET),
        kms_key_arn=optional("KmsKeyArn", _KEY_ARN),
        wait_handle=handle,
        state_machine_arn=text("StateMachineArn"),
        tags=tuple((str(tag["Key"]), str(tag["Value"])) for tag in tags),
    )
    if problems:
        raise InvalidEvent(f"these properties are missing or malformed: {', '.join(sorted(set(problems)))}")
    return parsed


def parse_bucket(properties: Mapping[str, Any]) -> str:
    """The artifact store's bucket, all that a Delete needs."""
    bucket = properties.get("Bucket")
    if not isinstance(bucket, str) or not _BUCKET.fullmatch(bucket):
        raise InvalidEvent("these properties are missing or malformed: Bucket")
    return bucket


def is_artifact_key(value: object) -> bool:
    """Whether ``value`` is a SHA-256 in lower-case hexadecimal, as every artifact key is."""
    return isinstance(value, str) and _SHA256.fullmatch(value) is not None


def _source(value: object, problems: list[str]) -> HubSource | S3Source:
    fields = value if isinstance(value, dict) else {}
    accept_eula = str(fields.get("AcceptEula", "false")).lower() == "true"
    match fields.get("Kind"):
        case "hub":
            version = fields.get("Version") or None
            if not _HUB_CONTENT.fullmatch(str(fields.get("ModelId", ""))):
                problems.append("Source.ModelId")
            if not _HUB_CONTENT.fullmatch(str(fields.get("HubName", ""))):
                problems.append("Source.HubName")
            if version is not None and not _VERSION.fullmatch(str(version)):
                problems.append("Source.Version")
            return HubSource(str(fields.get("HubName")), str(fields.get("ModelId")), version, accept_eula)
        case "s3":
            found = _S3_URI.fullmatch(str(fields.get("S3Uri", "")))
            if not found:
                problems.append("Source.S3Uri")
                return S3Source("", "", accept_eula)
            # Without the slash the prefix "models/llama" would take in "models/llama-chat/" as well.
            prefix = found[2].rstrip("/") + "/" if found[2].strip("/") else ""
            return S3Source(found[1], prefix, accept_eula)
        case _:
            problems.append("Source.Kind")
            return S3Source("", "", accept_eula)


def _is_safe_url(value: object) -> bool:
    if not isinstance(value, str):
        return False
    parts = urlsplit(value)
    return parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _LOOPBACK)
