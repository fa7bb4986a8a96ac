"""Verdicts on candidates: whole runs of pairs, minutes and requests."""

from __future__ import annotations

import itertools
import json
import math
import random
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from constructs_optim.runtime.shadow.captures import Pair, paired, read_captures
from constructs_optim.runtime.shadow.checks import Check, outcome
from constructs_optim.runtime.shadow.sequential_test import LEVEL, Counts
from constructs_optim.runtime.shadow.verdict import (
    FEWEST_MINUTES,
    Criteria,
    Finding,
    Observed,
    add_minute,
    add_pair,
    add_requests,
    pairs_expected,
    verdict,
)

RUNS = 200
OUTCOMES = (Counts(worse=1), Counts(equal=1), Counts(better=1))
CRITERIA = Criteria([Check("reference")], margin=0.02, latency_tolerance=0.1)


def add_outcome(observed: Observed, criteria: Criteria, prompt: str, *outcomes: Counts | str | None) -> list[str]:
    """Add a pair with this prompt, and an outcome for each check."""
    found = dict(zip(criteria.checks, outcomes, strict=True))
    return add_pair(observed, criteria, {"prompt": prompt}, 0, found.__getitem__)


def a_run(seed: int, *, worse_by: float, pairs: int, slower: float = 1.0, failing: float = 0.002) -> str:
    """The verdict on a whole run, polled every 500 pairs until it is decided."""
    chance, observed = random.Random(seed), Observed()
    for start in range(0, pairs, 500):
        for number in range(start, min(start + 500, pairs)):
            drawn = chance.random()
            worse = drawn < (0.1 + worse_by) / 2
            counted = Counts(worse=1) if worse else Counts(better=1) if drawn < 0.1 else Counts(equal=1)
            add_outcome(observed, CRITERIA, f"Question {number}", counted)
        for minute in range(start // 20, start // 20 + 25):
            production, candidate = chance.lognormvariate(0, 0.1), chance.lognormvariate(0, 0.1)
            add_minute(observed, CRITERIA, production, candidate * slower)
            failed = [sum(chance.random() < share for _ in range(20)) for share in (0.002, failing)]
            add_requests(observed, minute, (20, failed[0]), (20, failed[1]))
        if (found := verdict(observed, CRITERIA).outcome) != "not decided":
            return found
    return "not decided"


def test_equal_models_are_called_worse_by_all_measures_together_in_5_percent_of_runs_at_most() -> None:
    found = [a_run(seed, worse_by=0, pairs=1_000) for seed in range(60)]
    assert found.count("worse") / 60 <= LEVEL


@pytest.mark.exhaustive
def test_5_points_worse_is_caught_in_90_percent_of_200_runs_within_500_pairs() -> None:
    found = [a_run(seed, worse_by=0.05, pairs=500) for seed in range(RUNS)]
    assert found.count("worse") / RUNS >= 0.9


def test_2_points_worse_is_caught_in_80_percent_of_runs_within_the_announced_pairs() -> None:
    announced = CRITERIA.announced_pairs
    assert announced == 4_000
    found = [a_run(seed, worse_by=0.02, pairs=announced) for seed in range(20)]
    assert found.count("worse") / 20 >= 0.8


@pytest.mark.exhaustive
def test_whole_runs_hold_their_rates() -> None:
    assert CRITERIA.announced_pairs is not None
    caught = [a_run(seed, worse_by=0.02, pairs=CRITERIA.announced_pairs) for seed in range(RUNS)]
    assert caught.count("worse") / RUNS >= 0.8
    assert caught.count("pass") / RUNS <= LEVEL
    equal = [a_run(seed, worse_by=0, pairs=8_000) for seed in range(RUNS)]
    assert equal.count("worse") / RUNS <= LEVEL
    assert equal.count("pass") / RUNS >= 0.8


def repeated(chance: random.Random, number: int) -> tuple[dict[str, Any], int]:
    """Half of the requests repeat 20 prompts, whose outcome is the same each time."""
    prompt = chance.randrange(20) if chance.random() < 0.5 else 20 + number
    return {"prompt": f"Which river is number {prompt}?"}, prompt


def dated(chance: random.Random, number: int) -> tuple[dict[str, Any], int]:
    """The same, with the time of the request."""
    request, prompt = repeated(chance, number)
    return {"prompt": f"It is 2026-07-03 {number // 60 % 24:02}:{number % 60:02}. {request['prompt']}"}, prompt


def with_an_identifier(chance: random.Random, number: int) -> tuple[dict[str, Any], int]:
    """Half of the requests are made from 20 templates, each with a number of its own."""
    _, prompt = repeated(chance, number)
    words = chr(ord("a") + prompt % 20) if prompt < 20 else "".join(chance.choices("klmnopqrst", k=12))
    return {"prompt": f"Which river is {words}? Request {number}"}, prompt


def talked(chance: random.Random, number: int) -> tuple[dict[str, Any], int]:
    """Conversations of ten turns, five at the same time, whose turns have the same outcome."""
    conversation, turn = number // 50 * 5 + number % 5, number % 50 // 5
    texts = [f"Conversation {conversation}", *(f"{turn}" for turn in range(2 * turn))]
    roles = ("user", "assistant")
    return {"messages": [{"role": roles[at % 2], "content": text} for at, text in enumerate(texts)]}, conversation


@pytest.mark.parametrize("traffic", [repeated, dated, with_an_identifier, talked])
def test_equal_models_are_not_called_worse_by_outcomes_that_depend_on_each_other(
    traffic: Callable[[random.Random, int], tuple[dict[str, Any], int]],
) -> None:
    called = 0
    for seed in range(30):
        chance, observed, outcomes = random.Random(seed), Observed(), dict[int, Counts]()
        for number in range(700):
            request, cluster = traffic(chance, number)
            drawn = chance.random()
            counted = Counts(worse=1) if drawn < 0.05 else Counts(better=1) if drawn < 0.1 else Counts(equal=1)
            counted = outcomes.setdefault(cluster, counted)
            add_pair(observed, CRITERIA, request, number // 20, lambda _, counted=counted: counted)
        assert observed.pairs == 700
        called += observed.answers[0].called is not None
    # With as many independent pairs, 1.5% are called worse.
    assert called <= 2


def conversations(
    chance: random.Random, turns: int, failing_from: float, failing: float = 0.0, users: int = 100
) -> Iterator[tuple[int, dict[str, Any], Counts]]:
    """Minutes, requests and outcomes: each minute, 20 of the conversations under way have their next turn.

    The candidate fails from a turn on, and in all turns of a share of the conversations.
    """
    under_way = [(number, chance.randrange(turns), chance.random() < failing) for number in range(users)]
    for minute in itertools.count():
        for number, turn, fails in under_way[:20]:
            texts = [f"Conversation {number}", *(f"turn {each}" for each in range(2 * turn))]
            messages = [{"role": ("user", "assistant")[at % 2], "content": text} for at, text in enumerate(texts)]
            is_worse = fails or turn + 1 >= failing_from
            yield minute, {"messages": messages}, Counts(worse=1) if is_worse else Counts(equal=1)
            is_last = turn + 1 == turns
            following = (number + users, 0, chance.random() < failing) if is_last else (number, turn + 1, fails)
            under_way.append(following)
        del under_way[:20]


def verdict_on(sent: Iterable[tuple[int, dict[str, Any], Counts]], pairs: int) -> Finding:
    """The finding on the answers, after as many pairs."""
    observed = Observed()
    for minute, request, counted in itertools.islice(sent, pairs):
        add_pair(observed, CRITERIA, request, minute, lambda _, counted=counted: counted)
    return verdict(observed, CRITERIA).findings[0]


@pytest.mark.parametrize("failing_from", [2, 5, 7])
def test_a_candidate_that_fails_in_later_turns_is_worse(failing_from: int) -> None:
    found = verdict_on(conversations(random.Random(1), 8, failing_from), 2_000)
    assert found.outcome == "worse"
    assert found.estimate == pytest.approx((9 - failing_from) / 8, abs=0.05)


def test_a_candidate_that_fails_in_some_conversations_does_not_pass_because_none_was_seen_yet() -> None:
    passed = 0
    for seed in range(20):
        sent = conversations(random.Random(seed), 8, math.inf, failing=0.02, users=20)
        passed += verdict_on(sent, 400).outcome == "pass"
    assert passed <= 1
    assert verdict_on(conversations(random.Random(1), 8, math.inf), 4_000).outcome == "pass"


def tasks(chance: random.Random, outcome: Callable[[], Counts]) -> Iterator[tuple[int, dict[str, Any], Counts]]:
    """Fifteen tasks, each with an example of its own before the question."""
    for number in itertools.count():
        task = chance.randrange(15)
        texts = (f"Example of task {task}", f"Answer of task {task}", f"Question {number}")
        messages = [{"role": ("user", "assistant")[at % 2], "content": text} for at, text in enumerate(texts)]
        yield number // 20, {"messages": messages}, outcome()


@pytest.mark.parametrize("share", [0.6, 0.95, 1.0])
def test_a_candidate_that_fails_in_nearly_every_answer_to_few_tasks_is_worse(share: float) -> None:
    chance = random.Random(1)
    failing = tasks(chance, lambda: Counts(worse=1) if chance.random() < share else Counts(equal=1))
    assert verdict_on(failing, 1_000).outcome == "worse"


def test_an_equal_candidate_is_not_worse_in_few_tasks() -> None:
    called = 0
    for seed in range(20):
        chance = random.Random(seed)
        drawn = tasks(chance, lambda chance=chance: chance.choices(OUTCOMES, (5, 90, 5))[0])
        called += verdict_on(drawn, 500).outcome == "worse"
    assert called <= 1


@pytest.mark.parametrize("length", [5, 40])
def test_equal_models_whose_requests_fail_in_bursts_are_not_called_worse(length: int) -> None:
    called = 0
    for seed in range(40):
        chance, observed, left = random.Random(seed), Observed(), [0, 0]
        for minute in range(500):
            left = [length if chance.random() < 0.01 / length else max(0, each - 1) for each in left]
            failed = [20 if each else 0 for each in left]
            add_requests(observed, minute, (20, failed[0]), (20, failed[1]))
        called += observed.errors.called is not None
    assert called <= 1


@pytest.mark.parametrize("correlation", [0.9, 0.98, 0.999])
def test_equal_models_whose_latencies_wander_are_not_called_worse(correlation: float) -> None:
    called = 0
    for seed in range(40):
        chance, observed = random.Random(seed), Observed()
        levels = [chance.gauss(0, 0.25), chance.gauss(0, 0.25)]
        for _ in range(250):
            add_minute(observed, CRITERIA, math.exp(levels[0]), math.exp(levels[1]))
            step = 0.25 * math.sqrt(1 - correlation**2)
            levels = [correlation * level + chance.gauss(0, step) for level in levels]
        called += observed.latency.called is not None
    assert called <= 1


def test_a_prompt_counts_once_for_each_check_with_its_first_outcome() -> None:
    criteria, observed = Criteria([Check("answered"), Check("judge")], margin=0.05, latency_tolerance=0.1), Observed()
    assert add_outcome(observed, criteria, "a", Counts(equal=1), None) == []
    # What does not apply does not count, so that a repetition may.
    assert add_outcome(observed, criteria, "a", Counts(worse=1), Counts(better=1)) == []
    assert add_outcome(observed, criteria, "b", Counts(equal=1), "the judge failed") == ["the judge failed"]
    assert add_outcome(observed, criteria, "b", Counts(worse=1), "the judge failed") == []
    answered, judged = observed.answers
    assert (observed.pairs, answered.counts, answered.unjudged) == (4, Counts(equal=2), 0)
    assert (judged.counts, judged.unjudged) == (Counts(better=1), 1)


@pytest.mark.parametrize("minutes", [FEWEST_MINUTES - 1, FEWEST_MINUTES])
def test_latency_and_errors_are_judged_only_after_two_hours(minutes: int) -> None:
    for slower, failed, decided in ((1.0, 0, "pass"), (2.0, 10, "worse")):
        observed = Observed()
        for minute in range(minutes):
            add_minute(observed, CRITERIA, 1.0, slower)
            add_requests(observed, minute, (20, 0), (20, failed))
        found = {finding.measure: finding.outcome for finding in verdict(observed, CRITERIA).findings}
        expected = decided if minutes == FEWEST_MINUTES else "not decided"
        assert (found["latency"], found["errors"]) == (expected, expected)


@pytest.mark.parametrize(("requests", "outcome"), [(300, "not decided"), (330, "not decided"), (360, "pass")])
def test_few_requests_without_errors_do_not_show_that_errors_are_not_more(requests: int, outcome: str) -> None:
    observed = Observed()
    for minute in range(FEWEST_MINUTES):
        share = requests * (minute + 1) // FEWEST_MINUTES - requests * minute // FEWEST_MINUTES
        add_requests(observed, minute, (100 * share, 0), (share, 0))
    [errors] = [finding for finding in verdict(observed, CRITERIA).findings if finding.measure == "errors"]
    assert errors.outcome == outcome


def test_a_minute_without_a_latency_is_left_out() -> None:
    observed = Observed()
    add_minute(observed, CRITERIA, 0.0, 1.0)
    add_minute(observed, CRITERIA, 1.0, 0.0)
    assert observed.latency.ratios == []


def test_a_slower_candidate_is_worse_and_the_ratio_is_bounded() -> None:
    observed, chance = Observed(), random.Random(3)
    for _ in range(130):
        add_minute(observed, CRITERIA, chance.lognormvariate(0, 0.02), 1.4 * chance.lognormvariate(0, 0.02))
    [latency] = [finding for finding in verdict(observed, CRITERIA).findings if finding.measure == "latency"]
    assert latency.outcome == "worse"
    assert latency.low is not None
    assert latency.high is not None
    assert 1.38 < latency.low < 1.4 < latency.high < 1.42


def test_a_candidate_that_fails_is_worse() -> None:
    observed = Observed()
    for minute in range(FEWEST_MINUTES):
        add_requests(observed, minute, (400, 1), (20, 2))
    [errors] = [finding for finding in verdict(observed, CRITERIA).findings if finding.measure == "errors"]
    assert errors.outcome == "worse"
    assert errors.low is not None
    assert errors.low > 0


@pytest.mark.parametrize("pairs", [0, 1, 30])
def test_thin_traffic_is_not_decided(pairs: int) -> None:
    observed = Observed()
    for number in range(pairs):
        add_outcome(observed, CRITERIA, f"Question {number}", Counts(equal=1))
        add_minute(observed, CRITERIA, 1, 1)
        add_requests(observed, number, (1, 0), (1, 0))
    assert verdict(observed, CRITERIA).outcome == "not decided"


def test_a_check_that_applies_to_nothing_keeps_a_run_from_passing() -> None:
    criteria = Criteria([Check("answered"), Check("json_valid")], margin=0.05, latency_tolerance=0.1)
    observed = Observed()
    for number in range(2_000):
        add_outcome(observed, criteria, f"Question {number}", Counts(equal=1), None)
        add_minute(observed, criteria, 1, 1)
        add_requests(observed, number, (10, 0), (10, 0))
    found = verdict(observed, criteria)
    assert {finding.measure: finding.outcome for finding in found.findings} == {
        "answered": "pass",
        "json_valid": "not decided",
        "latency": "pass",
        "errors": "pass",
    }
    assert found.outcome == "not decided"


def test_the_announcement_follows_the_share_that_differs() -> None:
    observed = Observed()
    outcomes = [Counts(worse=1), Counts(better=1), *8 * [Counts(equal=1)]] * 100
    for number, counted in enumerate(outcomes):
        add_outcome(observed, CRITERIA, f"Question {number}", counted)
    assert pairs_expected(observed, CRITERIA) == 16_000
    assert pairs_expected(Observed(), CRITERIA) == 4_000


def line(request: dict[str, Any], answer: int) -> bytes:
    response = {"choices": [{"message": {"role": "assistant", "content": str(answer)}}]}
    data = {
        "endpointInput": {"data": json.dumps(request), "encoding": "JSON", "mode": "INPUT"},
        "endpointOutput": {"data": json.dumps(response), "encoding": "JSON", "mode": "OUTPUT"},
    }
    return json.dumps({"captureData": data, "eventMetadata": {}, "eventVersion": "0"}).encode() + b"\n"


def pair(production: dict[str, Any], candidate: dict[str, Any] | None, **request: Any) -> Pair:
    return Pair(request, production, candidate)


def said(text: str) -> dict[str, Any]:
    return {"choices": [{"message": {"content": text}}]}


def called(name: str, arguments: str) -> dict[str, Any]:
    call = {"function": {"name": name, "arguments": arguments}}
    return {"choices": [{"message": {"content": None, "tool_calls": [call]}}]}


TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "weather",
            "parameters": {
                "required": ["city"],
                "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
            },
        },
    }
]
TOP = {"token": "a", "top_logprobs": [{"token": "a", "logprob": -0.1}, {"token": "b", "logprob": -2.0}]}


