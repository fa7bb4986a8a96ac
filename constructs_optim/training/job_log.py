"""The job's log: what is printed here is in CloudWatch Logs, and the job's metrics are read from it.

Standard library only: a job's metric definitions are made from the names here.

A line is ``name=value; name=value;``. SageMaker reads a job's output with the regular expressions of its
``MetricDefinitions`` and publishes what they find (API reference, AlgorithmSpecification: at most 40 of them, names of
at most 255 characters, expressions of at most 500).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

MOST_DEFINITIONS = 40
VALIDATION = "validation_"
_NUMBER = r"([-+]?[0-9]*\.?[0-9]+(?:[eE][-+]?[0-9]+)?)"


@dataclass(frozen=True)
class MetricDefinition:
    """One of a job's ``MetricDefinitions``: ``name`` is the metric's in CloudWatch, ``regex`` finds its value."""

    name: str
    regex: str


def definition(name: str, group: str = "medusa") -> MetricDefinition:
    """The definition that finds ``name`` in a line, as a whole: not ``loss`` in ``head_1_loss``.

    Args:
        name: as the line has it.
        group: what the metric's name in CloudWatch begins with.
    """
    return MetricDefinition(f"{group}:{name}", rf"(?:^|\s){name}={_NUMBER};")


def fine_tuning_metrics() -> tuple[str, ...]:
    """What fine-tuning prints: losses are cross-entropies in nats a token, accuracies shares."""
    return ("loss", "token_accuracy", "learning_rate", f"{VALIDATION}loss", f"{VALIDATION}token_accuracy")


def head_training_metrics(heads: int) -> tuple[str, ...]:
    """What the training of heads prints, most telling first, as many as a job may have definitions.

    ``loss`` is the sum that is trained on. For each head: ``head_1_loss``, and ``head_1_top1_accuracy`` and
    ``head_1_top5_accuracy``, how often the right token is the head's first guess, or among its first five.

    Args:
        heads: how many heads there are.
    """
    names = ["loss", "learning_rate", f"{VALIDATION}loss"]
    for metric in ("top1_accuracy", "loss", "top5_accuracy"):
        for prefix in (VALIDATION, ""):
            names += [f"{prefix}head_{head}_{metric}" for head in range(1, heads + 1)]
    return tuple(names[:MOST_DEFINITIONS])


def quantization_metrics(*, calibrates: bool) -> tuple[str, ...]:
    """What a quantization prints: relative errors of the layers' weights, and losses on samples in nats a token.

    Args:
        calibrates: whether the job has samples.
    """
    names = ("weight_error", "largest_weight_error", "size_gb", "original_size_gb")
    return (*names, "loss", "quantized_loss") if calibrates else names


def line(values: Mapping[str, float]) -> str:
    """The metrics in a line, as the definitions find them."""
    return " ".join(f"{name}={value:.6g};" for name, value in values.items())


def say(text: str) -> None:
    """Print a line at once."""
    print(text, flush=True)  # noqa: T201 - a job's log is its standard output
