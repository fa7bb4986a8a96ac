from __future__ import annotations

import csv
import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from constructs_optim.cli.installation import installing
from constructs_optim.cli.main import app
from constructs_optim.evaluator import evaluation, server_counters
from constructs_optim.recipe.evaluation.result import EvaluationResult
from constructs_optim.recipe.metrics import EVALUATION
from constructs_optim_local.cloud import LocalCloud

from ..support.local_cloud import ROLE
from ..support.model_server import TOKENS, ModelServer
from ..support.operator_endpoints import IMAGE, Served
from ..support.tokenizers import model as tokenizer_of_words
from ..support.waiting import until

pytestmark = pytest.mark.e2e

ROOT = Path(__file__).parent.parent.parent
PROMPTS = [{"prompt": "one two"}, {"prompt": "vary it", "reference": "w0"}, {"prompt": "three"}, {"prompt": "four"}]


@pytest.fixture
def server() -> Iterator[ModelServer]:
    running = ModelServer()
    yield running
    running.stop()


@pytest.fixture
def baseline() -> Iterator[ModelServer]:
    running = ModelServer()
    running.timing.variation = "x"
    yield running
    running.stop()


@pytest.fixture
def prompts(tmp_path: Path) -> Path:
    path = tmp_path / "prompts.jsonl"
    path.write_text("\n".join(json.dumps(prompt) for prompt in PROMPTS))
    return path


def run(*arguments: Any) -> Result:
    return CliRunner().invoke(app, ["evaluate", *map(str, arguments)])


def result_of(folder: Path, side: str = "endpoint") -> EvaluationResult:
    return EvaluationResult.model_validate_json((folder / f"{side}.json").read_text())


def test_a_server_is_evaluated_at_each_concurrency(server: ModelServer, prompts: Path, tmp_path: Path) -> None:
    out, server.timing.accepted = tmp_path / "out", 1.5
    target = f"{server.url},instance-price-per-hour=3.6,discount=0.25"
    load = ("--concurrency", "4,1", "--requests", 8, "--ttft", "10s")
    ran = run(target, "--prompts", prompts, *load, "--output", out)
    assert ran.exit_code == 0, ran.output
    result = result_of(out)
    assert [level.concurrency for level in result.levels] == [1, 4]
    for level in result.levels:
        of_text = {metric.name for metric in EVALUATION if metric.runner != "pooling"}
        assert set(level.metrics) == of_text, "every metric is there"
        assert level.metrics["client_invocations"] == 8
        assert level.metrics["acceptance_length"] == 2.5
        assert level.metrics["output_tokens"] == TOKENS
        hourly = (
            level.metrics["price_per_million_output_tokens"] * level.metrics["output_tokens_per_second"] * 3600 / 1e6
        )
        assert hourly == pytest.approx(2.7, rel=1e-3)
    # Those of the requests that do not count as well, but for the first one, which finds the format.
    assert sum(level.metrics["drafts"] for level in result.levels) == 10 * (server.timing.requests - 1)
    assert result.complete
    assert result.workload.tokens_counted_by == "server"
    assert "Token counts come from the server" in ran.output
    rows = list(csv.DictReader((out / "levels.csv").read_text().splitlines()))
    assert [(row["concurrency"], row["client_invocations"], row["errors_timeout"]) for row in rows] == [
        ("1.0", "8.0", "0"),
        ("4.0", "8.0", "0"),
    ]
    page = (out / "report.html").read_text()
    assert page.count("data:image/svg+xml;base64,") == 11
    assert 'src="http' not in page


