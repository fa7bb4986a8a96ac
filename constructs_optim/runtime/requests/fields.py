"""The types of the handlers' inputs, and the base of their models.

Patterns and limits are those of CreateOptimizationJob, CreateModel and CreateAIRecommendationJob, narrowed to those of
a deployment. CloudFormation delivers every number and boolean of a custom resource as text; pydantic reads both.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Annotated, Any, TypeVar
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, ValidationError, model_validator
from pydantic.alias_generators import to_pascal
from typing_extensions import TypedDict

from ..documents import is_list, is_object
from ..errors import InvalidEvent

# The DNS suffixes of AWS's partitions (botocore's endpoints.json).
_WAIT_HANDLE_HOST = re.compile(
    r"cloudformation-waitcondition-[a-z0-9-]+\.s3([.-][a-z0-9-]+)?\."
    r"(amazonaws\.com(\.cn)?|amazonaws\.eu|c2s\.ic\.gov|cloud\.adc-e\.uk|csp\.hci\.ic\.gov|sc2s\.sgov\.gov)"
)
_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
SOURCE_KINDS = frozenset({"hub", "hub_draft", "s3", "artifact"})


def _checked_wait_handle(url: str) -> str:
    """Require a URL of CloudFormation, or of loopback for the local cloud."""
    parts = urlsplit(url)
    is_local = parts.hostname in _LOOPBACK and urlsplit(os.environ.get("AWS_ENDPOINT_URL", "")).hostname in _LOOPBACK
    is_own = parts.port is None and _WAIT_HANDLE_HOST.fullmatch(parts.hostname or "") is not None
    if parts.username is not None or parts.password is not None:
        raise ValueError("it has credentials")
    if not ((parts.scheme == "https" and is_own) or (parts.scheme == "http" and is_local)):
        raise ValueError("it is not one of CloudFormation's")
    return url


def pattern(regex: str, max_length: int | None = None) -> StringConstraints:
    """Text that matches all of ``regex``."""
    return StringConstraints(pattern=f"^(?:{regex})$", max_length=max_length)


Sha256 = Annotated[str, pattern("[0-9a-f]{64}")]
Bucket = Annotated[str, pattern(r"[a-z0-9]([a-z0-9-]|\.[a-z0-9-])*[a-z0-9]", 63), StringConstraints(min_length=3)]
S3Uri = Annotated[str, pattern(r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[^\x00-\x1f\x7f]*)?", 1024)]
RoleArn = Annotated[str, pattern(r"arn:aws[a-z-]*:iam::[0-9]{12}:role/[A-Za-z0-9_+=,.@/-]+", 2048)]
KeyArn = Annotated[str, pattern(r"arn:aws[a-z-]*:kms:[a-z0-9-]+:[0-9]{12}:key/[a-zA-Z0-9-]{1,64}")]
StateMachineArn = Annotated[
    str, pattern(r"arn:aws[a-z-]*:states:[a-z0-9-]+:[0-9]{12}:stateMachine:[A-Za-z0-9_-]{1,80}")
]
InstanceType = Annotated[str, pattern(r"ml\.[a-z0-9-]{1,32}\.[a-z0-9-]{1,32}")]
ResourceName = Annotated[str, pattern("[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}")]
WaitHandle = Annotated[str, AfterValidator(_checked_wait_handle)]
Seconds = Annotated[int, Field(ge=0, le=9_999_999)]
_NetworkId = Annotated[str, pattern("[-0-9a-zA-Z]{1,32}")]
_TAG_TEXT = r"[\w .:/=+@-]*"


class Tag(TypedDict):
    """A tag that a user may set."""

    Key: Annotated[str, pattern(_TAG_TEXT, 128), StringConstraints(min_length=1)]
    Value: Annotated[str, pattern(_TAG_TEXT, 256)]


class VpcConfig(TypedDict):
    """The network of a job or a model."""

    SecurityGroupIds: Annotated[Sequence[_NetworkId], Field(min_length=1, max_length=5)]
    Subnets: Annotated[Sequence[_NetworkId], Field(min_length=1, max_length=16)]


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


class Watch(Properties):
    """The input of an execution that watches a job."""

    # Of the stack's wait condition, if any.
    wait_handle: str | None = None
    # When the watcher fails the wait condition, in seconds since 1970.
    deadline: int | None = None
    # The error that the state machine caught, if it failed.
    error: Any = None


P = TypeVar("P", bound=Properties)


def validate(model: type[P], properties: object) -> P:
    """Parse properties; the error names all that are missing or malformed."""
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
    """Numbers and booleans as text, as CloudFormation delivers them, unlike a schedule."""
    if is_object(value):
        return {name: as_delivered(item) for name, item in value.items()}
    if is_list(value):
        return [as_delivered(item) for item in value]
    return str(value).lower() if isinstance(value, bool) else str(value)


Delivered = Annotated[dict[str, Any], AfterValidator(as_delivered)]
"""A document in which every number and boolean is text, as CloudFormation delivers it."""
