"""The public hub, from JumpStart's real documents."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from constructs_optim.recipe.catalog import models
from constructs_optim.runtime.errors import DeploymentError
from constructs_optim.runtime.jobs.hub_document import HubDocument
from constructs_optim_local.sagemaker.hub import known_models
from tests.support.documents import first_example
from tests.support.in_process import InProcessCloud

from ..support.sampling import one_in

HUB = {"HubName": "SageMakerPublicHub", "HubContentType": "Model"}
LLAMA = "meta-textgeneration-llama-2-70b"
# AWS itself has no files of these that a job could read.
ARCHIVED = {
    "huggingface-llm-falcon-180b-bf16",
    "huggingface-llm-falcon-180b-chat-bf16",
    "huggingface-textembedding-bloom-7b1",
}


@pytest.fixture
def sagemaker(in_process: InProcessCloud) -> Any:
    return in_process.client("sagemaker")


def test_a_hub_model_is_described_by_its_document(sagemaker: Any) -> None:
    content = sagemaker.describe_hub_content(**HUB, HubContentName=LLAMA, HubContentVersion="4.0.0")
    document = json.loads(content["HubContentDocument"])
    assert document["HostingPrepackedArtifactUri"].startswith("s3://")
    assert content["HubContentStatus"] == "Available"


def test_describing_a_hub_model_without_a_version_returns_the_newest(sagemaker: Any) -> None:
    versions = sagemaker.list_hub_content_versions(**HUB, HubContentName=LLAMA)["HubContentSummaries"]
    described = sagemaker.describe_hub_content(**HUB, HubContentName=LLAMA)
    assert described["HubContentVersion"] == versions[0]["HubContentVersion"]


def described(sagemaker: Any, model_id: str, **more: str) -> HubDocument:
    content = sagemaker.describe_hub_content(**HUB, HubContentName=model_id, **more)
    return HubDocument(model_id, content["HubContentDocument"])


def test_the_local_hub_has_exactly_the_models_of_the_catalog(sagemaker: Any) -> None:
    assert sorted(known_models()) == sorted(models.by_id())
    for model_id, model in models.by_id().items():
        assert bool(known_models()[model_id]["draft"]) is ("sagemaker_draft_model" in model.supports), model_id
    listed = [content["HubContentName"] for content in sagemaker.list_hub_contents(**HUB)["HubContentSummaries"]]
    assert set(models.by_id()) <= set(listed)


@pytest.mark.parametrize("model_id", one_in(5, sorted(models.by_id())))
def test_every_cataloged_model_can_be_hosted(sagemaker: Any, model_id: str) -> None:
    document = described(sagemaker, model_id)
    image, _ = document.container("ml.g5.12xlarge")
    assert ".dkr.ecr.us-west-2." in image
    if model_id in ARCHIVED:
        with pytest.raises(DeploymentError, match="is stored as an archive"):
            document.model_uri.strip()
    else:
        assert document.model_uri.startswith("s3://jumpstart-")
    if "sagemaker_draft_model" in models.by_id()[model_id].supports:
        assert document.draft("sagemaker")[0].startswith("s3://")


def test_published_versions_are_described_and_others_are_reported_as_missing(sagemaker: Any) -> None:
    mistral = "huggingface-llm-mistral-7b-instruct"
    assert described(sagemaker, mistral, HubContentVersion="2.0.0").eula_uri is None
    assert described(sagemaker, "meta-textgeneration-llama-3-8b").eula_uri is not None
    for asked in ({"HubContentName": mistral, "HubContentVersion": "99.0.0"}, {"HubContentName": "no-such-model"}):
        with pytest.raises(ClientError) as caught:
            sagemaker.describe_hub_content(**HUB, **asked)
        assert "The local cloud's hub SageMakerPublicHub lacks" in caught.value.response["Error"]["Message"]


@pytest.mark.parametrize(
    "asked",
    [
        {"HubContentName": "no-such-model"},
        {"HubContentName": LLAMA, "HubContentVersion": "9.9.9"},
        {"HubContentName": LLAMA, "HubName": "OtherHub"},
    ],
)
def test_an_unknown_model_or_version_is_resource_not_found(sagemaker: Any, asked: dict[str, str]) -> None:
    with pytest.raises(ClientError) as caught:
        sagemaker.describe_hub_content(**{**HUB, **asked})
    assert caught.value.response["Error"]["Code"] == "ResourceNotFound"


def test_models_are_listed_by_part_of_their_name(sagemaker: Any) -> None:
    found = sagemaker.list_hub_contents(**HUB, NameContains="llama")["HubContentSummaries"]
    assert LLAMA in [content["HubContentName"] for content in found]


def test_the_model_of_getting_started_is_in_the_hub(sagemaker: Any) -> None:
    (named,) = re.findall(r'Model\.jumpstart\(\s*"([\w-]+)", version="([\d.]+)"', first_example())
    content = sagemaker.describe_hub_content(**HUB, HubContentName=named[0], HubContentVersion=named[1])
    document = json.loads(content["HubContentDocument"])
    assert document["ResourceNameBase"] == named[0]
    assert named[0] in document["HostingArtifactUri"]


def test_a_custom_hub_folder_adds_models(tmp_path: Path) -> None:
    (tmp_path / "my-model").mkdir()
    (tmp_path / "my-model" / "1.10.0.json").write_text('{"HostingArtifactUri": "s3://models/ten/"}')
    (tmp_path / "my-model" / "1.9.0.json").write_text('{"HostingArtifactUri": "s3://models/nine/"}')
    cloud = InProcessCloud(hub_folders=[tmp_path])
    content = cloud.client("sagemaker").describe_hub_content(**HUB, HubContentName="my-model")
    assert content["HubContentVersion"] == "1.10.0"


def test_a_custom_hub_folder_with_a_catalog_model_keeps_the_newest_version(tmp_path: Path) -> None:
    (tmp_path / LLAMA).mkdir()
    (tmp_path / LLAMA / "1.0.0.json").write_text('{"HostingArtifactUri": "s3://models/mine/"}')
    cloud = InProcessCloud(hub_folders=[tmp_path])
    content = cloud.client("sagemaker").describe_hub_content(**HUB, HubContentName=LLAMA)
    assert content["HubContentVersion"] == "4.0.0"
