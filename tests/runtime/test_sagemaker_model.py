"""Handlers call operations that the boto3 of their Lambda runtime does not know yet."""

from __future__ import annotations

import copy
import inspect
import json
import runpy
from pathlib import Path
from typing import Any

import botocore
import botocore.session
import pytest
from botocore import xform_name

import constructs_optim.runtime as runtime
from constructs_optim.runtime import aws
from constructs_optim.runtime.jobs.sagemaker_jobs import (
    BENCHMARK,
    OPTIMIZATION,
    RECOMMENDATION,
)
from tests.support.documents import CHECKOUT

EXTRAS = Path(runtime.__file__).parent / "botocore_data/sagemaker/2017-07-24/service-2.sdk-extras.json"
NEWER = ("AIBenchmarkJob", "AIRecommendationJob")


@pytest.fixture
def old_boto3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A boto3 whose model of SageMaker is older than AI jobs and draft models of optimization jobs."""
    loader = botocore.session.get_session().get_component("data_loader")
    model: dict[str, Any] = copy.deepcopy(loader.load_service_model("sagemaker", "service-2"))
    model["operations"] = {name: of for name, of in model["operations"].items() if not name.endswith(NEWER)}
    model["shapes"] = {name: of for name, of in model["shapes"].items() if not name.startswith("AI")}
    del model["shapes"]["OptimizationConfig"]["members"]["ModelSpeculativeDecodingConfig"]
    folder = tmp_path / "sagemaker" / "2017-07-24"
    folder.mkdir(parents=True)
    (folder / "service-2.json").write_text(json.dumps(model))
    for name, value in {
        "AWS_DATA_PATH": str(tmp_path),
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_DEFAULT_REGION": "us-west-2",
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(aws, "session", inspect.unwrap(aws.session))


def test_new_sagemaker_operations_can_be_called_with_an_older_boto3(old_boto3: None) -> None:
    assert not hasattr(botocore.session.get_session().create_client("sagemaker"), "create_ai_benchmark_job")
    sagemaker = aws.client("sagemaker")
    for kind in (BENCHMARK, RECOMMENDATION, OPTIMIZATION):
        for verb in ("create", "describe", "stop"):
            assert callable(getattr(sagemaker, xform_name(f"{verb.title()}{kind.name}")))
    shape: Any = sagemaker.meta.service_model.operation_model("CreateOptimizationJob").input_shape
    assert "ModelSpeculativeDecodingConfig" in shape.members["OptimizationConfigs"].member.members
    # What an older boto3 knows stays.
    assert callable(sagemaker.create_training_job)


def test_the_added_api_shapes_match_the_installed_botocore() -> None:
    written = json.loads(EXTRAS.read_text())
    found = runpy.run_path(str(CHECKOUT / "tooling/sagemaker_model.py"))["content"]()
    recorded, installed = (tuple(map(int, text.split()[1].split("."))) for text in (written["source"], found["source"]))
    if installed < recorded:
        assert set(found["merge"]["shapes"]) <= set(written["merge"]["shapes"])
    else:
        assert written["merge"] == found["merge"]


def test_alarms_on_promql_are_described_and_put_with_an_older_boto3() -> None:
    extras = EXTRAS.parent.parent.parent / "cloudwatch/2010-08-01/service-2.sdk-extras.json"
    added = json.loads(extras.read_text())["merge"]["shapes"]
    model: Any = botocore.session.get_session().create_client("cloudwatch", region_name="us-west-2").meta.service_model
    put = model.operation_model("PutMetricAlarm").input_shape
    (described,) = [
        member.member
        for name, member in model.operation_model("DescribeAlarms").output_shape.members.items()
        if name == "MetricAlarms"
    ]
    for shape, name in ((put, "PutMetricAlarmInput"), (described, "MetricAlarm")):
        assert set(added[name]["members"]) == {"EvaluationCriteria", "EvaluationInterval"} <= set(shape.members)
    status = model.operation_model("GetOTelEnrichment").output_shape.members["Status"]
    assert added["OTelEnrichmentStatus"]["enum"] == status.enum
    criteria = put.members["EvaluationCriteria"].members["PromQLCriteria"]
    assert set(added["AlarmPromQLCriteria"]["members"]) == set(criteria.members)
