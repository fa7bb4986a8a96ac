from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from botocore.exceptions import ClientError

from constructs_optim.runtime.errors import DeploymentError
from constructs_optim.runtime.jobs.source import resolve
from constructs_optim.runtime.requests.properties import HubSource, S3Source

from ..support.s3_clients import BUCKET


class Hub:
    """A hub with one document."""

    def __init__(self, document: dict[str, Any], version: str = "4.0.0") -> None:
        self._document, self._version = document, version

    def describe_hub_content(self, **request: str) -> dict[str, Any]:
        if request.get("HubContentVersion", self._version) != self._version:
            raise ClientError({"Error": {"Code": "ResourceNotFound", "Message": "no"}}, "DescribeHubContent")
        return {"HubContentVersion": self._version, "HubContentDocument": json.dumps(self._document)}


PLAIN = {
    "HostingArtifactUri": "s3://jumpstart/plain/",
    "HostingPrepackedArtifactUri": "s3://jumpstart/prepacked/",
}
GATED = {**PLAIN, "GatedBucket": True, "HostingEulaUri": "s3://jumpstart/eula.txt"}


def hub_source(version: str | None = "4.0.0", *, accept_eula: bool = False) -> HubSource:
    return HubSource(hub_name="SageMakerPublicHub", model_id="some-model", version=version, accept_eula=accept_eula)


def test_a_jumpstart_model_is_read_from_its_prepacked_artifact() -> None:
    resolved = resolve(hub_source(), sagemaker=Hub(PLAIN), s3=None)
    assert resolved.identity == "hub:SageMakerPublicHub/some-model@4.0.0"
    assert resolved.model_source == {"S3": {"S3Uri": "s3://jumpstart/prepacked/"}}


def test_the_documents_keys_are_read_whatever_their_case() -> None:
    document = {"hosting_prepacked_artifact_uri": "s3://jumpstart/lower/"}
    assert (
        resolve(hub_source(), sagemaker=Hub(document), s3=None).model_source["S3"]["S3Uri"] == "s3://jumpstart/lower/"
    )


def test_the_default_configuration_overrides_the_base_document() -> None:
    document = {
        **PLAIN,
        "InferenceConfigRankings": {"overall": {"Rankings": ["lmi-fast", "tgi"]}},
        "InferenceConfigs": {"lmi-fast": {"ComponentNames": ["lmi"]}, "tgi": {"ComponentNames": ["tgi"]}},
        "InferenceConfigComponents": {"lmi": {"HostingArtifactUri": "s3://jumpstart/lmi/"}, "tgi": {}},
    }
    assert resolve(hub_source(), sagemaker=Hub(document), s3=None).model_source["S3"]["S3Uri"] == "s3://jumpstart/lmi/"


def test_without_a_version_the_newest_one_is_part_of_the_identity() -> None:
    resolved = resolve(hub_source(None), sagemaker=Hub(PLAIN, version="5.0.0"), s3=None)
    assert resolved.identity.endswith("@5.0.0")


def test_a_gated_model_is_refused_until_its_license_is_accepted() -> None:
    with pytest.raises(DeploymentError, match=r"eula\.txt.*accept_eula=True"):
        resolve(hub_source(), sagemaker=Hub(GATED), s3=None)
    accepted = resolve(hub_source(accept_eula=True), sagemaker=Hub(GATED), s3=None)
    assert accepted.model_source["S3"]["ModelAccessConfig"] == {"AcceptEula": True}


def test_an_unknown_version_is_reported_with_the_command_that_lists_versions() -> None:
    said = r"version 9\.9\.9.*list-hub-content-versions.*SageMaker's error: "
    with pytest.raises(DeploymentError, match=said):
        resolve(hub_source("9.9.9"), sagemaker=Hub(PLAIN), s3=None)


@pytest.mark.parametrize(
    "artifact",
    [
        {"HostingArtifactUri": "s3://jumpstart/x.tar.gz"},
        {"HostingArtifactUri": "s3://jumpstart/x.tgz"},
        {"HostingArtifactUri": "s3://jumpstart/x", "HostingArtifactS3DataType": "S3Object"},
        {"HostingArtifactUri": "s3://jumpstart/x/", "HostingArtifactCompressionType": "Gzip"},
    ],
)
def test_an_archive_is_refused_because_jobs_read_uncompressed_files(artifact: dict[str, str]) -> None:
    with pytest.raises(DeploymentError, match=r"archive.*Model\.s3"):
        resolve(hub_source(), sagemaker=Hub(artifact), s3=None)


