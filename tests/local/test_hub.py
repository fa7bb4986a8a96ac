"""The public hub, from JumpStart's real documents."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from constructs_optim.local.cloud import LocalCloud
from tests.documents import CHECKOUT, first_example

HUB = {"HubName": "SageMakerPublicHub", "HubContentType": "Model"}
LLAMA = "meta-textgeneration-llama-2-70b"


def test_a_model_is_described_by_its_document(sagemaker: Any) -> None:
    content = sagemaker.describe_hub_content(**HUB, HubContentName=LLAMA, HubContentVersion="4.0.0")
    document = json.loads(content["HubContentDocument"])
    assert document["HostingPrepackedArtifactUri"].startswith("s3://")
    assert content["HubContentStatus"] == "Available"


def test_without_a_version_the_newest_is_described(sagemaker: Any) -> None:
    versions = sagemaker.list_hub_content_versions(**HUB, HubContentName=LLAMA)["HubContentSummaries"]
    described = sagemaker.describe_hub_content(**HUB, HubContentName=LLAMA)
    assert described["HubContentVersion"] == versions[0]["HubContentVersion"]


@pytest.mark.parametrize(
    "asked",
    [
        {"HubContentName": "no-such-model"},
        {"HubContentName": LLAMA, "HubContentVersion": "9.9.9"},
        {"HubContentName": LLAMA, "HubName": "OtherHub"},
    ],
)
def test_what_is_not_in_the_hub_is_not_found(sagemaker: Any, asked: dict[str, str]) -> None:
    with pytest.raises(ClientError) as caught:
        sagemaker.describe_hub_content(**{**HUB, **asked})
    assert caught.value.response["Error"]["Code"] == "ResourceNotFound"


def test_models_are_listed_by_part_of_their_name(sagemaker: Any) -> None:
    found = sagemaker.list_hub_contents(**HUB, NameContains="llama")["HubContentSummaries"]
    assert LLAMA in [content["HubContentName"] for content in found]


def test_the_models_of_the_demo_and_of_the_readmes_first_example_are_there(sagemaker: Any) -> None:
    for app in (first_example(), (CHECKOUT / "app.py").read_text()):
        (named,) = re.findall(r'Model\.jumpstart\("([\w-]+)", version="([\d.]+)"', app)
        content = sagemaker.describe_hub_content(**HUB, HubContentName=named[0], HubContentVersion=named[1])
        document = json.loads(content["HubContentDocument"])
        assert document["ResourceNameBase"] == named[0]
        assert named[0] in document["HostingArtifactUri"]


def test_a_folder_of_ones_own_adds_models(tmp_path: Path) -> None:
    (tmp_path / "my-model").mkdir()
    (tmp_path / "my-model" / "1.10.0.json").write_text('{"HostingArtifactUri": "s3://models/ten/"}')
    (tmp_path / "my-model" / "1.9.0.json").write_text('{"HostingArtifactUri": "s3://models/nine/"}')
    with LocalCloud(hub_folders=[tmp_path]) as cloud:
        content = cloud.client("sagemaker").describe_hub_content(**HUB, HubContentName="my-model")
    assert content["HubContentVersion"] == "1.10.0"
