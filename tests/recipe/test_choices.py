"""Choices for objectives: what is recorded of them, how they are found again, and told apart."""

from __future__ import annotations

import datetime as dt
import json
import math
import shlex
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer.main
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from typer.testing import CliRunner

from constructs_optim.cli.main import app
from constructs_optim.recipe import Model, Recipe, RecipeError, plan
from constructs_optim.recipe.catalog.lock import LOCK_FILE, Lock, RecordedChoice, RecordedLatencies, RecordedModel
from constructs_optim.recipe.choices import chosen, command_of, described, differences, expected, recorded
from constructs_optim.recipe.objectives import Objectives, choice_name
from constructs_optim.recipe.recommendation import Candidate, Evidence, Recommendation, recommend
from constructs_optim.recipe.techniques.parsing import parse
from tests.support.calibration import CALIBRATION
from tests.support.choices import SETTINGS

QWEN = Model.huggingface("Qwen/Qwen3-32B", revision="a" * 40)
OTHER = Model.huggingface("Qwen/Qwen3-8B", revision="a" * 40)
REGION, TODAY = "us-west-2", dt.date(2026, 11, 26)
P5, G6E = "ml.p5.48xlarge", "ml.g6e.12xlarge"
CHAT = Objectives(
    input_tokens=1000,
    output_tokens=300,
    requests_per_second=12,
    time_to_first_token=2000,
    inter_token_latency=60,
)
COMMITS = Lock(
    models={
        name: RecordedModel(revision="b" * 40)
        for name in ("Qwen/Qwen3-32B-AWQ", "Qwen/Qwen3-32B-FP8", "RedHatAI/Qwen3-32B-speculator.eagle3")
    }
)


@cache
def recommendation(objectives: str) -> Recommendation:
    evidence = Evidence(prices={P5: 60.0, G6E: 13.0}, calibration=CALIBRATION)
    asked = Objectives.model_validate_json(objectives)
    return recommend(QWEN, asked, region=REGION, instance_types=(P5, G6E), evidence=evidence, known=COMMITS)


def candidates(objectives: Objectives = CHAT) -> list[Candidate]:
    """The preferred candidate of each instance type."""
    found: dict[str, Candidate] = {}
    for each in recommendation(objectives.model_dump_json()).candidates:
        if each.meets:
            found.setdefault(each.plan.instance_type, each)
    return [*found.values()]


def choice(objectives: Objectives = CHAT, pools: int = 1) -> RecordedChoice:
    return recorded(QWEN, objectives, candidates(objectives)[:pools], TODAY)


def lock_with(*objectives: Objectives) -> Lock:
    return Lock(choices={choice_name(QWEN.name, each): choice(each) for each in objectives})


def changed(objectives: Objectives = CHAT, **settings: Any) -> Objectives:
    return Objectives(**{**objectives.model_dump(), **settings})


def test_a_choice_has_the_figures_of_the_first_recommended_candidate() -> None:
    first, of_first = candidates()[0], choice()
    assert first.forecast is not None
    (pool,) = of_first.pools
    assert (pool.instance_type, pool.techniques) == (first.plan.instance_type, first.techniques)
    assert pool.copies_per_instance == first.copies_per_instance
    assert (of_first.copies, of_first.instances, of_first.concurrency) == (first.copies, first.instances, first.target)
    assert pool.price_per_hour == pytest.approx(first.price_per_hour, abs=0.005)
    assert of_first.forecast.rate == pytest.approx(12)
    assert of_first.forecast.probability == pytest.approx(first.probability, abs=0.001)
    assert of_first.date == TODAY
    for interval, estimate, unit in (
        (of_first.forecast.time_to_first_token_ms, first.forecast.time_to_first_token, 1000),
        (of_first.forecast.inter_token_latency_ms, first.forecast.inter_token_latency, 1000),
        (of_first.forecast.requests_per_second, first.forecast.requests_per_second, 1),
    ):
        exact = [estimate.value * unit, estimate.low * unit, estimate.high * unit]
        assert [*interval] == [pytest.approx(each, rel=0.01) for each in exact]
    assert of_first.forecast.with_users.keys() == first.with_users.keys() != set()
    for users, latencies in of_first.forecast.with_users.items():
        exact_ms = first.with_users[users].time_to_first_token.value * 1000
        assert latencies.time_to_first_token_ms[0] == pytest.approx(exact_ms, rel=0.01)
        exact_ms = first.with_users[users].inter_token_latency.value * 1000
        assert latencies.inter_token_latency_ms[0] == pytest.approx(exact_ms, rel=0.01)


