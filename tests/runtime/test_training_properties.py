"""The properties of ``Custom::TrainingJob``, as constructs make them and CloudFormation delivers them."""

from __future__ import annotations

from typing import Any

import pytest

from constructs_optim.runtime.errors import InvalidEvent
from constructs_optim.runtime.requests.properties import (
    JobProperties,
    S3Source,
    StoreProperties,
    as_delivered,
    validate,
)
from tests.support.properties import OPTIMIZATION, training_properties, training_requests


@pytest.mark.parametrize("request_", training_requests())
def test_every_planned_training_request_is_accepted(request_: dict[str, Any]) -> None:
    parsed = validate(JobProperties, training_properties(Request=as_delivered(request_)))
    assert parsed.job_kind == "TrainingJob"
    assert parsed.reads == (S3Source(S3Uri="s3://data/train/"),)
    assert parsed.model_channel == "model"


def test_a_resource_without_a_job_kind_defaults_to_optimization_jobs() -> None:
    assert validate(StoreProperties, OPTIMIZATION).job_kind == "OptimizationJob"
    assert validate(JobProperties, OPTIMIZATION).job_kind == "OptimizationJob"


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"JobKind": "ProcessingJob"}, "JobKind"),
        ({"ModelChannel": "../model"}, "ModelChannel"),
        ({"Reads": "s3://data/train/"}, "Reads"),
        ({"Reads": [{"Kind": "hub", "HubName": "h", "ModelId": "m"}]}, r"Reads\[0\].Kind"),
        ({"Reads": [{"Kind": "s3", "S3Uri": "https://data/train/"}]}, r"Reads\[0\].S3Uri"),
        ({"Request": ["InputDataConfig"]}, "Request"),
    ],
)
def test_a_malformed_property_is_refused_by_name(changed: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidEvent, match=named):
        validate(JobProperties, training_properties(**changed))
