"""Whether an evaluation lets a deployment through, and what is said where it does not."""

from __future__ import annotations

import json
import math
import random
import re
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from constructs_optim.recipe.evaluation.requirements import QualityRequirement
from constructs_optim.runtime.errors import DeploymentError
from constructs_optim.runtime.evaluation import completions, samples
from constructs_optim.runtime.evaluation.completions import (
    complete_prompts,
    completion_text,
    form_of_texts,
    read_prompts,
)
from constructs_optim.runtime.evaluation.differences import Measured
from constructs_optim.runtime.evaluation.gate import Completions, find, judge, measurements_of, repetitions_of
from constructs_optim.runtime.evaluation.samples import Observation, Sample
from constructs_optim.runtime.requests.run_properties import Comparison, EvaluationRequest, Gate, Limit, Quality
from constructs_optim.runtime.store.run_records import (
    COMPLETIONS,
    CURRENT,
    MOST_RUNS,
    REQUESTS,
    RESULT,
    Decision,
    RunRecords,
)

from ..support.run_files import content
from ..support.s3_clients import BUCKET

TTFT = Limit(formula="time_to_first_token_p99", title="Time to first token, p99", unit="ms", at_most=500.0)
THROUGHPUT = Limit(formula="output_tokens_per_second", title="Output tokens/s", at_least=100.0)
QUALITY = Quality(
    prompts="s3://prompts/chat.jsonl", min_identical=1.0, max_difference=0.1, max_tokens=64, most_prompts=10
)


def gate(*limits: Limit, **given: Any) -> Gate:
    return Gate(limits=limits, **given)


def regression(share: float) -> Gate:
    compared = (
        Comparison(metric="client_latency_p90", title="Client latency, p90"),
        Comparison(metric="output_tokens_per_second", title="Output tokens/s", better="higher"),
    )
    return gate(max_regression=share, compared=compared)


def measured(*, latency: float, seed: int, requests: int = 400) -> Measured:
    """A level at 8 users: latencies are lognormal, and throughput follows from them."""
    drawn = random.Random(seed)
    observations: list[Observation] = []
    free = [0.0] * 8
    for _ in range(requests):
        start = min(free)
        took = latency * drawn.lognormvariate(0, 0.2)
        free[free.index(start)] = start + took / 1000
        observations.append(Observation(start, took / 5, took / 50, took, 600, 50))
    sample = Sample(observations, max(free))
    return Measured({**sample.drawn(), "client_invocations": requests, "client_invocation_errors": 0.0}, sample)


def misses(gate: Gate, levels: Any, before: Any, completions: Completions | None) -> list[str]:
    def known(values: Any) -> dict[int, Measured]:
        return {users: Measured(metrics, None) for users, metrics in values.items()}

    return find(gate, known(levels), known(before), completions).misses


def test_metrics_within_the_limits_pass_the_gate() -> None:
    levels = {8: {"time_to_first_token_p99": 500.0, "output_tokens_per_second": 100.0}}
    assert misses(gate(TTFT, THROUGHPUT), levels, {}, None) == []


def test_a_missed_limit_is_reported_with_metric_concurrency_and_margin() -> None:
    levels = {1: {"time_to_first_token_p99": 400.0}, 8: {"time_to_first_token_p99": 800.0}}
    assert misses(gate(TTFT), levels, {}, None) == [
        "Time to first token, p99 at 8 users is 800 ms, 60% above the maximum of 500 ms (95% interval from 713 ms)"
    ]
    low = {1: {"output_tokens_per_second": 75.0}}
    assert misses(gate(THROUGHPUT), low, {}, None) == [
        "Output tokens/s at 1 user is 75, 25% below the minimum of 100 (95% interval to 84.15)"
    ]


def test_a_limited_metric_that_was_not_measured_fails_the_gate() -> None:
    (told,) = misses(gate(TTFT), {1: {}}, {}, None)
    assert "was not measured" in told


def test_limits_can_apply_at_a_single_concurrency() -> None:
    levels = {1: {"time_to_first_token_p99": 400.0}, 64: {"time_to_first_token_p99": 9000.0}}
    assert misses(gate(TTFT, at_concurrency=1), levels, {}, None) == []


