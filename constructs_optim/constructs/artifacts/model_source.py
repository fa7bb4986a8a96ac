"""A model's source in a stack: its properties, and the permissions to list and read it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any

from aws_cdk import CfnResource, Fn

from constructs_optim.constructs.stack.custom_resource import drop_none
from constructs_optim.constructs.stack.permissions import Statement, statements_of, sub
from constructs_optim.recipe.keys import sha256
from constructs_optim.recipe.plan_data import (
    ArtifactSource,
    HubDraftSource,
    HubSource,
    HuggingFaceSource,
    S3Source,
    Source,
    TokenSecret,
)
from constructs_optim.recipe.tokens import is_token, without_tokens

_ENDS_AS_SECRETS_DO = re.compile(r"-[A-Za-z0-9]{6}$")


class S3Location:
    """The bucket and the key or prefix of an S3 URI; for a token with an unknown key, the whole bucket.

    ``names_bucket``: whether the part before the first slash is the bucket's name, even if it is a token.
    """

    def __init__(self, uri: str, *, names_bucket: bool = False) -> None:
        self._uri, self._is_token = uri, is_token(uri) and not names_bucket
        bucket, _, key = uri.removeprefix("s3://").partition("/")
        self.bucket: str = Fn.select(2, Fn.split("/", uri)) if self._is_token else bucket
        self.key: str = "" if self._is_token else key

    @cached_property
    def object_arn(self) -> dict[str, Any]:
        """The ARN of the object that the URI names."""
        uri = self._uri
        return _s3_arn(Fn.select(1, Fn.split("s3://", uri)) if self._is_token else uri.removeprefix("s3://"))

    @property
    def folder(self) -> str:
        """The key as the prefix of a folder."""
        return f"{self.key.rstrip('/')}/" if self.key.strip("/") else ""

    def list_statement(self, sid: str, prefix: str) -> Statement:
        """Return the permission to list keys that begin with ``prefix``; without one, the whole bucket."""
        if not prefix:
            return Statement(sid, ("s3:ListBucket",), (_s3_arn(self.bucket),))
        name = f"{sid}{sha256(without_tokens(self.bucket))[:8]}"
        return Statement(name, ("s3:ListBucket",), (_s3_arn(self.bucket),), prefixes=(f"{prefix}*",))


def _s3_arn(path: str) -> dict[str, Any]:
    return {"Fn::Join": ["", ["arn:", {"Ref": "AWS::Partition"}, ":s3:::", path]]}


@dataclass(frozen=True)
class Artifact:
    """An artifact: the custom resource that creates it or looks it up, its S3 prefix and its job; may be tokens."""

    resource: CfnResource
    uri: str
    job_name: Callable[[], str]

    @cached_property
    def key(self) -> str:
        """The artifact's key in the store."""
        return self.resource.ref


def properties(source: Source, artifacts: Mapping[int, Artifact] = MappingProxyType({})) -> dict[str, Any]:
    """Return the ``Source`` property of a custom resource; ``artifacts`` of the plan's jobs by index."""
    match source:
        case HubSource() | HubDraftSource():
            return drop_none(
                Kind=source.kind,
                HubName=source.hub_name,
                ModelId=source.model_id,
                Version=source.version or None,
                AcceptEula=source.accept_eula,
                Configuration=(source.configuration or None) if isinstance(source, HubSource) else None,
                AcceptDraftEula=(source.accept_draft_eula or None) if isinstance(source, HubSource) else None,
            )
        case HuggingFaceSource():
            return {"Kind": source.kind, "ModelId": source.model_id, "Revision": source.revision}
        case S3Source():
            return drop_none(
                Kind="s3",
                S3Uri=source.uri,
                AcceptEula=source.accept_eula or None,
                ManifestS3Uri=source.manifest_uri,
                ManifestEtag=source.manifest_etag,
            )
        case ArtifactSource():
            artifact = artifacts[source.job]
            return drop_none(
                Kind="artifact", ArtifactKey=artifact.key, S3Uri=artifact.uri, Suffix=source.suffix or None
            )


