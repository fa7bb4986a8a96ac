from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from constructs_optim.runtime.errors import DeploymentError
from constructs_optim.runtime.jobs.hub_document import HubDocument
from tests.support.properties import JSON, places, replaced

DOCUMENT: dict[str, Any] = {
    "HostingEcrUri": "registry/base:1",
    "HostingPrepackedArtifactUri": "s3://jumpstart/base/",
    "InferenceEnvironmentVariables": [
        {"Name": "ENDPOINT_SERVER_TIMEOUT", "Default": 3600, "RequiredForModelClass": True},
        {"Name": "SAGEMAKER_CONTAINER_LOG_LEVEL", "Default": "20", "RequiredForModelClass": False},
    ],
    "HostingInstanceTypeVariants": {
        "Aliases": {"gpu_ecr_uri_1": "registry/gpu:1"},
        "Variants": {
            "g5": {"properties": {"image_uri": "$gpu_ecr_uri_1", "environment_variables": {"OPTION_A": "family"}}},
            "ml.g5.12xlarge": {"properties": {"environment_variables": {"OPTION_A": "type"}}},
        },
    },
    "InferenceConfigRankings": {"overall": {"Rankings": ["lmi"]}},
    "InferenceConfigs": {
        "lmi": {"ComponentNames": ["lmi"]},
        "lmi-optimized": {"ComponentNames": ["lmi", "lmi-optimized"]},
    },
    "InferenceConfigComponents": {
        "lmi": {"HostingEcrUri": "registry/lmi:1"},
        "lmi-optimized": {
            "HostingArtifactUri": "s3://jumpstart/optimized/",
            "HostingAdditionalDataSources": {
                "speculative_decoding": [
                    {
                        "ChannelName": "draft_model",
                        "Provider": {"Name": "JumpStart", "Classification": "gated"},
                        "HostingEulaUri": "s3://jumpstart/eula.txt",
                        "S3DataSource": {"S3Uri": "s3://jumpstart/small/"},
                    },
                    {
                        "ChannelName": "draft_model",
                        "Provider": {"Name": "SageMaker", "Classification": "non-gated"},
                        "S3DataSource": {"S3Uri": "s3://drafts/llama/"},
                    },
                ]
            },
        },
    },
}


def document(configuration: str | None = None) -> HubDocument:
    return HubDocument("some-model 1.0.0", json.dumps(DOCUMENT), configuration)


def test_a_named_configuration_overrides_the_base_document() -> None:
    assert document("lmi-optimized").model_uri == "s3://jumpstart/optimized/"
    assert document().model_uri == "s3://jumpstart/base/"


def test_an_unknown_configuration_is_reported_with_the_available_ones() -> None:
    with pytest.raises(DeploymentError, match=r"'tgi'.*lmi, lmi-optimized"):
        document("tgi")


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, {"InferenceAmiVersion": "default", "VolumeSizeInGB": "default"}),
        (
            {"InferenceAmiVersion": "al2-ami-sagemaker-inference-gpu-3-1", "InferenceVolumeSize": 256},
            {"InferenceAmiVersion": "al2-ami-sagemaker-inference-gpu-3-1", "VolumeSizeInGB": "256"},
        ),
        (
            {"inference_ami_version": "x", "inference_volume_size": 2048},
            {"InferenceAmiVersion": "x", "VolumeSizeInGB": "512"},
        ),
        *(
            (
                {"InferenceAmiVersion": ami, "InferenceVolumeSize": size},
                {"InferenceAmiVersion": "default", "VolumeSizeInGB": "default"},
            )
            for ami, size in (("a|b", True), ("12", 1.5), ("a b", -1), (True, 0), (["a"], [256]), ("a" * 129, None))
        ),
        (
            {"InferenceAmiVersion": {}, "InferenceVolumeSize": "256"},
            {"InferenceAmiVersion": "default", "VolumeSizeInGB": "default"},
        ),
    ],
)
def test_the_hosting_of_a_configuration_has_its_machine_image_and_volume(
    fields: dict[str, Any], expected: dict[str, str]
) -> None:
    assert HubDocument("some-model 1.0.0", json.dumps(DOCUMENT | fields)).hosting.attributes == expected


@pytest.mark.parametrize(("stated", "limit"), [(900, 900), (True, 3600), (0, 3600), ("900", 3600), (9_999, 3600)])
def test_a_startup_limit_that_is_no_number_above_zero_is_an_hour(stated: object, limit: int) -> None:
    fields = {"ModelDataDownloadTimeout": stated, "ContainerStartupHealthCheckTimeout": stated}
    hub = HubDocument("some-model 1.0.0", json.dumps(DOCUMENT | fields))
    assert hub.startup_timeouts == (limit, limit)