def test_a_regression_is_reported_with_both_values_and_its_interval() -> None:
    found = find(regression(0.05), {8: measured(latency=1500, seed=1)}, {8: measured(latency=1000, seed=2)}, None)
    latency, throughput = found.misses
    pattern = (
        r"Client latency, p90 at 8 users rose from [\d,]+ to [\d,]+, (4\d|5\d)\.\d% worse than in the replaced version "
        r"\(95% interval \+\d+\.\d% to \+\d+\.\d%\); 5\.0% is allowed"
    )
    assert re.fullmatch(pattern, latency), latency
    assert re.match(r"Output tokens/s at 8 users fell from .* \(95% interval -\d+\.\d% to -\d+\.\d%\)", throughput)
    assert found.undecided == []
    assert {each.verdict for each in found.differences[8]} == {"worse"}


def test_a_regression_that_chance_may_explain_is_not_decided() -> None:
    few = {8: measured(latency=1400, seed=3, requests=60)}, {8: measured(latency=1000, seed=4, requests=60)}
    found = find(regression(0.02), *few, None)
    assert found.misses == []
    assert found.undecided
    for told in found.undecided:
        assert re.search(r"which may be chance alone: \d+ measurements of each version would decide it$", told), told


def known_runs(between: float, *, runs: int, seed: int, requests: int = 400) -> Measured:
    """A version that was measured several times, the last time with its requests; runs differ by ``between``."""
    drawn = random.Random(f"{seed} {between}")
    measurements = [
        measured(latency=1000 * math.exp(drawn.gauss(0, between)), seed=1000 * seed + run, requests=requests)
        for run in range(runs)
    ]
    return Measured.of_runs([*(Measured(each.metrics, None) for each in measurements[:-1]), measurements[-1]])


@pytest.mark.parametrize("between", [0.08, *(pytest.param(each, marks=pytest.mark.exhaustive) for each in (0.0, 0.03))])
def test_runs_of_equal_versions_that_differ_are_no_regression(between: float) -> None:
    refused = 0
    for seed in range(20):
        slower = math.exp(random.Random(seed).gauss(0, between))
        after = {8: measured(latency=1000 * slower, seed=-1 - seed, requests=100)}
        refused += bool(
            find(regression(0.05), after, {8: known_runs(between, runs=1, seed=seed, requests=100)}, None).misses
        )
    assert refused <= 1


def test_a_regression_beyond_the_spread_of_known_runs_is_found() -> None:
    """One known run leaves the assumed spread of 7%, and eight runs show their own."""
    after = {8: measured(latency=1220, seed=99)}
    alone, known = (find(regression(0.05), after, {8: known_runs(0.01, runs=runs, seed=1)}, None) for runs in (1, 8))
    assert (alone.misses, len(alone.undecided)) == ([], 2)
    assert (len(known.misses), known.undecided) == (2, [])
    wide = find(regression(0.05), after, {8: known_runs(0.1, runs=8, seed=1)}, None)
    assert wide.misses == []


def test_requests_decide_where_runs_do_not_differ() -> None:
    after = {8: measured(latency=1300, seed=99, requests=40)}
    (told, *_) = find(regression(0.05), after, {8: known_runs(0.0, runs=10, seed=1, requests=2000)}, None).undecided
    assert re.search(r"which may be chance alone: [\d,]+ requests on each side would decide it$", told), told


def test_another_measurement_is_made_of_a_regression_that_it_may_decide() -> None:
    before = {8: known_runs(0.0, runs=1, seed=1)}
    slight, large = (
        find(regression(0.05), {8: measured(latency=latency, seed=2)}, before, None) for latency in (1100, 1230)
    )
    assert slight.undecided
    assert not slight.is_worth_repeating
    assert (large.misses, large.is_worth_repeating) == ([], True)
    thrice = Measured.of_runs([measured(latency=1300, seed=seed) for seed in (2, 3, 4)])
    assert find(regression(0.05), {8: thrice}, before, None).misses


