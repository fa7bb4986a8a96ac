"""The hyperparameters' names, defaults and ranges, as data. Standard library only, because recipes import them.

Defaults of the heads: five heads of one layer, a constant learning rate of 1e-4, three epochs and 8-bit AdamW, as in
"Obtain ~2x speed-up in LLM inference with Medusa-1 on Amazon SageMaker AI" (AWS Machine Learning Blog). Defaults of the
fine-tuning: QLoRA (arXiv 2305.14314, section 5 and appendix B.2: rank 64, alpha 16, dropout 0.1, all linear layers, a
constant learning rate of 2e-4, gradients clipped to 0.3), one epoch.
"""

from __future__ import annotations

import dataclasses
import difflib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from .documents import json_value
from .errors import InvalidSettings

# Apps record their versions (optim.lock.json), so a raised version does not change their keys by itself.
CODE_VERSION = 1
"""The version of trained weights. Raise it if the same settings, data and model give other weights."""
COPY_VERSION = 1
"""The version of copied models. Raise it if the same revision gives other files in the store."""
QUANTIZATION_VERSION = 1
"""The version of quantizations. Raise it if the same settings and model give another quantization."""
VERSION_HYPERPARAMETER = "artifact_version"
"""The artifact version that a job must make, as the app records it (``optim.lock.json``). Default: 1."""

# The SageMaker training toolkit adds hyperparameters with this prefix.
_TOOLKIT_PREFIX = "sagemaker_"


def _setting(
    default: Any,
    description: str,
    *,
    minimum: float | None = None,
    above: float | None = None,
    maximum: float | None = None,
    choices: tuple[str, ...] = (),
) -> Any:
    metadata = {
        "description": description,
        "minimum": minimum,
        "above": above,
        "maximum": maximum,
        "choices": choices,
    }
    return dataclasses.field(default=default, metadata=metadata)


@dataclass(frozen=True, kw_only=True)
class Hyperparameters:
    """The base of a job's settings. Every field's default and range is in its metadata."""

    version: ClassVar[int] = CODE_VERSION
    """The version of artifacts made with these settings."""

    @classmethod
    def from_strings(cls, hyperparameters: Mapping[str, str]) -> Self:
        """Read a job's hyperparameters, whose values are strings. The SDK writes strings as JSON, with quotes.

        Args:
            hyperparameters: names and values. Names that begin with ``sagemaker_`` are the toolkit's, and ignored.

        Raises:
            InvalidSettings: if names are unknown, or values have the wrong type or are out of range. Lists all
                problems.
        """
        fields = {field.name: field for field in dataclasses.fields(cls)}
        problems: list[str] = []
        values: dict[str, Any] = {}
        for name, text in hyperparameters.items():
            if name.startswith(_TOOLKIT_PREFIX):
                continue
            if name not in fields:
                near = difflib.get_close_matches(name, fields, n=1)
                meant = f"did you mean {near[0]}?" if near else f"use one of {', '.join(sorted(fields))}"
                problems.append(f"{name} = {text!r}: there is no such hyperparameter; {meant}")
                continue
            try:
                values[name] = _parsed(fields[name], text)
            except ValueError as error:
                problems.append(f"{name} = {text!r}: {error}")
        if problems:
            raise InvalidSettings("hyperparameters", problems)
        return cls(**values)

    def __post_init__(self) -> None:
        problems = [
            f"{field.name} = {getattr(self, field.name)!r}: {problem}"
            for field in dataclasses.fields(self)
            if (problem := _out_of_range(field, getattr(self, field.name)))
        ]
        if problems:
            raise InvalidSettings("hyperparameters", problems)

    def to_json(self) -> dict[str, Any]:
        """Return names and values."""
        return dataclasses.asdict(self)


