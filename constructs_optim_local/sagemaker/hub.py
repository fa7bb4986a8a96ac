"""The public hub: JumpStart's models, with real documents or stand-ins."""

from __future__ import annotations

import datetime as dt
import functools
import json
from pathlib import Path
from typing import Any

from constructs_optim_local.api.error import ApiError, not_found

from .records import Record, Scope

PUBLIC_HUB = "SageMakerPublicHub"
_BUNDLED = Path(__file__).parent.parent / "data" / "hub"
_STAND_INS = _BUNDLED.with_name("hub_models.json")
_PUBLISHED = dt.datetime(2024, 3, 1, tzinfo=dt.UTC)


class Hub:
    """Documents in ``<folder>/<model ID>/<version>.json``. Later folders add to earlier ones.

    A model that a folder has gets no stand-ins newer than the folder's documents.
    """

    def __init__(self, *folders: Path) -> None:
        self._documents: dict[str, dict[str, Path]] = {}
        documented = {path.parent.name for folder in folders for path in folder.glob("*/*.json")}
        self._stand_ins = {name: model for name, model in known_models().items() if name not in documented}
        for folder in (_BUNDLED, *folders):
            for path in sorted(folder.glob("*/*.json")):
                self._documents.setdefault(path.parent.name, {})[path.stem] = path

    def describe(self, scope: Scope, request: Record) -> Record:
        """DescribeHubContent."""
        name = request["HubContentName"]
        versions = self._versions(request)
        version = request.get("HubContentVersion") or versions[-1]
        if version not in versions:
            raise _lacks(f"version {version} of {name}; it has {', '.join(versions)}")
        return {
            **self._summary(scope, name, version),
            "HubName": PUBLIC_HUB,
            "HubArn": f"arn:aws:sagemaker:{scope.region}:aws:hub/{PUBLIC_HUB}",
            "HubContentDocument": self._document(scope, name, version),
        }

    def versions(self, scope: Scope, request: Record) -> Record:
        """ListHubContentVersions."""
        found = reversed(self._versions(request))
        return {"HubContentSummaries": [self._summary(scope, request["HubContentName"], version) for version in found]}

    def contents(self, scope: Scope, request: Record) -> Record:
        """ListHubContents."""
        rows = [
            self._summary(scope, name, self._versions_of(name)[-1])
            for name in sorted({*self._documents, *self._stand_ins})
            if request.get("NameContains", "") in name
        ]
        return {"HubContentSummaries": rows}

    def _versions(self, request: Record) -> list[str]:
        name = request["HubContentName"]
        hub = request["HubName"].rpartition("/")[2]
        if hub != PUBLIC_HUB:
            raise not_found(f"Hub {hub} does not exist")
        found = self._versions_of(name) if request["HubContentType"] == "Model" else []
        if not found:
            raise _lacks(f"a model {name}")
        return found

    def _versions_of(self, name: str) -> list[str]:
        """Return the versions of a model, oldest first."""
        return sorted(
            {*self._documents.get(name, ()), *self._stand_ins.get(name, {}).get("versions", ())}, key=_ordered
        )

    def _document(self, scope: Scope, name: str, version: str) -> str:
        path = self._documents.get(name, {}).get(version)
        return path.read_text(encoding="utf-8") if path is not None else stand_in(self._stand_ins[name], scope.region)

    def _summary(self, scope: Scope, name: str, version: str) -> dict[str, Any]:
        return {
            "HubContentName": name,
            "HubContentArn": f"arn:aws:sagemaker:{scope.region}:aws:hub-content/{PUBLIC_HUB}/Model/{name}/{version}",
            "HubContentVersion": version,
            "HubContentType": "Model",
            "DocumentSchemaVersion": "2.3.0",
            "HubContentDisplayName": json.loads(self._document(scope, name, version)).get("ModelName", name),
            "HubContentStatus": "Available",
            "CreationTime": _PUBLISHED,
        }


def _lacks(what: str) -> ApiError:
    """Return the error for a model or version that is not in this hub."""
    return not_found(
        f"The local cloud's hub {PUBLIC_HUB} lacks {what}. AWS's own hub may have it: give the local cloud a folder "
        "with its document (hub_folders of LocalCloud)"
    )


def _ordered(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


_REGISTRY = "763104351884.dkr.ecr.{}.amazonaws.com"
_IMAGE = f"{_REGISTRY}/huggingface-pytorch-tgi-inference:2.1.1-tgi1.4.2-gpu-py310-cu121-ubuntu22.04"
_OPTIMIZED_IMAGE = f"{_REGISTRY}/djl-inference:0.32.0-lmi14.0.0-cu126"
_CONFIGURATION = "lmi-optimized"


@functools.cache
def known_models() -> dict[str, dict[str, Any]]:
    """Return the known models by ID. ``tooling/hub_models.py`` writes the data."""
    models: list[dict[str, Any]] = json.loads(_STAND_INS.read_text(encoding="utf-8"))["models"]
    return {model["model_id"]: model for model in models}


def stand_in(model: dict[str, Any], region: str) -> str:
    """Return a stand-in document of a model for a Region."""
    bucket = f"jumpstart-{'private-' if model['gated'] else ''}cache-prod-{region}"
    drafts = [
        {
            "ChannelName": "draft_model",
            "Provider": {"Name": "SageMaker", "Classification": "non-gated"},
            "S3DataSource": {
                "S3Uri": f"s3://sagemaker-sd-models-prod-{region}/{model['model_id']}/",
                "S3DataType": "S3Prefix",
            },
        }
    ]
    document = {
        "Url": "https://docs.aws.amazon.com/sagemaker/latest/dg/jumpstart-foundation-models.html",
        "ResourceNameBase": model["model_id"],
        "HostingEcrUri": _IMAGE.format(region),
        "HostingArtifactS3DataType": "S3Prefix",
        "HostingArtifactCompressionType": "None",
        "HostingArtifactUri": f"s3://{bucket}/{model['artifact']}",
        "HostingPrepackedArtifactUri": f"s3://{bucket}/{model['artifact']}",
        "GatedBucket": model["gated"],
        "InferenceEnvironmentVariables": [
            {"name": name, "default": value, "scope": "container", "required_for_model_class": True}
            for name, value in model["environment"].items()
        ],
        "DefaultInferenceInstanceType": model["instance_type"],
        "SupportedInferenceInstanceTypes": [model["instance_type"]],
        "ModelDataDownloadTimeout": 1200,
        "ContainerStartupHealthCheckTimeout": 1200,
        "InferenceEnableNetworkIsolation": True,
        "InferenceConfigs": {_CONFIGURATION: {"ComponentNames": [_CONFIGURATION]}},
        "InferenceConfigComponents": {
            _CONFIGURATION: {
                "HostingEcrUri": _OPTIMIZED_IMAGE.format(region),
                "HostingInstanceTypeVariants": {"Variants": {}},
                **({"HostingAdditionalDataSources": {"speculative_decoding": drafts}} if model["draft"] else {}),
            }
        },
    }
    if model["eula"]:
        document["HostingEulaUri"] = f"s3://jumpstart-cache-prod-{region}/{model['eula']}"
    return json.dumps(document, indent=1)
