"""An evaluation beside the forecast that the choice for an endpoint's objectives was made by."""

from __future__ import annotations

import datetime as dt
import math
import random
from statistics import NormalDist
from typing import Any

import pytest

from constructs_optim.recipe.evaluation.result import EvaluationResult
from constructs_optim.runtime.errors import InvalidEvent
from constructs_optim.runtime.evaluation.benchmark_output import Level
from constructs_optim.runtime.evaluation.differences import Measured
from constructs_optim.runtime.evaluation.evaluated_fleet import Fleet
from constructs_optim.runtime.evaluation.evaluation_report import Measurement, markdown, result
from constructs_optim.runtime.evaluation.forecasts import missed, outside
from constructs_optim.runtime.evaluation.gate import find, judge
from constructs_optim.runtime.requests.properties import validate
from constructs_optim.runtime.requests.run_properties import EvaluationRequest, Forecast, Gate
from constructs_optim.runtime.store.run_records import CURRENT, RESULT, RunRecords

from ..support.s3_clients import BUCKET
from .test_evaluation_properties import REQUEST

TTFT = Forecast(
    instance_type="ml.g5.12xlarge",
    copies=4,
    concurrency=25,
    metric="time_to_first_token",
    title="mean time to first token",
    unit="ms",
    value=154.0,
    low=47.0,
    high=507.0,
)
SLOW = "mean time to first token at 25 users is 812 ms, but the forecast is 154 (47 to 507) ms"
RECIPE = {"Model": "Qwen/Qwen3-32B", "Techniques": ["quantization=fp8"], "Server": "vllm"}


def levels(value: float) -> dict[int, dict[str, float]]:
    return {25: {"time_to_first_token": value}}


def request(*, required: bool = False) -> EvaluationRequest:
    """An evaluation with the forecast; what it deploys is gated by that where it is ``required``."""
    delivered: dict[str, Any] = {name: value for name, value in REQUEST.items() if name != "Gate"}
    delivered["Subjects"] = [{**REQUEST["Subjects"][0], "Recipe": RECIPE}]
    delivered["Forecasts"] = [TTFT.model_dump(by_alias=True)]
    delivered |= {"Gate": {"Forecast": "true"}} if required else {}
    return validate(EvaluationRequest, delivered)


@pytest.mark.parametrize(("value", "factor"), [(812.0, "5.3"), (12.3, "0.08")])
def test_what_is_outside_of_the_interval_is_found_with_its_factor(value: float, factor: str) -> None:
    (found,) = outside([TTFT], levels(value))
    assert found.endswith(f"the forecast is 154 (47 to 507) ms: {factor} times as much")


@pytest.mark.parametrize("value", [47.0, 154.0, 507.0])
def test_what_is_within_the_interval_is_no_finding(value: float) -> None:
    assert outside([TTFT], levels(value)) == missed([TTFT], levels(value)) == []


def test_a_required_forecast_is_missed_by_what_is_slower_or_not_measured_and_not_by_what_is_faster() -> None:
    assert missed([TTFT], levels(812.0)) == [f"{SLOW} and allows at most 507 ms"]
    assert missed([TTFT], levels(12.3)) == []
    not_measured = "mean time to first token at 25 users was not measured, but must meet its forecast"
    assert missed([TTFT], {1: {"time_to_first_token": 20.0}}) == missed([TTFT], {25: {}}) == [not_measured]


def test_of_several_forecasts_that_are_right_one_deployment_of_twenty_is_refused() -> None:
    drawn, normal = random.Random(7), NormalDist()
    spread = math.log(TTFT.high / TTFT.value) / normal.inv_cdf(0.95)
    several = [TTFT.model_copy(update={"concurrency": users}) for users in (1, 2, 3, 4)]

    def right() -> dict[int, dict[str, float]]:
        return {each.concurrency: levels(each.value * drawn.lognormvariate(0, spread))[25] for each in several}

    refused = sum(bool(missed(several, right())) for _ in range(4000)) / 4000
    assert 0.035 < refused < 0.06


@pytest.mark.parametrize(
    ("required", "copies", "refused"),
    [(True, 4, True), (False, 4, False), (True, 1, False)],
    ids=["required", "not required", "another fleet"],
)
def test_a_required_forecast_refuses_a_slower_deployment_of_what_it_is_of(
    s3: Any, required: bool, copies: int, refused: bool
) -> None:
    records = RunRecords(s3, "evaluations", BUCKET, None, "a" * 64)
    subject = {"instance_type": "ml.g5.12xlarge", "copies": copies}
    records.write(RESULT, {"subject": subject, "levels": [{"concurrency": 25, "metrics": levels(812.0)[25]}]}, "run")
    records.write(CURRENT, {"accepted": False, "run": "run", "lossless": True})
    verdict = judge(request(required=required), records, None, "run")
    assert (f"{SLOW} and allows at most 507 ms" in verdict.misses) is refused
    assert (verdict.refusal is not None) is refused
    unlike = "the forecast is for 4 copies on ml.g5.12xlarge, but 1 copy on ml.g5.12xlarge served"
    assert (unlike in verdict.found.undecided) is (copies == 1)


