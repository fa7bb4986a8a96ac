"""The commands that run each tool against the timing server, and the locations of its results.

This file runs tools without their own command, in their environment:

    python bench/evaluation_clients.py TOOL URL USERS REQUESTS FILE

writes a JSON object of milliseconds, requests per second and errors.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import sys
import tomllib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).resolve().parent.parent
ENVIRONMENTS = Path(__file__).resolve().parent / ".environments"
FIRST_TOKEN_MS, INTER_TOKEN_MS, TOKENS = 200, 20, 50
ANSWER_SECONDS = (FIRST_TOKEN_MS + INTER_TOKEN_MS * (TOKENS - 1)) / 1000
PROMPT = "hello there what is"
MESSAGES = [{"role": "user", "content": PROMPT}]

METRICS = ("first_p50", "first_p99", "inter_token_p50", "requests_per_second", "errors")


@dataclass
class Run:
    """One run of a tool: the number of users, and the counted requests of each."""

    url: str
    users: int
    requests_a_user: int
    folder: Path

    @property
    def requests(self) -> int:
        """The number of counted requests."""
        return self.users * self.requests_a_user

    def write_prompts(self) -> Path:
        """Write a file of prompts, enough for all requests, because some tools send each prompt once."""
        path = self.folder / "prompts.jsonl"
        path.write_text((json.dumps({"text": PROMPT, "prompt": PROMPT}) + "\n") * (self.requests + 2 * self.users))
        return path

    def write_tokenizer(self) -> Path:
        """Write a tokenizer of the server's words, which most tools require."""
        from tokenizers import Tokenizer, models, pre_tokenizers

        words = ["[UNK]", *PROMPT.split(), *(f"w{number}" for number in range(TOKENS))]
        tokenizer = Tokenizer(models.WordLevel({word: place for place, word in enumerate(words)}, unk_token="[UNK]"))
        tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
        path = self.folder / "tokenizer"
        path.mkdir()
        tokenizer.save(str(path / "tokenizer.json"))
        special = dict.fromkeys(("unk_token", "pad_token", "eos_token", "bos_token"), "[UNK]")
        kind = {"tokenizer_class": "PreTrainedTokenizerFast", **special}
        (path / "tokenizer_config.json").write_text(json.dumps(kind))
        (path / "config.json").write_text('{"model_type": "llama"}')
        return path


@dataclass
class Tool:
    """A measuring tool.

    Its command is ``program`` in its environment, followed by ``arguments``. ``paths`` locate the metrics in its
    ``result``, a JSON file, in units of ``milliseconds``. ``one_of_five`` is whether this library's evaluator must
    match it.
    """

    name: str
    packages: list[str]
    program: str
    arguments: Callable[[Run], list[str]]
    result: str = "result.json"
    paths: tuple[str, ...] = METRICS
    milliseconds: float = 1
    environment: str = ""
    python: str = sys.executable
    one_of_five: bool = True
    installed_mb: float = 0
    runs: dict[int, list[dict[str, float]]] = field(default_factory=dict)

    @property
    def folder(self) -> Path:
        """The folder of the tool's environment."""
        return ENVIRONMENTS / (self.environment or self.name.split()[0])

    def command(self, run: Run) -> list[str]:
        """Return the command of a run."""
        (program,) = self.folder.glob(self.program)
        return [str(program), *self.arguments(run)]

    def measured(self, run: Run) -> dict[str, float]:
        """Return the tool's results of a run."""
        said = json.loads((run.folder / self.result).read_text())
        values = [_at(said, path) for path in self.paths]
        return {
            name: float(value or 0) * (1 if name in ("requests_per_second", "errors") else self.milliseconds)
            for name, value in zip(METRICS, values, strict=True)
        }


def _at(said: Any, path: str) -> Any:
    for key in path.split("."):
        # aiperf has no error count if there are no errors.
        said = said[int(key)] if isinstance(said, list) else (said or {}).get(key)
    return said


