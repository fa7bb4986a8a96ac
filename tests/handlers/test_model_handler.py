"""``Custom::OptimizedModel`` against the local cloud's SageMaker: create, update and delete, each of them twice."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from unittest.mock import Mock

import pytest
from botocore.exceptions import ClientError

from constructs_optim.runtime.handlers import model_handler
from constructs_optim.runtime.immutable_resources import retag
from constructs_optim.runtime.jobs import hub_document, source
from constructs_optim_local.cloud import LocalCloud

from ..support.custom_resource_events import custom_resource_event
from ..support.hosting import IMAGE
from ..support.lambda_context import LambdaContext
from ..support.local_cloud import BUCKET, ROLE, Responses

STACK = "arn:aws:cloudformation:us-west-2:000000000000:stack/Chat/1234"


def properties(**changed: Any) -> dict[str, Any]:
    return {
        "Image": IMAGE,
        "Environment": {"OPTION_SPECULATIVE_DRAFT_MODEL": "/opt/ml/additional-model-data-sources/draft_model"},
        "InstanceType": "ml.g5.12xlarge",
        "Source": {"Kind": "s3", "S3Uri": f"s3://{BUCKET}/models/mine/"},
        "Channels": [{"Name": "draft_model", "Source": {"Kind": "s3", "S3Uri": f"s3://{BUCKET}/drafts/one/"}}],
        "RoleArn": ROLE,
        "EnableNetworkIsolation": "true",
        "Tags": [{"Key": "team", "Value": "chat"}],
        **changed,
    }


def send(responses: Responses, kind: str, physical_id: str | None = None, **changed: Any) -> dict[str, Any]:
    event = custom_resource_event(
        kind,
        responses.url,
        stack_id=STACK,
        request_id=f"request-{len(responses.received)}",
        logical_id="Llama70BModel",
        properties=properties(**changed),
        physical_id=physical_id,
    )
    model_handler.handler(event, LambdaContext())
    return responses.received[-1]


def test_a_created_model_has_its_draft_as_a_channel(responses: Responses, sagemaker: Any) -> None:
    response = send(responses, "Create")
    assert response["Status"] == "SUCCESS", response
    model = sagemaker.describe_model(ModelName=response["PhysicalResourceId"])
    container = model["PrimaryContainer"]
    (channel,) = container["AdditionalModelDataSources"]
    assert channel["ChannelName"] == "draft_model"
    assert channel["S3DataSource"]["S3Uri"] == f"s3://{BUCKET}/drafts/one/"
    assert container["ModelDataSource"]["S3DataSource"]["S3Uri"] == f"s3://{BUCKET}/models/mine/"
    assert model["EnableNetworkIsolation"] is True
    assert sagemaker.list_tags(ResourceArn=model["ModelArn"])["Tags"] == [{"Key": "team", "Value": "chat"}]
    assert response["PhysicalResourceId"].startswith("optim-chat-")
    send(responses, "Delete", response["PhysicalResourceId"])


@pytest.mark.parametrize("isolated", [True, False])
def test_a_model_is_created_of_all_its_properties(responses: Responses, cloud: LocalCloud, *, isolated: bool) -> None:
    vpc = {"SecurityGroupIds": ["sg-1"], "Subnets": ["subnet-1"]}
    given = {"VpcConfig": vpc} if isolated else {"Channels": [], "EnableNetworkIsolation": "false"}
    response = send(responses, "Create", **given)
    name = response["PhysicalResourceId"]
    request = cloud.calls("CreateModel")[-1]["request"]

    def data(uri: str) -> dict[str, Any]:
        of_files = {"S3DataType": "S3Prefix", "CompressionType": "None"}
        return {"S3DataSource": {"S3Uri": f"s3://{BUCKET}/{uri}", **of_files}}

    draft = {"ChannelName": "draft_model", **data("drafts/one/")}
    container = {
        "Image": IMAGE,
        "Environment": properties()["Environment"],
        "ModelDataSource": data("models/mine/"),
        **({"AdditionalModelDataSources": [draft]} if isolated else {}),
    }
    assert request == {
        "ModelName": name,
        "ExecutionRoleArn": ROLE,
        "EnableNetworkIsolation": isolated,
        "PrimaryContainer": container,
        "Tags": [{"Key": "team", "Value": "chat"}],
        **({"VpcConfig": vpc} if isolated else {}),
    }
    assert response["Data"] == {
        "ModelName": name,
        "ModelArn": cloud.client("sagemaker").describe_model(ModelName=name)["ModelArn"],
        "Image": IMAGE,
        "ModelDataDownloadTimeout": "3600",
        "ContainerStartupTimeout": "3600",
    }
    send(responses, "Delete", name)
    assert cloud.calls("DeleteModel")[-1]["request"] == {"ModelName": name}


def test_a_model_is_made_of_the_version_of_its_manifest_that_is_named(
    responses: Responses, cloud: LocalCloud, sagemaker: Any
) -> None:
    manifest = f"s3://{BUCKET}/manifests/mine.csv"
    put = cloud.client("s3").put_object(Bucket=BUCKET, Key="manifests/mine.csv", Body=b"model.safetensors\n")
    source = {**properties()["Source"], "ManifestS3Uri": manifest}
    pinned = send(responses, "Create", Source={**source, "ManifestEtag": put["ETag"].strip('"')})
    assert pinned["Status"] == "SUCCESS", pinned
    model = sagemaker.describe_model(ModelName=pinned["PhysicalResourceId"])
    data = model["PrimaryContainer"]["ModelDataSource"]["S3DataSource"]
    assert (data["ManifestS3Uri"], data["ManifestEtag"]) == (manifest, put["ETag"].strip('"'))
    send(responses, "Delete", pinned["PhysicalResourceId"])
    changed = send(responses, "Create", Source={**source, "ManifestEtag": "0" * 32})
    assert changed["Status"] == "FAILED"
    assert "The ETag of the manifest" in changed["Reason"]


def test_a_repeated_create_reuses_the_model_it_created(responses: Responses) -> None:
    first, second = send(responses, "Create"), send(responses, "Create")
    assert first["PhysicalResourceId"] == second["PhysicalResourceId"]
    assert second["Status"] == "SUCCESS"
    send(responses, "Delete", first["PhysicalResourceId"])


def test_a_changed_definition_creates_a_model_and_a_rollback_reuses_the_old_one(
    responses: Responses, sagemaker: Any
) -> None:
    before = send(responses, "Create")["PhysicalResourceId"]
    after = send(responses, "Update", before, Environment={"OPTION_MAX_MODEL_LEN": "4096"})["PhysicalResourceId"]
    assert after != before
    sagemaker.describe_model(ModelName=before)
    rolled_back = send(responses, "Update", after)["PhysicalResourceId"]
    assert rolled_back == before
    for name in (after, before):
        assert send(responses, "Delete", name)["Status"] == "SUCCESS"
        with pytest.raises(ClientError, match="Could not find"):
            sagemaker.describe_model(ModelName=name)


def restored(responses: Responses, physical_id: str, **changed: Any) -> dict[str, Any]:
    """The response to an update from changed properties to the usual ones."""
    event = custom_resource_event(
        "Update",
        responses.url,
        stack_id=STACK,
        request_id="update",
        logical_id="Llama70BModel",
        properties=properties(),
        physical_id=physical_id,
        old_properties=properties(**changed),
    )
    model_handler.handler(event, LambdaContext())
    return responses.received[-1]


@pytest.mark.parametrize("knows", [False, True])
def test_a_rollback_deletes_the_model_of_a_failed_update_that_cloudformation_does_not_know(
    responses: Responses, sagemaker: Any, *, knows: bool
) -> None:
    before = send(responses, "Create")["PhysicalResourceId"]
    changed = {"Environment": {"OPTION_MAX_MODEL_LEN": "8192"}}
    after = send(responses, "Update", before, **changed)["PhysicalResourceId"]
    response = restored(responses, after if knows else before, **changed)
    assert (response["Status"], response["PhysicalResourceId"]) == ("SUCCESS", before)
    if knows:
        # CloudFormation deletes it.
        sagemaker.describe_model(ModelName=after)
    else:
        with pytest.raises(ClientError, match="Could not find"):
            sagemaker.describe_model(ModelName=after)
    sagemaker.describe_model(ModelName=before)
    for name in (after, before):
        send(responses, "Delete", name)


@pytest.mark.parametrize(
    "old", [properties(), {"Source": {"Kind": "s3", "S3Uri": f"s3://{BUCKET}/nothing/"}}, {"Image": "an image"}]
)
def test_an_update_keeps_a_model_whose_former_definition_is_the_same_or_named_none(
    responses: Responses, sagemaker: Any, old: dict[str, Any]
) -> None:
    before = send(responses, "Create")["PhysicalResourceId"]
    restored(responses, "optim-another", **old)
    assert responses.received[-1]["Status"] == "SUCCESS", responses.received[-1]
    sagemaker.describe_model(ModelName=before)
    send(responses, "Delete", before)


def test_a_model_without_an_image_needs_a_hub(responses: Responses) -> None:
    without = {name: value for name, value in properties().items() if name != "Image"}
    event = custom_resource_event(
        "Create",
        responses.url,
        stack_id=STACK,
        request_id="create",
        logical_id="Llama70BModel",
        properties=without,
    )
    model_handler.handler(event, LambdaContext())
    response = responses.received[-1]
    assert response["Status"] == "FAILED"
    assert "a model without an image needs a hub configuration that names one" in response["Reason"]


def test_changed_tags_update_the_model_in_place(responses: Responses, sagemaker: Any) -> None:
    before = send(responses, "Create")
    after = send(responses, "Update", before["PhysicalResourceId"], Tags=[{"Key": "stage", "Value": "test"}])
    assert after["PhysicalResourceId"] == before["PhysicalResourceId"]
    arn = after["Data"]["ModelArn"]
    assert sagemaker.list_tags(ResourceArn=arn)["Tags"] == [{"Key": "stage", "Value": "test"}]
    send(responses, "Delete", after["PhysicalResourceId"])


@pytest.mark.parametrize("name", ["not-created", "optim-never-was"])
def test_deleting_a_model_that_does_not_exist_succeeds(responses: Responses, name: str) -> None:
    assert send(responses, "Delete", name)["Status"] == "SUCCESS"


MODEL_OF_THE_HUB = "meta-textgeneration-llama-3-70b-instruct"
AMI = "al2-ami-sagemaker-inference-gpu-3-1"
GATED = {
    "ChannelName": "draft_model",
    "HostingEulaUri": "s3://jumpstart-cache-prod-us-west-2/eula.txt",
    "Provider": {"Name": "JumpStart", "Classification": "gated"},
    "S3DataSource": {"S3Uri": "s3://jumpstart-cache-prod-us-west-2/small/"},
}


@pytest.fixture
def of_hub(monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, Any]]:
    """Changes the hub's document, and returns the properties of a model that is served as the document says."""

    def changed(**fields: Any) -> dict[str, Any]:
        described = hub_document.hub_content

        def content(sagemaker: Any, hub: str, model: str, version: str | None) -> tuple[str, str]:
            text, found = described(sagemaker, hub, model, version)
            document = json.loads(text)
            document["InferenceConfigComponents"]["lmi-optimized"] |= {"InferenceAmiVersion": None, **fields}
            return json.dumps(document), found

        monkeypatch.setattr(source, "hub_content", content)
        hub = {"HubName": "SageMakerPublicHub", "ModelId": MODEL_OF_THE_HUB, "AcceptEula": "true"}
        return {
            "Image": "",
            "Environment": {},
            "Channels": [],
            "EnableNetworkIsolation": "",
            "Source": {"Kind": "hub", "Configuration": "lmi-optimized", **hub},
        }

    return changed