@pytest.mark.parametrize(
    ("kind", "pair", "expected"),
    [
        ("answered", pair(said("yes"), said("")), Counts(worse=1)),
        ("answered", pair(said("yes"), None), Counts(worse=1)),
        ("answered", pair({"choices": [{"text": "yes"}]}, {"choices": [{"text": " "}]}), Counts(worse=1)),
        ("answered", pair({"generated_text": "yes"}, {"generated_text": ""}), Counts(worse=1)),
        ("json_valid", pair(said("{}"), said("{")), None),
        ("json_valid", pair(said("{}"), said("{"), response_format={"type": "json_object"}), Counts(worse=1)),
        ("json_valid", pair(said("{"), said("{}"), response_format={"type": "json_schema"}), Counts(better=1)),
        ("tool_calls", pair(said("sun"), called("weather", "{}"), tools=TOOLS), None),
        ("tool_calls", pair(called("weather", '{"city": "Ulm"}'), said("sun"), tools=TOOLS), Counts(worse=1)),
        (
            "tool_calls",
            pair(called("weather", '{"city": "Ulm"}'), called("weather", '{"city": 3}'), tools=TOOLS),
            Counts(worse=1),
        ),
        (
            "tool_calls",
            pair(called("weather", '{"city": "Ulm"}'), called("weather", '{"city": "Bonn"}'), tools=TOOLS),
            Counts(equal=1),
        ),
        ("exact_match", pair(said("a"), said("b")), None),
        ("exact_match", pair(said("a"), said("b"), temperature=0), Counts(worse=1)),
        ("exact_match", pair(said("a"), said("a"), temperature=0.0), Counts(equal=1)),
        ("exact_match", pair(said("a"), said("b"), parameters={"temperature": 0}), Counts(worse=1)),
        ("exact_match", pair(said("a"), said("b"), parameters={"temperature": 0.7}), None),
        ("top_token", pair(said("a"), said("b")), None),
        (
            "top_token",
            pair(
                {"choices": [{"logprobs": {"content": [TOP]}}]},
                {"choices": [{"logprobs": {"content": [{**TOP, "top_logprobs": TOP["top_logprobs"][1:]}]}}]},
            ),
            Counts(worse=1),
        ),
        ("reference", pair(said(" Four "), said("five"), messages=[{"content": "2 + 2"}]), Counts(worse=1)),
        ("reference", pair(said("four"), said("five"), prompt="3 + 3"), None),
        ("judge", pair(said("four"), said("five")), Counts(better=1)),
    ],
)
def test_checks(kind: Any, pair: Pair, expected: Counts | None) -> None:
    check = Check(kind, 0.9 if kind in ("exact_match", "top_token") else None)
    assert outcome(check, pair, {"2 + 2": "four"}, lambda _: (False, True)) == expected


