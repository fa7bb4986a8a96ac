"""Requests for embeddings, scores and classes, what responses say, and how much two of them agree."""

from __future__ import annotations

import base64
import json
import math
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from constructs_optim.runtime.evaluation.agreements import agreement_verdicts
from constructs_optim.runtime.evaluation.pooled_outputs import (
    PooledTask,
    agreement,
    input_tokens_of,
    output_of,
    request_of,
    request_of_line,
    written,
)
from constructs_optim.runtime.evaluation.repetitions import Refusal


def coded(*numbers: float) -> str:
    return base64.b64encode(struct.pack(f"<{len(numbers)}f", *numbers)).decode()


def test_a_request_has_the_inputs_and_their_number() -> None:
    embedding = request_of("embed", ["one", "two"])
    assert embedding == ({"input": ["one", "two"], "encoding_format": "base64"}, 2)
    assert request_of("classify", ["one"]) == ({"input": ["one"]}, 1)
    assert request_of("rerank", ["which?", "a", "b"]) == ({"query": "which?", "documents": ["a", "b"]}, 2)


@pytest.mark.parametrize(
    ("task", "line", "inputs"),
    [
        ("embed", {"text": "one"}, 1),
        ("embed", {"input": ["one", "two"]}, 2),
        ("classify", {"prompt": "one"}, 1),
        ("classify", {"inputs": ["one", "two", "three"]}, 3),
        ("rerank", {"query": "which?", "documents": ["a", "b"]}, 2),
    ],
)
def test_a_line_of_a_file_is_a_request(task: PooledTask, line: dict[str, Any], inputs: int) -> None:
    request = request_of_line(task, line)
    assert request is not None
    assert request.inputs == inputs


@pytest.mark.parametrize(
    ("task", "line"),
    [
        ("embed", {}),
        ("embed", {"text": ""}),
        ("embed", {"text": []}),
        ("embed", {"text": ["one", 2]}),
        ("embed", {"messages": [{"role": "user", "content": "one"}]}),
        ("rerank", {"query": "which?"}),
        ("rerank", {"query": "which?", "documents": []}),
        ("rerank", {"query": 1, "documents": ["a"]}),
        ("rerank", {"documents": ["a", "b"]}),
    ],
)
def test_a_line_without_what_the_task_needs_is_none(task: PooledTask, line: dict[str, Any]) -> None:
    assert request_of_line(task, line) is None


def test_outputs_are_in_the_order_of_the_inputs() -> None:
    rows = [{"index": 1, "embedding": coded(0, 1)}, {"index": 0, "embedding": coded(1, 0)}]
    assert json.loads(output_of("embed", {"data": rows}) or "") == [coded(1, 0), coded(0, 1)]
    results = [{"index": 2, "relevance_score": 0.9}, {"index": 0, "relevance_score": 0.5}, {"index": 1}]
    assert output_of("rerank", {"results": results}) is None
    results[2]["relevance_score"] = 0.1
    assert json.loads(output_of("rerank", {"results": results}) or "") == [0.5, 0.1, 0.9]
    classes = [{"index": 0, "label": "good", "probs": [1.0]}]
    assert json.loads(output_of("classify", {"data": classes}) or "") == ["good"]


@pytest.mark.parametrize("task", ["embed", "rerank", "classify"])
@pytest.mark.parametrize(
    "body",
    [
        None,
        {},
        {"data": []},
        {"data": [{"index": 0}], "results": [{"index": 0}]},
        {"data": [{"embedding": "not base64!", "label": 3}], "results": [{"relevance_score": "high"}]},
        {"data": [{"embedding": coded(math.nan)}], "results": "none"},
        {"choices": [{"text": "a completion"}]},
    ],
)
def test_another_response_has_no_outputs(task: PooledTask, body: object) -> None:
    assert output_of(task, body) is None


@given(
    st.recursive(
        st.none() | st.integers() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
    )
)
def test_whatever_a_container_answers_is_an_output_or_none(body: object) -> None:
    for task in ("embed", "rerank", "classify"):
        for answer in (body, {"data": body, "results": body}, {"data": [body], "results": [body]}):
            assert output_of(task, answer) is None or isinstance(output_of(task, answer), str)


