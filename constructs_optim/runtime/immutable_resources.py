"""Immutable SageMaker resources (models and endpoint configurations): created, kept, and deleted by name.

The name is derived from the stack, the resource, and its definition. So a repeated or rolled back request reuses its
earlier resource. A changed definition creates another one, which CloudFormation uses before it deletes the old one.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from botocore import xform_name
from botocore.exceptions import ClientError

from .custom_resource import Event
from .errors import message_of
from .telemetry import Counted, log

if TYPE_CHECKING:
    from mypy_boto3_sagemaker.client import SageMakerClient

    from .requests.properties import Tag

NAME_PREFIX = "optim-"
"""The prefix that the function's policy allows."""


@dataclass(frozen=True)
class ImmutableKind:
    """A kind of resource: its name in operations and members, its log field, and the event that counts creations."""

    name: str
    field: str
    created: Counted

    def create(self, sagemaker: SageMakerClient, name: str, request: Mapping[str, object], tags: Sequence[Tag]) -> str:
        """Create the resource, or keep the existing one and set its tags; return its ARN."""
        named = {f"{self.name}Name": name}
        try:
            arn = self._call(sagemaker, "Create", **named, **request, Tags=tags)[f"{self.name}Arn"]
            log(self.created, **{self.field: name})
        except ClientError as error:
            if "already existing" not in message_of(error):
                raise
            arn = self._call(sagemaker, "Describe", **named)[f"{self.name}Arn"]
            retag(sagemaker, arn, tags)
            log("kept", **{self.field: name})
        return arn

    def delete(self, sagemaker: SageMakerClient, name: str) -> None:
        """Delete the resource if it exists."""
        try:
            self._call(sagemaker, "Delete", **{f"{self.name}Name": name})
            log("deleted", **{self.field: name})
        except ClientError as error:
            if "could not find" not in message_of(error).lower():
                raise

    def _call(self, sagemaker: SageMakerClient, verb: str, **request: object) -> dict[str, Any]:
        return getattr(sagemaker, xform_name(f"{verb}{self.name}"))(**request)


MODEL = ImmutableKind("Model", "model_name", Counted.model_created)
ENDPOINT_CONFIG = ImmutableKind("EndpointConfig", "config_name", Counted.config_created)


def name_of(event: Event, request: Mapping[str, object]) -> str:
    """Return the name of the resource with this definition, in lower case as in ARNs."""
    definition = json.dumps([event["StackId"], event["LogicalResourceId"], request], sort_keys=True)
    digest = hashlib.sha256(definition.encode()).hexdigest()[:16]
    stack = re.sub(r"[^a-zA-Z0-9]+", "-", event["StackId"].split("/")[1])
    # A name has at most 63 characters.
    readable = f"{NAME_PREFIX}{stack[:20]}-{event['LogicalResourceId']}".lower()
    return f"{readable[: 63 - 17].rstrip('-')}-{digest}"


def retag(sagemaker: SageMakerClient, arn: str, tags: Sequence[Tag]) -> None:
    """Set a resource's tags and remove all others."""
    pages = sagemaker.get_paginator("list_tags").paginate(ResourceArn=arn)
    current = {tag["Key"]: tag["Value"] for page in pages for tag in page["Tags"]}
    keys = {tag["Key"] for tag in tags}
    # AWS's own tags cannot be removed.
    removed = sorted(key for key in current if key not in keys and not key.startswith("aws:"))
    if removed:
        sagemaker.delete_tags(ResourceArn=arn, TagKeys=removed)
    new = [tag for tag in tags if current.get(tag["Key"]) != tag["Value"]]
    if new:
        sagemaker.add_tags(ResourceArn=arn, Tags=new)