def test_a_configuration_of_the_hub_decides_how_its_model_is_hosted(
    responses: Responses, sagemaker: Any, of_hub: Callable[..., dict[str, Any]]
) -> None:
    changed = of_hub(InferenceAmiVersion=AMI, InferenceVolumeSize=256, InferenceEnableNetworkIsolation=False)
    response = send(responses, "Create", **changed)
    assert response["Status"] == "SUCCESS", response
    attributes = response["Data"]
    assert (attributes["InferenceAmiVersion"], attributes["VolumeSizeInGB"]) == (AMI, "256")
    model = sagemaker.describe_model(ModelName=response["PhysicalResourceId"])
    assert model["EnableNetworkIsolation"] is False
    (files,) = model["PrimaryContainer"]["AdditionalModelDataSources"]
    assert files["S3DataSource"]["S3Uri"].startswith("s3://sagemaker-sd-models-prod-us-west-2/")
    send(responses, "Delete", response["PhysicalResourceId"])


def test_a_configuration_that_leaves_hosting_options_out_gets_sagemakers_defaults(
    responses: Responses, sagemaker: Any, of_hub: Callable[..., dict[str, Any]]
) -> None:
    response = send(responses, "Create", **of_hub(InferenceVolumeSize=None))
    attributes = response["Data"]
    assert (attributes["InferenceAmiVersion"], attributes["VolumeSizeInGB"]) == ("default", "default")
    assert sagemaker.describe_model(ModelName=response["PhysicalResourceId"])["EnableNetworkIsolation"] is True
    send(responses, "Delete", response["PhysicalResourceId"])


