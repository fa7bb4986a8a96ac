"""Fine-tuning and Medusa heads, in a training job that runs ``constructs_optim.training``.

Sources: Amazon SageMaker API reference, CreateTrainingJob (limits, spot training, warm pools); "Medusa: Simple LLM
Inference Acceleration Framework with Multiple Decoding Heads" (arXiv 2401.10774); for the defaults "Obtain ~2x speedup
in LLM inference with Medusa-1 on Amazon SageMaker AI" (AWS Machine Learning Blog).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

from pydantic import Field, field_validator

from constructs_optim.recipe.catalog.models import ModelRow
from constructs_optim.recipe.settings import as_text
from constructs_optim.training.errors import SeveralProblems
from constructs_optim.training.job_log import (
    MetricDefinition,
    definition,
    fine_tuning_metrics,
    head_training_metrics,
)
from constructs_optim.training.settings import FineTuningSettings, HeadTrainingSettings, TrainingSettings

from .base import Stage
from .training_job import TrainedTechnique

# Bytes of an accelerator's memory for each weight: 4 bits; 16 bits; float32, its gradient and 8-bit AdamW.
_BYTES_A_WEIGHT = {"qlora": 0.5, "lora": 2.0, "full": 10.0}


class _Training(TrainedTechnique):
    """Training on your data.

    Attributes:
        training_data: S3 prefix with one or more ``*.jsonl`` files; may be or contain a token.
            https://constructs-optim.dev/medusa/ describes the formats.
        validation_data: S3 prefix in the same format, evaluated at each checkpoint. Evaluation can stop training early.
            Default: none; training runs all epochs.
        hyperparameters: hyperparameters that differ from the defaults; https://constructs-optim.dev/medusa/ lists
            names, defaults and ranges.
        compute: instances, spot capacity and warm pool. Default: one instance of the endpoint's type.
    """

    support = "trainable"
    in_group = False
    hyperparameter_type: ClassVar[type[TrainingSettings]]
    """Names, defaults and ranges of the hyperparameters."""
    named_hyperparameters: ClassVar[tuple[str, ...]] = ()
    """The hyperparameters that are also settings of the technique."""

    training_data: str
    validation_data: str | None = None
    hyperparameters: Mapping[str, str | int | float | bool] = {}

    @field_validator("hyperparameters")
    @classmethod
    def _are_known(cls, hyperparameters: Mapping[str, object]) -> Mapping[str, object]:
        try:
            cls.hyperparameter_type.from_strings({name: str(value) for name, value in hyperparameters.items()})
        except SeveralProblems as problem:
            raise ValueError("; ".join(problem.problems)) from None
        return dict(hyperparameters)

    @property
    def all_hyperparameters(self) -> dict[str, str]:
        """The hyperparameters that differ from their defaults or are set explicitly, as text."""
        fields = type(self).model_fields
        named = {name: getattr(self, name) for name in self.named_hyperparameters}
        chosen = {name: value for name, value in named.items() if value != fields[name].default}
        return {name: as_text(value) for name, value in sorted({**self.hyperparameters, **chosen}.items())}

    @property
    def channels(self) -> dict[str, str]:
        """The S3 prefixes of the data by input channel."""
        validation = {"validation": self.validation_data} if self.validation_data is not None else {}
        return {"training": self.training_data, **validation}


class FineTune(_Training):
    """Supervised fine-tuning of a Llama or Mistral model, on chats or instructions.

    The job trains low-rank adapters and merges them into the weights, or trains all weights. The artifact is a complete
    model. Later techniques use it as their input; without any, the endpoint serves it.

    Attributes:
        method: ``qlora`` (adapters on 4-bit weights), ``lora`` or ``full``. Default: ``qlora``.
    """

    kind = "fine_tuning"
    name = "fine_tune"
    stage = Stage(1, runtime_seconds=86_400)
    lossless = False
    hyperparameter_type = FineTuningSettings
    named_hyperparameters = ("method",)
    script = "fine_tune.py"

    method: Literal["qlora", "lora", "full"] = "qlora"

    @property
    def label(self) -> str:
        """The display name, for example ``fine-tuning (qlora)``."""
        return f"fine-tuning ({self._adapts_by})"

    @property
    def metrics(self) -> list[MetricDefinition]:
        """The metrics of ``fine_tune.py``."""
        return [definition(name) for name in fine_tuning_metrics()]

    def training_gb(self, row: ModelRow) -> float:
        """Return the memory by method: adapters on 4 or 16 bits, or all weights with their optimizer."""
        return (row.parameters_billion or 0) * _BYTES_A_WEIGHT[self._adapts_by]

    def host_gb(self, parameters_billion: float) -> float:
        """Return the size of the weights in float32, into which adapters are merged; 0 without adapters."""
        return 0.0 if self._adapts_by == "full" else parameters_billion * 4

    @property
    def _adapts_by(self) -> str:
        return self.all_hyperparameters.get("method", "qlora")


class Medusa(_Training):
    """Medusa heads: fewer forward passes for the same output. For Llama and Mistral models at small batch sizes.

    The heads draft the tokens after the next one, and the model verifies them. The model's weights do not change. Text
    Generation Inference serves the model. ``training_data`` should resemble the endpoint's prompts and completions.

    Attributes:
        heads: number of heads, each of which drafts one token, 1 to 16. Default: 5.
        layers: number of residual blocks in each head, 1 to 8. Default: 1.
        base: the ``FineTune`` whose result the heads are trained on. Default: the original model.
    """

    kind = "speculative_decoding"
    name = "medusa"
    serves = frozenset({"medusa"})
    stage = Stage(5, runtime_seconds=86_400)
    hyperparameter_type = HeadTrainingSettings
    named_hyperparameters = ("heads", "layers")
    script = "train_heads.py"
    model_channel = "finetuned"

    heads: int = Field(default=5, ge=1, le=16)
    layers: int = Field(default=1, ge=1, le=8)
    base: FineTune | None = None

    @property
    def label(self) -> str:
        """The display name, for example ``5 Medusa heads``."""
        return f"{self._heads} Medusa head{'' if self._heads == 1 else 's'}"

    @property
    def metrics(self) -> list[MetricDefinition]:
        """The metrics of ``train_heads.py``."""
        return [definition(name) for name in head_training_metrics(self._heads)]

    def serving_environment(self) -> dict[str, str]:
        """Return the data type; otherwise, Text Generation Inference assumes float16."""
        return {"DTYPE": "bfloat16"}

    def added_parameters(self, row: ModelRow) -> int:
        """Return the heads' number of weights: a square matrix and biases per layer, and a vocabulary projection."""
        size, layers = row.hidden_size or 0, int(self.all_hyperparameters.get("layers", 1))
        return self._heads * (layers * (size * size + size) + size * row.vocabulary_size) if row.vocabulary_size else 0

    def training_gb(self, row: ModelRow) -> float:
        """Return the memory of the frozen 16-bit model, and of heads in float32, their gradients and 8-bit AdamW."""
        return (row.parameters_billion or 0) * 2 + self.added_parameters(row) * 10 / 1e9

    @property
    def _heads(self) -> int:
        return int(self.all_hyperparameters.get("heads", 5))
