"""How exactly, and at what cost, the evaluator measures: side by side with llmeter and aiperf.

All of them measure a server of exactly known timing (tests/support/timing_server.py), by turns, on this machine:
first token after 200 ms, 50 tokens 20 ms apart, so that a user cannot have more than one answer in 1.18 s. Each runs
in an environment of its own, which is made below bench/.environments at the first run (1 GB, most of it aiperf's).

    .venv/bin/python bench/evaluator.py --concurrency 1,8,64,256 --repeats 3
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import tomllib
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

CHECKOUT = Path(__file__).resolve().parent.parent
ENVIRONMENTS = Path(__file__).resolve().parent / ".environments"
SERVER = CHECKOUT / "tests" / "support" / "timing_server.py"
CLIENTS = Path(__file__).resolve().with_name("evaluation_clients.py")
FIRST_TOKEN_MS, INTER_TOKEN_MS, TOKENS = 200, 20, 50
ANSWER_SECONDS = (FIRST_TOKEN_MS + INTER_TOKEN_MS * (TOKENS - 1)) / 1000
MOST_OFF_AT_64 = 0.03

# httpx is what llmeter 0.2.0 imports and its extra does not bring any more.
LLMETER = ["llmeter[openai]==0.2.0", "httpx"]
AIPERF = ["aiperf==0.13.0"]


@dataclass
class Tool:
    """What measures."""

    name: str
    environment: str
    packages: list[str]
    shown: str
    runs: dict[int, list[dict[str, float]]] = field(default_factory=dict)

    @property
    def folder(self) -> Path:
        """Its environment."""
        return ENVIRONMENTS / self.environment

    @property
    def megabytes(self) -> float:
        """What its environment takes, as Python compiled it."""
        return sum(file.stat().st_size for file in self.folder.rglob("*") if file.is_file()) / 1e6


def tools() -> list[Tool]:
    """Everything that is compared, with what measuring needs: of this library, neither the CDK nor what draws."""
    own = _own_packages()
    # uvloop and httptools, of this library's connections.
    parts = [package for package in own if package.startswith(("httptools", "uvloop"))]
    drawing = ("markdown-it-py", "matplotlib")
    measuring = [package for package in own if not package.startswith(drawing)]
    return [
        Tool("constructs-optim", "constructs-optim", measuring, "constructs-optim"),
        Tool("llmeter", "llmeter", [*LLMETER, *parts], "llmeter 0.2.0"),
        Tool("llmeter-connection", "llmeter", [*LLMETER, *parts], "llmeter's runner, our connections"),
        Tool("aiperf", "aiperf", AIPERF, "aiperf 0.13.0"),
    ]


def with_reports() -> list[Tool]:
    """What it takes to have tokens counted by a tokenizer, and plots, as well."""
    own = Tool("", "constructs-optim-with-reports", _own_packages(), "constructs-optim, with plots")
    llmeter = ["llmeter[openai,plotting,tokenizers]==0.2.0", "httpx"]
    return [own, Tool("", "llmeter-with-reports", llmeter, "llmeter 0.2.0, with tokenizers and plots")]


def _own_packages() -> list[str]:
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    evaluate = [package for package in extras["evaluate"] if not package.startswith("constructs-optim")]
    return [*evaluate, *extras["cli"], "boto3", "pydantic"]


def installed(tool: Tool) -> None:
    """Make a tool's environment, where it is not there yet."""
    stamp = tool.folder / "packages"
    if stamp.exists() and stamp.read_text() == str(tool.packages):
        return
    subprocess.run(["uv", "venv", "--quiet", "--clear", "--python", sys.executable, str(tool.folder)], check=True)
    python = str(tool.folder / "bin" / "python")
    subprocess.run(
        ["uv", "pip", "install", "--quiet", "--compile-bytecode", "--python", python, *tool.packages], check=True
    )
    stamp.write_text(str(tool.packages))