@pytest.mark.parametrize(
    ("schema", "arguments", "fits"),
    [
        ({}, {"city": "Ulm"}, True),
        ({"additionalProperties": False, "properties": {"city": {}}}, {"city": "Ulm"}, True),
        ({"additionalProperties": False, "properties": {"city": {}}}, {"city": "Ulm", "days": 3}, False),
        ({"additionalProperties": False}, {"city": "Ulm"}, False),
        ({"additionalProperties": False}, {}, True),
        ({"additionalProperties": True, "properties": {"city": {}}}, {"days": 3}, True),
        ({"properties": {"city": {}}}, {"days": 3}, True),
        ({"required": ["city"]}, {"days": 3}, False),
        ({"properties": {"city": {"enum": ["Ulm", "Bonn"]}}}, {"city": "Bonn"}, True),
        ({"properties": {"city": {"enum": ["Ulm", "Bonn"]}}}, {"city": "Rom"}, False),
        ({"properties": {"dry": {"type": "boolean"}}}, {"dry": True}, True),
        ({"properties": {"dry": {"type": "boolean"}}}, {"dry": 1}, False),
    ],
)
def test_a_call_fits_the_schema_of_its_tool(schema: dict[str, Any], arguments: dict[str, Any], *, fits: bool) -> None:
    tools = [{"type": "function", "function": {"name": "weather", "parameters": schema}}]
    right, asked = called("weather", json.dumps(arguments)), called("none", "{}")
    found = outcome(Check("tool_calls", None), pair(right, asked, tools=tools), {}, None)
    assert found == (Counts(worse=1) if fits else Counts(equal=1))


def test_only_copies_of_a_request_are_paired() -> None:
    requests = [{"prompt": "a"}, {"prompt": "b"}, {"prompt": "a"}]
    production = b"".join(line(request, number) for number, request in enumerate(requests))
    candidate = line(requests[0], 7) + line({"prompt": "c"}, 8) + line(requests[0], 9) + line(requests[0], 10) + b"{\n"
    pairs, waiting, left = paired(read_captures(production).captures, read_captures(candidate).captures)
    assert [(sent.response, copied.response) for sent, copied in pairs] == [
        ({"choices": [{"message": {"role": "assistant", "content": text}}]} if text else None, answer)
        for text, answer in (
            ("0", {"choices": [{"message": {"role": "assistant", "content": "7"}}]}),
            ("2", {"choices": [{"message": {"role": "assistant", "content": "9"}}]}),
        )
    ]
    assert [capture.request for capture in waiting] == [{"prompt": "b"}]
    assert [capture.request for capture in left] == [{"prompt": "c"}, requests[0]]