def test_the_users_own_isolation_overrides_the_hubs(
    responses: Responses, sagemaker: Any, of_hub: Callable[..., dict[str, Any]]
) -> None:
    changed = of_hub(InferenceEnableNetworkIsolation=False) | {"EnableNetworkIsolation": "true"}
    response = send(responses, "Create", **changed)
    assert sagemaker.describe_model(ModelName=response["PhysicalResourceId"])["EnableNetworkIsolation"] is True
    send(responses, "Delete", response["PhysicalResourceId"])


def test_a_configurations_gated_draft_needs_its_own_acceptance(
    responses: Responses, sagemaker: Any, of_hub: Callable[..., dict[str, Any]]
) -> None:
    changed = of_hub(HostingAdditionalDataSources={"speculative_decoding": [GATED]})
    refused = send(responses, "Create", **changed)
    assert refused["Status"] == "FAILED"
    assert "accept_draft_eula=True" in refused["Reason"]
    accepted = send(responses, "Create", **changed | {"Source": {**changed["Source"], "AcceptDraftEula": "true"}})
    assert accepted["Status"] == "SUCCESS", accepted
    model = sagemaker.describe_model(ModelName=accepted["PhysicalResourceId"])
    (files,) = model["PrimaryContainer"]["AdditionalModelDataSources"]
    assert files["S3DataSource"]["ModelAccessConfig"] == {"AcceptEula": True}
    send(responses, "Delete", accepted["PhysicalResourceId"])


