"""Each field of JumpStart's documents is used, or left out for a reason.

``record.py`` records the fields from sagemaker-core's models of the documents.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from constructs_optim.runtime.errors import DeploymentError
from constructs_optim.runtime.jobs.hub_document import HubDocument

FIELDS: dict[str, list[str]] = json.loads(
    (Path(__file__).parent / "recorded" / "sagemaker-3.json").read_text(encoding="utf-8")
)["hub_document"]
INSTANCE_TYPE = "ml.g5.12xlarge"
DOCUMENT: dict[str, Any] = {
    "HostingEcrUri": "registry/base:1",
    "HostingArtifactUri": "s3://jumpstart/base/",
    "HostingInstanceTypeVariants": {"Variants": {INSTANCE_TYPE: {"Properties": {}}}},
}
Read = Callable[[HubDocument], object]


def container(document: HubDocument) -> object:
    return document.container(INSTANCE_TYPE)


def files(document: HubDocument) -> object:
    return document.model_uri


def timeouts(document: HubDocument) -> object:
    return document.startup_timeouts


# A value of each used field, and what it changes.
USED: dict[str, tuple[dict[str, Any], Read]] = {
    "ContainerStartupHealthCheckTimeout": ({"ContainerStartupHealthCheckTimeout": 600}, timeouts),
    "GatedBucket": ({"GatedBucket": True}, lambda document: document.eula_uri),
    "HostingAdditionalDataSources": (
        {
            "HostingAdditionalDataSources": {
                "speculative_decoding": [{"ChannelName": "draft_model", "S3DataSource": {"S3Uri": "s3://drafts/"}}]
            }
        },
        lambda document: list(document.additional_files()),
    ),
    "HostingArtifactCompressionType": ({"HostingArtifactCompressionType": "Gzip"}, files),
    "HostingArtifactS3DataType": ({"HostingArtifactS3DataType": "S3Object"}, files),
    "HostingArtifactUri": ({"HostingArtifactUri": "s3://jumpstart/other/"}, files),
    "HostingEcrUri": ({"HostingEcrUri": "registry/other:1"}, container),
    "HostingEulaExternalLink": (
        {"GatedBucket": True, "HostingEulaExternalLink": "https://example.com"},
        lambda document: document.eula_uri,
    ),
    "HostingEulaUri": ({"HostingEulaUri": "s3://jumpstart/eula.txt"}, lambda document: document.eula_uri),
    "HostingInstanceTypeVariants": (
        {"HostingInstanceTypeVariants": {"Variants": {"g5": {"Properties": {"ImageUri": "registry/g5:1"}}}}},
        container,
    ),
    "InferenceAmiVersion": ({"InferenceAmiVersion": "an-image"}, lambda document: document.hosting),
    "InferenceConfigComponents": (
        {
            "InferenceConfigs": {"a": {"ComponentNames": ["b"]}},
            "InferenceConfigRankings": {"overall": {"Rankings": ["a"]}},
            "InferenceConfigComponents": {"b": {"HostingEcrUri": "registry/b:1"}},
        },
        container,
    ),
    "InferenceEnableNetworkIsolation": (
        {"InferenceEnableNetworkIsolation": False},
        lambda document: document.network_isolation,
    ),
    "InferenceEnvironmentVariables": (
        {"InferenceEnvironmentVariables": [{"Name": "A", "Default": "b", "RequiredForModelClass": True}]},
        container,
    ),
    "InferenceVolumeSize": ({"InferenceVolumeSize": 100}, lambda document: document.hosting),
    "ModelDataDownloadTimeout": ({"ModelDataDownloadTimeout": 600}, timeouts),
}
for ranked in ("InferenceConfigRankings", "InferenceConfigs"):
    USED[ranked] = USED["InferenceConfigComponents"]

USED_OF_AN_INSTANCE_TYPE: dict[str, object] = {
    "EnvironmentVariables": {"A": "b"},
    "ImageUri": "registry/of-the-type:1",
}
_SIZED = "the catalog and the lock file have the model's size, and `ComponentOptions` a copy's resources"
_PACKAGE = "a model package of AWS Marketplace: the document has no artifact in S3, which is refused"
_BROWSED = "text for people who look for a model"
_SCRIPT = "the script of containers before LMI and vLLM; a container that needs one has its artifact in an archive"
LEFT_OUT: dict[str, str] = {
    "BedrockIOMappingId": "for Amazon Bedrock",
    "Capabilities": _BROWSED,
    "ContextualHelp": _BROWSED,
    "DataType": _BROWSED,
    "DefaultInferenceInstanceType": "the user declares the instance type",
    "DefaultPayloads": "examples of requests",
    "Dependencies": "files that a private hub copies",
    "DynamicContainerDeploymentSupported": "whether the model was tried as an inference component: nothing is refused",
    "Framework": _BROWSED,
    "Highlights": _BROWSED,
    "HostingEcrSpecs": "the image's framework and version; the URI of the image is used",
    "HostingModelPackageArn": _PACKAGE,
    "HostingResourceRequirements": _SIZED,
    "HostingScriptUri": _SCRIPT,
    "HostingUseScriptUri": _SCRIPT,
    "IncrementalTrainingSupported": "for JumpStart's own training",
    "InferenceDependencies": "Python packages of the script, which the SDK does not install either",
    "License": _BROWSED,
    "ListingId": _PACKAGE,
    "MarketplaceVersion": _PACKAGE,
    "MinSdkVersion": "the SDK's",
    "ModelProviderIconUri": _BROWSED,
    "ModelSubscriptionLink": _PACKAGE,
    "ModelTypes": _BROWSED,
    "NotebookLocations": _BROWSED,
    "ProductId": _PACKAGE,
    "Provider": _BROWSED,
    "ResourceNameBase": "a prefix for the SDK's resource names",
    "Resources": _BROWSED,
    "SageMakerSdkPredictorSpecifications": "the SDK's serializers",
    "SupportedInferenceInstanceTypes": "the types that AWS tried; rules check whether a model fits another type",
    "Task": _BROWSED,
    "TrainingConfigComponents": "for JumpStart's own training",
    "TrainingConfigRankings": "for JumpStart's own training",
    "TrainingConfigs": "for JumpStart's own training",
    "TrainingSupported": "for JumpStart's own training",
    "Url": _BROWSED,
}
LEFT_OUT_OF_AN_INSTANCE_TYPE = {
    "ListingId": _PACKAGE,
    "ModelPackageArn": _PACKAGE,
    "ProductId": _PACKAGE,
    "ResourceRequirements": _SIZED,
}


def read(changed: dict[str, Any], of: Read) -> object:
    try:
        return of(HubDocument("some-model 1.0.0", json.dumps(DOCUMENT | changed)))
    except DeploymentError as error:
        return str(error)


def test_each_field_of_a_document_is_used_or_left_out_for_a_reason() -> None:
    assert sorted([*USED, *LEFT_OUT]) == FIELDS["document"]
    assert sorted([*USED_OF_AN_INSTANCE_TYPE, *LEFT_OUT_OF_AN_INSTANCE_TYPE]) == FIELDS["of_an_instance_type"]
    assert set(FIELDS["deploy"]) <= USED.keys(), "what the SDK deploys a model with"


@pytest.mark.parametrize("field", sorted(USED))
def test_a_used_field_changes_how_a_model_is_hosted(field: str) -> None:
    changed, of = USED[field]
    without = {name: value for name, value in changed.items() if name != field}
    assert read(changed, of) != read(without, of)


@pytest.mark.parametrize("field", sorted(USED_OF_AN_INSTANCE_TYPE))
def test_a_used_field_of_an_instance_type_changes_its_container(field: str) -> None:
    properties = {field: USED_OF_AN_INSTANCE_TYPE[field]}
    variants = {"HostingInstanceTypeVariants": {"Variants": {INSTANCE_TYPE: {"Properties": properties}}}}
    assert read(variants, container) != read({}, container)