@pytest.mark.exhaustive
def test_an_endpoint_is_seldom_refused_for_a_difference_to_itself() -> None:
    refused = sum(
        bool(find(regression(0.05), {8: measured(latency=1000, seed=s)}, {8: measured(latency=1000, seed=-s)}, None)[0])
        for s in range(1, 41)
    )
    assert refused <= 2


def test_failures_are_judged_by_their_share_of_the_requests() -> None:
    compared = (Comparison(metric="client_invocation_errors", title="Errors"),)

    def side(errors: float, sent: float) -> dict[int, Measured]:
        return {8: Measured({"client_invocations": sent, "client_invocation_errors": errors}, None)}

    required = gate(max_regression=0.05, compared=compared)
    [miss] = find(required, side(100, 200), side(0, 200), None).misses
    assert miss.startswith(
        "Errors at 8 users rose from 0 to 100, 50.0% worse than in the replaced version (95% interval +4"
    )
    same_share = find(required, side(10, 1000), side(2, 200), None)
    assert (same_share.misses, same_share.undecided) == ([], [])


def test_a_few_more_failures_than_before_are_told_but_no_measurement_would_decide_them() -> None:
    def side(errors: float) -> dict[int, Measured]:
        return {8: Measured({"client_invocations": 10_000.0, "client_invocation_errors": errors}, None)}

    required = gate(max_regression=0.0, compared=(Comparison(metric="client_invocation_errors", title="Errors"),))
    found = find(required, side(5), side(0), None)
    (told,) = found.undecided
    assert told.startswith("Errors at 8 users rose from 0 to 5, 0.1% worse")
    assert told.endswith("which is within 1%, the smallest difference that a gate judges")
    assert (found.misses, found.is_worth_repeating) == ([], False)


@pytest.mark.parametrize(("earlier", "misses"), [({}, 0), ({"goodput": 0.0}, 0), ({"goodput": 2.0}, 1)])
def test_a_metric_that_the_replaced_version_did_not_have_is_not_compared(
    earlier: dict[str, float], misses: int
) -> None:
    required = gate(max_regression=0.0, compared=(Comparison(metric="goodput", better="higher"),))
    assert len(find(required, {8: Measured({}, None)}, {8: Measured(earlier, None)}, None).misses) == misses


def test_what_has_no_requests_to_show_is_not_decided_and_other_metrics_are_judged_by_their_values() -> None:
    values = {"client_latency_p90": 1000.0, "acceptance_length": 3.0}
    compared = (Comparison(metric="client_latency_p90"), Comparison(metric="acceptance_length", better="higher"))
    before, after = Measured(values, None), Measured({"client_latency_p90": 1200.0, "acceptance_length": 2.0}, None)
    found = find(gate(max_regression=0.05, compared=compared), {8: after}, {8: before}, None)
    assert found.misses == [
        "acceptance_length at 8 users fell from 3 to 2, 33.3% worse than in the replaced version; 5.0% is allowed"
    ]
    (told,) = found.undecided
    assert told.startswith("client_latency_p90 at 8 users rose from 1,000 to 1,200, 20.0% worse")


def test_a_better_equal_or_first_evaluation_passes_the_regression_check() -> None:
    before, better = {8: measured(latency=1000, seed=5)}, {8: measured(latency=500, seed=6)}
    for allowed, levels, earlier in ((0.05, better, before), (0.0, before, before), (0.0, before, {})):
        found = find(regression(allowed), levels, earlier, None)
        assert (found.misses, found.undecided) == ([], [])


def test_a_compared_metric_that_was_not_measured_fails_the_gate() -> None:
    (latency, _) = find(regression(0.05), {8: Measured({}, None)}, {8: measured(latency=1000, seed=7)}, None).misses
    assert "Client latency, p90 at 8 users was not measured, but was" in latency


def test_a_lossless_technique_must_give_identical_completions() -> None:
    answers = Completions(["yes", "no", "a"], ["yes", "nope", "a"], same_weights=True, reference_name="those before")
    (told,) = misses(gate(quality=QUALITY), {}, {}, answers)
    assert "66.7% of 3 completions are identical to those before" in told
    assert "prompt 2 is the first" in told


