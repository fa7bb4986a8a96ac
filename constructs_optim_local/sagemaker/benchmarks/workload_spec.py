"""The inline document of a workload configuration: a benchmark's requests, validated as the service does.

Sources: SageMaker developer guide, "Set up a workload configuration", "Benchmark generative AI inference endpoints" and
"Find the maximum concurrency an endpoint can serve under an SLA"; for the names of the other parameters, AIPerf's
``CLIConfig``; for the validation when the configuration is created, the CloudFormation schema of
AWS::SageMaker::AIWorkloadConfig.

Assumed, without a source: the wording of a refusal; without ``request_count`` and ``benchmark_duration``, a benchmark
sends two requests for each user, and at least 10; types are not converted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

_TOP = ("benchmark", "parameters", "secrets", "tooling")
_NUMBER, _WHOLE, _TEXT, _SWITCH = (int, float), (int,), (str,), (bool,)
_PARAMETERS: Mapping[str, tuple[type, ...]] = {
    "arrival_smoothness": _NUMBER,
    "benchmark_duration": _NUMBER,
    "benchmark_grace_period": _NUMBER,
    "concurrency": (int, list),
    "concurrency_max": _WHOLE,
    "concurrency_min": _WHOLE,
    "custom_dataset_type": _TEXT,
    "dataset_sampling_strategy": _TEXT,
    "e2e_sla_ms": _NUMBER,
    "error_rate_sla": _NUMBER,
    "extra_inputs": _TEXT,
    "goodput": _TEXT,
    "image_batch_size": _WHOLE,
    "image_format": _TEXT,
    "image_height_mean": _NUMBER,
    "image_height_stddev": _NUMBER,
    "image_width_mean": _NUMBER,
    "image_width_stddev": _NUMBER,
    "input_file": _TEXT,
    "max_concurrency": _WHOLE,
    "model_selection_strategy": _TEXT,
    "num_conversations": _WHOLE,
    "output_tokens_mean": _NUMBER,
    "output_tokens_stddev": _NUMBER,
    "prefill_concurrency": _WHOLE,
    "prompt_input_tokens_mean": _NUMBER,
    "prompt_input_tokens_stddev": _NUMBER,
    "public_dataset": _TEXT,
    "random_seed": _WHOLE,
    "request_count": _WHOLE,
    "request_rate": _NUMBER,
    "request_rate_mode": _TEXT,
    "request_timeout_seconds": _NUMBER,
    "search_max_iterations": _WHOLE,
    "search_recipe": _TEXT,
    "search_stat": _TEXT,
    "streaming": _SWITCH,
    "tokenizer": _TEXT,
    "tpot_sla_ms": _NUMBER,
    "ttft_sla_ms": _NUMBER,
    "video_audio_codec": _TEXT,
    "video_audio_depth": _WHOLE,
    "video_audio_num_channels": _WHOLE,
    "video_audio_sample_rate": _WHOLE,
    "video_batch_size": _WHOLE,
    "video_codec": _TEXT,
    "video_duration": _NUMBER,
    "video_format": _TEXT,
    "video_fps": _WHOLE,
    "video_height": _WHOLE,
    "video_synth_type": _TEXT,
    "video_width": _WHOLE,
    "warmup_concurrency": _WHOLE,
    "warmup_duration": _NUMBER,
    "warmup_grace_period": _NUMBER,
    "warmup_num_conversations": _WHOLE,
    "warmup_prefill_concurrency": _WHOLE,
    "warmup_request_count": _WHOLE,
    "warmup_request_rate": _NUMBER,
}
_CHOICES = {
    "model_selection_strategy": ("round_robin", "random"),
    "request_rate_mode": ("constant", "poisson", "gamma"),
    "search_recipe": ("max-concurrency-under-sla",),
    "search_stat": ("avg", "p50", "p90", "p95", "p99"),
    "video_format": ("webm",),
    "video_codec": ("libvpx-vp9",),
}
_AT_LEAST_ONE = ("concurrency", "concurrency_min", "concurrency_max", "request_count", "search_max_iterations")
_SLA = {"ttft_sla_ms": True, "tpot_sla_ms": True, "e2e_sla_ms": False, "error_rate_sla": False}
"""The possible thresholds of a search, and whether each needs streaming."""
_DATASET_FOLDER = "/opt/ml/input/data/"
_DATASET_FILE = re.compile(f"{_DATASET_FOLDER}[^/]+/.+")


@dataclass(frozen=True)
class Workload:
    """A valid document, with AIPerf's defaults filled in.

    Attributes:
        concurrencies: numbers of concurrent users, one benchmark each; empty for a search.
        is_sweep: whether the document lists several numbers of users.
        input_tokens: mean and standard deviation of a prompt's length.
        output_tokens: mean and standard deviation of an output's length.
        parameters: all requested parameters.
    """

    concurrencies: tuple[int, ...]
    is_sweep: bool
    input_tokens: tuple[float, float]
    output_tokens: tuple[float, float]
    parameters: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def streaming(self) -> bool:
        """Whether responses are streamed. If not, the time to first token is unknown."""
        return self.parameters.get("streaming", True)

    @property
    def seed(self) -> int:
        """The random seed."""
        return self.parameters.get("random_seed", 42)

    @property
    def duration(self) -> float | None:
        """The duration of a benchmark in seconds, if the number of requests is not set."""
        return self.parameters.get("benchmark_duration")

    @property
    def slas(self) -> dict[str, float]:
        """The limits that a search must meet, by parameter."""
        return {name: float(self.parameters[name]) for name in _SLA if name in self.parameters}

    @property
    def dataset(self) -> tuple[str, str] | None:
        """The channel and file of the prompts; None for synthetic prompts."""
        path = self.parameters.get("input_file")
        if path is None:
            return None
        channel, _, name = path.removeprefix(_DATASET_FOLDER).partition("/")
        return channel, name

    def request_count(self, concurrency: int) -> int | None:
        """Return the number of requests for a number of users; None if the duration limits the benchmark."""
        count = self.parameters.get("request_count", self.parameters.get("num_conversations"))
        if count is not None or self.duration is not None:
            return count
        return max(10, 2 * concurrency)

    def pairs(self, name: str) -> dict[str, str]:
        """Return a parameter of the form ``name:value name:value``, such as ``goodput``."""
        return dict(item.split(":", 1) for item in str(self.parameters.get(name, "")).split())


class BadWorkload(ValueError):
    """A document that the service refuses, with all its problems."""


def parsed(inline: str) -> Workload:
    """Read a document, which is JSON or YAML.

    Raises:
        BadWorkload: if the document is invalid. The text names every problem.
    """
    try:
        document = yaml.safe_load(inline)
    except yaml.YAMLError as error:
        raise BadWorkload(f"The document is neither JSON nor YAML: {' '.join(str(error).split())}") from None
    if not isinstance(document, dict):
        raise BadWorkload("The document must be an object")
    problems = list(_problems(document))
    if problems:
        raise BadWorkload("; ".join(problems))
    values: dict[str, Any] = document.get("parameters") or {}
    listed = values.get("concurrency", 1)
    searches = "search_recipe" in values
    return Workload(
        concurrencies=() if searches else tuple(listed) if isinstance(listed, list) else (listed,),
        is_sweep=isinstance(listed, list),
        input_tokens=(
            float(values.get("prompt_input_tokens_mean", 550)),
            float(values.get("prompt_input_tokens_stddev", 0)),
        ),
        output_tokens=(float(values.get("output_tokens_mean", 150)), float(values.get("output_tokens_stddev", 0))),
        parameters=values,
    )


def _problems(document: Mapping[str, Any]) -> Iterator[str]:
    for key in sorted(set(document) - set(_TOP), key=str):
        yield f"{key} is not allowed; use {', '.join(_TOP)}"
    benchmark = document.get("benchmark")
    if not isinstance(benchmark, dict) or benchmark.get("type") != "aiperf":
        yield "benchmark.type is required, and must match ^(aiperf)$"
    elif set(benchmark) != {"type"}:
        yield f"benchmark has members other than type: {', '.join(sorted(set(benchmark) - {'type'}))}"
    for part in ("parameters", "secrets", "tooling"):
        if not isinstance(document.get(part) or {}, dict):
            yield f"{part} must be an object"
            return
    yield from _parameter_problems(document.get("parameters") or {})
    for name, arn in (document.get("secrets") or {}).items():
        if not str(arn).startswith("arn:") or ":secretsmanager:" not in str(arn):
            yield f"secrets.{name} must be the ARN of a secret of AWS Secrets Manager"
    tooling = document.get("tooling") or {}
    for key in sorted(set(tooling) - {"api_standard", "version"}):
        yield f"tooling.{key} is not allowed; use api_standard, version"
    if tooling.get("api_standard", "openai") != "openai":
        yield "tooling.api_standard must be openai"


def _parameter_problems(values: Mapping[str, Any]) -> Iterator[str]:
    for name, value in values.items():
        kinds = _PARAMETERS.get(name)
        if kinds is None:
            yield f"parameters.{name} is not a parameter of aiperf"
        elif not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            yield f"parameters.{name} is {json.dumps(value)}, and must be {' or '.join(_named(k) for k in kinds)}"
        elif name in _CHOICES and value not in _CHOICES[name]:
            yield f"parameters.{name} must be one of {', '.join(_CHOICES[name])}"
        elif name == "concurrency" and isinstance(value, list):
            if not value or not all(type(item) is int and item > 0 for item in value):
                yield "parameters.concurrency must list whole numbers above zero"
        elif isinstance(value, int | float) and not isinstance(value, bool):
            least = 1 if name in _AT_LEAST_ONE else 0
            if value < least:
                yield f"parameters.{name} is {value}, and must be at least {least}"
    for name in ("goodput", "extra_inputs"):
        if any(":" not in item for item in str(values.get(name, "")).split()):
            yield f"parameters.{name} must be of the form name:value name:value"
    path = values.get("input_file")
    if isinstance(path, str) and not _DATASET_FILE.fullmatch(path):
        yield f"parameters.input_file must be {_DATASET_FOLDER}<channel>/<file>"
    yield from _search_problems(values)


def _search_problems(values: Mapping[str, Any]) -> Iterator[str]:
    slas = [name for name in _SLA if name in values]
    if "search_recipe" not in values:
        if slas:
            yield f"{', '.join(f'parameters.{name}' for name in slas)} needs search_recipe"
        return
    if not slas:
        yield f"parameters.search_recipe needs at least one of {', '.join(_SLA)}"
    if "concurrency" in values:
        yield "parameters.search_recipe finds the concurrency: omit concurrency"
    if values.get("streaming") is False and (needing := [name for name in slas if _SLA[name]]):
        yield f"{', '.join(f'parameters.{name}' for name in needing)} needs streaming"
    if values.get("concurrency_min", 1) > values.get("concurrency_max", 1000):
        yield "parameters.concurrency_min must not exceed concurrency_max"


def _named(kind: type) -> str:
    names = {int: "a whole number", float: "a number", str: "a text", bool: "true or false", list: "a list"}
    return names[kind]
