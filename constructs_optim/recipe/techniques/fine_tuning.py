"""Fine-tuning. ``constructs_optim.training.settings`` has the hyperparameters."""

from __future__ import annotations

from typing import ClassVar, Literal

from constructs_optim.training.job_log import fine_tuning_metrics
from constructs_optim.training.settings import FineTuningSettings, TrainingSettings

from .base import Stage
from .training import TrainedTechnique, Training


class FineTune(TrainedTechnique):
    """Supervised fine-tuning of a Llama or Mistral model, on chats or instructions.

    Low-rank adapters are merged into the weights at the end, or all weights are trained. The artifact is a whole model,
    which the techniques after it start from; alone, it is what is served.

    Attributes:
        method: ``qlora`` (adapters on weights of 4 bits), ``lora`` or ``full``. Default: ``qlora``.
    """

    kind: ClassVar[str] = "fine_tuning"
    name: ClassVar[str] = "fine_tune"
    stage: ClassVar[Stage | None] = Stage(1, runtime_seconds=86_400)
    lossless: ClassVar[bool] = False
    hyperparameter_type: ClassVar[type[TrainingSettings]] = FineTuningSettings
    named_hyperparameters: ClassVar[tuple[str, ...]] = ("method",)

    method: Literal["qlora", "lora", "full"] = "qlora"

    @property
    def label(self) -> str:
        """For instance ``fine-tuning (qlora)``."""
        return f"fine-tuning ({self._adapts_by})"

    def training(self) -> Training:
        """The job: ``fine_tune.py``."""
        return self._training("fine_tune.py", "model", fine_tuning_metrics())

    def training_gb(self, parameters_billion: float, added_parameters: int) -> float:
        """By method: adapters on 4 bits, on 16 bits, or all weights with their optimizer."""
        return parameters_billion * _BYTES_A_WEIGHT[self._adapts_by]

    def merging_gb(self, parameters_billion: float) -> float:
        """Adapters are merged into weights in float32."""
        return 0.0 if self._adapts_by == "full" else parameters_billion * 4

    @property
    def _adapts_by(self) -> str:
        return self.all_hyperparameters.get("method", "qlora")


# Bytes of an accelerator's memory for each weight: 4 bits; 16 bits; float32, its gradient and 8-bit AdamW.
_BYTES_A_WEIGHT = {"qlora": 0.5, "lora": 2.0, "full": 10.0}