@dataclass(frozen=True, kw_only=True)
class CopySettings(Hyperparameters):
    """The settings for copying a model from Hugging Face."""

    version: ClassVar[int] = COPY_VERSION

    model_id: str = _setting("", "the model's ID, for example Qwen/Qwen3-32B")
    revision: str = _setting("", "the commit, 40 hexadecimal digits")
    allow_pickle: bool = _setting(False, "whether to copy pickle files, which run code when loaded")
    allow_code: bool = _setting(False, "whether to copy Python files")


@dataclass(frozen=True, kw_only=True)
class QuantizationSettings(Hyperparameters):
    """The settings of a quantization by llm-compressor."""

    version: ClassVar[int] = QUANTIZATION_VERSION

    scheme: str = _setting(
        "FP8_BLOCK",
        "the scheme's name in compressed-tensors",
        choices=("FP8_BLOCK", "FP8_DYNAMIC", "W4A16", "NVFP4", "MXFP4"),
    )
    algorithm: str = _setting("gptq", "how the weights of W4A16 are rounded", choices=("gptq", "awq"))
    ignored_layers: str = _setting(
        "lm_head,re:.*embed.*,re:.*(gate|router)$,re:.*(linear_attn|mamba|conv).*,re:.*(visual|vision|audio|projector).*",
        "layers not to quantize, separated by commas; re: begins a regular expression",
    )
    calibration_size: int = _setting(512, "maximum number of samples", minimum=1)
    calibration_length: int = _setting(2048, "maximum tokens of a sample; the rest is cut off", minimum=8)
    maximum_loss_increase: float = _setting(
        0.5, "maximum increase of the loss on samples, in nats per token; a larger one fails the job", above=0
    )
    maximum_weight_error: float = _setting(
        0.5, "maximum mean relative error of the layers' weights; a larger one fails the job", above=0
    )
    seed: int = _setting(42, "seed for choosing the samples", minimum=0, maximum=2**32 - 1)

    @property
    def calibrates(self) -> bool:
        """Whether samples determine scales or weights."""
        return self.scheme in ("W4A16", "NVFP4")


@dataclass(frozen=True, kw_only=True)
class TrainingSettings(Hyperparameters):
    """The settings of both trainings."""

    learning_rate: float = _setting(1e-4, "the optimizer's learning rate", above=0, maximum=1)
    learning_rate_schedule: str = _setting(
        "constant", "how the learning rate changes after the warm-up", choices=("constant", "cosine", "linear")
    )
    warmup_ratio: float = _setting(0.0, "share of the steps in which the learning rate rises", minimum=0, maximum=1)
    epochs: float = _setting(1.0, "passes over the training data", above=0, maximum=1000)
    maximum_steps: int = _setting(0, "maximum number of optimizer steps; 0: as many as in the epochs", minimum=0)
    batch_size: int = _setting(4, "examples per step on each device", minimum=1)
    gradient_accumulation_steps: int = _setting(4, "batches to accumulate before each optimizer step", minimum=1)
    maximum_sequence_length: int = _setting(2048, "maximum tokens of an example; the rest is cut off", minimum=8)
    optimizer: str = _setting(
        "auto", "auto: adamw_8bit with a GPU, else adamw", choices=("auto", "adamw", "adamw_8bit")
    )
    weight_decay: float = _setting(0.0, "AdamW's weight decay", minimum=0, maximum=1)
    gradient_clipping: float = _setting(1.0, "maximum norm of the gradients; 0: no clipping", minimum=0)
    precision: str = _setting(
        "auto",
        "precision of matrix multiplications; auto: bfloat16 on GPUs that support it, else float32",
        choices=("auto", "bfloat16", "float32"),
    )
    logging_steps: int = _setting(10, "steps between lines of metrics", minimum=1)
    checkpoint_steps: int = _setting(
        100, "steps between checkpoints and, with validation data, between evaluations", minimum=1
    )
    checkpoints_kept: int = _setting(2, "number of checkpoints to keep, including the best", minimum=1)
    early_stopping_patience: int = _setting(
        3, "evaluations without a better loss before the training stops and keeps the best weights; 0: never", minimum=0
    )
    early_stopping_threshold: float = _setting(0.0, "minimum decrease of the loss that counts as better", minimum=0)
    train_on_prompts: bool = _setting(False, "whether to learn the prompts' tokens as well as the answers'")
    seed: int = _setting(42, "seed of the data's order and of all random choices", minimum=0, maximum=2**32 - 1)