@pytest.mark.parametrize(
    ("stated", "host", "expected"),
    [
        (
            {"InferenceAmiVersion": AMI},
            {},
            f'share its instances: set variant=VariantOptions(inference_ami_version="{AMI}"',
        ),
        ({"InferenceAmiVersion": AMI}, {"IsShadow": "true"}, "its shadow has the default. Shadow another candidate"),
        ({"InferenceAmiVersion": AMI}, {"IsShadow": "true", "InferenceAmiVersion": AMI}, None),
        ({"InferenceAmiVersion": AMI}, {"InferenceAmiVersion": "al2-ami-sagemaker-inference-gpu-2"}, "gpu-2"),
        ({"InferenceAmiVersion": AMI}, {"InferenceAmiVersion": AMI}, None),
        ({}, {"InferenceAmiVersion": AMI}, None),
        ({"InferenceEnableNetworkIsolation": False}, {"EnableNetworkIsolation": "true"}, "isolation=False"),
        ({"InferenceEnableNetworkIsolation": False}, {"EnableNetworkIsolation": "false"}, None),
    ],
)
def test_a_model_does_not_start_on_instances_that_its_configuration_does_not_fit(
    responses: Responses,
    of_hub: Callable[..., dict[str, Any]],
    stated: dict[str, Any],
    host: dict[str, str],
    expected: str | None,
) -> None:
    # CloudFormation sends an empty object too.
    changed = of_hub(**stated) | {"Host": host or {"EnableNetworkIsolation": "false"}, "EnableNetworkIsolation": "true"}
    response = send(responses, "Create", **changed)
    assert response["Status"] == ("FAILED" if expected else "SUCCESS"), response
    if expected is not None:
        assert expected in response["Reason"]
    else:
        send(responses, "Delete", response["PhysicalResourceId"])


