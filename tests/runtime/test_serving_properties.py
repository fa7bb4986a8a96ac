"""Settings that are taken out of an artifact's serving.properties."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError

from constructs_optim.runtime.jobs.sagemaker_jobs import ARTIFACT_JOBS, remove_setting

from ..support.s3_clients import BUCKET, Reticent

KEY = "artifacts/1/model/1/serving.properties"


def content(s3: Any) -> str:
    return s3.get_object(Bucket=BUCKET, Key=KEY)["Body"].read().decode()


def remove(s3: Any) -> None:
    remove_setting(s3, BUCKET, "artifacts/1/model/1/", "option.quantize")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("option.quantize=awq\noption.tensor_parallel_degree=4\n", "option.tensor_parallel_degree=4\n"),
        ("engine=Python\noption.quantize = compressed-tensors", "engine=Python\n"),
        ("option.quantize_more=1\n# option.quantize=awq\n", "option.quantize_more=1\n# option.quantize=awq\n"),
        ("", ""),
    ],
)
def test_the_superfluous_setting_is_removed_and_others_are_kept(s3: Any, before: str, after: str) -> None:
    s3.put_object(Bucket=BUCKET, Key=KEY, Body=before.encode())
    remove(s3)
    assert content(s3) == after


def test_a_file_without_the_setting_is_not_rewritten(s3: Any) -> None:
    s3.put_bucket_versioning(Bucket=BUCKET, VersioningConfiguration={"Status": "Enabled"})
    s3.put_object(Bucket=BUCKET, Key=KEY, Body=b"option.quantize=awq\n")
    remove(s3)
    remove(s3)
    assert len(s3.list_object_versions(Bucket=BUCKET)["Versions"]) == 2


def test_an_artifact_without_serving_properties_is_unchanged(s3: Any) -> None:
    remove(s3)
    assert "Contents" not in s3.list_objects_v2(Bucket=BUCKET)


def test_an_artifact_without_serving_properties_is_unchanged_when_s3_returns_403(s3: Any) -> None:
    remove(Reticent(s3))


def test_an_unreadable_file_is_not_mistaken_for_a_missing_one(s3: Any) -> None:
    s3.put_object(Bucket=BUCKET, Key=KEY, Body=b"option.quantize=awq\n")
    with pytest.raises(ClientError, match="AccessDenied"):
        remove(Reticent(s3, readable=False))


def test_a_concurrent_write_to_the_file_is_kept(s3: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    s3.put_object(Bucket=BUCKET, Key=KEY, Body=b"option.quantize=awq\na=1\n")
    get = s3.get_object

    def overtaken(**request: Any) -> Any:
        found = get(**request)
        monkeypatch.setattr(s3, "get_object", get)
        s3.put_object(Bucket=BUCKET, Key=KEY, Body=b"option.quantize=awq\na=2\n")
        return found

    monkeypatch.setattr(s3, "get_object", overtaken)
    remove(s3)
    assert content(s3) == "a=2\n"


@pytest.mark.parametrize(
    ("configs", "settings"),
    [
        ([{"ModelQuantizationConfig": {}}], ("option.quantize",)),
        ([{"ModelQuantizationConfig": {}, "ModelCompilationConfig": {}}], ()),
        ([{"ModelShardingConfig": {}}], ()),
    ],
)
def test_the_quantize_setting_is_superfluous_only_after_quantization_alone(
    configs: Any, settings: tuple[str, ...]
) -> None:
    assert ARTIFACT_JOBS["OptimizationJob"].superfluous_settings({"OptimizationConfigs": configs}) == settings
