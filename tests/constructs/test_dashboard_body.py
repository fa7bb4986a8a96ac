"""Metric rows in a dashboard body are abbreviated without changing the dashboard."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from constructs_optim.constructs.monitoring.widgets import short_rows

from .dashboards import at_length

SERIES = st.lists(st.sampled_from(["AWS/SageMaker", "Invocations", "Latency", "EndpointName", "chat", "8"]), min_size=2)
RENDERING = st.dictionaries(st.sampled_from(["label", "stat", "id"]), st.sampled_from(["p99", "Sum"]))
METRIC = st.builds(lambda series, rendering: [*series, rendering], SERIES, RENDERING)
EXPRESSION = st.builds(lambda rendering: [{"expression": "a / b", **rendering}], RENDERING)


@given(rows=st.lists(st.one_of(METRIC, EXPRESSION)))
def test_abbreviated_metric_rows_expand_to_the_original_rows(rows: list[list[Any]]) -> None:
    assert at_length(short_rows(rows)) == rows


def test_values_repeated_from_the_metric_row_above_become_dots() -> None:
    assert short_rows([
        ["AWS/SageMaker", "Invocations", "EndpointName", "chat", {"stat": "Sum"}],
        ["AWS/SageMaker", "Invocation4XXErrors", "EndpointName", "chat", {"stat": "Sum"}],
    ]) == [
        ["AWS/SageMaker", "Invocations", "EndpointName", "chat", {"stat": "Sum"}],
        [".", "Invocation4XXErrors", ".", ".", {"stat": "Sum"}],
    ]  # fmt: skip


def test_a_row_below_an_expression_or_shorter_row_is_not_abbreviated() -> None:
    rows = [
        ["AWS/SageMaker", "Invocations", "EndpointName", "chat", {}],
        [{"expression": "a / b"}],
        ["AWS/SageMaker", "Invocations", "EndpointName", "chat", {"stat": "p99"}],
        ["AWS/SageMaker", "Invocations", "EndpointName", "chat", "VariantName", "AllTraffic", {}],
    ]
    assert short_rows(rows) == rows


def test_rows_that_the_user_abbreviated_are_kept_unchanged() -> None:
    rows: list[list[Any]] = [
        ["My", "Latency", "App", "chat", {"stat": "p50"}],
        ["...", {"stat": "p90"}],
        ["...", {"stat": "p99"}],
        [],
    ]
    assert short_rows(rows) == rows