def test_a_choice_keeps_the_version_of_the_model_and_the_batch_limit_of_a_pool() -> None:
    versioned = QWEN.model_copy(update={"version": "2.1.0"})
    limited = replace(candidates()[0], batch_limit=24)
    recorded_choice = recorded(versioned, CHAT, [limited], TODAY)
    assert (recorded_choice.version, recorded_choice.pools[0].max_concurrent_requests) == ("2.1.0", 24)


def test_pools_that_scale_together_have_the_smallest_target() -> None:
    first = candidates()[0]
    assert first.target is not None
    of_all = [first, replace(first, target=first.target / 2), replace(first, target=None)]
    assert recorded(QWEN, CHAT, of_all, TODAY).concurrency == first.target / 2


def test_a_choice_keeps_the_objectives_that_differ_from_the_default() -> None:
    assert dict(choice().objectives) == {
        "input_tokens": 1000,
        "output_tokens": 300,
        "requests_per_second": 12,
        "time_to_first_token": 2000,
        "inter_token_latency": 60,
    }
    assert Objectives.model_validate(choice().objectives) == CHAT


def test_the_pools_of_a_choice_are_the_recipes_by_which_it_is_deployed() -> None:
    several = choice(pools=2)
    assert {pool.instance_type for pool in several.pools} == {P5, G6E}
    for pool, candidate in zip(several.pools, candidates(), strict=True):
        techniques = [parse(technique) for technique in pool.techniques]
        again = plan(Recipe(QWEN, techniques, pool.instance_type, REGION, containers=COMMITS))
        assert again.tensor_parallel_degree == candidate.plan.tensor_parallel_degree
        assert again.artifact_key == candidate.plan.artifact_key
        assert pool.server == "vllm"
        assert pool.price_per_hour == pytest.approx({P5: 60.0, G6E: 13.0}[pool.instance_type] * several.instances)


def test_a_candidate_without_a_forecast_cannot_be_chosen() -> None:
    unknown = Model.huggingface("acme/mine", revision="a" * 40)
    found = recommend(unknown, CHAT, region=REGION, instance_types=(P5,))
    with pytest.raises(ValueError, match="has no forecast"):
        recorded(unknown, CHAT, found.candidates, TODAY)


@pytest.mark.parametrize(
    ("edited", "said"),
    [
        ({"objectives": {}}, "its objectives differ from those in its name"),
        ({"techniques": ("quantization=of_the_next_release",)}, "'quantization=of_the_next_release'"),
        (
            {"server": "of-the-next-release", "max_concurrent_requests": 8},
            "the library has no server 'of-the-next-release'",
        ),
        (
            {"server": "text_generation_inference", "max_concurrent_requests": 8},
            "text_generation_inference does not support max_concurrent_requests",
        ),
        ({"version": "2.0.0"}, "it is for version 2.0.0 of the model"),
    ],
)
def test_an_edited_choice_that_cannot_be_deployed_is_refused_with_what_is_wrong(
    edited: dict[str, Any], said: str
) -> None:
    before = choice()
    pool = before.pools[0].model_copy(update=edited)
    after = before.model_copy(update=edited if edited.keys() <= {"objectives", "version"} else {"pools": (pool,)})
    lock = Lock(choices={choice_name(QWEN.name, CHAT): after})
    model = QWEN.model_copy(update={"version": "2.1.0"}) if "version" in edited else QWEN
    with pytest.raises(RecipeError) as refused:
        chosen(lock, model, CHAT)
    (violation,) = refused.value.violations
    assert violation.rule == "OPT235"
    assert said in violation.reason
    assert "recommend" in str(violation.suggestion)


@pytest.mark.parametrize(
    "interval", [(100, 120, 200), (100, 50, 90), (-1, -5, 2), (1, 0.5, math.inf), (math.nan, 1, 2)]
)
def test_a_figure_outside_of_its_interval_is_no_forecast(interval: tuple[float, float, float]) -> None:
    figures = {"time_to_first_token_ms": interval, "inter_token_latency_ms": (2, 1, 3)}
    with pytest.raises(ValidationError, match="time_to_first_token_ms"):
        RecordedLatencies.model_validate(figures)