def test_an_empty_draft_prefix_fails_with_its_s3_uri(responses: Responses) -> None:
    channels = [{"Name": "draft_model", "Source": {"Kind": "s3", "S3Uri": f"s3://{BUCKET}/nothing/"}}]
    response = send(responses, "Create", Channels=channels)
    assert response["Status"] == "FAILED"
    assert f"s3://{BUCKET}/nothing/" in response["Reason"]
    assert response["PhysicalResourceId"].startswith("not-created-request-")


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"RoleArn": "me"}, "RoleArn"),
        ({"Image": "an image; rm -rf"}, "Image"),
        ({"InstanceType": "g5"}, "InstanceType"),
        ({"Channels": [{"Name": "../up", "Source": {}}]}, "Channels[0].Name"),
        (
            {"Source": {"Kind": "artifact", "ArtifactKey": "x", "S3Uri": "s3://bucket/", "Suffix": "../"}},
            "Source.Suffix",
        ),
        ({"Environment": ["a"]}, "Environment"),
        ({"Source": {"Kind": "s3", "S3Uri": "s3://bucket/", "ManifestEtag": "a b"}}, "Source.ManifestEtag"),
    ],
)
def test_malformed_resource_properties_are_reported_by_name(
    responses: Responses, changed: dict[str, Any], named: str
) -> None:
    response = send(responses, "Create", **changed)
    assert response["Status"] == "FAILED"
    assert named in response["Reason"]


def test_throttled_create_model_calls_are_retried(responses: Responses, cloud: LocalCloud) -> None:
    cloud.inject("throttled", operation="CreateModel", count=2)
    response = send(responses, "Create")
    assert response["Status"] == "SUCCESS"
    send(responses, "Delete", response["PhysicalResourceId"])


@pytest.mark.parametrize(
    ("current", "wanted", "removed", "added"),
    [
        ({}, {}, [], {}),
        ({"team": "chat"}, {"team": "chat"}, [], {}),
        ({"team": "chat"}, {}, ["team"], {}),
        ({"team": "chat"}, {"team": "search"}, [], {"team": "search"}),
        ({"b": "1", "a": "1", "same": "1"}, {"same": "1", "new": "2"}, ["a", "b"], {"new": "2"}),
        # They cannot be removed.
        ({"aws:cloudformation:stack-name": "Chat"}, {}, [], {}),
    ],
)
def test_a_kept_resource_gets_the_tags_of_its_stack_and_loses_the_others(
    current: dict[str, str], wanted: dict[str, str], removed: list[str], added: dict[str, str]
) -> None:
    sagemaker = Mock()
    pages = [{"Tags": [{"Key": key, "Value": value}]} for key, value in current.items()]
    sagemaker.get_paginator("list_tags").paginate.return_value = pages
    retag(sagemaker, "arn", [{"Key": key, "Value": value} for key, value in wanted.items()])
    deleted = [call.kwargs for call in sagemaker.delete_tags.call_args_list]
    assert deleted == ([{"ResourceArn": "arn", "TagKeys": removed}] if removed else [])
    put = [call.kwargs for call in sagemaker.add_tags.call_args_list]
    tags = [{"Key": key, "Value": value} for key, value in added.items()]
    assert put == ([{"ResourceArn": "arn", "Tags": tags}] if added else [])
