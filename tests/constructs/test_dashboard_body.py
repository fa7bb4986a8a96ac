"""The text of a dashboard's body: short, and the same dashboard."""

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
def test_short_rows_say_what_the_long_ones_do(rows: list[list[Any]]) -> None:
    assert at_length(short_rows(rows)) == rows


def test_a_row_has_a_dot_for_what_the_metric_above_has_in_that_place() -> None:
    assert short_rows([
        ["AWS/SageMaker", "Invocations", "EndpointName", "chat", {"stat": "Sum"}],
        ["AWS/SageMaker", "Invocation4XXErrors", "EndpointName", "chat", {"stat": "Sum"}],
    ]) == [
        ["AWS/SageMaker", "Invocations", "EndpointName", "chat", {"stat": "Sum"}],
        [".", "Invocation4XXErrors", ".", ".", {"stat": "Sum"}],
    ]  # fmt: skip


def test_a_row_below_an_expression_or_a_shorter_metric_is_written_in_full() -> None:
    rows = [
        ["AWS/SageMaker", "Invocations", "EndpointName", "chat", {}],
        [{"expression": "a / b"}],
        ["AWS/SageMaker", "Invocations", "EndpointName", "chat", {"stat": "p99"}],
        ["AWS/SageMaker", "Invocations", "EndpointName", "chat", "VariantName", "AllTraffic", {}],
    ]
    assert short_rows(rows) == rows


def test_rows_that_a_user_shortened_stay_as_they_are() -> None:
    rows: list[list[Any]] = [
        ["My", "Latency", "App", "chat", {"stat": "p50"}],
        ["...", {"stat": "p90"}],
        ["...", {"stat": "p99"}],
        [],
    ]
    assert short_rows(rows) == rows