@contextlib.contextmanager
def serving() -> Iterator[str]:
    """The timing server, in a process of its own with this library's environment, for its event loop."""
    python = str(ENVIRONMENTS / "constructs-optim" / "bin" / "python")
    timing = ["--first-token", str(FIRST_TOKEN_MS / 1000), "--inter-token", str(INTER_TOKEN_MS / 1000)]
    command = [python, str(SERVER), *timing, "--tokens", str(TOKENS)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        assert process.stdin is not None
        process.stdin.close()


def measured(tool: Tool, url: str, concurrency: int, requests: int) -> dict[str, float]:
    """One run: what the tool says, the CPU seconds of its processes, and how late the server was meanwhile."""
    _lateness(url)
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    said = (
        _aiperf(tool, url, concurrency, requests)
        if tool.name == "aiperf"
        else _client(tool, url, concurrency, requests)
    )
    seconds = time.perf_counter() - started
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return said | {"cpu": cpu, "seconds": seconds, "late": _lateness(url)}


def _client(tool: Tool, url: str, concurrency: int, requests: int) -> dict[str, float]:
    command = [str(tool.folder / "bin" / "python"), str(CLIENTS), tool.name, url, str(concurrency), str(requests)]
    environment = {**os.environ, "PYTHONPATH": str(CHECKOUT)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode:
        raise SystemExit(f"{tool.name} failed:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def _aiperf(tool: Tool, url: str, concurrency: int, requests: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        prompts = Path(folder, "prompts.jsonl")
        prompts.write_text('{"text": "hello there what is"}\n')
        command = [str(tool.folder / "bin" / "aiperf"), "profile", "--model", "timed", "--url", url]
        command += ["--endpoint-type", "chat", "--streaming", "--concurrency", str(concurrency)]
        command += ["--request-count", str(requests), "--warmup-request-count", str(concurrency)]
        command += ["--input-file", str(prompts), "--custom-dataset-type", "single_turn", "--osl", str(TOKENS)]
        command += ["--tokenizer", str(_tokenizer(Path(folder))), "--artifact-dir", f"{folder}/out", "--ui", "none"]
        done = subprocess.run(command, capture_output=True, text=True, cwd=folder)
        export = Path(folder, "out", "profile_export_aiperf.json")
        if done.returncode or not export.exists():
            raise SystemExit(f"aiperf failed:\n{done.stdout[-2000:]}{done.stderr[-1000:]}")
        said: dict[str, Any] = json.loads(export.read_text())
    return {
        "time_to_first_token_p50": said["time_to_first_token"]["p50"],
        "time_to_first_token_p99": said["time_to_first_token"]["p99"],
        "inter_token_latency_p50": said["inter_token_latency"]["p50"],
        "requests_per_second": said["request_throughput"]["avg"],
        "errors": (said.get("error_request_count") or {}).get("avg", 0),
    }


def _tokenizer(folder: Path) -> Path:
    """A tokenizer of the server's words: aiperf does not measure without one."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = ["[UNK]", "hello", "there", "what", "is", *(f"w{number}" for number in range(TOKENS))]
    tokenizer = Tokenizer(models.WordLevel({word: place for place, word in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    path = folder / "tokenizer"
    path.mkdir()
    tokenizer.save(str(path / "tokenizer.json"))
    special = dict.fromkeys(("unk_token", "pad_token", "eos_token", "bos_token"), "[UNK]")
    (path / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "PreTrainedTokenizerFast", **special}))
    (path / "config.json").write_text('{"model_type": "llama"}')
    return path


def _lateness(url: str) -> float:
    """How late the server's tokens were, the mean since it was asked last, in milliseconds."""
    with urllib.request.urlopen(f"{url}/reset") as answer:
        return json.load(answer)["mean"] * 1000


def table(compared: list[Tool], levels: list[int]) -> Table:
    """The medians of all runs."""
    columns = ("users", "tool", "TTFT p50", "TTFT p99", "ITL p50", "requests/s", "CPU s", "run s", "server late")
    shown = Table(title=f"TTFT {FIRST_TOKEN_MS} ms, ITL {INTER_TOKEN_MS} ms, {TOKENS} tokens; {os.cpu_count()} cores")
    for place, column in enumerate(columns):
        shown.add_column(column, justify="left" if place < 2 else "right")
    for concurrency in levels:
        for tool in compared:
            of = {
                name: statistics.median(run[name] for run in tool.runs[concurrency])
                for name in tool.runs[concurrency][0]
            }
            shown.add_row(
                str(concurrency),
                tool.shown,
                f"{of['time_to_first_token_p50']:.1f} ms",
                f"{of['time_to_first_token_p99']:.1f} ms",
                f"{of['inter_token_latency_p50']:.2f} ms",
                f"{of['requests_per_second']:.1f} of {concurrency / ANSWER_SECONDS:.1f}",
                f"{of['cpu']:.1f}",
                f"{of['seconds']:.1f}",
                f"{of['late']:.1f} ms",
            )
        shown.add_section()
    return shown


def held(compared: list[Tool], levels: list[int]) -> Iterator[tuple[str, bool]]:
    """What is promised of this library's evaluator, and whether it holds."""
    of = {
        (tool.name, level): statistics.median(run["time_to_first_token_p50"] for run in tool.runs[level])
        for tool in compared
        for level in levels
    }
    if 64 in levels:
        off = abs(of["constructs-optim", 64] / FIRST_TOKEN_MS - 1)
        yield f"time to first token within {MOST_OFF_AT_64:.0%} at 64 users: {off:.1%} off", off <= MOST_OFF_AT_64
    if 256 in levels and ("aiperf", 256) in of:
        ours, theirs = of["constructs-optim", 256], of["aiperf", 256]
        yield f"no worse than aiperf at 256 users: {ours:.1f} against {theirs:.1f} ms", ours <= theirs


def main() -> None:
    """Measure, print the table, and fail when a promise is broken."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--concurrency", default="1,8,64,256")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--requests-a-user", type=int, default=6)
    parser.add_argument("--only", help="tools, with commas between them")
    parser.add_argument("--sizes", action="store_true", help="install what reports need as well, and tell its size")
    given = parser.parse_args()
    levels = [int(level) for level in given.concurrency.split(",")]
    compared = [tool for tool in tools() if given.only is None or tool.name in given.only.split(",")]
    console = Console(width=140)
    for tool in [tools()[0], *compared]:
        installed(tool)
    with serving() as url:
        for repeat in range(given.repeats):
            for concurrency in levels:
                for tool in compared:
                    run = measured(tool, url, concurrency, concurrency * given.requests_a_user)
                    tool.runs.setdefault(concurrency, []).append(run)
                    first = f"{run['time_to_first_token_p50']:.1f} ms (load {os.getloadavg()[0]:.1f})"
                    console.print(f"{repeat + 1}: {concurrency} {tool.shown}: {first}")
    console.print(table(compared, levels))
    further = with_reports() if given.sizes else []
    for tool in further:
        installed(tool)
    for tool in [*compared, *further]:
        console.print(f"{tool.shown}: {tool.megabytes:.0f} MB installed")
    promises = list(held(compared, levels)) if compared[0].name == "constructs-optim" else []
    for promise, holds in promises:
        console.print(f"{'✓' if holds else '✗'} {promise}")
    if not all(holds for _, holds in promises):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
