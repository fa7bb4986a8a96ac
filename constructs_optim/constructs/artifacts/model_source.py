"""A model's source in a stack: the text that identifies it, and the permissions to list and read it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from aws_cdk import CfnResource, Fn, Stack, Token

from constructs_optim.constructs.stack.custom_resource import drop_none
from constructs_optim.constructs.stack.permissions import Statement, sub
from constructs_optim.constructs.stack.stack_context import is_token
from constructs_optim.recipe.plan_data import (
    ArtifactSource,
    ContainerPlan,
    HubDraftSource,
    HubSource,
    S3Source,
    Source,
)

_DRAFT_BUCKETS = ("sagemaker-sd-models-prod-${AWS::Region}",)
_JUMPSTART_BUCKETS = ("jumpstart-cache-prod-${AWS::Region}", "jumpstart-private-cache-prod-${AWS::Region}")


def identity(stack: Stack, uri: str) -> str:
    """Stable text for a URI: a token's own text is numbered anew in every run, what it resolves to is not."""
    if not is_token(uri):
        return uri
    return json.dumps(stack.resolve(uri), sort_keys=True, separators=(",", ":"))


class Artifact:
    """The artifact of a job: its key, S3 prefix, container image and job name. All may be tokens."""

    def __init__(self, resource: CfnResource, *, uri: str, image: str, job_name: Callable[[], str]) -> None:
        """Of the custom resource that makes it or refers to it; ``job_name`` is asked for where somebody uses it."""
        self._resource, self._job_name = resource, job_name
        self.uri: str = uri
        self.image: str = image

    @property
    def logical_id(self) -> str:
        """The logical id of its custom resource (a token)."""
        return self._resource.logical_id

    @property
    def key(self) -> str:
        """Its key in the store."""
        return self._resource.ref

    @cached_property
    def job_name(self) -> str:
        """The name of the SageMaker job that made it."""
        return self._job_name()


@dataclass(frozen=True)
class StartupTimeouts:
    """How many seconds downloading and loading a model may take; tokens where the hub's document says."""

    download: float
    startup: float

    @staticmethod
    def of_hub(resource: CfnResource) -> StartupTimeouts:
        """Those that the custom resource read in the document."""
        of = resource.logical_id
        download, startup = (
            Token.as_number({"Fn::GetAtt": [of, name]})
            for name in ("ModelDataDownloadTimeout", "ContainerStartupTimeout")
        )
        return StartupTimeouts(download, startup)

    @staticmethod
    def of(container: ContainerPlan) -> StartupTimeouts:
        """Those of the plan."""
        return StartupTimeouts(
            container.model_data_download_timeout_seconds, container.container_startup_timeout_seconds
        )

    def within(self, longest: int | None) -> StartupTimeouts:
        """The same, shortened to ``longest``; what the hub's document says is known at deployment, and stays."""
        # A token is no whole number of Python's, and asking the CDK is a round trip.
        if longest is None or not isinstance(self.download, int):
            return self
        return StartupTimeouts(min(self.download, longest), min(self.startup, longest))


def properties(source: Source, artifacts: Sequence[Artifact] | Mapping[int, Artifact] = ()) -> dict[str, Any]:
    """The ``Source`` property of a custom resource; ``artifacts`` are those of the plan's jobs, by index."""
    match source:
        case HubSource() | HubDraftSource():
            return drop_none(
                Kind=source.kind,
                HubName=source.hub_name,
                ModelId=source.model_id,
                Version=source.version or None,
                AcceptEula=source.accept_eula,
                Configuration=(source.configuration or None) if isinstance(source, HubSource) else None,
            )
        case S3Source():
            return drop_none(Kind="s3", S3Uri=source.uri, AcceptEula=source.accept_eula or None)
        case ArtifactSource():
            artifact = artifacts[source.job]
            return drop_none(
                Kind="artifact", ArtifactKey=artifact.key, S3Uri=artifact.uri, Suffix=source.suffix or None
            )