def test_an_endpoint_is_compared_with_its_baseline(
    server: ModelServer, baseline: ModelServer, prompts: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    sides = (f"{server.url},label=optimized", "--compare", f"{baseline.url},label=baseline")
    ran = run(*sides, "--prompts", prompts, "--concurrency", "1,2", "--requests", 4, "--output", out)
    assert ran.exit_code == 0, ran.output
    assert "Both sides return the same completion for 3 of 4 prompts." in ran.output
    compared = json.loads((out / "comparison.json").read_text())
    assert [level["load"] for level in compared["levels"]] == ["1 user", "2 users"]
    completions = compared["completions"]
    assert (completions["identical"], completions["compared"]) == (3, 4)
    (difference,) = completions["differences"]
    assert (difference["asked"], difference["baseline"][:2], difference["optimized"][:2]) == ("vary it", "x0", "w0")
    assert completions["reference"] == {"baseline": 0.0, "optimized": 1.0}
    assert result_of(out, "baseline").workload.prompts_digest == result_of(out, "optimized").workload.prompts_digest
    page = (out / "report.html").read_text()
    assert "optimized against baseline" in page
    assert "There are no prices of baseline and optimized" in page


def test_faults_of_every_kind_are_counted_in_their_metrics(server: ModelServer, tmp_path: Path) -> None:
    prompts = tmp_path / "prompts.jsonl"
    kinds = ("fine", "fault:500", "fault:cut", "fault:malformed", "fault:stall", "fault:empty")
    prompts.write_text("\n".join(json.dumps({"prompt": kind}) for kind in kinds))
    out = tmp_path / "out"
    ran = run(
        *(server.url, "--prompts", prompts, "--output", out),
        *("--concurrency", 2, "--requests", 12, "--timeout", 0.3),
    )
    assert ran.exit_code == 0, ran.output
    (level,) = result_of(out).levels
    assert level.errors == {"timeout": 2, "server_error": 2, "cut_stream": 2, "malformed_response": 2}
    assert (level.metrics["client_invocation_errors"], level.metrics["empty_inference_response"]) == (8, 2)
    assert "The response broke off before its end." in (out / "report.html").read_text()


def test_ctrl_c_keeps_the_measurements_and_resume_completes_them(
    server: ModelServer, prompts: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    server.timing.first_token = 0.1
    command = [sys.executable, "-c", "from constructs_optim.cli import main; main()", "evaluate", server.url]
    command += ["--prompts", str(prompts), "--concurrency", "1,2", "--requests", "24", "--output", str(out)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    # A suite that runs in the background of a shell ignores Ctrl-C, and so would the command.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    signal.signal(signal.SIGINT, before)
    deadline = time.monotonic() + 60
    while server.timing.requests < 8:
        assert time.monotonic() < deadline, "nothing was sent"
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    said, _ = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert f"evaluate --resume {out}" in said.replace("\n", "")
    partial = result_of(out)
    assert not partial.complete
    assert "Partial: the evaluation is not finished." in (out / "report.html").read_text()
    (level,) = partial.levels
    kept = int(level.metrics["client_invocations"])
    assert 0 < kept < 24
    assert partial.missing == ("2 users",)

    before = server.timing.requests
    server.timing.first_token = 0.01
    ran = run("--resume", out)
    assert ran.exit_code == 0, ran.output
    resumed = result_of(out)
    assert resumed.complete
    assert resumed.missing == ()
    assert [level.metrics["client_invocations"] for level in resumed.levels] == [24, 24]
    assert "At 1 user, the evaluation was interrupted and resumed." in resumed.notes
    # One to find the format out, and warm-ups of one and two users; of two, one goes on until both are warm, and both
    # until the last response that counts.
    least = 1 + (24 - kept) + 24 + 1 + 2
    assert least <= server.timing.requests - before <= least + 4
    again = server.timing.requests
    assert run("--resume", out).exit_code == 0
    assert server.timing.requests == again + 1, "nothing is measured twice"


def test_a_killed_evaluation_can_be_resumed(server: ModelServer, prompts: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    asked = (server.url, "--prompts", prompts, "--concurrency", 1, "--requests", 6, "--output", out)
    assert run(*asked).exit_code == 0
    requests = out / "endpoint" / "requests-1.jsonl"
    lines = requests.read_text().splitlines(keepends=True)
    for left, sent in (("".join(lines[:3]) + lines[3][:20], 3 + 1), ("".join(lines[:6]), 0)):
        requests.write_text(left)
        before = server.timing.requests
        assert run("--resume", out).exit_code == 0
        (level,) = result_of(out).levels
        assert (level.metrics["client_invocations"], level.complete) == (6, True)
        # What was missing with its warm-up, after the first answer that is asked for.
        assert server.timing.requests - before == 1 + sent


def test_a_kill_loses_no_completed_request(server: ModelServer, prompts: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    server.timing.first_token = 0.1
    command = [sys.executable, "-c", "from constructs_optim.cli import main; main()", "evaluate", server.url]
    command += ["--prompts", str(prompts), "--concurrency", "1", "--requests", "200", "--output", str(out)]
    process = subprocess.Popen(
        command, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    deadline = time.monotonic() + 60
    while server.timing.requests < 8:
        assert time.monotonic() < deadline, "nothing was sent"
        time.sleep(0.02)
    process.kill()
    process.wait(timeout=60)
    # One to find the format out, one to warm up, and one on its way.
    written = (out / "endpoint" / "requests-1.jsonl").read_text().splitlines()
    assert len(written) >= server.timing.requests - 3
    assert all("text" in json.loads(line) for line in written)


def test_an_evaluation_without_any_completion_exits_with_status_3(
    server: ModelServer, prompts: Path, tmp_path: Path
) -> None:
    server.timing.breaks_after = 1
    ran = run(
        *(server.url, "--prompts", prompts, "--concurrency", 1, "--requests", 4, "--warm-up", 0),
        *("--output", tmp_path / "out"),
    )
    assert ran.exit_code == 3, ran.output
    assert "completed none of 4 requests at 1 user." in ran.output


def test_an_error_rate_above_the_maximum_exits_with_status_5(server: ModelServer, tmp_path: Path) -> None:
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text('{"prompt": "fine"}\n{"prompt": "also fine"}\n{"prompt": "fault:500"}\n{"prompt": "good"}\n')
    out = tmp_path / "out"
    asked = (server.url, "--prompts", prompts, "--concurrency", 1, "--requests", 4, "--output", out)
    ran = run(*asked, "--max-error-rate", 0.2)
    assert ran.exit_code == 5, ran.output
    assert "failed 25.0% of the requests at 1 user, and --max-error-rate allows 20.0%" in ran.output
    assert run("--resume", out).exit_code == 5, "it is judged as it was asked to be"
    assert result_of(out).complete


def test_completions_that_are_not_streamed_are_reported(server: ModelServer, tmp_path: Path) -> None:
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text('{"prompt": "bend:whole"}')
    out = tmp_path / "out"
    ran = run(
        *(f"{server.url},instance-price-per-hour=1", "--prompts", prompts),
        *("--concurrency", 1, "--requests", 2, "--output", out),
    )
    assert ran.exit_code == 0, ran.output
    said = " ".join(ran.output.split())
    assert "At 1 user, the server did not stream: all completions arrived in one piece" in said
    assert "inter_token_latency_p50" not in result_of(out).levels[0].metrics
    assert (out / "report.html").exists()


def test_a_wrong_token_count_of_the_server_is_reported(server: ModelServer, tmp_path: Path) -> None:
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text('{"prompt": "bend:uncounted"}')
    ran = run(server.url, "--prompts", prompts, "--concurrency", 1, "--requests", 2, "--output", tmp_path / "o")
    assert ran.exit_code == 0, ran.output
    said = " ".join(ran.output.split())
    assert "the server counted no tokens, or far too few, in 2 of 2 completions; these counts are not used." in said
    assert "The server reports no usable token counts, so metrics based on tokens are missing." in said


def test_the_server_s_counts_are_used_where_the_tokenizer_counts_fewer_tokens(
    server: ModelServer, tmp_path: Path
) -> None:
    """Four of 24 tokens have no text, as special tokens, so the tokenizer counts 20."""
    prompts, out, server.timing.tokens = tmp_path / "prompts.jsonl", tmp_path / "o", 24
    prompts.write_text('{"prompt": "bend:special"}')
    (tmp_path / "model").mkdir()
    target = f"{server.url},tokenizer={tokenizer_of_words(tmp_path / 'model')}"
    ran = run(target, "--prompts", prompts, "--concurrency", 1, "--requests", 8, "--output", out)
    assert ran.exit_code == 0, ran.output
    result = result_of(out)
    (level,) = result.levels
    assert level.metrics["output_tokens"] == 24
    records = [json.loads(line) for line in (out / "endpoint" / "requests-1.jsonl").read_text().splitlines()]
    counted = [each for each in records if "start" in each and each.get("counted", True)]
    # On a busy machine, several tokens arrive in the first piece.
    times = [(each["last_token"] - each["first_token"]) * 1000 / (24 - each.get("first_tokens", 1)) for each in counted]
    assert level.metrics["inter_token_latency"] == pytest.approx(sum(times) / 8, rel=1e-3)
    output = result.workload.token_counts["output"]
    assert (output.by_server, output.by_tokenizer, output.difference) == (8, 0, pytest.approx(0.2))
    assert (result.workload.tokens_counted_by, result.workload.tokenizer) == ("server", str(tmp_path / "model"))
    note = "The server counted 20.0% more output tokens than the tokenizer: the text of responses lacks special tokens"
    assert note in " ".join(ran.output.split())
    for page in ("report.html", "report.md"):
        assert note in (out / page).read_text()


def test_a_comparison_says_that_its_sides_count_tokens_differently(
    server: ModelServer, baseline: ModelServer, tmp_path: Path
) -> None:
    prompts, out = tmp_path / "prompts.jsonl", tmp_path / "o"
    prompts.write_text('{"prompt": "fine"}')
    (tmp_path / "model").mkdir()
    tokenizer = tokenizer_of_words(tmp_path / "model")
    baseline.timing.counts_output = False
    sides = (f"{server.url},label=a,tokenizer={tokenizer}", "--compare", f"{baseline.url},label=b")
    ran = run(*sides, "--prompts", prompts, "--concurrency", 1, "--requests", 8, "--output", out)
    assert ran.exit_code == 0, ran.output
    note = "The server counted the output tokens of 0% of the baseline's requests and of 100% of the optimized side's"
    assert note in " ".join(ran.output.split())
    assert note in (out / "report.html").read_text().replace("&#39;", "'")
    assert note in (out / "report.md").read_text()
    (written,) = json.loads((out / "comparison.json").read_text())["notes"]
    assert written.startswith(note)


def test_a_server_that_counts_some_tokens_has_no_rate_of_tokens(server: ModelServer, tmp_path: Path) -> None:
    prompts, out = tmp_path / "prompts.jsonl", tmp_path / "o"
    prompts.write_text('{"prompt": "bend:uncounted"}\n{"prompt": "fine"}')
    ran = run(server.url, "--prompts", prompts, "--concurrency", 1, "--requests", 4, "--output", out)
    assert ran.exit_code == 0, ran.output
    assert "2 of 4 completions have no token count" in " ".join(ran.output.split())
    (level,) = result_of(out).levels
    assert "output_tokens_per_second" not in level.metrics
    assert level.metrics["requests_per_second"] > 0


def test_without_prompts_random_ones_of_typical_length_are_generated(server: ModelServer, tmp_path: Path) -> None:
    out = tmp_path / "out"
    (tmp_path / "model").mkdir()
    tokenizer = tokenizer_of_words(tmp_path / "model")
    ran = run(
        *(f"{server.url},tokenizer={tokenizer}", "--concurrency", 4, "--requests", 40, "--output", out),
    )
    assert ran.exit_code == 0, ran.output
    (level,) = result_of(out).levels
    assert level.metrics["input_tokens"] == pytest.approx(622, rel=0.1)
    assert server.timing.bodies[-1]["body"]["max_tokens"] == 250
    assert "The prompts are random words" in ran.output
    written = [json.loads(line)["prompt"] for line in (out / "prompts.jsonl").read_text().splitlines()]
    assert len(written) == 40 + 3 * 4, "those that do not count included"
    assert len({prompt[:30] for prompt in written}) == len(written)


@pytest.mark.parametrize("of_others", [0.0, 0.5])
def test_requests_of_others_are_reported_as_the_server_counts_them(
    server: ModelServer, prompts: Path, tmp_path: Path, of_others: float
) -> None:
    server.timing.accepted, server.timing.of_others = 1.5, of_others
    ran = run(server.url, "--prompts", prompts, "--concurrency", 2, "--requests", 20, "--output", tmp_path / "out")
    assert ran.exit_code == 0, ran.output
    assert ("others used the server" in " ".join(ran.output.split())) == bool(of_others)


@pytest.mark.parametrize("failing", [0, 1])
def test_counters_that_cannot_be_read_once_are_not_counted_from_the_server_s_start(
    server: ModelServer, prompts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: int
) -> None:
    """Before and after the load, the counters are read; 500 earlier requests are no others' during it."""
    server.timing.accepted, server.timing.requests = 1.5, 500
    reads = itertools.count()

    async def read(url: str | None) -> server_counters.ServerCounters | None:
        return None if next(reads) == failing else await server_counters.read_counters(url)

    monkeypatch.setattr(evaluation, "read_counters", read)
    ran = run(server.url, "--prompts", prompts, "--concurrency", 2, "--requests", 20, "--output", tmp_path / "out")
    assert ran.exit_code == 0, ran.output
    assert "others used the server" not in " ".join(ran.output.split())
    (level,) = result_of(tmp_path / "out").levels
    assert not {"acceptance_length", "drafts"} & set(level.metrics)
    assert next(reads) == 2


def test_rates_are_measured_with_objectives_and_goodput(server: ModelServer, tmp_path: Path) -> None:
    # Tokens that are far apart do not arrive in one piece, however busy the machine is.
    server.timing.tokens, server.timing.inter_token = 4, 0.1
    # So long that the machine's own delays leave it an interval.
    server.timing.first_token = 0.3
    out = tmp_path / "out"
    ran = run(
        *(server.url, "--rate", "20,50", "--arrivals", "gamma", "--requests", 60, "--ttft", "2s", "--itl", "1s"),
        *("--output", out),
    )
    assert ran.exit_code == 0, ran.output
    result = result_of(out)
    assert [level.request_rate for level in result.levels] == [20, 50]
    for level in result.levels:
        assert level.metrics["client_invocations"] == 60
        assert level.metrics["goodput"] == pytest.approx(level.metrics["requests_per_second"], rel=0.01)
        low, high = level.intervals["time_to_first_token_p50"]
        assert low <= level.metrics["time_to_first_token_p50"] <= high
    assert (result.workload.arrivals, result.workload.burstiness) == ("gamma", 0.25)
    assert result.objectives is not None
    assert result.objectives.limits == {"time_to_first_token": 2000, "inter_token_latency": 1000}
    assert (out / "endpoint" / "requests-50-requests-per-second.jsonl").exists()
    assert "50 requests/s" in (out / "report.md").read_text()


def test_the_limit_of_a_server_is_found_and_the_search_can_be_resumed(server: ModelServer, tmp_path: Path) -> None:
    """The server reads one prompt at a time, 25 ms each: 40 a second, slow enough for a busy machine to keep up."""
    server.timing.prefill, server.timing.first_token, server.timing.tokens = 0.025, 0.001, 2
    out = tmp_path / "out"
    ran = run(server.url, "--find-limit", "--rate", 10, "--ttft", "200ms", "--requests", 60, "--output", out)
    assert ran.exit_code == 0, ran.output
    result = result_of(out)
    assert result.limit is not None
    assert result.limit.meets is not None
    assert result.limit.misses is not None
    assert 16 <= result.limit.meets < result.limit.misses <= 50
    rates = [level.request_rate for level in result.levels]
    assert rates == sorted(rates)
    assert len(rates) >= 4
    told = f"90% of the requests have first token within 200 ms up to {result.limit.meets:g} requests/s"
    assert told in " ".join(ran.output.split())
    before = server.timing.requests
    assert run("--resume", out).exit_code == 0
    assert server.timing.requests == before + 1, "nothing is measured twice"
    assert result_of(out).limit == result.limit


def test_a_search_that_was_interrupted_measures_that_rate_again(server: ModelServer, tmp_path: Path) -> None:
    server.timing.prefill, server.timing.first_token, server.timing.tokens = 0.01, 0.001, 2
    out = tmp_path / "out"
    search = ("--find-limit", "--rate", 40, "--ttft", "80ms", "--requests", 100, "--output", out)
    assert run(server.url, *search).exit_code == 0
    first = out / "endpoint" / "requests-40-requests-per-second.jsonl"
    kept = first.read_text().splitlines(keepends=True)[:30]
    first.write_text("".join(kept))
    assert run("--resume", out).exit_code == 0
    result = result_of(out)
    assert result.complete
    assert result.limit is not None
    # Whether a rate meets the objective depends on the machine; that it is measured whole does not.
    measured = first.read_text().splitlines(keepends=True)
    assert len(measured) > 100


def test_an_objective_for_inter_token_latency_needs_one(server: ModelServer, tmp_path: Path) -> None:
    prompts, out = tmp_path / "prompts.jsonl", tmp_path / "out"
    prompts.write_text('{"prompt": "bend:whole"}')
    ran = run(server.url, "--prompts", prompts, "--rate", 30, "--requests", 20, "--itl", "1ms", "--output", out)
    assert ran.exit_code == 0, ran.output
    assert "have no inter-token latency to compare with the objective" in " ".join(ran.output.split())
    assert "goodput" not in result_of(out).levels[0].metrics


def test_both_sides_get_the_same_prompts_in_the_same_order_at_every_load(
    server: ModelServer, baseline: ModelServer, tmp_path: Path
) -> None:
    baseline.timing.first_token = 0.05
    out = tmp_path / "out"
    sides = (f"{server.url},label=a", "--compare", f"{baseline.url},label=b")
    assert run(*sides, "--concurrency", "2,3,4", "--requests", 24, "--output", out).exit_code == 0
    for load in ("2", "3", "4"):
        orders = []
        for side in ("baseline", "optimized"):
            lines = (out / side / f"requests-{load}.jsonl").read_text().splitlines()
            records = [json.loads(line) for line in lines if "segment_end" not in line]
            counted = [record for record in records if record.get("counted", True)]
            orders.append({record.get("prompt", 0) for record in counted})
        assert orders[0] == orders[1], load
        assert len(orders[0]) == 24


def test_traffic_is_replayed_at_several_speeds(server: ModelServer, tmp_path: Path) -> None:
    prompts = tmp_path / "trace.jsonl"
    lines = [{"timestamp": 100 * n, "input_length": 20, "output_length": 4, "hash_ids": [n]} for n in range(12)]
    prompts.write_text("\n".join(map(json.dumps, lines)))
    out = tmp_path / "out"
    ran = run(server.url, "--prompts", prompts, "--replay", "--speed", "2,4", "--output", out)
    assert ran.exit_code == 0, ran.output
    result = result_of(out)
    assert [level.request_rate for level in result.levels] == [20, 40]
    assert [level.metrics["client_invocations"] for level in result.levels] == [12, 12]
    assert result.levels[0].seconds == pytest.approx(1.1 / 2, abs=0.1)
    assert {body["body"]["max_tokens"] for body in server.timing.bodies[1:]} == {4}


def test_a_rate_of_conversations_is_named_after_them(server: ModelServer, tmp_path: Path) -> None:
    out = tmp_path / "out"
    ran = run(server.url, "--turns", 4, "--output-tokens", "4", "--rate", 10, "--requests", 80, "--output", out)
    assert ran.exit_code == 0, ran.output
    (level,) = result_of(out).levels
    assert level.load == "10 conversations/s"
    assert level.metrics["requests_per_second"] > 15


def test_conversations_of_random_words_share_their_system_prompt(server: ModelServer, tmp_path: Path) -> None:
    out = tmp_path / "out"
    ran = run(
        *(server.url, "--turns", 3, "--prefix-tokens", 20, "--input-tokens", "uniform:5,9", "--output-tokens", "8"),
        *("--concurrency", 2, "--requests", 12, "--output", out),
    )
    assert ran.exit_code == 0, ran.output
    chats = [body["body"]["messages"] for body in server.timing.bodies]
    assert len({chat[0]["content"] for chat in chats}) == 1
    assert {len(chat) for chat in chats} == {2, 4, 6}
    assert result_of(out).levels[0].metrics["client_invocations"] == 12


def test_each_side_of_a_comparison_has_a_separate_discount(
    server: ModelServer, baseline: ModelServer, prompts: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    ran = run(
        *(f"{server.url},instance-price-per-hour=7.09,discount=0.36", "--prompts", prompts),
        *("--compare", f"{baseline.url},instance-price-per-hour=37.688,discount=0.4"),
        *("--concurrency", 1, "--requests", 2, "--output", out),
    )
    assert ran.exit_code == 0, ran.output
    prices = [result_of(out, side).price for side in ("baseline", "optimized")]
    assert [price.discount for price in prices if price] == [0.4, 0.36]


def test_a_side_may_be_written_as_json(server: ModelServer, prompts: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    side = {"url": server.url, "label": "small, quantized", "instance-price-per-hour": 2}
    ran = run(json.dumps(side), "--prompts", prompts, "--concurrency", 1, "--requests", 2, "--output", out)
    assert ran.exit_code == 0, ran.output
    assert result_of(out).subject.label == "small, quantized"


def test_a_baseline_inherits_the_model_name_but_not_the_price(
    server: ModelServer, baseline: ModelServer, prompts: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    ran = run(
        *(f"{server.url},model=one,discount=0.2,instance-price-per-hour=1", "--compare", baseline.url),
        *("--prompts", prompts, "--concurrency", 1, "--requests", 2, "--output", out),
    )
    assert ran.exit_code == 0, ran.output
    compared = result_of(out, "baseline")
    assert (compared.subject.model, compared.price) == ("one", None), "what it costs is not shared"
    assert baseline.timing.bodies[-1]["body"]["model"] == "one"


def test_the_table_is_readable_at_80_columns(
    server: ModelServer, baseline: ModelServer, prompts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    ran = run(
        *(f"{server.url},instance-price-per-hour=7.09", "--prompts", prompts, "--concurrency", 1, "--requests", 2),
        *("--compare", f"{baseline.url},instance-price-per-hour=37.688", "--output", tmp_path / "out"),
    )
    lines = ran.output.splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith("Load"))
    table = lines[first : next(number for number, line in enumerate(lines) if line.startswith("TTFT, ITL"))]
    assert max(map(len, table)) <= 80
    heads = " ".join(table[:2]).split()
    assert {"Load", "TTFT", "ITL", "Latency", "Tokens/s", "$/M", "Failed"} <= {*heads}


def test_an_evaluation_of_a_failed_endpoint_is_abandoned_and_keeps_its_records(
    server: ModelServer, prompts: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    server.timing.breaks_after = 10
    ran = run(server.url, "--prompts", prompts, "--concurrency", 1, "--requests", 200, "--output", out)
    assert ran.exit_code == 4, ran.output
    assert "the last 23 requests all failed: status 500 ModelError asked for 500." in ran.output
    result = result_of(out)
    assert not result.complete
    # Ten less the one that finds the format out and the one that warms up.
    assert result.levels[0].metrics["client_invocations"] == 8 + 23


@pytest.mark.parametrize(
    "target",
    [
        "http://bob:s3cretPW9@127.0.0.1:9/v1,model=x",
        "http://s3cretPW9@127.0.0.1:9/v1,model=x",
        "http://127.0.0.1:9/v1?api-key=s3cretPW9,model=x",
        "http://127.0.0.1:9/v1#s3cretPW9,model=x",
        "http://bob:s3cretPW9@[127.0.0.1:9/v1,model=x",
        '{"url": "http://bob:s3cretPW9@127.0.0.1:9/v1", "model": "x"}',
    ],
)
@pytest.mark.parametrize("compared", [False, True])
def test_a_url_with_a_secret_is_refused_before_anything_is_written(
    prompts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str, compared: bool
) -> None:
    (folder := tmp_path / "work").mkdir()
    monkeypatch.chdir(folder)
    sides = ("http://127.0.0.1:9/v1,model=x", "--compare", target) if compared else (target,)
    ran = run(*sides, "--prompts", prompts, "--requests", 1)
    assert ran.exit_code == 2, ran.output
    assert "s3cretPW9" not in ran.output
    assert [*folder.iterdir()] == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "name a TARGET, or use --resume"),
        (("http://x,varaint=a",), "'varaint=a' is not a setting. Settings: variant=, inference-component="),
        (("http://x,variant",), "'variant' is not a setting"),
        (("http://x,discount=1",), "TARGET: discount: Input should be less than 1"),
        (("http://x", "--compare", "http://y,discount=much"), "--compare: discount: Input should be a valid number"),
        (("http://x", "--prefix-tokens", 300_000_000), "is longer than any prompt: at most 1,000,000"),
        (("http://x", "--input-tokens", "300000000"), "is a length of more than 1,000,000 input tokens"),
        (("{",), "is not JSON"),
        (('{"label": "x"}',), "name an endpoint (endpoint_name) or a server (url)"),
        (('{"url": "http://x", "endpoint_name": "x"}',), "name an endpoint (endpoint_name) or a server (url)"),
        (("http://x", "--concurrency", "1,x"), "use whole numbers from 1"),
        (("http://x", "--concurrency", "0"), "use whole numbers from 1"),
        (("http://x", "--requests", 5, "--seconds", 5), "use one of --requests and --seconds"),
        (("http://x", "--parameter", "top_p"), "use NAME=VALUE"),
        (("http://x", "--rate", "fast"), "use requests per second, such as 0.5,1,2"),
        (("http://x", "--rate", "1-2-3"), "use requests per second, such as 0.5,1,2"),
        (("http://x", "--rate", "1", "--concurrency", "1"), "use one of --concurrency and --rate"),
        (("http://x", "--replay"), "--replay needs --prompts FILE with a time for each"),
        (("http://x", "--find-limit"), "--find-limit needs an objective"),
        (("http://x", "--find-limit", "--ttft", "1s", "--rate", "1,2"), "--find-limit begins at one rate"),
        (("http://x", "--find-limit", "--ttft", "1s", "--concurrency", "1"), "--find-limit searches rates"),
        (("http://x", "--find-limit", "--ttft", "1s", "--seconds", "9"), "--find-limit counts requests"),
        (("http://x", "--find-limit", "--ttft", "1s", "--attainment", "1"), "no number of requests proves"),
        (("http://x", "--rate", "20,20"), "the level 20 requests/s appears more than once"),
        (("http://x", "--rate", "inf"), "use requests per second, such as 0.5,1,2"),
        (("http://x,instance-price-per-hour=inf",), "instance_price_per_hour: Input should be a finite number"),
        (("http://x", "--seconds", "inf"), "inf is not a finite number"),
        (("http://x", "--timeout", "inf"), "inf is not a finite number"),
        (("http://x", "--temperature", "inf"), "inf is not a finite number"),
        (("http://x", "--rate", "1", "--burstiness", "inf"), "inf is not a finite number"),
        (("http://x", "--parameter", "top_p=NaN"), "'top_p=NaN': JSON allows finite numbers only"),
        (("http://x", "--speed", "1"), "--speed needs --replay"),
        (("http://x", "--arrivals", "gamma"), "--arrivals needs --rate or --find-limit"),
        (("http://x", "--burstiness", "0.5"), "--burstiness needs --rate or --find-limit"),
        (("http://x", "--rate", "1", "--burstiness", "0.5"), "--burstiness needs --arrivals gamma"),
        (("http://x", "--prefixes", "5"), "--prefixes needs --prefix-tokens"),
        (("http://x", "--attainment", "0.5"), "--attainment needs --ttft or --itl or --latency"),
        (("http://x", "--margin", "0.1"), "--margin needs --compare"),
        (
            ("localhost:9/v1,model=x",),
            "TARGET: 'localhost:9/v1' is neither the name of an endpoint, of up to 63 letters",
        ),
        (("http://x", "--compare", "y.example"), "--compare: 'y.example' is neither the name of an endpoint"),
        (("http://x,variant=a,api=openai",), "http://x is a server, not an endpoint: leave out variant= and api="),
        (("http://x", "--compare", "http://y,savings-plan=1y-no-upfront"), "leave out savings-plan="),
        (("http://x", "--resume", "y", "--rate", "1"), "uses the options of the evaluation: leave out"),
        (("http://x", "--ttft", "500"), "'500' is not a duration: use 500ms or 0.5s"),
        (("http://x", "--input-tokens", "uniform:9,2"), "'uniform:9,2' is not a distribution of input tokens"),
    ],
)
def test_incompatible_options_are_refused(arguments: tuple[Any, ...], said: str) -> None:
    ran = run(*arguments)
    assert ran.exit_code == 2
    assert said in " ".join(ran.output.split())


def test_a_replay_of_requests_at_one_time_is_refused(tmp_path: Path) -> None:
    prompts = tmp_path / "trace.jsonl"
    prompts.write_text('{"prompt": "a", "at_seconds": 5}\n{"prompt": "b", "at_seconds": 5}\n')
    ran = run("http://x", "--prompts", prompts, "--replay")
    assert ran.exit_code == 2
    assert "--replay needs different times, but all times in the file are the same" in " ".join(ran.output.split())


def test_invalid_prompts_are_refused_before_any_request_is_sent(server: ModelServer, tmp_path: Path) -> None:
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text('{"prompt": "fine"}\n{}\n[]\n')
    ran = run(server.url, "--prompts", prompts, "--output", tmp_path / "out")
    assert ran.exit_code == 2
    assert "line 2: has none of prompt, messages, inputs, turns, input and query" in ran.output
    assert "line 3: Input should be an object" in ran.output
    assert server.timing.requests == 0
    assert not (tmp_path / "out").exists()


def test_a_server_without_a_measurable_completion_is_refused(server: ModelServer, tmp_path: Path) -> None:
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text('{"prompt": "fault:500"}')
    ran = run(server.url, "--prompts", prompts, "--output", tmp_path / "out")
    assert ran.exit_code == 2
    assert "returns no completion that can be measured" in ran.output
    assert "openai: server_error: status 500 ModelError asked for 500" in ran.output


def test_a_folder_with_an_evaluation_is_not_overwritten(server: ModelServer, prompts: Path, tmp_path: Path) -> None:
    asked = (
        server.url,
        "--prompts",
        prompts,
        "--concurrency",
        1,
        "--requests",
        1,
        "--output",
        tmp_path / "out",
    )
    assert run(*asked).exit_code == 0
    ran = run(*asked)
    assert ran.exit_code == 2
    assert "already contains an evaluation: resume it (--resume" in ran.output
    assert run("--resume", tmp_path).exit_code == 2


def test_parameters_are_sent_to_the_model_with_their_types(server: ModelServer, prompts: Path, tmp_path: Path) -> None:
    ran = run(
        *(server.url, "--prompts", prompts, "--concurrency", 1, "--requests", 1, "--output", tmp_path / "out"),
        *("--parameter", "ignore_eos=true", "--parameter", "stop=END", "--temperature", 0.5, "--max-tokens", 5),
        *("--parameter", 'bad_words=["x"]'),
    )
    assert ran.exit_code == 0, ran.output
    body = server.timing.bodies[-1]["body"]
    assert (body["ignore_eos"], body["stop"], body["temperature"], body["max_tokens"]) == (True, "END", 0.5, 5)
    assert body["bad_words"] == ["x"]
    assert result_of(tmp_path / "out").workload.parameters["bad_words"] == '["x"]'
    assert (body["stream"], body["stream_options"]) == (True, {"include_usage": True})


@pytest.fixture
def endpoint(cloud: LocalCloud, server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> Served:
    """An endpoint of the local cloud, whose model is the timing server."""
    for name, value in cloud.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_ENDPOINT_URL_SAGEMAKER_RUNTIME", f"http://127.0.0.1:{server.port}")
    return Served.by_a_variant(cloud)


def test_a_sagemaker_endpoint_is_described_and_measured(
    endpoint: Served, server: ModelServer, prompts: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    target = f"{endpoint.name},instance-price-per-hour=7.09"
    ran = run(target, "--prompts", prompts, "--output", out, "--concurrency", 2, "--requests", 4)
    assert ran.exit_code == 0, ran.output
    result = result_of(out)
    assert result.subject.endpoint_name == endpoint.name
    assert (result.subject.variant_name, result.subject.instance_type) == ("AllTraffic", "ml.g5.12xlarge")
    assert result.subject.instance_count == 1
    assert result.levels[0].metrics["client_invocation_errors"] == 0
    assert server.timing.bodies[-1]["path"] == f"/endpoints/{endpoint.name}/invocations-response-stream"


def test_a_missing_endpoint_is_reported(endpoint: Served, prompts: Path, tmp_path: Path) -> None:
    ran = run("nowhere", "--prompts", prompts, "--output", tmp_path / "out")
    assert ran.exit_code == 2
    assert "Could not find endpoint" in ran.output


def test_an_endpoint_with_components_requires_an_inference_component(
    cloud: LocalCloud, endpoint: Served, server: ModelServer, prompts: Path, tmp_path: Path
) -> None:
    served = Served.by_components(cloud, least_instances=1)
    component = served.component()
    asked = ("--prompts", prompts, "--concurrency", 1, "--requests", 1)
    refused = run(served.name, *asked, "--output", tmp_path / "out")
    assert refused.exit_code == 2
    assert f"choose one with {served.name},inference-component=NAME" in refused.output
    ran = run(f"{served.name},inference-component={component}", *asked, "--output", tmp_path / "chosen")
    assert ran.exit_code == 0, ran.output
    assert result_of(tmp_path / "chosen").subject.inference_component_name == component
    assert server.timing.bodies[-1]["headers"]["x-amzn-sagemaker-inference-component"] == component


def test_an_artifact_is_resolved_and_its_tokenizer_checks_the_counts_of_tokens(
    cloud: LocalCloud, endpoint: Served, server: ModelServer, prompts: Path, tmp_path: Path
) -> None:
    key, bucket = "a" * 64, f"store-{endpoint.name}"
    prefix = f"artifacts/{key}/model/"
    s3, sagemaker = cloud.client("s3"), endpoint.sagemaker
    s3.create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": cloud.region})
    (tmp_path / "model").mkdir()
    for file in tokenizer_of_words(tmp_path / "model").iterdir():
        s3.put_object(Bucket=bucket, Key=prefix + file.name, Body=file.read_bytes())
    source = {"S3Uri": f"s3://{bucket}/{prefix}", "S3DataType": "S3Prefix", "CompressionType": "None"}
    name = f"{endpoint.name}-artifact"
    container = {"Image": IMAGE, "ModelDataSource": {"S3DataSource": source}}
    sagemaker.create_model(ModelName=name, ExecutionRoleArn=ROLE, PrimaryContainer=container)
    variant = {"VariantName": "AllTraffic", "ModelName": name, "InstanceType": "ml.g5.2xlarge"}
    sagemaker.create_endpoint_config(
        EndpointConfigName=name, ProductionVariants=[{**variant, "InitialInstanceCount": 2, "InitialVariantWeight": 1}]
    )
    sagemaker.create_endpoint(EndpointName=name, EndpointConfigName=name)
    until(
        lambda: sagemaker.describe_endpoint(EndpointName=name)["EndpointStatus"], lambda status: status == "InService"
    )
    out = tmp_path / "out"
    ran = run(
        *(f"{name},instance-price-per-hour=1.5", "--prompts", prompts),
        *("--concurrency", 1, "--requests", 4, "--output", out),
    )
    assert ran.exit_code == 0, ran.output
    result = result_of(out)
    assert (result.subject.artifact_key, result.subject.instance_count) == (key, 2)
    assert (result.workload.tokens_counted_by, result.workload.tokenizer) == ("server", source["S3Uri"])
    assert result.workload.token_counts["output"].difference == 0
    assert result.price is not None
    assert result.price.instance_price_per_hour == 3, "two instances"
    assert result.levels[0].metrics["output_tokens"] == TOKENS


def test_without_the_evaluate_extra_the_error_names_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    ran = run("http://127.0.0.1:1/v1")
    assert ran.exit_code == 2
    assert installing("evaluate") in ran.output