@dataclass(frozen=True, kw_only=True)
class FineTuningSettings(TrainingSettings):
    """The settings of supervised fine-tuning: of low-rank adapters, merged at the end, or of all weights."""

    method: str = _setting(
        "qlora",
        "qlora: adapters on 4-bit weights (needs a GPU); lora: adapters on unquantized weights; full: all weights",
        choices=("qlora", "lora", "full"),
    )
    learning_rate: float = _setting(2e-4, "the optimizer's learning rate", above=0, maximum=1)
    gradient_clipping: float = _setting(0.3, "maximum norm of the gradients; 0: no clipping", minimum=0)
    lora_rank: int = _setting(64, "rank of the adapters' matrices", minimum=1, maximum=1024)
    lora_alpha: int = _setting(16, "scale of the adapters, applied as lora_alpha / lora_rank", minimum=1)
    lora_dropout: float = _setting(0.1, "dropout rate of the adapters' inputs", minimum=0, maximum=0.9)
    gradient_checkpointing: bool = _setting(True, "recompute activations: less memory, more computation")


@dataclass(frozen=True, kw_only=True)
class HeadTrainingSettings(TrainingSettings):
    """The settings for training heads on a frozen model."""

    heads: int = _setting(5, "number of heads; head k predicts the token k + 1 places ahead", minimum=1, maximum=16)
    layers: int = _setting(1, "residual blocks in each head", minimum=1, maximum=8)
    epochs: float = _setting(3.0, "passes over the training data", above=0, maximum=1000)
    head_loss_decay: float = _setting(
        0.8, "weight of head k's loss: this value to the power of k (section 2.2.1 of the paper)", above=0, maximum=1
    )
    accuracy_ranks: int = _setting(10, "number of ranks to count for each head's guesses", minimum=1, maximum=64)
    served_from: str = _setting(
        "/opt/ml/model", "the folder in which the server finds the artifact; base-model is below it"
    )


def _parsed(field: dataclasses.Field[Any], text: str) -> Any:
    text = _without_quotes(str(text)).strip()
    match field.type:
        case "bool":
            if text.lower() not in ("true", "false", "1", "0"):
                raise ValueError("use true or false")
            value: Any = text.lower() in ("true", "1")
        case "int":
            try:
                value = int(text)
            except ValueError:
                raise ValueError("use a whole number") from None
        case "float":
            try:
                value = float(text)
            except ValueError:
                raise ValueError("use a number") from None
        case _:
            value = text
    if problem := _out_of_range(field, value):
        raise ValueError(problem)
    return value


def _without_quotes(text: str) -> str:
    if text.startswith('"') and text.endswith('"') and len(text) > 1:
        try:
            return str(json_value(text.encode()))
        except ValueError:
            return text
    return text


def _out_of_range(field: dataclasses.Field[Any], value: Any) -> str | None:
    limits = field.metadata
    if isinstance(value, float) and not math.isfinite(value):
        return "use a finite number"
    if limits["choices"] and value not in limits["choices"]:
        return f"use one of {', '.join(limits['choices'])}"
    if limits["minimum"] is not None and value < limits["minimum"]:
        return f"use {limits['minimum']} or more"
    if limits["above"] is not None and value <= limits["above"]:
        return f"use more than {limits['above']}"
    if limits["maximum"] is not None and value > limits["maximum"]:
        return f"use {limits['maximum']} or less"
    return None