def lookup_statements(source: HubSource | HubDraftSource | S3Source) -> list[Statement]:
    """What a handler may look up to resolve the source."""
    if isinstance(source, S3Source):
        return [_list_statement(source)]
    prefix = "arn:${AWS::Partition}:sagemaker:${AWS::Region}:aws:"
    return [
        Statement(
            "ResolveHubContent",
            ("sagemaker:DescribeHubContent",),
            (
                sub(f"{prefix}hub/{source.hub_name}"),
                sub(f"{prefix}hub-content/{source.hub_name}/Model/{source.model_id}/*"),
            ),
            wildcard="the last part is the model's version, which an unpinned model leaves to the hub",
        )
    ]


def read_statements(source: HubSource | HubDraftSource | S3Source) -> list[Statement]:
    """What the execution role may read of the source."""
    if isinstance(source, S3Source):
        bucket, prefix = _location(source)
        return [
            Statement(
                "ReadSource",
                ("s3:GetObject",),
                (_s3_arn(bucket, "/", prefix, "*"),),
                wildcard="the model is all the files under the prefix",
            ),
            _list_statement(source),
            *_decryption(source),
        ]
    names = _JUMPSTART_BUCKETS if isinstance(source, HubSource) else _DRAFT_BUCKETS
    buckets = [f"arn:${{AWS::Partition}}:s3:::{bucket}" for bucket in names]
    return [
        Statement(
            "ReadJumpStart",
            ("s3:GetObject",),
            tuple(sub(f"{bucket}/*") for bucket in buckets),
            wildcard="the hub names the model's files when the stack is deployed",
        ),
        Statement("ListJumpStart", ("s3:ListBucket",), tuple(sub(bucket) for bucket in buckets)),
    ]


def _decryption(source: S3Source) -> list[Statement]:
    """Handlers need none of it: they list the files, and read none."""
    if source.encryption_key_arn is None:
        return []
    # As AWS KMS names the service (developer guide, "kms:ViaService"): amazonaws.com in every partition.
    condition = {"StringEquals": {"kms:ViaService": sub("s3.${AWS::Region}.amazonaws.com")}}
    return [Statement("DecryptSource", ("kms:Decrypt",), (source.encryption_key_arn,), condition)]


def _list_statement(source: S3Source) -> Statement:
    bucket, prefix = _location(source)
    return _listing("ListSource", bucket, prefix)


def _listing(sid: str, bucket: str, prefix: str) -> Statement:
    """List what begins with ``prefix``; without one, all of the bucket."""
    if not prefix:
        return Statement(sid, ("s3:ListBucket",), (_s3_arn(bucket),))
    digits = hashlib.sha256(bucket.encode()).hexdigest()[:8]
    return Statement(f"{sid}{digits}", ("s3:ListBucket",), (_s3_arn(bucket),), prefixes=(f"{prefix}*",))


def _location(source: S3Source) -> tuple[str, str]:
    """Bucket and prefix; the prefix of a token is not known, so its permissions cover the bucket it names."""
    if is_token(source.uri):
        return Fn.select(2, Fn.split("/", source.uri)), ""
    bucket, _, prefix = source.uri.removeprefix("s3://").partition("/")
    return bucket, f"{prefix.rstrip('/')}/" if prefix.strip("/") else ""


def object_arn(uri: str) -> dict[str, Any]:
    """The ARN of the object that an S3 URI names; the URI may be a token."""
    if is_token(uri):
        return _s3_arn(Fn.select(1, Fn.split("s3://", uri)))
    return _s3_arn(uri.removeprefix("s3://"))


def channel_statements(uri: str) -> list[Statement]:
    """What a job reads that gets the object at ``uri`` as a channel: SageMaker lists what a channel's URI begins.

    The URI may be a token; then all of its bucket may be listed.
    """
    bucket, _, key = uri.removeprefix("s3://").partition("/")
    if is_token(uri):
        bucket, key = Fn.select(2, Fn.split("/", uri)), ""
    return [
        Statement("ReadChannels", ("s3:GetObject",), (object_arn(uri),)),
        _listing("ListChannel", bucket, key),
    ]


def _s3_arn(*parts: str) -> dict[str, Any]:
    return {"Fn::Join": ["", ["arn:", {"Ref": "AWS::Partition"}, ":s3:::", "".join(parts)]]}
