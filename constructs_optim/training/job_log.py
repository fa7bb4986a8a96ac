"""The job's log, which goes to CloudWatch Logs and from which SageMaker reads the job's metrics.

Standard library only, because recipes make a job's metric definitions from the names here.

A line is ``name=value; name=value;``. SageMaker searches a job's output with the regular expressions of its
``MetricDefinitions`` and publishes the matches (API reference, AlgorithmSpecification: at most 40 of them, names of at
most 255 characters, expressions of at most 500).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

MOST_DEFINITIONS = 40
VALIDATION = "validation_"
_NUMBER = r"([-+]?[0-9]*\.?[0-9]+(?:[eE][-+]?[0-9]+)?)"


@dataclass(frozen=True)
class MetricDefinition:
    """One of a job's ``MetricDefinitions``: ``name`` is the metric's name in CloudWatch, ``regex`` finds its value."""

    name: str
    regex: str


def definition(name: str, group: str = "medusa") -> MetricDefinition:
    """Return the definition that finds the whole ``name`` in a line: not ``loss`` in ``head_1_loss``.

    Args:
        name: the name in the line.
        group: prefix of the metric's name in CloudWatch.
    """
    return MetricDefinition(f"{group}:{name}", rf"(?:^|\s){name}={_NUMBER};")


def fine_tuning_metrics() -> tuple[str, ...]:
    """Return fine-tuning's metrics. Losses are cross-entropies in nats per token, accuracies are shares."""
    return ("loss", "token_accuracy", "learning_rate", f"{VALIDATION}loss", f"{VALIDATION}token_accuracy")


def head_training_metrics(heads: int) -> tuple[str, ...]:
    """Return head training's metrics, most important first, up to the limit of definitions for a job.

    ``loss`` is the weighted sum to minimize. For each head, there is ``head_1_loss``, and ``head_1_top1_accuracy`` and
    ``head_1_top5_accuracy``, the share of tokens that are the head's first guess, or among its first five.

    Args:
        heads: number of heads.
    """
    names = ["loss", "learning_rate", f"{VALIDATION}loss"]
    for metric in ("top1_accuracy", "loss", "top5_accuracy"):
        for prefix in (VALIDATION, ""):
            names += [f"{prefix}head_{head}_{metric}" for head in range(1, heads + 1)]
    return tuple(names[:MOST_DEFINITIONS])


def quantization_metrics(*, calibrates: bool) -> tuple[str, ...]:
    """Return a quantization's metrics: relative errors of the layers' weights, and losses on samples in nats per token.

    Args:
        calibrates: whether the job has samples.
    """
    names = ("weight_error", "largest_weight_error", "size_gb", "original_size_gb")
    return (*names, "loss", "quantized_loss") if calibrates else names


def line(values: Mapping[str, float]) -> str:
    """Return a line with the metrics, in the format that the definitions match."""
    return " ".join(f"{name}={value:.6g};" for name, value in values.items())


def say(text: str) -> None:
    """Print a line and flush it."""
    print(text, flush=True)  # noqa: T201 - a job's log is its standard output