def test_a_technique_that_changes_the_weights_may_change_completions_slightly() -> None:
    words = " ".join(f"word{number}" for number in range(20))
    close = Completions([words], [f"{words} more"], same_weights=False, reference_name="those before")
    assert misses(gate(quality=QUALITY), {}, {}, close) == []
    far = Completions(["one two"], ["three four"], same_weights=False, reference_name="those before")
    (told,) = misses(gate(quality=QUALITY), {}, {}, far)
    assert "differ from those before by 100.0% of their words" in told


def test_a_word_that_is_repeated_often_is_compared_as_any_other() -> None:
    old = " ".join([f"word{number}" for number in range(100)] + ["the"] * 150)
    new = " ".join([f"other{number}" for number in range(100)] + ["the"] * 150)
    compared = Completions([new], [old], same_weights=False, reference_name="those before")
    (told,) = misses(gate(quality=QUALITY.model_copy(update={"max_difference": 0.2})), {}, {}, compared)
    assert "differ from those before by 40.0% of their words" in told


def test_prompts_without_a_completion_are_reported() -> None:
    answers = Completions([None, "yes"], ["no", "yes"], same_weights=True, reference_name="those before")
    assert misses(gate(quality=QUALITY), {}, {}, answers) == ["1 of 2 prompts got no completion"]


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({"generated_text": "hi"}, "hi"),
        ([{"generated_text": "hi"}], "hi"),
        ({"choices": [{"message": {"role": "assistant", "content": "hi"}}]}, "hi"),
        ({"choices": [{"text": "hi"}]}, "hi"),
        ({"choices": []}, None),
        ({"error": "no"}, None),
        ([], None),
        ("hi", None),
    ],
)
def test_completions_are_read_in_every_container_response_format(body: Any, text: str | None) -> None:
    assert completion_text(body) == text


def test_prompts_are_read_in_every_format_and_sent_with_greedy_decoding() -> None:
    lines = b'{"text": "a"}\n\n{"messages": [{"role": "user", "content": "b"}], "reference": "B"}\n{"prompt": "c"}\n'
    first, second, third = read_prompts(lines, "s3://b/p.jsonl", most=10, max_tokens=7, form="inputs")
    assert first.body == {"inputs": "a", "parameters": {"do_sample": False, "max_new_tokens": 7}}
    assert second.body["temperature"] == 0
    assert second.reference == "B"
    assert third.body["inputs"] == "c"
    assert len(read_prompts(lines, "s3://b/p.jsonl", most=2, max_tokens=7, form="inputs")) == 2


@pytest.mark.parametrize("name", ["text", "prompt", "inputs"])
@pytest.mark.parametrize(
    ("servers", "sent"),
    [
        (["vllm"], {"prompt": "a", "max_tokens": 7, "temperature": 0}),
        (["sglang"], {"messages": [{"role": "user", "content": "a"}], "max_tokens": 7, "temperature": 0}),
        (["vllm", "lmi"], {"messages": [{"role": "user", "content": "a"}], "max_tokens": 7, "temperature": 0}),
        (["lmi"], {"inputs": "a", "parameters": {"do_sample": False, "max_new_tokens": 7}}),
        (["text_generation_inference", None], {"inputs": "a", "parameters": {"do_sample": False, "max_new_tokens": 7}}),
    ],
)
def test_a_text_is_sent_in_the_form_that_all_its_servers_take(
    servers: list[str | None], sent: dict[str, Any], name: str
) -> None:
    line = json.dumps({name: "a"}).encode()
    (prompt,) = read_prompts(line, "s3://b/p.jsonl", most=10, max_tokens=7, form=form_of_texts(servers))
    assert prompt.body == sent