def test_a_recorded_choice_is_found_by_model_and_objectives() -> None:
    faster = changed(inter_token_latency=40)
    lock = lock_with(CHAT, faster)
    assert chosen(lock, QWEN, CHAT) == choice()
    assert chosen(lock, QWEN, faster) == choice(faster)
    assert chosen(lock, QWEN, changed(CHAT)) == choice(), "equal objectives are the same"
    assert chosen(lock, QWEN.model_copy(update={"revision": "b" * 40}), CHAT) == choice(), "whatever its commit"


@pytest.mark.parametrize(
    ("lock", "model", "said"),
    [
        (lock_with(CHAT), QWEN, f"it records {choice_name(QWEN.name, CHAT)}"),
        (lock_with(CHAT), OTHER, "it records Qwen/Qwen3-32B"),
        (Lock(), QWEN, "it records no choices"),
    ],
    ids=["other objectives", "another model", "nothing"],
)
def test_a_missing_choice_error_lists_recorded_choices_and_the_command_to_record_one(
    lock: Lock, model: Model, said: str
) -> None:
    asked = changed(requests_per_second=24)
    with pytest.raises(RecipeError) as refused:
        chosen(lock, model, asked)
    (violation,) = refused.value.violations
    assert (violation.rule, violation.value) == ("OPT235", str(asked))
    assert said in violation.reason
    assert violation.suggestion == command_of(model, asked)


def test_choices_of_the_model_itself_are_named_where_there_are_some() -> None:
    lock = lock_with(CHAT)
    of_other = choice().model_copy(update={"model": OTHER.name})
    lock = lock.model_copy(update={"choices": {**lock.choices, choice_name(OTHER.name, CHAT): of_other}})
    with pytest.raises(RecipeError) as refused:
        chosen(lock, QWEN, changed(requests_per_second=24))
    (violation,) = refused.value.violations
    assert QWEN.name in violation.reason
    assert OTHER.name not in violation.reason


def arguments(model: Model, objectives: Objectives) -> list[str]:
    program, command, *given = shlex.split(command_of(model, objectives))
    assert (program, command) == ("constructs-optim", "recommend")
    return given


RECOMMEND: Any = typer.main.get_command(app).commands["recommend"]  # type: ignore[attr-defined]


@given(
    SETTINGS,
    st.sampled_from([QWEN, Model.s3("s3://models/mine/"), Model.jumpstart("meta-textgeneration-llama-3-8b")]),
)
def test_the_command_that_records_a_choice_is_for_these_objectives(settings: dict[str, Any], model: Model) -> None:
    asked = Objectives(**settings)
    parsed = RECOMMEND.make_context("recommend", arguments(model, asked)).params
    assert parsed["model"] == model.name
    assert parsed["update"]
    understood = Objectives(
        input_tokens=parsed["input_tokens"],
        output_tokens=parsed["output_tokens"],
        requests_per_second=parsed["rate"],
        time_to_first_token=parsed["ttft"],
        inter_token_latency=parsed["itl"],
        max_price_per_hour=parsed["max_price"],
        **{name: parsed[name] for name in ("quality", "confidence") if parsed[name] is not None},
    )
    assert understood == asked


def test_the_command_has_only_what_differs_from_the_defaults() -> None:
    begin = "constructs-optim recommend Qwen/Qwen3-32B --input-tokens 1000 --output-tokens 300"
    latencies = "--rate 12 --ttft 2000ms --itl 60ms"
    assert command_of(QWEN, CHAT) == f"{begin} {latencies} --update"
    strict = changed(quality="lossless", confidence=0.9)
    assert command_of(QWEN, strict) == f"{begin} {latencies} --quality lossless --confidence 0.9 --update"


def test_the_command_records_what_synthesis_finds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    asked = changed(requests_per_second=2, confidence=0.7)
    Lock(models={}).write(tmp_path / LOCK_FILE)
    result = CliRunner().invoke(
        app, ["recommend", *arguments(QWEN, asked), "--offline", "--instance-type", P5], env={"COLUMNS": "200"}
    )
    assert result.exit_code == 0, result.output
    found = chosen(Lock.read(tmp_path / LOCK_FILE), QWEN, asked)
    assert found.pools[0].instance_type == P5
    assert found.forecast.probability >= 0.7


