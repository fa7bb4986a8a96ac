"""Medusa-1: prediction heads on a frozen model, trained by a training job and served by Text Generation Inference.

Source: "Medusa: Simple LLM Inference Acceleration Framework with Multiple Decoding Heads" (arXiv 2401.10774); "Obtain
~2x speed-up in LLM inference with Medusa-1 on Amazon SageMaker AI" (AWS Machine Learning Blog) for the defaults.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from constructs_optim.recipe.given import as_given, is_mapping
from constructs_optim.recipe.named_arguments import knows_its_arguments
from constructs_optim.training.job_log import head_training_metrics
from constructs_optim.training.settings import HeadTrainingSettings, TrainingSettings

from .base import Stage, Technique
from .training import FineTuning, TrainedTechnique, Training, TrainingCompute, metric_definitions, with_settings


class MedusaHeads(TrainedTechnique):
    """Heads that guess the tokens after the next one; the model verifies them, so its answers stay its own."""

    kind: ClassVar[str] = "speculative_decoding"
    method: ClassVar[str] = "medusa"
    capabilities: ClassVar[frozenset[str]] = frozenset({"medusa"})
    tested_families: ClassVar[frozenset[str]] = frozenset({"p4d", "p4de", "p5", "g5", "g6"})
    other_families: ClassVar[frozenset[str]] = frozenset({"g6e", "p5e", "p5en"})
    stage: ClassVar[Stage] = Stage.TRAIN_MEDUSA_HEADS
    hyperparameter_type: ClassVar[type[TrainingSettings]] = HeadTrainingSettings

    base: FineTuning | None = None

    @property
    def label(self) -> str:
        """For instance ``5 Medusa heads``."""
        heads = self._setting("heads")
        return f"{heads} Medusa head{'' if heads == 1 else 's'}"

    def before(self) -> tuple[Technique, ...]:
        """The fine-tuning whose model the heads are trained on."""
        return (self.base,) if self.base is not None else ()

    def training(self) -> Training:
        """The job: ``train_heads.py``."""
        return Training(
            script="train_heads.py",
            model_channel="finetuned",
            channels=self._channels(),
            hyperparameters=self._hyperparameters(),
            metrics=metric_definitions(head_training_metrics(self._setting("heads"))),
            compute=self.compute,
        )

    def serving_environment(self) -> dict[str, str]:
        """Text Generation Inference takes weights for float16 otherwise."""
        return {"DTYPE": "bfloat16"}

    def added_parameters(self, hidden_size: int, vocabulary_size: int) -> int:
        """The heads' weights: a square matrix and biases a layer, and a projection to the vocabulary."""
        layer = hidden_size * hidden_size + hidden_size
        return self._setting("heads") * (self._setting("layers") * layer + hidden_size * vocabulary_size)

    def training_gb(self, parameters_billion: float, added_parameters: int) -> float:
        """The frozen model in 16 bits; the heads in float32, their gradients and 8-bit AdamW."""
        return parameters_billion * 2 + added_parameters * 10 / 1e9

    def _setting(self, name: str) -> int:
        """A hyperparameter that is a number; its default where what was given is none, which a rule reports."""
        hyperparameters = as_given(self.hyperparameters)
        given = hyperparameters.get(name) if is_mapping(hyperparameters) else None
        if isinstance(given, str) and given.strip().isdigit():
            given = int(given)
        default: int = getattr(HeadTrainingSettings(), name)
        return given if isinstance(given, int) and not isinstance(given, bool) and 0 < given <= 16 else default


@knows_its_arguments
def Medusa(  # noqa: N802 - reads as the technique that it is
    *,
    training_data: str,
    validation_data: str | None = None,
    heads: int = 5,
    layers: int = 1,
    base: Technique | None = None,
    hyperparameters: Mapping[str, str | int | float | bool] | None = None,
    compute: TrainingCompute | None = None,
) -> Technique:
    """Medusa heads: fewer passes of the model for the same output. For Llama and Mistral models at small batches.

    The model's weights are not changed. It is served by Text Generation Inference.

    Args:
        training_data: S3 prefix with one or more ``*.jsonl``, of what the endpoint will be asked and should answer; may
            be or hold a token. docs/medusa.md has the formats.
        validation_data: S3 prefix likewise: evaluated at each checkpoint, and what stops the training early.
            Default: none, and all epochs are run.
        heads: how many tokens are guessed at once, 1 to 16. Default: 5.
        layers: residual blocks in each head, 1 to 8. Default: 1.
        base: ``FineTune(...)``, of which the model is made that the heads are trained on. Default: the model as it is.
        hyperparameters: others than the defaults; docs/medusa.md has names, defaults and ranges.
        compute: instances, spot capacity and warm pool. Default: one instance of the endpoint's type.
    """
    given: Any = hyperparameters if hyperparameters is not None else {}
    return MedusaHeads.model_construct(
        tensor_parallel_degree=None,
        training_data=training_data,
        validation_data=validation_data,
        hyperparameters=with_settings(given, {"heads": heads, "layers": layers}, HeadTrainingSettings),
        compute=compute if compute is not None else TrainingCompute(),
        base=base,
    )