@pytest.mark.parametrize("servers", [["vllm"], ["sglang"], ["lmi"], [None]])
def test_a_chat_is_sent_to_every_server_alike(servers: list[str | None]) -> None:
    chat = [{"role": "user", "content": "a"}]
    line = json.dumps({"messages": chat}).encode()
    (prompt,) = read_prompts(line, "s3://b/p.jsonl", most=10, max_tokens=7, form=form_of_texts(servers))
    assert prompt.body == {"messages": chat, "max_tokens": 7, "temperature": 0}


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "it is empty"),
        (b'{"text": "a"}\n{\n[1]\n{"other": 1}\n', "line 2, line 3, line 4 cannot be used"),
    ],
)
def test_all_invalid_prompts_are_reported_together(content: bytes, told: str) -> None:
    with pytest.raises(DeploymentError, match=told):
        read_prompts(content, "s3://b/p.jsonl", most=10, max_tokens=7, form="prompt")


@pytest.mark.parametrize(("changed", "passes"), [(0, True), (2, True), (5, True), (6, False), (50, False)])
def test_a_lossless_technique_passes_by_default_and_a_broken_draft_does_not(changed: int, passes: bool) -> None:
    """In bfloat16, Medusa heads changed 2 of 450 answers at most (docs/medusa.md); 2 of 50 are ten times that."""
    default = QualityRequirement(prompts="s3://prompts/chat.jsonl")
    quality = QUALITY.model_copy(
        update={"min_identical": default.min_identical, "max_difference": default.max_difference}
    )
    others = ["another"] * changed + ["the same"] * (50 - changed)
    answers = Completions(["the same"] * 50, others, same_weights=True, reference_name="the baseline")
    assert (misses(gate(quality=quality), {}, {}, answers) == []) is passes


def test_the_default_threshold_fails_under_one_in_a_million_lossless_evaluations() -> None:
    least, share = QualityRequirement(prompts="s3://prompts/chat.jsonl").min_identical, 2 / 450

    def refused(required: float) -> float:
        most = 50 - math.ceil(50 * required)
        return 1 - sum(math.comb(50, n) * share**n * (1 - share) ** (50 - n) for n in range(most + 1))

    assert refused(1.0) == pytest.approx(0.2, abs=0.01), "what it was"
    assert refused(least) < 1e-6


def add_run(stored: RunRecords, run: str, level: Measured) -> None:
    assert level.sample is not None
    stored.write(REQUESTS, samples.stored({8: (level.sample.observations, level.sample.seconds)}), run)
    stored.write(RESULT, {"levels": [{"concurrency": 8, "metrics": dict(level.metrics)}]}, run)


def records(
    s3: Any, key: str, *, accepted: bool, latency: float, texts: Sequence[str | None], digest: str
) -> RunRecords:
    """The records of an evaluation whose run is ``run``."""
    stored = RunRecords(s3, "evaluations", BUCKET, None, key * 64)
    add_run(stored, "run", measured(latency=latency, seed=int(key, 16)))
    stored.write(COMPLETIONS, {"answers": texts, "references": [None] * len(texts), "prompts_digest": digest}, "run")
    stored.write(CURRENT, {"accepted": accepted, "run": "run", "lossless": True})
    return stored


def request(required: Gate) -> EvaluationRequest:
    return EvaluationRequest(
        label="chat",
        endpoint_name="chat",
        endpoint_config_name="chat",
        subjects=({"instance_type": "ml.g5.12xlarge", "artifact_key": "a" * 64},),  # type: ignore[arg-type]
        workload_config_name="chat",
        concurrencies=(1,),
        role_arn="arn:aws:iam::111122223333:role/Evaluation",
        bucket=BUCKET,
        lossless=True,
        gate=required,
    )


@pytest.mark.parametrize("accepted", [True, False])
def test_an_evaluation_is_compared_only_with_an_accepted_one(s3: Any, accepted: bool) -> None:
    before = records(s3, "a", accepted=accepted, latency=100.0, texts=["yes"], digest="p")
    after = records(s3, "b", accepted=False, latency=200.0, texts=["yes"], digest="p")
    verdict = judge(request(regression(0.1)), after, before, "run")
    assert (len(verdict.misses), verdict.before) == ((2, before.key) if accepted else (0, None))


