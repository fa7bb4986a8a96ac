"""The location and identity of a model's files, resolved during the deployment."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from botocore.exceptions import ClientError

from ..errors import DeploymentError, code_of
from ..requests.properties import ArtifactSource, HubSource, HuggingFaceSource, S3Source, Source
from ..store.json_records import objects
from .hub_document import LONGEST_STARTUP, HubDocument, hub_content

if TYPE_CHECKING:
    from mypy_boto3_s3.client import S3Client
    from mypy_boto3_sagemaker.client import SageMakerClient


@dataclass(frozen=True)
class ResolvedSource:
    """The files below ``uri``, with content ``identity``; ``accept_eula``: whether their license is accepted."""

    identity: str
    uri: str
    accept_eula: bool
    # The limits in seconds for downloading and loading the model.
    startup_timeouts: tuple[int, int] = (LONGEST_STARTUP, LONGEST_STARTUP)
    manifest: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def timeout_attributes(self) -> dict[str, str]:
        """The timeouts as attributes of a custom resource."""
        download, startup = self.startup_timeouts
        return {"ModelDataDownloadTimeout": str(download), "ContainerStartupTimeout": str(startup)}

    @property
    def model_source(self) -> dict[str, object]:
        """The ``ModelSource`` of an optimization job's request."""
        return {"S3": {"S3Uri": self.uri, **self._access}}

    @property
    def data_source(self) -> dict[str, object]:
        """The ``S3DataSource`` of a model's container; a training job's channel accepts no compression type."""
        files = {"S3Uri": self.uri, "S3DataType": "S3Prefix", "CompressionType": "None"}
        return {**files, **self._access, **self.manifest}

    @property
    def _access(self) -> dict[str, object]:
        return {"ModelAccessConfig": {"AcceptEula": True}} if self.accept_eula else {}


def resolve(source: Source, *, sagemaker: SageMakerClient, s3: S3Client) -> ResolvedSource:
    """Resolve a model's files.

    Raises:
        DeploymentError: if the license is not accepted, or the hub or prefix does not have the files.
    """
    match source:
        case HubSource():
            return _from_hub(source, sagemaker)
        case S3Source():
            return _from_s3(source, s3)
        case HuggingFaceSource():
            return ResolvedSource(f"huggingface:{source.model_id}@{source.revision}", uri="", accept_eula=False)
        case ArtifactSource():
            return ResolvedSource(identity=f"artifact:{source.artifact_key}", uri=source.uri, accept_eula=False)


def with_reads(source: ResolvedSource, reads: Sequence[S3Source], s3: S3Client) -> ResolvedSource:
    """Return the source with the identities of a job's further inputs as additional lines of its identity."""
    identities = [source.identity, *(_from_s3(read, s3, holds="data").identity for read in reads)]
    return replace(source, identity="\n".join(identities))


def is_of(source: Source, identity: str) -> bool:
    """Return whether ``identity`` belongs to the source's model, and to its version if that is pinned."""
    identity = identity.partition("\n")[0]
    match source:
        case HubSource():
            model, _, version = identity.partition("@")
            return model == f"hub:{source.hub_name}/{source.model_id}" and source.version in (None, version)
        case S3Source():
            return identity.startswith(f"s3:{source.uri}#")
        case _:
            return True


def hub_document(source: HubSource, sagemaker: SageMakerClient) -> tuple[HubDocument, str]:
    """Return a model's document and version."""
    text, version = hub_content(sagemaker, source.hub_name, source.model_id, source.version)
    return HubDocument(f"{source.model_id} {version}", text, source.configuration), version


def _from_hub(source: HubSource, sagemaker: SageMakerClient) -> ResolvedSource:
    document, version = hub_document(source, sagemaker)
    is_draft = source.kind == "hub_draft"
    uri, eula = document.draft("sagemaker") if is_draft else (document.model_uri, document.eula_uri)
    if eula and not source.accept_eula:
        raise DeploymentError(
            f"{'the draft model of ' if is_draft else ''}{source.model_id} is gated by an end-user license agreement "
            f'({eula}). Read it, then declare Model.jumpstart("{source.model_id}", accept_eula=True)'
        )
    name = f"{source.hub_name}/{source.model_id}@{version}"
    if is_draft:
        return ResolvedSource(identity=f"draft:{name}", uri=uri, accept_eula=bool(eula))
    return ResolvedSource(f"hub:{name}", uri, source.accept_eula, document.startup_timeouts)


def _from_s3(source: S3Source, s3: S3Client, holds: str = "model") -> ResolvedSource:
    digest, is_empty = hashlib.sha256(), True
    bucket, prefix = source.location
    try:
        for name, size, etag in objects(s3, bucket, prefix):
            is_empty = False
            digest.update(f"{name.removeprefix(prefix)}\t{size}\t{etag}\n".encode())
    except ClientError as error:
        code = code_of(error)
        if code not in ("NoSuchBucket", "AccessDenied"):
            raise
        raise DeploymentError(f"the {holds} {source.uri} cannot be listed: {code}") from None
    if is_empty:
        raise DeploymentError(f"there are no {holds} files under {source.uri}; upload them, then deploy again")
    identity = f"s3:{source.uri}#{digest.hexdigest()}"
    return ResolvedSource(identity, source.uri, source.accept_eula, manifest=source.manifest)
