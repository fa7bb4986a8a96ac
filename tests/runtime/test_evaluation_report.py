"""The page about an evaluation, and what the stored result says of the subject and of the price."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from constructs_optim.runtime.evaluation.benchmark_output import Level
from constructs_optim.runtime.evaluation.differences import Difference
from constructs_optim.runtime.evaluation.evaluated_fleet import Fleet
from constructs_optim.runtime.evaluation.evaluation_report import Measurement, markdown, result
from constructs_optim.runtime.evaluation.gate import Findings
from constructs_optim.runtime.requests.run_properties import EvaluationRequest, Gate

from .test_gate import request

JOB = {"AIBenchmarkJobName": "job", "CreationTime": dt.datetime(2026, 11, 26, tzinfo=dt.UTC)}
NOTHING = Findings([], [], {})


def asked(**changed: Any) -> EvaluationRequest:
    return request(Gate()).model_copy(update=changed)


def fleet(**changed: Any) -> Fleet:
    known = {"artifact_key": "a" * 64, "instance_type": "ml.g5.12xlarge", "count": 2.0, "copies": 2}
    return Fleet(**{**known, "price_per_hour": 14.18, "price_source": "stated", "notes": ("A note.",), **changed})


def level(**changed: Any) -> Level:
    known: dict[str, Any] = {"concurrency": 8, "seconds": 60.0, "metrics": {"client_invocations": 400}, "errors": {}}
    return Level(**{**known, **changed})


def test_the_result_names_the_subject() -> None:
    of_variant = result(asked(variant_name="AllTraffic"), fleet(), Measurement.of_job(JOB, [level()]))["subject"]
    assert of_variant == {
        "label": "chat",
        "endpoint_name": "chat",
        "variant_name": "AllTraffic",
        "artifact_key": "a" * 64,
        "instance_type": "ml.g5.12xlarge",
        "instance_count": 2,
        "copies": 2,
    }
    of_component = result(
        asked(inference_component_name="chat-llama"), fleet(count=0.25), Measurement.of_job(JOB, [level()])
    )["subject"]
    assert (of_component["inference_component_name"], of_component["instance_count"]) == ("chat-llama", 1)
    assert "variant_name" not in of_component


def test_the_result_has_the_workload_with_which_it_was_measured() -> None:
    parameters = {"request_count": "400", "tokenizer": "Qwen/Qwen3-32B", "streaming": True, "extra": {"a": 1}}
    found = result(asked(workload={"parameters": parameters}), fleet(), Measurement.of_job(JOB, [level()]))
    assert found["workload"] == {
        "prompts": 400,
        "tool": "aiperf, by the benchmark job job",
        "format": "openai",
        "parameters": {"request_count": "400", "tokenizer": "Qwen/Qwen3-32B", "streaming": True},
        "requests": 400,
        "tokens_counted_by": "tokenizer",
        "tokenizer": "Qwen/Qwen3-32B",
    }
    assert "tokenizer" not in result(asked(), fleet(), Measurement.of_job(JOB, [level()]))["workload"]


def test_the_result_has_its_price_only_if_that_is_known() -> None:
    price = {"instance_price_per_hour": 14.18, "discount": 0.2, "source": "stated"}
    assert result(asked(discount=0.2), fleet(), Measurement.of_job(JOB, [level()]))["price"] == price
    assert "price" not in result(asked(), fleet(price_per_hour=None), Measurement.of_job(JOB, [level()]))


@pytest.mark.parametrize(
    ("job", "started"),
    [(JOB, "2026-11-26T00:00:00+00:00"), ({**JOB, "StartTime": dt.datetime(2026, 11, 27)}, "2026-11-27T00:00:00")],
)
def test_an_evaluation_started_with_its_job_or_was_created_then(job: dict[str, Any], started: str) -> None:
    assert result(asked(), fleet(), Measurement.of_job(job, [level()]))["started"] == started


def test_the_result_has_the_notes_of_all_parts() -> None:
    excluded = "At 8 users, latencies and rates exclude 3 requests that were sent before every user had its first"
    found = result(
        asked(), fleet(), Measurement.of_job(JOB, [level(left_out=3), level(concurrency=9)], ["Another note."])
    )
    assert found["notes"] == ["A note.", "Another note.", f"{excluded} response."]


def test_the_result_says_who_counted_the_tokens() -> None:
    counted = level(server_counted={"output": 0.031, "input": -0.052}, uncounted=7)
    found = result(
        asked(workload={"parameters": {"benchmark_duration": "90"}}),
        fleet(notes=()),
        Measurement.of_job(JOB, [counted]),
    )
    rates = "Rates, inter-token latency, and prices use the server's count."
    assert found["notes"] == [
        f"At 8 users, the server counted 3.1% more output tokens than aiperf's tokenizer. {rates}",
        f"At 8 users, the server counted 5.2% fewer input tokens than aiperf's tokenizer. {rates}",
        "At 8 users, neither the server nor aiperf counted the tokens of 7 responses, so token rates and the prices "
        "derived from them are missing.",
    ]
    assert found["workload"] == {
        "prompts": 1,
        "tool": "aiperf, by the benchmark job job",
        "format": "openai",
        "parameters": {"benchmark_duration": "90"},
        "seconds": 90.0,
        "tokens_counted_by": "server",
    }
    for unremarkable in ({"output": None}, {"output": 0.02}):
        assert (
            result(asked(), fleet(notes=()), Measurement.of_job(JOB, [level(server_counted=unremarkable)]))["notes"]
            == []
        )


def test_the_result_has_the_numbers_of_each_concurrency_and_not_its_requests() -> None:
    first, second = level(errors={"429": 3}), level(concurrency=16, left_out=2)
    levels = result(asked(), fleet(), Measurement.of_job(JOB, [first, second]))["levels"]
    assert [(each["concurrency"], each["seconds"], each["errors"], each["left_out"]) for each in levels] == [
        (8, 60.0, {"429": 3}, 0),
        (16, 60.0, {}, 2),
    ]
    assert [each["metrics"] for each in levels] == [{"client_invocations": 400}] * 2
    assert not {"observations", "server_counted", "uncounted"} & levels[0].keys()


def test_the_page_has_a_column_for_each_metric_in_this_order() -> None:
    names = {
        "blended_price_per_million_tokens": "blended price per million tokens ($)",
        "client_invocation_errors": "errors",
        "client_invocations": "requests",
        "drafts": "drafts",
        "acceptance_length": "acceptance length",
        "output_tokens_per_second": "output tokens/s",
        "client_latency_p90": "client latency p90 (ms)",
        "inter_token_latency_p99": "ITL p99 (ms)",
        "inter_token_latency_p50": "ITL p50 (ms)",
        "time_to_first_token_p99": "TTFT p99 (ms)",
        "time_to_first_token_p50": "TTFT p50 (ms)",
    }
    metrics = {name: float(number) for number, name in enumerate(names, 1)}
    page = markdown(result(asked(), fleet(), Measurement.of_job(JOB, [level(metrics=metrics)])), NOTHING).splitlines()
    assert page[4] == f"| users | {' | '.join(reversed(names.values()))} |"
    assert page[6] == "| 8 | 11 | 10 | 9 | 8 | 7 | 6 | 5 | 4 | 3 | 2 | 1 |"


def test_the_page_says_how_many_measurements_the_verdict_has() -> None:
    said = "- The verdict is that on 3 measurements together. The table shows the first one."
    assert markdown(document(), NOTHING, 3).splitlines()[-2:] == ["- A note.", said]
    assert "measurements together" not in markdown(document(), NOTHING, 1)


def document(**changed: Any) -> dict[str, Any]:
    metrics = {"time_to_first_token_p50": 81.25, "client_invocations": 400, "acceptance_length": 2.5}
    return result(asked(), fleet(**changed), Measurement.of_job(JOB, [level(metrics=metrics)]))


def test_the_page_has_a_row_for_each_concurrency_and_a_column_for_each_known_metric() -> None:
    lines = markdown(document(), NOTHING).splitlines()
    assert lines[:4] == [
        "# Evaluation of chat",
        "",
        f"chat on 2 x ml.g5.12xlarge, artifact `{'a' * 64}`, 2026-11-26T00:00:00+00:00.",
        "",
    ]
    assert lines[4] == "| users | TTFT p50 (ms) | acceptance length | requests |"
    assert lines[5] == "|" + " ---: |" * 4
    assert lines[6] == "| 8 | 81.25 | 2.5 | 400 |"
    assert lines[7:] == ["", "$14.18 an hour (stated), 0% discount.", "", "- A note."]


def test_the_page_of_a_recipe_without_speculation_has_no_columns_of_it() -> None:
    page = markdown(result(asked(), fleet(price_per_hour=None, notes=()), Measurement.of_job(JOB, [level()])), NOTHING)
    assert "acceptance length" not in page
    assert "drafts" not in page
    assert page.endswith("| 8 | 400 |\n"), "neither a price nor notes follow"


def test_the_page_has_each_difference_from_the_replaced_version() -> None:
    decided = Difference("time_to_first_token_p99", 100.0, 150.0, 0.5, 0.4, 0.6, 0.1, "worse", None)
    not_decided = Difference("output_tokens_per_second", 90.0, 80.0, None, requests=900)
    page = markdown(document(), Findings([], [], {8: [decided, not_decided]}))
    _, _, table = page.partition("## Against the replaced version\n\n")
    assert table.splitlines() == [
        "| users | metric | before | after | change | 95% interval | verdict | requests that would decide |",
        "| ---: | --- | ---: | ---: | ---: | --- | --- | ---: |",
        "| 8 | time_to_first_token_p99 | 100 | 150 | +50.0% | +40.0% to +60.0% | worse |  |",
        "| 8 | output_tokens_per_second | 90 | 80 |  |  | undecided | 900 |",
    ]
    assert "Against the replaced version" not in markdown(document(), Findings([], [], {8: []}))


@pytest.mark.parametrize(
    ("found", "lines"),
    [
        (NOTHING, ["- A note."]),
        (Findings(["TTFT is 5 ms"], [], {}), ["- A note.", "", "- Not met: TTFT is 5 ms."]),
        (Findings([], ["ITL is unknown"], {}), ["- A note.", "", "- Not decided: ITL is unknown."]),
        (Findings(["a"], ["b"], {}), ["- A note.", "", "- Not met: a.", "- Not decided: b."]),
    ],
)
def test_the_page_ends_with_what_was_not_met_or_decided(found: Findings, lines: list[str]) -> None:
    page = markdown(document(), found)
    assert page.endswith("\n")
    assert page.splitlines()[-len(lines) :] == lines