def lookup_statements(*sources: Source) -> list[Statement]:
    """Return a handler's permissions to resolve sources, without reading their objects."""
    statements: list[Statement] = []
    for source in sources:
        if isinstance(source, S3Source):
            location = S3Location(source.uri, names_bucket=source.names_bucket)
            statements.append(location.list_statement("ListSource", location.folder))
        elif isinstance(source, HubSource | HubDraftSource):
            statements += statements_of("resolve hub content", Hub=source.hub_name, Model=source.model_id)
    return statements


def read_statements(*sources: HubSource | HubDraftSource | S3Source) -> list[Statement]:
    """Return the permissions to read sources."""
    statements: list[Statement] = []
    for source in sources:
        if not isinstance(source, S3Source):
            statements += statements_of("read hub models" if isinstance(source, HubSource) else "read hub drafts")
            if isinstance(source, HubSource) and source.configuration is not None:
                # A configuration can serve one of SageMaker's draft models too.
                statements += statements_of("read hub drafts")
            continue
        location = S3Location(source.uri, names_bucket=source.names_bucket)
        reason = "the model is all the files under the prefix"
        files = _s3_arn(f"{location.bucket}/{location.folder}*")
        statements.append(Statement("ReadSource", ("s3:GetObject",), (files,), wildcard=reason))
        statements.append(location.list_statement("ListSource", location.folder))
        if source.manifest_uri is not None:
            manifest = S3Location(source.manifest_uri)
            statements.append(Statement("ReadModelManifest", ("s3:GetObject",), (manifest.object_arn,)))
            statements.append(manifest.list_statement("ListModelManifest", manifest.key))
        if source.encryption_key_arn is not None:
            # AWS KMS uses amazonaws.com in every partition (developer guide, "kms:ViaService").
            condition = {"StringEquals": {"kms:ViaService": sub("s3.${AWS::Region}.amazonaws.com")}}
            statements.append(Statement("DecryptSource", ("kms:Decrypt",), (source.encryption_key_arn,), condition))
    return statements


def token_statements(token: TokenSecret) -> list[Statement]:
    """Return the permissions to read a Hugging Face token from a secret in any Region."""
    statements = [secret_statement("ReadToken", token.arn)]
    if token.encryption_key_arn is not None:
        is_of_the_stack = is_token(token.arn.partition(":secret:")[0])
        region = "${AWS::Region}" if is_of_the_stack else token.arn.split(":")[3]
        service = f"secretsmanager.{region}.amazonaws.com"
        condition = {"StringEquals": {"kms:ViaService": sub(service) if is_of_the_stack else service}}
        statements.append(Statement("DecryptToken", ("kms:Decrypt",), (token.encryption_key_arn,), condition))
    return statements


def describe_secret_statements(token: TokenSecret) -> list[Statement]:
    """Return the permission to check that a token's secret exists, without reading it."""
    return [replace(secret_statement("DescribeToken", token.arn), actions=("secretsmanager:DescribeSecret",))]


def secret_statement(sid: str, arn: str) -> Statement:
    """Return the permission to read a secret, whose ARN may lack Secrets Manager's six-character suffix.

    Requests may omit the suffix, but IAM compares the whole ARN; six question marks match it (AWS Secrets Manager user
    guide, "Permissions policy examples"). A secret's own name should not end with a hyphen and six characters (the
    same, "What's in a Secrets Manager secret?"). A token for a whole ARN belongs to a secret resource, and is complete.
    """
    name = arn.partition(":secret:")[2]
    is_whole = not name or name.endswith("}") or _ENDS_AS_SECRETS_DO.search(name)
    return Statement(sid, ("secretsmanager:GetSecretValue",), (arn if is_whole else f"{arn}-??????",))


def channel_statements(uri: str) -> list[Statement]:
    """Return a job's permissions for the channel at ``uri``: SageMaker lists all objects with that prefix."""
    location = S3Location(uri)
    read = Statement("ReadChannels", ("s3:GetObject",), (location.object_arn,))
    return [read, location.list_statement("ListChannel", location.key)]
