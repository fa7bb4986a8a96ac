"""The failed requests of a variant, from the metrics that SageMaker publishes in incidents."""

from __future__ import annotations

import pytest

from constructs_optim.runtime.shadow.failed_requests import METRICS, failed_requests


@pytest.mark.parametrize(
    ("incident", "counted", "failed"),
    [
        ("nothing fails", {}, 0),
        ("5xx statuses", {"InvocationModelErrors": 3, "Invocation5XXErrors": 3}, 3),
        ("no response in time", {"InvocationModelErrors": 2}, 2),
        ("streams that break off", {"MidStreamErrors": 4}, 4),
        ("4xx statuses", {"InvocationModelErrors": 5, "Invocation4XXErrors": 5}, 5),
        ("5xx statuses that are not the model's", {"Invocation5XXErrors": 2}, 2),
        (
            "all of them",
            {"InvocationModelErrors": 10, "Invocation4XXErrors": 5, "Invocation5XXErrors": 3, "MidStreamErrors": 4},
            14,
        ),
    ],
)
def test_a_request_without_a_complete_response_counts_once(
    incident: str, counted: dict[str, float], failed: float
) -> None:
    names = {metric: name for name, metric in METRICS.items()}
    assert failed_requests({names[metric]: value for metric, value in counted.items()}) == failed, incident