def test_a_choice_is_described_by_its_instances_and_its_recipe() -> None:
    one = choice()
    pool = one.pools[0].model_copy(update={"instance_type": P5, "techniques": ("quantization=fp8",)})
    whole = one.model_copy(update={"pools": (pool.model_copy(update={"copies_per_instance": 1}),), "instances": 2})
    assert described(whole).startswith("2 x ml.p5.48xlarge, FP8")
    assert "copies" not in described(whole)
    parted = whole.model_copy(update={"pools": (pool.model_copy(update={"copies_per_instance": 4}),), "copies": 7})
    assert "2 x ml.p5.48xlarge, 7 copies" in described(parted)
    other = pool.model_copy(update={"instance_type": G6E})
    assert "or ml.g6e.12xlarge" in described(one.model_copy(update={"pools": (pool, other)}))
    other = other.model_copy(update={"price_per_hour": 1234.5, "max_concurrent_requests": 16})
    pools = (pool.model_copy(update={"max_concurrent_requests": None}), other)
    assert described(one.model_copy(update={"pools": pools})).endswith(
        ", FP8, or ml.g6e.12xlarge at $1,234.50 an hour, FP8 in batches of up to 16"
    )
    later = pool.model_copy(update={"techniques": ("quantization=of_the_next_release",)})
    assert "quantization=of_the_next_release" in described(one.model_copy(update={"pools": (later,)}))
    as_it_is = pool.model_copy(update={"techniques": ()})
    assert "the unmodified model" in described(one.model_copy(update={"pools": (as_it_is,)}))


def test_what_is_expected_of_a_choice_has_its_price_latencies_and_probability() -> None:
    said = expected(choice())
    assert f"${choice().pools[0].price_per_hour:,.2f} an hour" in said
    for part in ("first token after", "then a token every", "requests/s", "meets the objectives with"):
        assert part in said


def test_a_choice_without_a_rate_or_latency_meets_nothing_with_a_probability() -> None:
    without = Objectives(input_tokens=1000, output_tokens=300)
    assert "probability" not in expected(choice(without))


def test_equal_choices_have_no_differences() -> None:
    assert differences(choice(), choice()) == ""
    later = choice().model_copy(update={"date": dt.date(2027, 1, 1)})
    assert differences(choice(), later) == ""


def test_differences_say_what_a_change_of_objectives_costs() -> None:
    before, after = choice(), choice(changed(requests_per_second=48))
    said = differences(before, after)
    assert f"{described(after)} instead of {described(before)}" in said
    new, old = after.pools[0].price_per_hour, before.pools[0].price_per_hour
    assert f"${new:,.2f} an hour instead of ${old:,.2f} an hour" in said
    assert "requests/s instead of" in said


@pytest.mark.parametrize(
    ("update", "said"),
    [
        ({"instance_type": "ml.p6.48xlarge"}, "x ml.p6.48xlarge"),
        ({"price_per_hour": 1234.5}, "$1,234.50 an hour instead of"),
        ({"price_per_hour": None}, "an unknown price instead of"),
    ],
    ids=str,
)
def test_each_change_of_the_instances_is_named(update: dict[str, Any], said: str) -> None:
    pool = choice().pools[0].model_copy(update=update)
    assert said in differences(choice(), choice().model_copy(update={"pools": (pool,)}))


@pytest.mark.parametrize(
    "edited",
    [
        {"copies": 9},
        {"instances": 10**9},
        {"concurrency": math.inf},
        {"date": "not a date"},
        {"pools": [{"instance_type": P5, "price_per_hour": -5}]},
    ],
    ids=str,
)
def test_an_impossible_choice_is_refused_with_how_to_record_it_anew(tmp_path: Path, edited: dict[str, Any]) -> None:
    name = choice_name(QWEN.name, CHAT)
    document = {"version": 1, "choices": {name: {**choice().model_dump(mode="json"), **edited}}}
    (tmp_path / LOCK_FILE).write_text(json.dumps(document))
    with pytest.raises(ValueError, match="or delete the choices, and record them anew with"):
        Lock.read(tmp_path / LOCK_FILE)