def test_the_server_says_how_many_tokens_it_read() -> None:
    assert input_tokens_of({"usage": {"prompt_tokens": 9}}) == 9
    for unknown in ({}, {"usage": {}}, {"usage": {"prompt_tokens": 0}}, {"usage": {"prompt_tokens": "9"}}, None):
        assert input_tokens_of(unknown) is None


def outputs(task: PooledTask, *values: Any) -> str:
    text = written(task, list(values))
    assert text is not None
    return text


def test_embeddings_agree_by_their_cosine() -> None:
    first, second = outputs("embed", coded(1, 0), coded(0, 2)), outputs("embed", [3, 0], [0, 1])
    assert agreement("embed", first, second) == pytest.approx(1)
    assert agreement("embed", first, outputs("embed", [0, 1], [0, 1])) == pytest.approx(0.5)
    assert agreement("embed", first, outputs("embed", [-1, 0], [0, -1])) == pytest.approx(-1)
    for other in (outputs("embed", [1, 0]), outputs("embed", [1, 0, 0], [0, 1, 0]), outputs("embed", [0, 0], [0, 0])):
        assert agreement("embed", first, other) == 0


def test_scores_agree_by_the_order_of_the_documents() -> None:
    first = outputs("rerank", 0.9, 0.5, 0.1)
    assert agreement("rerank", first, outputs("rerank", 9, 5, 1)) == 1
    assert agreement("rerank", first, outputs("rerank", 1, 5, 9)) == 0
    assert agreement("rerank", first, outputs("rerank", 5, 9, 1)) == pytest.approx(2 / 3)
    # Documents that the reference does not tell apart have no order.
    assert agreement("rerank", first, outputs("rerank", 5, 5, 1)) == 1
    assert agreement("rerank", outputs("rerank", 5, 5, 1), first) == pytest.approx(2 / 3)
    assert agreement("rerank", first, outputs("rerank", 5, 5, 5)) == 1
    assert agreement("rerank", first, outputs("rerank", 5, 1)) == 0


def test_classes_agree_if_they_are_the_same() -> None:
    assert agreement("classify", outputs("classify", "a", "b"), outputs("classify", "a", "c")) == 0.5


def test_answers_that_agree_less_on_average_are_refused() -> None:
    same, other = outputs("embed", [1, 0]), outputs("embed", [0, 1])
    assert [*agreement_verdicts("embed", [same] * 20, [same] * 20, 0.99, "those of the file")] == []
    assert [*agreement_verdicts("embed", [same] * 19 + [other], [same] * 20, 0.95, "those of the file")] == []
    (refused,) = agreement_verdicts("embed", [same] * 19 + [other], [same] * 20, 0.99, "those of the file")
    # By Student's t distribution with 19 degrees of freedom: 0.95 +/- 2.093 * 0.05.
    assert "is 0.9500 on average of 20 prompts (95% interval 0.8453 to 1.0547), but at least 0.99" in refused.told


def test_outputs_are_as_many_as_inputs_and_complete() -> None:
    body = {"data": [{"index": 0, "embedding": [1.0, 0.0]}]}
    assert output_of("embed", body, 1) == output_of("embed", body)
    assert output_of("embed", body, 8) is None
    assert output_of("embed", {"data": [{"index": 0, "embedding": [1.0, None, "x"]}]}) is None
    assert input_tokens_of({"usage": {"prompt_tokens": True}}) is None


def test_large_numbers_do_not_overflow() -> None:
    first, second = outputs("embed", [1e200, 1e200]), outputs("embed", [1e200, -1e200])
    assert agreement("embed", first, second) == pytest.approx(0)
    assert agreement("embed", first, first) == pytest.approx(1)
    assert agreement("embed", outputs("embed", [1.7e308] * 3), first) == 0


def test_a_single_prompt_decides_for_itself() -> None:
    same, other = outputs("classify", "a"), outputs("classify", "b")
    (refused,) = agreement_verdicts("classify", [other], [same], 0.5, "those of the file")
    assert isinstance(refused, Refusal)


def test_a_prompt_without_an_answer_is_refused_and_one_without_a_reference_is_not_compared() -> None:
    same = outputs("classify", "a")
    (refused,) = agreement_verdicts("classify", [None, same], [same, None], 0.5, "those of the file")
    assert refused == Refusal("1 of 2 prompts got no answer for classify")