@pytest.mark.parametrize(
    ("gated", "told"),
    [
        ({"GatedBucket": True}, "see the model card"),
        (
            {"GatedBucket": True, "HostingEulaExternalLink": "https://example.com/license"},
            "https://example.com/license",
        ),
        ({"GatedBucket": False, "HostingEulaExternalLink": "https://example.com/license"}, None),
    ],
)
def test_a_gated_bucket_has_a_license_even_if_the_document_has_no_file_of_it(gated: Any, told: str | None) -> None:
    with pytest.raises(DeploymentError, match=told) if told else contextlib.nullcontext():
        resolve(hub_source(), sagemaker=Hub({**PLAIN, **gated}), s3=None)


def test_an_s3_models_identity_follows_its_objects(s3: Any) -> None:
    source = S3Source(S3Uri=f"s3://{BUCKET}/models/mine/")
    s3.put_object(Bucket=BUCKET, Key="models/mine/model.safetensors", Body=b"one")
    first = resolve(source, sagemaker=None, s3=s3)
    assert resolve(source, sagemaker=None, s3=s3) == first
    s3.put_object(Bucket=BUCKET, Key="models/mine/model.safetensors", Body=b"two")
    assert resolve(source, sagemaker=None, s3=s3).identity != first.identity


def test_a_neighboring_prefix_is_not_part_of_the_model(s3: Any) -> None:
    source = S3Source(S3Uri=f"s3://{BUCKET}/models/mine/")
    s3.put_object(Bucket=BUCKET, Key="models/mine/model.safetensors", Body=b"one")
    first = resolve(source, sagemaker=None, s3=s3)
    s3.put_object(Bucket=BUCKET, Key="models/mine-too/model.safetensors", Body=b"else")
    assert resolve(source, sagemaker=None, s3=s3) == first


def test_an_empty_prefix_is_refused(s3: Any) -> None:
    with pytest.raises(DeploymentError, match="no model files under s3://artifacts-of-the-team/empty/"):
        resolve(S3Source(S3Uri=f"s3://{BUCKET}/empty/"), sagemaker=None, s3=s3)


def test_a_missing_bucket_is_refused(s3: Any) -> None:
    with pytest.raises(DeploymentError, match="cannot be listed: NoSuchBucket"):
        resolve(S3Source(S3Uri="s3://no-such-bucket-anywhere/x/"), sagemaker=None, s3=s3)


def draft(**more: Any) -> dict[str, Any]:
    data = {"Provider": {"Name": "SageMaker"}, "S3DataSource": {"S3Uri": "s3://drafts/small/"}, **more}
    return {**PLAIN, "HostingAdditionalDataSources": {"speculative_decoding": [data]}}


def test_a_draft_of_the_hub_is_another_model_than_the_one_it_drafts_for() -> None:
    source = hub_source().model_copy(update={"kind": "hub_draft"})
    resolved = resolve(source, sagemaker=Hub(draft()), s3=None)
    assert resolved.identity == "draft:SageMakerPublicHub/some-model@4.0.0"
    assert resolved.model_source == {"S3": {"S3Uri": "s3://drafts/small/"}}
    # The license of the model itself is none of the draft's.
    accepted = source.model_copy(update={"accept_eula": True})
    assert resolve(accepted, sagemaker=Hub(draft()), s3=None) == resolved


def test_a_gated_draft_is_refused_until_its_license_is_accepted() -> None:
    source = hub_source().model_copy(update={"kind": "hub_draft"})
    gated = draft(HostingEulaUri="s3://drafts/eula.txt", Provider={"Name": "SageMaker", "Classification": "gated"})
    with pytest.raises(DeploymentError, match=r"the draft model of some-model.*s3://drafts/eula\.txt"):
        resolve(source, sagemaker=Hub(gated), s3=None)
    accepted = resolve(source.model_copy(update={"accept_eula": True}), sagemaker=Hub(gated), s3=None)
    assert accepted.model_source["S3"]["ModelAccessConfig"] == {"AcceptEula": True}


@pytest.mark.parametrize(
    "document",
    [{}, {"HostingArtifactUri": ""}, {"HostingArtifactUri": "https://elsewhere/model/"}, {"HostingArtifactUri": 1}],
)
def test_a_document_without_a_model_in_s3_is_refused(document: dict[str, Any]) -> None:
    with pytest.raises(DeploymentError, match=r"some-model 4\.0\.0 names no model artifact in S3"):
        resolve(hub_source(), sagemaker=Hub(document), s3=None)