def test_the_report_has_both_and_what_to_do_about_a_miss() -> None:
    fleet = Fleet("a" * 64, "ml.g5.12xlarge", 2.0, 4, None, "", ())
    job = {"AIBenchmarkJobName": "job", "CreationTime": dt.datetime(2026, 11, 26, tzinfo=dt.UTC)}
    document = result(request(), fleet, Measurement.of_job(job, [Level(25, 60.0, levels(812.0)[25], {})]))
    assert document["forecast"] == [
        {
            "concurrency": 25,
            "metric": "time_to_first_token",
            "value": 154.0,
            "low": 47.0,
            "high": 507.0,
            "measured": 812.0,
            "holds": False,
        }
    ]
    assert document["subject"]["copies"] == 4
    assert document["subject"]["recipe"] == {
        "model": "Qwen/Qwen3-32B",
        "techniques": ["quantization=fp8"],
        "server": "vllm",
    }
    advice = "`constructs-optim recommend` with --store artifacts forecasts with this measurement."
    assert f"{SLOW}: 5.3 times as much. {advice}" in document["notes"]
    report = markdown(document, find(Gate(), {25: Measured(levels(812.0)[25], None)}, {}, None))
    assert "\n| 25 | time_to_first_token | 154 | 47 to 507 | 812 | no |\n" in report


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ({"request_count": "120"}, {"prompts": 120, "requests": 120}),
        ({"benchmark_duration": "60"}, {"prompts": 1, "seconds": 60.0}),
    ],
)
def test_the_result_has_the_requests_or_the_duration_of_the_workload(
    parameters: dict[str, str], expected: dict[str, float]
) -> None:
    fleet = Fleet("a" * 64, "ml.g5.12xlarge", 2.0, 4, None, "", ())
    job = {"AIBenchmarkJobName": "job", "CreationTime": dt.datetime(2026, 11, 26, tzinfo=dt.UTC)}
    asked = request().model_copy(update={"workload": {"parameters": parameters}})
    workload = result(asked, fleet, Measurement.of_job(job, []))["workload"]
    assert {name: workload[name] for name in ("prompts", "requests", "seconds") if name in workload} == expected


def test_the_result_says_how_much_the_server_s_counts_of_tokens_differ_from_the_tokenizer_s() -> None:
    fleet = Fleet("a" * 64, "ml.g5.12xlarge", 1.0, 1, None, "", ())
    job = {"AIBenchmarkJobName": "job", "CreationTime": dt.datetime(2026, 11, 26, tzinfo=dt.UTC)}
    level = Level(1, 60.0, {}, {})
    assert result(request(), fleet, Measurement.of_job(job, [level]))["workload"]["tokens_counted_by"] == "tokenizer"
    counted = Level(8, 60.0, {}, {}, server_counted={"input": 0.01, "output": -0.1})
    document = result(request(), fleet, Measurement.of_job(job, [level, counted]))
    assert document["workload"]["tokens_counted_by"] == "server"
    (note,) = (each for each in document["notes"] if "counted" in each)
    assert note.startswith("At 8 users, the server counted 10.0% fewer output tokens than aiperf's tokenizer.")


def test_the_result_says_how_many_responses_have_no_count_of_tokens() -> None:
    fleet = Fleet("a" * 64, "ml.g5.12xlarge", 1.0, 1, None, "", ())
    job = {"AIBenchmarkJobName": "job", "CreationTime": dt.datetime(2026, 11, 26, tzinfo=dt.UTC)}
    document = result(
        request(),
        fleet,
        Measurement.of_job(job, [Level(8, 60.0, {}, {}, server_counted={"output": None}, uncounted=3)]),
    )
    assert document["workload"]["tokens_counted_by"] == "server"
    (note,) = (each for each in document["notes"] if "counted" in each)
    assert note.startswith("At 8 users, neither the server nor aiperf counted the tokens of 3 responses")
    assert EvaluationResult.model_validate(document).levels[0].concurrency == 8


def test_what_is_measured_of_another_fleet_is_not_compared() -> None:
    fleet = Fleet("a" * 64, "ml.g5.12xlarge", 1.0, 1, None, "", ())
    job = {"AIBenchmarkJobName": "job", "CreationTime": dt.datetime(2026, 11, 26, tzinfo=dt.UTC)}
    document = result(request(), fleet, Measurement.of_job(job, [Level(25, 60.0, levels(812.0)[25], {})]))
    assert "forecast" not in document
    (note,) = document["notes"]
    assert note.startswith("Not compared with the forecast: the forecast is for 4 copies on ml.g5.12xlarge, but 1 copy")


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"Concurrency": None}, "Concurrency"),
        ({"Concurrency": "0"}, "Concurrency"),
        ({"Low": "-1"}, "Low"),
        ({"Copies": "0"}, "Copies"),
        ({"InstanceType": "p5"}, "InstanceType"),
        ({"Title": "a" * 201}, "Title"),
        ({"Low": "200"}, "Value is not between"),
        ({"High": "inf"}, "High"),
        ({"Metric": "time to first token"}, "Metric"),
    ],
)
def test_a_malformed_forecast_is_refused_by_name(changed: dict[str, str | None], named: str) -> None:
    forecast = {**TTFT.model_dump(by_alias=True), **changed}
    with pytest.raises(InvalidEvent, match=rf"Forecasts\[0\].*{named}"):
        validate(EvaluationRequest, {**REQUEST, "Forecasts": [forecast]})
