"""Measure a real vLLM with this library's evaluation, and test forecasts of it: calibrated on 4 of 12, tested on 8."""

from __future__ import annotations

import math
import os
import signal
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.request import urlopen

from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from targets import Target, target_table

from constructs_optim.recipe.evaluation.result import EvaluationResult
from constructs_optim.recipe.forecast import FIGURES, Calibration, Figure, Measured, about, published

ROOT = Path(__file__).resolve().parents[2]
_GOAL = 0.2
# Share of 90% intervals that must hold, as for the published measurements.
_COVERED = 0.85
_HEALTHY_IN = 400.0
# One token per word, so that the tokens of a response's text equal the generated ones.
TOKENIZER = """
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast
def save_tokenizer(folder, size):
    words = ["<unk>", "<s>", "</s>", *(f"w{number}" for number in range(size - 3))]
    tokenizer = Tokenizer(models.WordLevel({word: index for index, word in enumerate(words)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, unk_token="<unk>", bos_token="<s>", eos_token="</s>"
    )
    fast.chat_template = "{% for message in messages %}{{ message['content'] }}{% endfor %}"
    fast.save_pretrained(folder)
"""


class Level(NamedTuple):
    """A measurement of a server: mean tokens of prompts and responses, users, and the figures by name."""

    input_tokens: float
    output_tokens: float
    users: int
    figures: Mapping[Figure, float]


class Trial(NamedTuple):
    """A measured configuration, with its uncalibrated forecast."""

    name: str
    """The model."""
    group: str
    """The group of its errors."""
    level: Level
    forecast: Mapping[Figure, float]

    @property
    def work(self) -> float:
        """The key to find the smallest and largest configurations."""
        return self.level.input_tokens * self.level.users

    @property
    def recipe(self) -> str:
        """The key of own measurements."""
        return f"{self.name} for {about(self.level.input_tokens)} + {about(self.level.output_tokens)}"


@contextmanager
def served(python: Path, folder: Path, options: str, variables: Mapping[str, str]) -> Iterator[str]:
    """Serve a model with vLLM, without a prefix cache, and yield it as a target of ``constructs-optim evaluate``."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [str(python), "-m", "vllm.entrypoints.cli.main", "serve", str(folder), "--served-model-name", "small"]
    command += ["--no-enable-prefix-caching", "--host", "127.0.0.1", "--port", str(port), *options.split()]
    log = folder.with_suffix(".log")
    with log.open("wb") as output:
        server = subprocess.Popen(
            command, env={**os.environ, "HF_HUB_OFFLINE": "1", **variables}, stdout=output, stderr=subprocess.STDOUT
        )
    try:
        deadline = time.monotonic() + _HEALTHY_IN
        while not _is_healthy(f"http://127.0.0.1:{port}/health"):
            if server.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(log.read_text(encoding="utf-8")[-6000:])
            time.sleep(1)
        yield f"http://127.0.0.1:{port}/v1,model=small,tokenizer={folder}"
    finally:
        server.send_signal(signal.SIGINT)
        server.wait(timeout=60)


def _is_healthy(url: str) -> bool:
    try:
        with urlopen(url, timeout=10) as response:
            return response.status == 200
    except OSError:
        return False


def evaluated(
    target: str, input_tokens: str, output_tokens: str, users: Sequence[int], requests: int, folder: Path
) -> list[Level]:
    """Measure a target with this library's evaluation: ``requests`` for each number of users."""
    output = folder / f"evaluation-{input_tokens}-{'-'.join(map(str, users))}"
    options = f"--input-tokens {input_tokens} --output-tokens {output_tokens} --unique-prompts --requests {requests}"
    # With random weights, the most likely token is always the same and may have no text.
    options += " --parameter ignore_eos=true --parameter temperature=1"
    options += f" --concurrency {','.join(map(str, users))} --output {output}"
    output_of([sys.executable, "-m", "constructs_optim", "evaluate", target, *options.split()])
    result = EvaluationResult.model_validate_json((output / "endpoint.json").read_bytes())
    return [
        Level(
            round(level.metrics["input_tokens"]),
            round(level.metrics["output_tokens"]),
            level.concurrency or 1,
            {
                "time_to_first_token": level.metrics["time_to_first_token"] / 1000,
                "inter_token_latency": level.metrics["inter_token_latency"] / 1000,
                "requests_per_second": level.metrics["requests_per_second"],
            },
        )
        for level in result.levels
    ]


def output_of(command: list[str]) -> str:
    """Return a program's output. If it fails, exit with its error output."""
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{command[:4]}\n{done.stdout[-1500:]}\n{done.stderr[-3000:]}")
    return done.stdout


def judged(title: str, trials: Sequence[Trial]) -> int:
    """Calibrate, test and print. Return the exit status.

    The forecast is calibrated on each model's shortest requests with the fewest users, and longest with the most.
    """
    known = [
        extreme((each for each in trials if each.name == name), key=lambda each: each.work)
        for name in dict.fromkeys(each.name for each in trials)
        for extreme in (min, max)
    ]
    before = published()
    after = before.learning(
        Measured(figure, each.group, each.recipe, each.level.figures[figure], each.forecast[figure])
        for each in known
        for figure in FIGURES
    )
    table = Table(title=f"{title}; * calibrated on")
    for heading in ("configuration", *FIGURES):
        table.add_column(heading)
    for each in trials:
        mark = "*" if each in known else ""
        name = f"{each.name}, {each.level.input_tokens:g}+{each.level.output_tokens:g}, {each.level.users} users{mark}"
        cells: list[str] = []
        for figure in FIGURES:
            value, error = _corrected(after, each, figure), _error(after, each, figure)
            cells.append(f"{each.level.figures[figure]:.3g}, forecast {value:.3g} ({error:+.0%})")
        table.add_row(name, *cells)
    console = Console(width=150)
    console.print(table)
    tested = [each for each in trials if each not in known]
    for name, calibration in (("before", before), ("after", after)):
        held = [_holds(calibration, each, figure) for each in tested for figure in FIGURES]
        medians = ", ".join(f"{figure} {_median(calibration, tested, figure):.1%}" for figure in FIGURES)
        console.print(f"{name}: median error of {medians}; {sum(held)} of {len(held)} intervals hold")
    targets = [
        Target(f"median error of {figure}", f"{median:.1%}", f"at most {_GOAL:.0%}", median <= _GOAL)
        for figure in FIGURES
        for median in (_median(after, tested, figure),)
    ]
    held = [_holds(after, each, figure) for each in tested for figure in FIGURES]
    share = sum(held) / len(held)
    targets.append(Target("intervals that hold", f"{share:.0%}", f"at least {_COVERED:.0%}", share >= _COVERED))
    console.print(target_table(targets))
    return 0 if all(target.holds for target in targets) else 1


def _corrected(calibration: Calibration, each: Trial, figure: Figure) -> float:
    return each.forecast[figure] * math.exp(calibration.errors[figure].of(each.group, each.recipe)[0])


def _error(calibration: Calibration, each: Trial, figure: Figure) -> float:
    return _corrected(calibration, each, figure) / each.level.figures[figure] - 1


def _median(calibration: Calibration, trials: Sequence[Trial], figure: Figure) -> float:
    return statistics.median(abs(_error(calibration, each, figure)) for each in trials)


def _holds(calibration: Calibration, each: Trial, figure: Figure) -> bool:
    errors = calibration.errors[figure]
    deviation = errors.of(each.group, each.recipe)[1]
    return abs(math.log1p(_error(calibration, each, figure))) <= errors.quantile * deviation