@pytest.mark.parametrize(("stated", "isolated"), [(None, True), (True, True), (False, False)])
def test_a_container_is_isolated_unless_its_document_requests_a_network(stated: bool | None, isolated: bool) -> None:
    fields = {} if stated is None else {"InferenceEnableNetworkIsolation": stated}
    assert HubDocument("some-model 1.0.0", json.dumps(DOCUMENT | fields)).network_isolation is isolated


def test_a_configuration_names_its_additional_files_once_for_each_channel() -> None:
    (files,) = document("lmi-optimized").additional_files()
    assert (files.channel, files.uri, files.eula) == ("draft_model", "s3://jumpstart/small/", "s3://jumpstart/eula.txt")
    assert list(document().additional_files()) == []


def test_the_draft_model_of_a_provider_is_resolved_from_any_component() -> None:
    assert document().draft("sagemaker") == ("s3://drafts/llama/", None)
    assert document().draft("jumpstart") == ("s3://jumpstart/small/", "s3://jumpstart/eula.txt")


def test_a_document_without_a_draft_is_an_error_that_suggests_custom_draft() -> None:
    with pytest.raises(DeploymentError, match=r"custom_draft"):
        HubDocument("plain 1.0.0", "{}").draft("sagemaker")


def test_an_instance_type_overrides_the_image_and_environment_of_its_family() -> None:
    image, environment = document().container("ml.g5.12xlarge")
    assert image == "registry/gpu:1"
    assert environment == {"ENDPOINT_SERVER_TIMEOUT": "3600", "OPTION_A": "type"}
    assert document().container("ml.g5.2xlarge")[1]["OPTION_A"] == "family"
    assert document().container("ml.p5.48xlarge")[0] == "registry/lmi:1", "the default configuration's own"


def test_a_document_without_an_image_is_refused() -> None:
    with pytest.raises(DeploymentError, match=r"no container image for ml\.g5"):
        HubDocument("plain 1.0.0", "{}").container("ml.g5.12xlarge")


@given(data=st.data())
def test_a_hub_document_with_any_json_value_is_parsed_or_refused(data: st.DataObject) -> None:
    text = json.dumps(replaced(DOCUMENT, data.draw(st.sampled_from(places(DOCUMENT))), data.draw(JSON)))
    configuration = data.draw(st.sampled_from([None, "lmi", "lmi-optimized"]))
    for read in (
        lambda hub: hub.model_uri,
        lambda hub: hub.eula_uri,
        lambda hub: hub.startup_timeouts,
        lambda hub: hub.draft("sagemaker"),
        lambda hub: hub.container("ml.g5.12xlarge"),
    ):
        with contextlib.suppress(DeploymentError):
            read(HubDocument("some-model 1.0.0", text, configuration))


@pytest.mark.parametrize("text", ["", "hello", "[]", "[" * 100_000, '{"a":' * 100_000 + "1" + "}" * 100_000])
def test_an_invalid_hub_document_is_an_error_that_names_the_model(text: str) -> None:
    with pytest.raises(DeploymentError, match="the hub's document of llama cannot be read"):
        HubDocument("llama", text)


@pytest.mark.parametrize(
    "damaged",
    [
        {"ChannelName": None},
        {"ChannelName": 7},
        {"S3DataSource": {}},
        {"S3DataSource": {"S3Uri": "https://elsewhere/small/"}},
        {"S3DataSource": {"S3Uri": ["s3://jumpstart/small/"]}},
    ],
)
def test_additional_files_without_a_place_are_refused(damaged: dict[str, Any]) -> None:
    files = {"ChannelName": "draft_model", "S3DataSource": {"S3Uri": "s3://jumpstart/small"}}

    def stated(*sources: dict[str, Any]) -> list[tuple[str, str]]:
        text = json.dumps({**DOCUMENT, "HostingAdditionalDataSources": {"speculative_decoding": sources}})
        found = HubDocument("some-model 1.0.0", text, None).additional_files()
        return [(each.channel, each.uri) for each in found]

    assert stated(files) == [("draft_model", "s3://jumpstart/small/")]
    with pytest.raises(DeploymentError, match="names additional files without a channel or an S3 prefix"):
        stated(files, {**files, **damaged})