def tools() -> list[Tool]:
    """Return the compared tools, starting with this library's load, without the CDK, which it does not need."""
    vllm = ["vllm[bench]==0.33.0"]
    of_vllm = ("p50_ttft_ms", "p99_ttft_ms", "p50_tpot_ms", "request_throughput", "failed")
    return [
        Tool(
            "constructs-optim",
            _own_packages("evaluate"),
            "bin/python",
            lambda run: _by_this_file("constructs_optim", run),
        ),
        # The whole command, with the plots of its report.
        Tool(
            "constructs-optim evaluate",
            _own_packages("evaluate", "plots"),
            "bin/constructs-optim",
            _evaluate,
            "out/endpoint.json",
            (
                "levels.0.metrics.time_to_first_token_p50",
                "levels.0.metrics.time_to_first_token_p99",
                "levels.0.metrics.inter_token_latency_p50",
                "levels.0.metrics.requests_per_second",
                "levels.0.metrics.client_invocation_errors",
            ),
            environment="constructs-optim-evaluate",
            one_of_five=False,
        ),
        # llmeter 0.2.0 imports httpx, but its extra no longer includes it.
        Tool(
            "llmeter 0.2.0",
            ["llmeter[openai]==0.2.0", "httpx"],
            "bin/python",
            lambda run: _by_this_file("llmeter", run),
        ),
        Tool(
            "aiperf 0.13.0",
            ["aiperf==0.13.0"],
            "bin/aiperf",
            _aiperf,
            "out/profile_export_aiperf.json",
            (
                "time_to_first_token.p50",
                "time_to_first_token.p99",
                "inter_token_latency.p50",
                "request_throughput.avg",
                "error_request_count.avg",
            ),
        ),
        Tool(
            "guidellm 0.8.1",
            ["guidellm==0.8.1"],
            "bin/guidellm",
            _guidellm,
            paths=(
                "benchmarks.0.metrics.time_to_first_token_ms.successful.median",
                "benchmarks.0.metrics.time_to_first_token_ms.successful.percentiles.p99",
                "benchmarks.0.metrics.inter_token_latency_ms.successful.median",
                "benchmarks.0.metrics.requests_per_second.successful.mean",
                "benchmarks.0.metrics.request_totals.errored",
            ),
        ),
        Tool("vllm 0.33.0 bench serve", vllm, "bin/vllm", _vllm, paths=of_vllm),
        # vLLM's client in Rust, in the same package.
        Tool(
            "vllm-rs 0.33.0 bench serve",
            vllm,
            "lib/python*/site-packages/vllm/vllm-rs",
            _vllm,
            paths=of_vllm,
            environment="vllm",
            one_of_five=False,
        ),
        Tool(
            "inference-perf 0.7.0",
            ["inference-perf==0.7.0"],
            "bin/inference-perf",
            _inference_perf,
            "out/stage_1_lifecycle_metrics.json",
            (
                "successes.latency.time_to_first_token.median",
                "successes.latency.time_to_first_token.p99",
                "successes.latency.time_per_output_token.median",
                "successes.throughput.requests_per_sec",
                "failures.count",
            ),
            milliseconds=1000,
            python="3.12",
        ),
    ]


def _own_packages(*extras: str) -> list[str]:
    """Return the packages of this library's extras, and those that its base needs besides the CDK."""
    known = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    named = [package for extra in (*extras, "cli") for package in known[extra]]
    return [*(package for package in named if not package.startswith("constructs-optim")), "boto3", "pydantic"]


def _by_this_file(tool: str, run: Run) -> list[str]:
    arguments = (run.url, run.users, run.requests, run.folder / "result.json")
    return [str(Path(__file__).resolve()), tool, *map(str, arguments)]


def _evaluate(run: Run) -> list[str]:
    """Return the arguments. The warm-up is the default, one request per user."""
    return [
        *("evaluate", f"{run.url}/v1,model=timed", "--prompts", str(run.write_prompts()), "--max-tokens", str(TOKENS)),
        *("--concurrency", str(run.users), "--requests", str(run.requests), "--output", str(run.folder / "out")),
    ]


def _aiperf(run: Run) -> list[str]:
    """Return the arguments. The warm-up is one request per user. Users then begin again, over the time of a response.

    The requests per second include that second beginning.
    """
    return [
        *("profile", "--model", "timed", "--url", run.url, "--endpoint-type", "chat", "--streaming"),
        *("--concurrency", str(run.users), "--request-count", str(run.requests)),
        *("--warmup-request-count", str(run.users), "--concurrency-ramp-duration", str(ANSWER_SECONDS)),
        *("--input-file", str(run.write_prompts())),
        *("--custom-dataset-type", "single_turn", "--osl", str(TOKENS), "--tokenizer", str(run.write_tokenizer())),
        *("--artifact-dir", str(run.folder / "out"), "--ui", "none"),
    ]


def _guidellm(run: Run) -> list[str]:
    """Return the arguments. Users begin over the time of a response. Their first and last requests do not count."""
    not_counted = {"mode": "requests", "value": run.users}
    profile = {"kind": "concurrent", "streams": run.users, "rampup_duration": ANSWER_SECONDS}
    return [
        *("run", "--backend", f"kind=openai_http,target={run.url},model=timed,max_tokens={TOKENS}"),
        *("--profile", json.dumps({**profile, "warmup": not_counted, "cooldown": not_counted})),
        *("--constraint", f"kind=max_requests,count={run.requests + 2 * run.users}"),
        *("--data", f"kind=json_file,path={run.write_prompts()}"),
        *("--tokenizer", f"kind=huggingface_auto,model={run.write_tokenizer()}"),
        *("--output", f"kind=json,path={run.folder / 'result.json'}", "--disable-console"),
    ]


