"""The properties of ``Custom::TrainingJob``, as constructs make them and CloudFormation delivers them."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from constructs_optim.recipe import (
    FineTune,
    Medusa,
    Model,
    TrainingCompute,
)
from constructs_optim.recipe.planning.plan import plan
from constructs_optim.runtime.errors import InvalidEvent
from constructs_optim.runtime.requests.properties import S3Source, parse_job_kind, parse_job_properties
from constructs_optim.runtime.requests.property_reader import as_delivered

from .test_properties import VALID as OPTIMIZATION


def requests() -> list[dict[str, Any]]:
    """Requests of every shape that a plan has."""
    made: list[dict[str, Any]] = []
    for compute in (
        TrainingCompute(),
        TrainingCompute(spot=True, environment={"PIP_INDEX_URL": "https://pip.example/simple"}),
        TrainingCompute(instance_type="ml.p4d.24xlarge", instance_count=2, keep_alive_seconds=600),
    ):
        planned = plan(
            model=Model.jumpstart("huggingface-llm-mistral-7b", version="2.0.0"),
            techniques=[
                Medusa(
                    training_data="s3://data/train/",
                    validation_data="s3://data/validation/",
                    heads=4,
                    base=FineTune(training_data="s3://data/train/"),
                    compute=compute,
                )
            ],
            instance_type="ml.g5.12xlarge",
            region="us-west-2",
        )
        made += [job.request for job in planned.jobs]
    return made


def properties(**changed: Any) -> dict[str, Any]:
    return {
        **OPTIMIZATION,
        "JobKind": "TrainingJob",
        "ModelChannel": "model",
        "Reads": [{"Kind": "s3", "S3Uri": "s3://data/train/"}],
        "Request": as_delivered(requests()[0]),
        **changed,
    }


@pytest.mark.parametrize("request_", requests())
def test_every_request_of_a_plan_is_taken(request_: dict[str, Any]) -> None:
    parsed = parse_job_properties(properties(Request=as_delivered(request_)))
    assert parsed.kind == "TrainingJob"
    assert parsed.reads == (S3Source("data", "train/", False),)
    assert parsed.model_channel == "model"


def test_a_resource_without_a_kind_is_about_optimization_jobs() -> None:
    assert parse_job_kind(OPTIMIZATION) == "OptimizationJob"
    assert parse_job_properties(OPTIMIZATION).kind == "OptimizationJob"


def test_a_training_job_s_request_is_none_of_an_optimization_job() -> None:
    with pytest.raises(InvalidEvent, match="Request"):
        parse_job_properties({**OPTIMIZATION, "Request": as_delivered(requests()[0])})


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"JobKind": "ProcessingJob"}, "JobKind"),
        ({"ModelChannel": "../model"}, "ModelChannel"),
        ({"ModelChannel": None}, "ModelChannel"),
        ({"Reads": "s3://data/train/"}, "Reads"),
        ({"Reads": [{"Kind": "hub", "HubName": "h", "ModelId": "m"}]}, r"Reads\[0\].Kind"),
        ({"Reads": [{"Kind": "s3", "S3Uri": "https://data/train/"}]}, r"Reads\[0\].S3Uri"),
        ({"Request": {"RoleArn": "arn:aws:iam::1:role/Admin"}}, "Request"),
    ],
)
def test_a_malformed_property_is_refused_by_name(changed: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidEvent, match=named):
        parse_job_properties(properties(**changed))


@pytest.mark.parametrize(
    ("member", "path", "value"),
    [
        ("AlgorithmSpecification", ("TrainingImage",), "an image"),
        ("AlgorithmSpecification", ("TrainingInputMode",), "Pipe"),
        ("AlgorithmSpecification", ("ContainerEntrypoint",), []),
        ("AlgorithmSpecification", ("ContainerEntrypoint",), ["x" * 257]),
        ("AlgorithmSpecification", ("ContainerArguments",), "train.py"),
        ("AlgorithmSpecification", ("MetricDefinitions",), [{"Name": "n", "Regex": "r"}] * 41),
        ("AlgorithmSpecification", ("AlgorithmName",), "theirs"),
        ("EnableManagedSpotTraining", (), "yes"),
        ("EnableInterContainerTrafficEncryption", (), "no"),
        ("Environment", (), {"A-B": "x"}),
        ("HyperParameters", (), {"a": ["b"]}),
        ("HyperParameters", (), {"a": "x" * 2501}),
        ("InputDataConfig", (), [{"ChannelName": "training"}]),
        ("InputDataConfig", (0, "ChannelName"), "a channel"),
        ("InputDataConfig", (0, "DataSource", "S3DataSource", "S3Uri"), "http://169.254.169.254/"),
        ("InputDataConfig", (0, "DataSource", "S3DataSource", "S3DataType"), "ManifestFile"),
        ("ResourceConfig", ("InstanceType",), "g5.xlarge"),
        ("ResourceConfig", ("InstanceCount",), "many"),
        ("ResourceConfig", ("VolumeKmsKeyId",), "alias/x"),
        ("ResourceConfig", ("KeepAlivePeriodInSeconds",), "-1"),
        ("StoppingCondition", (), {"MaxPendingTimeInSeconds": "1"}),
        ("VpcConfig", (), {"Subnets": ["subnet-1"]}),
    ],
)
def test_a_malformed_member_of_the_request_is_refused_by_name(
    member: str, path: tuple[str | int, ...], value: Any
) -> None:
    request = copy.deepcopy(as_delivered(requests()[0]))
    if path:
        place: Any = request[member]
        for step in path[:-1]:
            place = place[step]
        place[path[-1]] = value
    else:
        request[member] = value
    with pytest.raises(InvalidEvent, match=rf"Request\.{member}"):
        parse_job_properties(properties(Request=request))
