from __future__ import annotations

import datetime as dt

from constructs_optim.evaluator.comparison import compare_completions, compare_metrics
from constructs_optim.evaluator.prompts import Prompt
from constructs_optim.evaluator.streaming import Record
from constructs_optim.recipe.evaluation.calculation import ErrorKind
from constructs_optim.recipe.evaluation.result import (
    EvaluationResult,
    Level,
    Subject,
    Workload,
)

from ..support.model_server import asked


def result(label: str, **levels: dict[str, float]) -> EvaluationResult:
    return EvaluationResult(
        subject=Subject(label=label),
        workload=Workload(prompts=1),
        started=dt.datetime(2026, 11, 21, tzinfo=dt.UTC),
        levels=tuple(Level(concurrency=int(users[1:]), seconds=1, metrics=found) for users, found in levels.items()),
    )


def said(*texts: tuple[int, str], error: ErrorKind | None = None) -> list[Record]:
    return [
        Record(
            prompt=prompt,
            segment=0,
            start=0,
            end=1,
            first_token=0.5,
            last_token=1,
            output_tokens=3,
            text=text,
            error=error,
        )
        for prompt, text in texts
    ]


def test_each_metric_is_better_worse_or_the_same() -> None:
    before = {
        "concurrency": 8.0,
        "time_to_first_token_p50": 200.0,
        "client_latency": 100.0,
        "client_invocation_errors": 0.0,
    }
    after = {
        "concurrency": 8.0,
        "time_to_first_token_p50": 100.0,
        "client_latency": 101.0,
        "client_invocation_errors": 2.0,
    }
    rates = {"output_tokens_per_second": 50.0}, {"output_tokens_per_second": 25.0}
    found = compare_metrics(result("a", _8=before | rates[0], _64=before), result("b", _1=after, _8=after | rates[1]))
    assert list(found) == [8], "only what both have"
    assert {change.name: (change.change, change.verdict) for change in found[8]} == {
        "concurrency": (0, ""),
        "time_to_first_token_p50": (-0.5, "better"),
        "client_latency": (0.010000000000000009, "same"),
        "output_tokens_per_second": (-0.5, "worse"),
        "client_invocation_errors": (None, "worse"),
    }


def test_identical_completions_have_similarity_1_and_no_differences() -> None:
    both = said((0, "yes"), (1, "no"))
    found = compare_completions(asked("a", "b"), both, both)
    assert (found.compared, found.identical, found.similarity, found.differences) == (2, 2, 1.0, ())


def test_differing_completions_are_listed_least_similar_first() -> None:
    prompts = asked("a", "b", "c", "d")
    before = said((0, "one two three four"), (1, "yes it is"), (2, "same"), (3, "only here"))
    after = said((0, "one two three five"), (1, "no"), (2, "same"))
    found = compare_completions(prompts, before, after)
    assert (found.compared, found.identical) == (3, 1)
    assert [(each.prompt, each.asked, each.similarity) for each in found.differences] == [(1, "b", 0.0), (0, "a", 0.75)]
    assert found.similarity == (1 + 0.75 + 0) / 3


def test_repeated_prompts_show_whether_a_side_is_consistent() -> None:
    wavering = said((0, "yes"), (0, "no"), (1, "x"), (1, "x"))
    found = compare_completions(asked("a", "b"), wavering, said((0, "yes")))
    assert found.repeated == {"baseline": 2, "optimized": 0}
    assert found.consistent == {"baseline": 1, "optimized": 0}


def test_failed_completions_are_not_compared() -> None:
    found = compare_completions(asked("a"), said((0, "yes")), said((0, "ye"), error=ErrorKind.CUT_STREAM))
    assert (found.compared, found.similarity) == (0, None)


def test_completions_are_checked_for_the_reference_text() -> None:
    prompts = [Prompt(inputs="2 + 2?", reference="4"), Prompt(inputs="3 + 3?", reference=" 6 "), Prompt(inputs="?")]
    found = compare_completions(
        prompts, said((0, "It is 4."), (1, "It is 6."), (2, "Yes")), said((0, "It is 4."), (1, "Five"))
    )
    assert found.reference == {"baseline": 1.0, "optimized": 0.5}
    assert compare_completions(asked("a"), said((0, "x")), said((0, "x"))).reference == {}
