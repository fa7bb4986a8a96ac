"""What fine-tuning and Medusa heads share: a training job that runs ``constructs_optim.training``.

Source: Amazon SageMaker API reference, CreateTrainingJob (limits, spot training, warm pools).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field, field_validator

from constructs_optim.recipe.settings import Settings
from constructs_optim.training.errors import SeveralProblems
from constructs_optim.training.job_log import definition
from constructs_optim.training.settings import TrainingSettings

from .base import Technique, as_text


class TrainingCompute(Settings):
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
    instance_count: int = Field(default=1, ge=1, le=64)
    volume_size_gb: int = Field(default=100, ge=1, le=16_384)
    spot: bool = False
    spot_wait_seconds: int = Field(default=86_400, ge=1, le=2_419_200)
    keep_alive_seconds: int | None = Field(default=None, ge=1, le=21_600)
    environment: Mapping[str, str] | None = None


class Training(BaseModel):
    """A technique's training job, instance types aside.

    Attributes:
        script: which of the training code's scripts is started.
        model_channel: the input channel that the script reads the model from.
        channels: S3 prefixes of further input channels, by their names.
        hyperparameters: the job's, as text.
        metrics: names of the job's metrics in CloudWatch, and the regular expressions that find them in its output.
        compute: what it runs on.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True)

    script: str
    model_channel: str
    channels: dict[str, str]
    hyperparameters: dict[str, str]
    metrics: tuple[tuple[str, str], ...]
    compute: TrainingCompute


class TrainedTechnique(Technique):
    """A technique that needs a training job.

    Attributes:
        training_data: S3 prefix with one or more ``*.jsonl``; may be or hold a token. docs/medusa.md has the formats.
        validation_data: S3 prefix likewise: evaluated at each checkpoint, and what stops the training early.
            Default: none, and all epochs are run.
        hyperparameters: others than the defaults; docs/medusa.md has names, defaults and ranges.
        compute: instances, spot capacity and warm pool. Default: one instance of the endpoint's type.
    """

    support: ClassVar[str] = "trainable"
    support_source: ClassVar[str] = (
        "this library's training code, which is for Llama and Mistral models with weights of 16 bits,"
    )
    hyperparameter_type: ClassVar[type[TrainingSettings]]
    """Names, defaults and ranges of the hyperparameters."""
    named_hyperparameters: ClassVar[tuple[str, ...]] = ()
    """The hyperparameters that are settings of the technique."""

    training_data: str
    validation_data: str | None = None
    hyperparameters: Mapping[str, str | int | float | bool] = {}
    compute: TrainingCompute = TrainingCompute()

    @classmethod
    def called(cls) -> str:
        """The name of the class."""
        return cls.__name__

    @field_validator("hyperparameters")
    @classmethod
    def _are_known(cls, hyperparameters: Mapping[str, object]) -> Mapping[str, object]:
        try:
            cls.hyperparameter_type.from_strings({name: str(value) for name, value in hyperparameters.items()})
        except SeveralProblems as problem:
            raise ValueError("; ".join(problem.problems)) from None
        return dict(hyperparameters)

    def reads(self) -> tuple[str, ...]:
        """Training data, and validation data where there is any."""
        return tuple(self._channels().values())

    def deciding_settings(self) -> dict[str, Any]:
        """The hyperparameters. What the data holds is looked at when the stack is deployed."""
        return {"hyperparameters": self.all_hyperparameters}

    @property
    def all_hyperparameters(self) -> dict[str, str]:
        """The hyperparameters that differ from their defaults, or are set all the same, as text."""
        fields = type(self).model_fields
        named = {name: getattr(self, name) for name in self.named_hyperparameters}
        chosen = {name: value for name, value in named.items() if value != fields[name].default}
        return {name: as_text(value) for name, value in sorted({**self.hyperparameters, **chosen}.items())}

    def training_gb(self, parameters_billion: float, added_parameters: int) -> float:
        """GB of an accelerator's memory that weights, gradients and optimizer take in the training; lower bounds."""
        raise NotImplementedError

    def merging_gb(self, parameters_billion: float) -> float:
        """GB of the instance's memory that the end of the training takes."""
        return 0.0

    def _channels(self) -> dict[str, str]:
        validation = {"validation": self.validation_data} if self.validation_data is not None else {}
        return {"training": self.training_data, **validation}

    def _training(self, script: str, model_channel: str, metrics: tuple[str, ...]) -> Training:
        return Training(
            script=script,
            model_channel=model_channel,
            channels=self._channels(),
            hyperparameters=self.all_hyperparameters,
            metrics=tuple((metric.name, metric.regex) for metric in map(definition, metrics)),
            compute=self.compute,
        )