def test_a_version_is_compared_with_all_accepted_runs_of_the_replaced_one(s3: Any) -> None:
    before = records(s3, "a", accepted=True, latency=1000.0, texts=[], digest="p")
    after = records(s3, "b", accepted=False, latency=1220.0, texts=[], digest="p")
    assert judge(request(regression(0.05)), after, before, "run").misses == []
    decision = before.get(CURRENT, Decision)
    assert decision is not None
    for number in range(7):
        add_run(before, f"night{number}", measured(latency=1000.0, seed=100 + number))
        decision = decision.with_run(f"night{number}")
    before.write(CURRENT, decision.to_record())
    verdict = judge(request(regression(0.05)), after, before, "run")
    assert len(verdict.misses) == 2
    # Newer runs take the place of older ones.
    for number in range(20):
        decision = decision.with_run(f"gone{number}")
    assert decision.run == decision.measurements[-1] == "gone19"
    assert len(decision.measurements) == MOST_RUNS


def test_no_number_of_runs_explains_away_that_deployments_differ(s3: Any) -> None:
    before = records(s3, "a", accepted=True, latency=1000.0, texts=[], digest="p")
    after = records(s3, "b", accepted=False, latency=1110.0, texts=[], digest="p")
    decision = before.get(CURRENT, Decision)
    assert decision is not None
    for number in range(11):
        add_run(before, f"night{number}", measured(latency=1000.0, seed=100 + number))
        decision = decision.with_run(f"night{number}")
    before.write(CURRENT, decision.to_record())
    for number, run in enumerate(repetitions_of("run")):
        add_run(after, run, measured(latency=1110.0, seed=200 + number))
    verdict = judge(request(regression(0.05)), after, before, "run")
    assert verdict.misses == []
    assert verdict.found.undecided
    for told in verdict.found.undecided:
        assert told.endswith("differ by about 4%, so no number of measurements shows a difference of this size")


def test_repetitions_of_a_run_count_with_it(s3: Any) -> None:
    before = records(s3, "a", accepted=True, latency=1000.0, texts=[], digest="p")
    after = records(s3, "b", accepted=False, latency=1220.0, texts=[], digest="p")
    first = judge(request(regression(0.05)), after, before, "run")
    assert (first.misses, first.is_worth_repeating) == ([], True)
    assert measurements_of(after, "run") == ["run"]
    repetitions = repetitions_of("run")
    for number, run in enumerate(repetitions):
        add_run(after, run, measured(latency=1400.0, seed=200 + number))
    assert measurements_of(after, "run") == ["run", *repetitions]
    repeated = judge(request(regression(0.05)), after, before, "run")
    assert repeated.misses
    assert not repeated.is_worth_repeating
    assert "rose from" in repeated.misses[0]


def test_a_run_that_is_refused_for_its_completions_is_not_repeated(s3: Any) -> None:
    before = records(s3, "a", accepted=True, latency=1000.0, texts=["yes"], digest="p")
    after = records(s3, "b", accepted=False, latency=1220.0, texts=["no"], digest="p")
    required = regression(0.05).model_copy(update={"quality": QUALITY})
    assert not judge(request(required), after, before, "run").is_worth_repeating


@pytest.mark.parametrize(("digest", "missed"), [("same", 1), ("other", 0)])
def test_completions_are_compared_only_for_the_same_prompts(s3: Any, digest: str, missed: int) -> None:
    before = records(s3, "a", accepted=True, latency=100.0, texts=["yes"], digest="same")
    after = records(s3, "b", accepted=False, latency=100.0, texts=["no"], digest=digest)
    assert len(judge(request(gate(quality=QUALITY)), after, before, "run").misses) == missed


@pytest.mark.parametrize("references", [["yes", "yes"], [None, "yes"], [None, None]])
def test_completions_are_compared_with_the_references_of_the_prompts_if_any_has_one(
    s3: Any, references: list[str | None]
) -> None:
    before = records(s3, "a", accepted=True, latency=100.0, texts=["no", "no"], digest="p")
    after = records(s3, "b", accepted=False, latency=100.0, texts=["no", "no"], digest="p")
    written = {"answers": ["no", "no"], "references": references, "prompts_digest": "p"}
    after.write(COMPLETIONS, written, "run")
    misses = judge(request(gate(quality=QUALITY)), after, before, "run").misses
    assert len(misses) == (1 if any(references) else 0)
    # Whatever weights they came from.
    assert all("completions differ from the references in the file" in miss for miss in misses)


