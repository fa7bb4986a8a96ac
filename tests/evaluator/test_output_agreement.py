"""How much two sides' embeddings, scores or classes agree."""

from __future__ import annotations

import json

import pytest

from constructs_optim.evaluator.output_agreement import compare_outputs
from constructs_optim.evaluator.prompts import Prompt
from constructs_optim.evaluator.requests import ErrorKind
from constructs_optim.evaluator.streaming import Record


def records(*outputs: object, first: int = 0) -> list[Record]:
    return [
        Record(0, 1, prompt=prompt, inputs=1, text=json.dumps(output)) for prompt, output in enumerate(outputs, first)
    ]


PROMPTS = [Prompt(input=(f"text {number}",)) for number in range(4)]


def test_embeddings_agree_by_their_cosine() -> None:
    before = records([[1, 0]], [[1, 0]], [[0, 1]])
    found = compare_outputs("embed", PROMPTS, before, records([[2, 0]], [[1, 1]], [[0, 1]]))
    mean = (1 + 0.5**0.5 + 1) / 3
    assert (found.compared, found.agreement) == (3, pytest.approx(mean))
    # Student's t for two degrees of freedom, 4.303; the share of agreement ends at 1.
    error = (((1 - mean) ** 2 * 2 + (0.5**0.5 - mean) ** 2) / 2 / 3) ** 0.5
    assert (found.low, found.high) == (pytest.approx(mean - 4.303 * error, abs=1e-3), 1)
    assert [(each.prompt, each.asked) for each in found.differences] == [(1, "text 1")]
    assert found.described.startswith(
        "The cosine similarity of embeddings to the baseline's is 0.9024 on average of 3 "
    )


def test_only_prompts_with_outputs_of_both_sides_are_compared() -> None:
    failed = Record(0, 1, prompt=1, inputs=1, text='["a"]', error=ErrorKind.TIMEOUT)
    again = [Record(0, 1, prompt=0, inputs=1), *records(["b"])]
    found = compare_outputs("classify", PROMPTS, [*records(["a"]), failed, *again], records(["a"], ["a"], ["a"]))
    assert (found.compared, found.agreement, found.low, found.high) == (1, 1, 1, 1)
    nothing = compare_outputs("classify", PROMPTS, [failed], records(["a"], ["a"]))
    assert (nothing.agreement, nothing.described) == (None, "No prompt has an output of both sides.")


def test_scores_agree_in_their_order_and_with_references() -> None:
    prompts = [Prompt(query="q", documents=("a", "b", "c"), reference=[0.9, 0.5, 0.1]), PROMPTS[1]]
    found = compare_outputs("rerank", prompts, records([0.9, 0.5, 0.1]), records([0.8, 0.1, 0.2]))
    assert found.agreement == pytest.approx(2 / 3)
    assert found.reference == {"baseline": 1, "optimized": pytest.approx(2 / 3)}
