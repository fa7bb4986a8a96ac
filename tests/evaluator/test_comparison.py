from __future__ import annotations

import datetime as dt
import random

import pytest

from constructs_optim.evaluator.comparison import compare_completions, compare_metrics
from constructs_optim.evaluator.load import MeasuredLevel, Segment
from constructs_optim.evaluator.options import ClosedLoop
from constructs_optim.evaluator.prompts import Prompt
from constructs_optim.evaluator.requests import ErrorKind
from constructs_optim.evaluator.streaming import Record
from constructs_optim.evaluator.summary import sample_of, summarize_level
from constructs_optim.recipe.evaluation.result import (
    EvaluationResult,
    Subject,
    Workload,
)
from constructs_optim.runtime.evaluation.differences import Difference

from ..support.model_server import asked

USERS = 8


def level_of(seed: str, requests: int = 400, *, slower: float = 1.0, segments: int = 1) -> MeasuredLevel:
    """A level of 8 users, whose latencies are lognormal; a resumed one has several segments."""
    drawn, records = random.Random(seed), list[Record]()
    for segment in range(segments):
        free = [0.0] * USERS
        for number in range(requests // segments):
            start = min(free)
            first = start + 0.2 * slower * drawn.lognormvariate(0, 0.1)
            end = first + 20 * 0.02 * drawn.lognormvariate(0, 0.02)
            free[free.index(start)] = end
            records.append(
                Record(
                    prompt=number % 10,
                    segment=segment,
                    start=start,
                    end=end,
                    first_token=first,
                    last_token=end,
                    input_tokens=100,
                    output_tokens=20,
                )
            )
    return MeasuredLevel(records, [Segment(complete=True)] * segments)


def result(label: str, levels: dict[int, MeasuredLevel]) -> EvaluationResult:
    return EvaluationResult(
        subject=Subject(label=label),
        workload=Workload(prompts=1),
        started=dt.datetime(2026, 11, 21, tzinfo=dt.UTC),
        levels=tuple(summarize_level(ClosedLoop(concurrency=users), level, None) for users, level in levels.items()),
    )


def compared(before: dict[int, MeasuredLevel], after: dict[int, MeasuredLevel]) -> dict[str, dict[str, Difference]]:
    samples = {
        side: {ClosedLoop(concurrency=users).label: sample_of(level) for users, level in levels.items()}
        for side, levels in (("baseline", before), ("optimized", after))
    }
    found = compare_metrics(result("a", before), result("b", after), samples)
    return {level.load: {each.name: each for each in level.differences} for level in found}


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


def test_each_metric_is_better_worse_the_same_or_undecided() -> None:
    slow = level_of("after", slower=1.5)
    for record in slow.records[::20]:
        record.fail(ErrorKind.SERVER_ERROR, "")
    found = compared({8: level_of("before"), 64: level_of("before")}, {1: slow, 8: slow})
    assert list(found) == ["8 users"], "only what both have"
    verdicts = {name: difference.verdict for name, difference in found["8 users"].items()}
    assert "concurrency" not in verdicts, "neither more nor less is better"
    assert verdicts["time_to_first_token_p50"] == "worse"
    assert verdicts["inter_token_latency_p50"] == "same"
    assert verdicts["output_tokens_per_second"] == "worse"
    assert verdicts["client_invocation_errors"] == "worse"
    assert verdicts["time_to_first_token_p99"] == "undecided"
    assert found["8 users"]["time_to_first_token_p99"].requests == 500


@pytest.mark.exhaustive
def test_a_server_is_not_called_different_from_itself() -> None:
    found = [
        difference.verdict
        for seed in range(10)
        for difference in compared({8: level_of(f"{seed} a")}, {8: level_of(f"{seed} b")})["8 users"].values()
    ]
    assert len(found) > 150
    assert sum(verdict in ("better", "worse") for verdict in found) <= 0.05 * len(found)


def test_the_requests_of_a_resumed_level_follow_one_another() -> None:
    level = level_of("resumed", segments=3)
    starts = [each.start for each in sample_of(level).observations]
    assert len(starts) == 399
    assert starts[133] > starts[132] > starts[0]
    assert starts[-1] < level.seconds
    drawn, [summarized] = sample_of(level).drawn(), result("a", {8: level}).levels
    for name, value in summarized.metrics.items():
        assert name not in drawn or drawn[name] == pytest.approx(value, rel=1e-6), name


def test_identical_completions_have_similarity_1_and_no_differences() -> None:
    both = said((0, "yes"), (1, "no"))
    found = compare_completions(asked("a", "b"), both, both)
    assert (found.compared, found.identical, found.similarity, found.differences) == (2, 2, 1.0, ())


def test_what_models_thought_is_part_of_their_completions() -> None:
    before, after = said((0, ""), (1, "4")), said((0, ""), (1, "4"))
    for records, thought in ((before, "Two and two"), (after, "Let me see")):
        records[0].reasoning = thought
    found = compare_completions(asked("a", "b"), before, after)
    assert (found.compared, found.identical) == (2, 1)
    assert found.differences[0].baseline == "Two and two"


def test_of_conversations_the_first_completions_are_compared() -> None:
    before, after = said((0, "Hello."), (0, "Fine.")), said((0, "Hello."), (0, "Well."))
    before[1].turn = after[1].turn = 1
    found = compare_completions(asked("a"), before, after)
    assert (found.compared, found.identical, found.repeated) == (1, 1, {"baseline": 0, "optimized": 0})


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
