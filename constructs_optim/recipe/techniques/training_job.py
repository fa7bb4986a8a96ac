"""The base of techniques that need a training job, which runs ``constructs_optim.training``.

Source: Amazon SageMaker API reference, CreateTrainingJob.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from constructs_optim.recipe.catalog.models import ModelRow
from constructs_optim.recipe.compute import TrainingCompute
from constructs_optim.recipe.plan_data import S3Source
from constructs_optim.training.job_log import MetricDefinition
from constructs_optim.training.settings import CODE_VERSION

from .base import Technique


class TrainedTechnique(Technique):
    """A technique that needs a training job.

    Attributes:
        compute: instances, spot capacity and warm pool. Default: one instance of the endpoint's type.
    """

    code_version: ClassVar[int] = CODE_VERSION
    """The version of the training code, which decides the artifact."""
    job_image: ClassVar[str] = "training"
    """What the image of its job makes (``images.json``)."""
    script: ClassVar[str]
    """The script of the training code that its job runs."""
    requirements: ClassVar[str] = "requirements.txt"
    """The file beside the script with what the job installs."""
    model_channel: ClassVar[str] = "model"
    """The input channel that the script reads the model from."""
    accelerator_use: ClassVar[str] = "weights, gradients and optimizer"
    """What takes an accelerator's memory."""
    host_use: ClassVar[str] = "merging adapters into weights in float32"
    """What takes the instance's memory."""
    distributed: ClassVar[bool] = True
    """Whether each accelerator of each instance has a process, whose number decides the artifact."""

    compute: TrainingCompute = TrainingCompute()

    @property
    def all_hyperparameters(self) -> dict[str, str]:
        """The hyperparameters that differ from their defaults or are set explicitly, as text."""
        raise NotImplementedError

    @property
    def channels(self) -> dict[str, str]:
        """The S3 prefixes of its data by input channel; the setting of a channel is named after it."""
        raise NotImplementedError

    @property
    def metrics(self) -> Sequence[MetricDefinition]:
        """The metrics that are read from its job's log."""
        raise NotImplementedError

    def training_gb(self, row: ModelRow) -> float:
        """GB of an accelerator's memory that the job takes; a lower bound."""
        raise NotImplementedError

    def host_gb(self, parameters_billion: float) -> float:
        """GB of the instance's memory that the job takes; a lower bound."""
        return 0.0

    @classmethod
    def storage_gb(cls, stored_gb: float) -> int:
        """The least storage of the job, in GB, by the size of the model."""
        return 0

    def reads(self) -> tuple[S3Source, ...]:
        """Its data."""
        return tuple(S3Source(uri=uri) for uri in self.channels.values())

    def deciding_settings(self) -> dict[str, object]:
        """The hyperparameters. The data's content is read at deployment."""
        return {"hyperparameters": self.all_hyperparameters}