def _vllm(run: Run) -> list[str]:
    """Return the arguments. The warm-up is one request per user and ends before counted requests begin."""
    return [
        *("bench", "serve", "--backend", "vllm", "--base-url", run.url, "--model", "timed"),
        *(
            "--tokenizer",
            str(run.write_tokenizer()),
            "--dataset-name",
            "custom",
            "--dataset-path",
            str(run.write_prompts()),
        ),
        *("--skip-chat-template", "--custom-output-len", str(TOKENS), "--num-prompts", str(run.requests)),
        *("--num-warmups", str(run.users), "--max-concurrency", str(run.users), "--metric-percentiles", "50,99"),
        *("--disable-tqdm", "--save-result", "--result-dir", str(run.folder), "--result-filename", "result.json"),
    ]


def _inference_perf(run: Run) -> list[str]:
    """Return the arguments. The warm-up is a first stage of one request per user."""
    length = {"type": "fixed", "std_dev": 0}
    prompt, output = (length | dict.fromkeys(("min", "max", "mean"), tokens) for tokens in (4, TOKENS))
    stages = [{"num_requests": count, "concurrency_level": run.users} for count in (run.users, run.requests)]
    config = {
        "api": {"type": "completion", "streaming": True},
        "data": {"type": "random", "input_distribution": prompt, "output_distribution": output},
        # By default, each process has at most 100 concurrent requests.
        "load": {"type": "concurrent", "interval": 0, "stages": stages, "worker_max_concurrency": run.users},
        "server": {"type": "vllm", "model_name": "timed", "base_url": run.url},
        "tokenizer": {"pretrained_model_name_or_path": str(run.write_tokenizer())},
        "storage": {"local_storage": {"path": str(run.folder / "out")}},
    }
    # JSON is YAML.
    (run.folder / "config.yml").write_text(json.dumps(config))
    return ["--config_file", str(run.folder / "config.yml")]


def constructs_optim(url: str, users: int, requests: int) -> tuple[float, ...]:
    """Run this library's own load, without command and report."""
    import uvloop

    from constructs_optim.evaluator.connection import UrlTarget
    from constructs_optim.evaluator.load import MeasuredLevel, Sender
    from constructs_optim.evaluator.options import ClosedLoop, Generation
    from constructs_optim.evaluator.prompts import Prompt
    from constructs_optim.evaluator.streaming import ChatFormat
    from constructs_optim.evaluator.summary import summarize_level
    from constructs_optim.evaluator.tokens import count_tokens

    prompts = [Prompt.model_validate({"messages": MESSAGES})]
    sender = Sender(UrlTarget(f"{url}/v1", model="timed"), ChatFormat, prompts, Generation(max_tokens=TOKENS))
    level, load = MeasuredLevel(), ClosedLoop(concurrency=users, requests=requests)

    async def measure() -> None:
        await sender.choose_format([ChatFormat], load.timeout_seconds)
        await sender.run(load, level)

    uvloop.run(measure())
    count_tokens(level.records, prompts, None, chat=True)
    metrics = summarize_level(load, level, None).metrics
    return (
        metrics["time_to_first_token_p50"],
        metrics["time_to_first_token_p99"],
        metrics["inter_token_latency_p50"],
        metrics["requests_per_second"],
        metrics["client_invocation_errors"],
    )


def llmeter(url: str, users: int, requests: int) -> tuple[float, ...]:
    """Run llmeter, which has no warm-up."""
    os.environ["LLMETER_DISABLE_ALL_PROGRESS_BARS"] = "1"
    from llmeter.endpoints.openai import OpenAICompletionStreamEndpoint  # pyright: ignore[reportMissingImports]
    from llmeter.runner import Runner  # pyright: ignore[reportMissingImports]

    runner = Runner(
        endpoint=OpenAICompletionStreamEndpoint("timed", api_key="none", base_url=f"{url}/v1"),
        clients=users,
        n_requests=requests // users,
        payload={"messages": MESSAGES, "max_tokens": TOKENS},
    )
    result = asyncio.run(runner.run())
    answered = [each for each in result.responses if not each.error]
    first = [each.time_to_first_token * 1000 for each in answered]
    return (
        statistics.median(first),
        statistics.quantiles(first, n=100, method="inclusive")[98],
        statistics.median(each.time_per_output_token * 1000 for each in answered),
        len(answered) / result.total_test_time,
        len(result.responses) - len(answered),
    )


if __name__ == "__main__":
    client = {"constructs_optim": constructs_optim, "llmeter": llmeter}[sys.argv[1]]
    measured = client(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
    Path(sys.argv[5]).write_text(json.dumps(dict(zip(METRICS, measured, strict=True))))
