"""Fine-tuning, and what techniques have in common that a training job of this library's own code carries out.

Source: Amazon SageMaker API reference, CreateTrainingJob (limits, spot training, warm pools);
``constructs_optim.training`` for the code and its hyperparameters.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field

from constructs_optim.recipe.given import as_given, is_mapping
from constructs_optim.recipe.named_arguments import knows_its_arguments
from constructs_optim.training.job_log import definition, fine_tuning_metrics
from constructs_optim.training.settings import FineTuningSettings, TrainingSettings

from .base import Stage, Technique, as_text


@knows_its_arguments
@dataclass(frozen=True, kw_only=True)
class TrainingCompute:
    """What a training job runs on, and how.

    Attributes:
        instance_type: for instance ``ml.g5.12xlarge``. Default: the endpoint's.
        instance_count: how many instances train together. Default: 1. Every accelerator of them has the whole model.
        volume_size_gb: storage in GB, where the instance type has no disks of its own. Default: 100.
        spot: whether it runs on spare capacity, which costs less and may be interrupted; it goes on from its last
            checkpoint. Default: no.
        spot_wait_seconds: with ``spot``, how long waiting for capacity may take, besides the longest runtime. Default:
            86,400 (a day).
        keep_alive_seconds: how long the instances are kept afterwards for another job of the same kind (a warm pool,
            which is paid for); at most 21,600. Default: not.
        environment: variables of the container, for instance ``PIP_INDEX_URL`` of a mirror that a VPC reaches. They are
            in the template for everybody to read: no secrets. Default: none.
    """

    instance_type: str | None = None
    instance_count: int = 1
    volume_size_gb: int = 100
    spot: bool = False
    spot_wait_seconds: int = 86_400
    keep_alive_seconds: int | None = None
    environment: Mapping[str, str] | None = None


class Training(BaseModel):
    """What a technique's training job is made of, instance types aside.

    Attributes:
        script: which of the training code's scripts is started.
        model_channel: the input channel that the script reads the model from.
        channels: S3 prefixes of further input channels, by their names.
        hyperparameters: the job's, as text.
        metrics: names of the job's metrics in CloudWatch, and the regular expressions that find them in its output.
        compute: what it runs on.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, arbitrary_types_allowed=True)

    script: str
    model_channel: str
    channels: dict[str, str]
    hyperparameters: dict[str, str]
    metrics: tuple[tuple[str, str], ...]
    compute: TrainingCompute


class TrainedTechnique(Technique):
    """A technique that this library's own training code carries out."""

    catalog_column: ClassVar[str] = "trainable"
    catalog_source: ClassVar[str] = (
        "this library's training code, which is for Llama and Mistral models with weights of 16 bits,"
    )
    hyperparameter_type: ClassVar[type[TrainingSettings]]
    """Names, defaults and ranges of the hyperparameters."""

    training_data: str
    validation_data: str | None = None
    hyperparameters: dict[str, str | int | float | bool] = Field(default_factory=dict)
    compute: TrainingCompute = TrainingCompute()

    def reads(self) -> tuple[str, ...]:
        """Training data, and validation data where there is any."""
        return tuple(self._channels().values())

    def deciding_settings(self) -> dict[str, Any]:
        """The hyperparameters. What the data holds is looked at when the stack is deployed."""
        return {"hyperparameters": self._hyperparameters()}

    def training_gb(self, parameters_billion: float, added_parameters: int) -> float:
        """GB of an accelerator's memory that weights, gradients and optimizer take in the training; lower bounds."""
        raise NotImplementedError

    def merging_gb(self, parameters_billion: float) -> float:
        """GB of the instance's memory that the end of the training takes."""
        return 0.0

    def _hyperparameters(self) -> dict[str, str]:
        return {name: as_text(value) for name, value in sorted(self.hyperparameters.items())}

    def _channels(self) -> dict[str, str]:
        validation = {"validation": self.validation_data} if self.validation_data is not None else {}
        return {"training": self.training_data, **validation}


