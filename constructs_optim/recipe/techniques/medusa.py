"""Medusa heads. ``constructs_optim.training.settings`` has the hyperparameters.

Sources: "Medusa: Simple LLM Inference Acceleration Framework with Multiple Decoding Heads" (arXiv 2401.10774), and for
the defaults "Obtain ~2x speed-up in LLM inference with Medusa-1 on Amazon SageMaker AI" (AWS Machine Learning Blog).
"""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from constructs_optim.training.job_log import head_training_metrics
from constructs_optim.training.settings import HeadTrainingSettings, TrainingSettings

from .base import Stage, Technique
from .fine_tuning import FineTune
from .training import TrainedTechnique, Training


class Medusa(TrainedTechnique):
    """Medusa heads: fewer passes of the model for the same output. For Llama and Mistral models at small batches.

    The heads guess the tokens after the next one, and the model verifies them. Its weights are not changed. It is
    served by Text Generation Inference. ``training_data`` is what the endpoint will be asked, and should complete.

    Attributes:
        heads: how many tokens are guessed at once, 1 to 16. Default: 5.
        layers: residual blocks in each head, 1 to 8. Default: 1.
        base: ``FineTune(...)``, of which the model is made that the heads are trained on. Default: the model as it is.
    """

    kind: ClassVar[str] = "speculative_decoding"
    name: ClassVar[str] = "medusa"
    capabilities: ClassVar[frozenset[str]] = frozenset({"medusa"})
    stage: ClassVar[Stage | None] = Stage(5, runtime_seconds=86_400)
    hyperparameter_type: ClassVar[type[TrainingSettings]] = HeadTrainingSettings
    named_hyperparameters: ClassVar[tuple[str, ...]] = ("heads", "layers")

    heads: int = Field(default=5, ge=1, le=16)
    layers: int = Field(default=1, ge=1, le=8)
    base: FineTune | None = None

    @property
    def label(self) -> str:
        """For instance ``5 Medusa heads``."""
        return f"{self._heads} Medusa head{'' if self._heads == 1 else 's'}"

    def before(self) -> tuple[Technique, ...]:
        """The fine-tuning whose model the heads are trained on."""
        return (self.base,) if self.base is not None else ()

    def training(self) -> Training:
        """The job: ``train_heads.py``."""
        return self._training("train_heads.py", "finetuned", head_training_metrics(self._heads))

    def serving_environment(self) -> dict[str, str]:
        """Text Generation Inference takes weights for float16 otherwise."""
        return {"DTYPE": "bfloat16"}

    def added_parameters(self, hidden_size: int, vocabulary_size: int) -> int:
        """The heads' weights: a square matrix and biases a layer, and a projection to the vocabulary."""
        layers = int(self.all_hyperparameters.get("layers", 1))
        return self._heads * (layers * (hidden_size * hidden_size + hidden_size) + hidden_size * vocabulary_size)

    def training_gb(self, parameters_billion: float, added_parameters: int) -> float:
        """The frozen model in 16 bits; the heads in float32, their gradients and 8-bit AdamW."""
        return parameters_billion * 2 + added_parameters * 10 / 1e9

    @property
    def _heads(self) -> int:
        return int(self.all_hyperparameters.get("heads", 5))