@pytest.mark.parametrize(
    ("update", "said"),
    [
        ({"time_to_first_token_ms": (1, 0.5, 2)}, "first token after 1 (0.5 to 2) ms instead of"),
        ({"inter_token_latency_ms": (1, 0.5, 2)}, "then a token every 1 (0.5 to 2) ms instead of"),
        ({"requests_per_second": (1, 0.5, 2)}, "at most 1 (0.5 to 2) requests/s instead of"),
        ({"probability": 0.5}, "meets the objectives with a probability of 50% instead of"),
        ({"measurements": 41}, "forecast from 41 measurements instead of"),
    ],
    ids=str,
)
def test_each_change_of_the_forecast_is_named(update: dict[str, Any], said: str) -> None:
    forecast = choice().forecast.model_copy(update=update)
    assert differences(choice(), choice().model_copy(update={"forecast": forecast})).startswith(said)


def test_choices_survive_the_lock_file(tmp_path: Path) -> None:
    path = tmp_path / LOCK_FILE
    lock = lock_with(CHAT, changed(quality="lossless"), changed(confidence=0.9))
    lock = lock.model_copy(update={"choices": {**lock.choices, "several": choice(pools=2)}})
    lock.write(path)
    assert Lock.read(path) == lock
    before = path.read_bytes()
    Lock.read(path).write(path)
    assert path.read_bytes() == before
    assert list(json.loads(before)) == ["version", "choices"]


def test_a_choice_without_a_price_or_measurements_survives_the_lock_file(tmp_path: Path) -> None:
    forecast = choice().forecast.model_copy(update={"error": None, "measurements": 0})
    bare = choice().model_copy(update={"price_per_hour": None, "forecast": forecast})
    Lock(choices={"bare": bare}).write(tmp_path / LOCK_FILE)
    assert Lock.read(tmp_path / LOCK_FILE).choices == {"bare": bare}


def written(tmp_path: Path) -> tuple[Path, dict[str, Any]]:
    path = tmp_path / LOCK_FILE
    lock_with(CHAT).write(path)
    return path, json.loads(path.read_text())


@pytest.mark.parametrize(
    ("version", "said"),
    [
        (0, r"of an older release \(version 0, and this release reads 1\): restore"),
        (2, r"of a newer release \(version 2, and this release reads 1\): upgrade constructs-optim"),
        ("1", r"is not a lock file of this release \(version: .*version control"),
    ],
)
def test_a_lock_file_of_another_schema_version_is_refused(tmp_path: Path, version: object, said: str) -> None:
    path, document = written(tmp_path)
    # A newer form may have members that this one does not have.
    path.write_text(json.dumps({**document, "version": version, **({"later": {}} if version == 2 else {})}))
    with pytest.raises(ValueError, match=said):
        Lock.read(path)


@pytest.mark.parametrize(
    ("members", "value", "said"),
    [
        (("reviewed_by",), "me", "reviewed_by: Extra inputs are not permitted"),
        (("forecast", "p99_ms"), 80, "forecast.p99_ms: Extra inputs are not permitted"),
        (("pools", 0, "region"), REGION, "pools.0.region: Extra inputs are not permitted"),
        (("pools",), [], "pools: Tuple should have at least 1 item"),
        (("copies",), None, "copies: Field required"),
        (("copies",), 0, "copies: Input should be greater than or equal to 1"),
        (("concurrency",), 0, "concurrency: Input should be greater than 0"),
        (("forecast", "probability"), 80, "forecast.probability: Input should be less than or equal to 1"),
        (("forecast", "requests_per_second"), [1, 2], "forecast.requests_per_second.2: Field required"),
    ],
    ids=str,
)
def test_members_of_a_choice_that_this_release_does_not_have_are_refused_by_name(
    tmp_path: Path, members: tuple[Any, ...], value: object, said: str
) -> None:
    path, document = written(tmp_path)
    (of_choice,) = document["choices"].values()
    part = of_choice
    for member in members[:-1]:
        part = part[member]
    if value is None:
        del part[members[-1]]
    else:
        part[members[-1]] = value
    path.write_text(json.dumps(document))
    with pytest.raises(ValueError, match="is not a lock file of this release") as refused:
        Lock.read(path)
    assert said in str(refused.value)
    assert str(path) in str(refused.value)
    assert "restore it from version control" in str(refused.value)