class FineTuning(TrainedTechnique):
    """Supervised fine-tuning: low-rank adapters that are merged into the weights at the end, or all weights."""

    kind: ClassVar[str] = "fine_tuning"
    method: ClassVar[str] = "fine_tune"
    # Served by whatever the techniques after it ask for: these are the families of the container that it alone has.
    tested_families: ClassVar[frozenset[str]] = frozenset({"p4d", "p4de", "p5", "g5", "g6"})
    other_families: ClassVar[frozenset[str]] = frozenset({"g6e", "p5e", "p5en"})
    stage: ClassVar[Stage] = Stage.FINE_TUNE
    lossless: ClassVar[bool] = False
    hyperparameter_type: ClassVar[type[TrainingSettings]] = FineTuningSettings

    @property
    def label(self) -> str:
        """For instance ``fine-tuning (qlora)``."""
        return f"fine-tuning ({self._fine_tuning_method})"

    def training(self) -> Training:
        """The job: ``fine_tune.py``."""
        return Training(
            script="fine_tune.py",
            model_channel="model",
            channels=self._channels(),
            hyperparameters=self._hyperparameters(),
            metrics=metric_definitions(fine_tuning_metrics()),
            compute=self.compute,
        )

    def training_gb(self, parameters_billion: float, added_parameters: int) -> float:
        """By method: adapters on 4 bits, on 16 bits, or all weights with their optimizer."""
        return parameters_billion * _BYTES_A_WEIGHT.get(self._fine_tuning_method, 0.0)

    def merging_gb(self, parameters_billion: float) -> float:
        """Adapters are merged into weights in float32."""
        return 0.0 if self._fine_tuning_method == "full" else parameters_billion * 4

    @property
    def _fine_tuning_method(self) -> str:
        given = as_given(self.hyperparameters)
        return str(given.get("method", "qlora")) if is_mapping(given) else "qlora"


# Bytes of an accelerator's memory for each weight: 4 bits; 16 bits; float32, its gradient and 8-bit AdamW.
_BYTES_A_WEIGHT = {"qlora": 0.5, "lora": 2.0, "full": 10.0}


def metric_definitions(names: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """Names in CloudWatch and regular expressions of a training's metrics."""
    return tuple((found.name, found.regex) for found in map(definition, names))


@knows_its_arguments
def FineTune(  # noqa: N802 - reads as the technique that it is
    *,
    training_data: str,
    validation_data: str | None = None,
    method: str = "qlora",
    hyperparameters: Mapping[str, str | int | float | bool] | None = None,
    compute: TrainingCompute | None = None,
) -> Technique:
    """Supervised fine-tuning by a training job: of a Llama or Mistral model, on chats or instructions.

    Its artifact is a whole model, which the techniques after it start from; alone, it is what is served.

    Args:
        training_data: S3 prefix with one or more ``*.jsonl``; may be or hold a token. docs/medusa.md has the formats.
        validation_data: S3 prefix likewise: evaluated at each checkpoint, and what stops the training early.
            Default: none, and all epochs are run.
        method: ``qlora`` (adapters on weights of 4 bits), ``lora`` or ``full``. Default: ``qlora``.
        hyperparameters: others than the defaults; docs/medusa.md has names, defaults and ranges.
        compute: instances, spot capacity and warm pool. Default: one instance of the endpoint's type.
    """
    given = hyperparameters if hyperparameters is not None else dict[str, Any]()
    return FineTuning.model_construct(
        tensor_parallel_degree=None,
        training_data=training_data,
        validation_data=validation_data,
        hyperparameters=with_settings(given, {"method": method}, FineTuningSettings),
        compute=compute if compute is not None else TrainingCompute(),
    )


def with_settings(given: Any, named: Mapping[str, Any], of: type[TrainingSettings]) -> Any:
    """Hyperparameters, with those that have an argument of their own where they differ from the defaults.

    Whatever was given instead of a mapping stays as it is, for a rule to report.
    """
    if not is_mapping(given):
        return given
    defaults = of().to_json()
    chosen = {name: value for name, value in named.items() if value != defaults[name]}
    return {**given, **chosen}