@pytest.mark.parametrize(("is_now", "was_before"), [(True, True), (True, False), (False, True), (False, False)])
def test_completions_must_be_identical_only_where_neither_version_changes_the_weights(
    s3: Any, *, is_now: bool, was_before: bool
) -> None:
    before = records(s3, "a", accepted=True, latency=100.0, texts=["yes"], digest="p")
    before.write(CURRENT, {"accepted": True, "run": "run", "lossless": was_before})
    after = records(s3, "b", accepted=False, latency=100.0, texts=["no"], digest="p")
    wanted = request(gate(quality=QUALITY)).model_copy(update={"lossless": is_now})
    (miss,) = judge(wanted, after, before, "run").misses
    assert ("are identical to" in miss) is (is_now and was_before)


def test_a_forecast_of_the_same_fleet_leaves_nothing_undecided(s3: Any) -> None:
    after = records(s3, "b", accepted=False, latency=100.0, texts=["yes"], digest="p")
    verdict = judge(request(gate(forecast=True)), after, None, "run")
    assert (verdict.misses, verdict.found.undecided) == ([], [])


def test_a_missing_completion_fails_the_first_evaluation_too(s3: Any) -> None:
    first = records(s3, "b", accepted=False, latency=100.0, texts=["yes", None], digest="p")
    (miss,) = judge(request(gate(quality=QUALITY)), first, None, "run").misses
    assert "1 of 2" in miss


def test_prompts_that_do_not_fit_one_poll_are_continued_in_the_next(s3: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    prompts = QUALITY.model_copy(update={"prompts": f"s3://{BUCKET}/chat.jsonl"})
    lines = [json.dumps({"prompt": name}) for name in ("first", "second", "third")]
    s3.put_object(Bucket=BUCKET, Key="chat.jsonl", Body="\n".join(lines).encode())
    stored, sent = RunRecords(s3, "evaluations", BUCKET, None, "a" * 64), list[str]()

    def complete(request: EvaluationRequest, prompt: completions.Prompt) -> str:
        sent.append(str(prompt.body["inputs"]))
        return sent[-1].upper()

    monkeypatch.setattr(completions, "client", lambda service: s3)
    monkeypatch.setattr(completions, "complete", complete)
    polls = list[bool]()
    # Milliseconds left: a completion needs 90,000.
    for left in ([100_000, 0], [0], [100_000, 0], [100_000]):
        context: Any = SimpleNamespace(get_remaining_time_in_millis=iter(left).__next__)
        polls.append(complete_prompts(request(gate(quality=prompts)), stored, "run", context))
    assert sent == ["first", "second", "third"]
    assert polls == [False, False, False, True]
    written = content(stored, COMPLETIONS, "run")
    assert written is not None
    assert written["answers"] == ["FIRST", "SECOND", "THIRD"]


def test_completions_of_texts_in_a_chat_are_of_other_prompts(s3: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """SGLang puts a text into the chat template: the others' completions are no baseline for its own."""
    prompts = QUALITY.model_copy(update={"prompts": f"s3://{BUCKET}/texts.jsonl"})
    s3.put_object(Bucket=BUCKET, Key="texts.jsonl", Body=b'{"text": "a"}')
    monkeypatch.setattr(completions, "client", lambda service: s3)
    monkeypatch.setattr(completions, "complete", lambda request, prompt: "yes")
    context: Any = SimpleNamespace(get_remaining_time_in_millis=lambda: 100_000)

    def digest(server: str) -> str:
        stored, asked = RunRecords(s3, "evaluations", BUCKET, None, server[0] * 64), request(gate(quality=prompts))
        subject = asked.subjects[0].model_copy(update={"server": server})
        assert complete_prompts(asked.model_copy(update={"subjects": (subject,)}), stored, "run", context)
        written = content(stored, COMPLETIONS, "run")
        assert written is not None
        return written["prompts_digest"]

    assert digest("lmi") == digest("vllm") != digest("sglang")
