"""Where a job reads the model from, resolved when the stack is deployed.

A JumpStart model is looked up in its hub, which answers with a document that is regionalized already; the keys of
these documents differ in case from one to the next ("HostingEcrUri", "image_uri"), so they are read without it.
The content of an S3 prefix is known by its objects' names, sizes and ETags.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError

from .errors import DeploymentError
from .properties import HubSource, S3Source


@dataclass(frozen=True)
class ResolvedSource:
    """``identity`` names the exact bytes; ``model_source`` is the request's ``ModelSource``."""

    identity: str
    model_source: dict[str, Any]


def resolve(source: HubSource | S3Source, *, sagemaker: Any, s3: Any) -> ResolvedSource:
    """Find the model's files.

    Raises:
        DeploymentError: an unknown model or version, an EULA that was not accepted, an empty or missing prefix.
    """
    if isinstance(source, HubSource):
        return _from_hub(source, sagemaker)
    return _from_s3(source, s3)


def _from_hub(source: HubSource, sagemaker: Any) -> ResolvedSource:
    version = {"HubContentVersion": source.version} if source.version else {}
    try:
        content = sagemaker.describe_hub_content(
            HubName=source.hub_name, HubContentType="Model", HubContentName=source.model_id, **version
        )
    except ClientError as error:
        if error.response["Error"]["Code"] != "ResourceNotFound":
            raise
        raise DeploymentError(
            f"the hub {source.hub_name} has no model {source.model_id!r}"
            + (f" in version {source.version}" if source.version else "")
            + " in this region. `aws sagemaker list-hub-content-versions --hub-name "
            + f"{source.hub_name} --hub-content-type Model --hub-content-name {source.model_id}` lists the versions"
        ) from None
    document = _fold(json.loads(content["HubContentDocument"]))
    document |= _default_configuration(document)
    uri = document.get("hostingprepackedartifacturi") or document.get("hostingartifacturi")
    if not isinstance(uri, str) or not uri.startswith("s3://"):
        raise DeploymentError(f"the hub's document of {source.model_id} names no model artifact in S3")
    if uri.endswith((".tar.gz", ".tgz")):
        raise DeploymentError(
            f"{source.model_id} {content['HubContentVersion']} is stored as an archive ({uri}); an optimization job "
            "reads uncompressed files: choose a newer version, or copy the unpacked files to S3 and use Model.s3(...)"
        )
    eula = document.get("hostingeulauri")
    if (document.get("gatedbucket") or eula) and not source.accept_eula:
        raise DeploymentError(
            f"{source.model_id} is gated by an end-user licence agreement ({eula or 'see the model card'}). Read it, "
            f'then declare Model.jumpstart("{source.model_id}", accept_eula=True)'
        )
    return ResolvedSource(
        identity=f"hub:{source.hub_name}/{source.model_id}@{content['HubContentVersion']}",
        model_source=_model_source(uri, source.accept_eula),
    )


def _default_configuration(document: dict[str, Any]) -> dict[str, Any]:
    """What the default inference configuration lays over the base document.

    The default is the first of the overall ranking; its components are merged in the order they are named.
    """
    rankings = document.get("inferenceconfigrankings", {}).get("overall", {}).get("rankings") or []
    configuration = document.get("inferenceconfigs", {}).get(_folded(rankings[0]), {}) if rankings else {}
    merged: dict[str, Any] = {}
    for name in configuration.get("componentnames", []):
        merged |= document.get("inferenceconfigcomponents", {}).get(_folded(name), {})
    artifact = {key: merged[key] for key in ("hostingprepackedartifacturi", "hostingartifacturi") if key in merged}
    # A configuration that names only one of the two must not be joined with the base document's other one.
    return {"hostingprepackedartifacturi": None, "hostingartifacturi": None, **artifact} if artifact else {}


def _from_s3(source: S3Source, s3: Any) -> ResolvedSource:
    digest = hashlib.sha256()
    found = False
    try:
        for page in s3.get_paginator("list_objects_v2").paginate(Bucket=source.bucket, Prefix=source.prefix):
            for item in page.get("Contents", []):
                found = True
                name = item["Key"].removeprefix(source.prefix)
                digest.update(f"{name}\t{item['Size']}\t{item['ETag']}\n".encode())
    except ClientError as error:
        code = error.response["Error"]["Code"]
        if code not in ("NoSuchBucket", "AccessDenied"):
            raise
        raise DeploymentError(f"the model {source.uri} cannot be listed: {code}") from None
    if not found:
        raise DeploymentError(f"there are no model files under {source.uri}; upload them, then deploy again")
    return ResolvedSource(
        identity=f"s3:{source.uri}#{digest.hexdigest()}",
        model_source=_model_source(source.uri, source.accept_eula),
    )


def _model_source(uri: str, accept_eula: bool) -> dict[str, Any]:
    access = {"ModelAccessConfig": {"AcceptEula": True}} if accept_eula else {}
    return {"S3": {"S3Uri": uri, **access}}


def _folded(name: str) -> str:
    return name.replace("_", "").lower()


def _fold(value: Any) -> Any:
    if isinstance(value, dict):
        return {_folded(key): _fold(item) for key, item in value.items()}
    return [_fold(item) for item in value] if isinstance(value, list) else value
