from __future__ import annotations

import random
import statistics

import pytest

from constructs_optim.evaluator.options import EvaluationError
from constructs_optim.evaluator.synthetic_prompts import Lengths, SyntheticPrompts


def drawn(text: str, of: str = "input") -> list[int]:
    lengths, generator = Lengths.parse(text, of), random.Random(1)
    return sorted(lengths.draw(generator) for _ in range(20_000))


def test_lengths_follow_their_distribution() -> None:
    assert set(drawn("622")) == {622}
    normal = drawn("normal:622,62")
    assert (statistics.fmean(normal), statistics.stdev(normal)) == pytest.approx((622, 62), rel=0.02)
    uniform = drawn("uniform:100,1000")
    assert (uniform[0], uniform[-1], statistics.fmean(uniform)) == pytest.approx((100, 1000, 550), rel=0.02)
    lognormal = drawn("lognormal:100,400")
    assert (lognormal[10_000], lognormal[18_000]) == pytest.approx((100, 400), rel=0.05)
    assert min(drawn("normal:2,5")) == 1


def test_sharegpt_has_the_published_median_and_90th_percentile() -> None:
    asked, said = drawn("sharegpt"), drawn("sharegpt", "output")
    assert (asked[10_000], asked[18_000]) == pytest.approx((1730, 5696), rel=0.05)
    assert (said[10_000], said[18_000]) == pytest.approx((415, 834), rel=0.05)


@pytest.mark.parametrize(
    "text", ["", "many", "0", "normal:622", "uniform:9,2", "lognormal:9,9", "fixed:1,2", "zipf:1,2"]
)
def test_what_is_no_distribution_is_refused_with_those_that_are(text: str) -> None:
    with pytest.raises(EvaluationError, match=r"is not a distribution of input tokens: use 622, normal:622,62"):
        Lengths.parse(text, "input")


def test_prompts_share_only_the_requested_prefixes() -> None:
    made = list(SyntheticPrompts(prefix_tokens=50, prefixes=3).made(60))
    systems = [prompt.as_messages()[0]["content"] for prompt in made]
    assert len(set(systems)) == 3
    assert {len(system.split()) for system in systems} == {50}
    users = [prompt.as_messages()[1]["content"][:30] for prompt in made]
    assert len(set(users)) == 60
    assert made == list(SyntheticPrompts(prefix_tokens=50, prefixes=3).made(60)), "the same ones each time"


def test_conversations_have_turns_of_their_own_lengths() -> None:
    lengths = Lengths.parse("uniform:5,50", "input")
    limits = Lengths.parse("40", "output")
    for prompt in SyntheticPrompts(input_tokens=lengths, output_tokens=limits, turns=4, prefix_tokens=9).made(10):
        assert prompt.turns is not None
        assert len(prompt.turns) == 4
        assert {turn.max_tokens for turn in prompt.turns} == {40}
        assert len({len(turn.prompt.split()) for turn in prompt.turns}) > 1
        assert prompt.messages is not None
        assert prompt.messages[0].role == "system"


def test_a_tokenizer_makes_the_lengths_exact() -> None:
    def count(text: str) -> int:
        return round(1.5 * len(text.split()))

    made = SyntheticPrompts(input_tokens=Lengths.parse("300", "input")).made(20, count)
    assert [count(prompt.text) for prompt in made] == pytest.approx([300] * 20, abs=2)
