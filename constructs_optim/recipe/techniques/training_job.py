"""The base class of techniques that need a training job, which runs ``constructs_optim.training``.

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
        compute: instances, Spot Instances and warm pool. Default: one instance of the endpoint's type.
    """

    code_version: ClassVar[int] = CODE_VERSION
    """The version of the training code, which determines the artifact."""
    job_image: ClassVar[str] = "training"
    """What the job's image builds (``images.json``)."""
    script: ClassVar[str]
    """The training script that the job runs."""
    requirements: ClassVar[str] = "requirements.txt"
    """The requirements file next to the script, which the job installs."""
    model_channel: ClassVar[str] = "model"
    """The input channel that the script reads the model from."""
    accelerator_use: ClassVar[str] = "weights, gradients and optimizer"
    """What uses the accelerator's memory."""
    host_use: ClassVar[str] = "merging adapters into weights in float32"
    """What uses the instance's memory."""
    distributed: ClassVar[bool] = True
    """Whether each accelerator of each instance runs a process. The number of processes changes the artifact."""

    compute: TrainingCompute = TrainingCompute()

    @property
    def all_hyperparameters(self) -> dict[str, str]:
        """The hyperparameters that differ from their defaults or are set explicitly, as text."""
        raise NotImplementedError

    @property
    def channels(self) -> dict[str, str]:
        """The S3 prefixes of the data by input channel; the setting has the channel's name with ``_data``."""
        raise NotImplementedError

    @property
    def metrics(self) -> Sequence[MetricDefinition]:
        """The metrics that SageMaker reads from the job's log."""
        raise NotImplementedError

    def training_gb(self, row: ModelRow) -> float:
        """Return a lower bound for the accelerator memory that the job needs, in GB."""
        raise NotImplementedError

    def host_gb(self, parameters_billion: float) -> float:
        """Return a lower bound for the instance memory that the job needs, in GB."""
        return 0.0

    @classmethod
    def storage_gb(cls, stored_gb: float) -> int:
        """Return the minimum storage of the job for a model of this size, both in GB."""
        return 0

    def reads(self) -> tuple[S3Source, ...]:
        """Return the technique's data."""
        return tuple(S3Source(uri=uri) for uri in self.channels.values())

    def deciding_settings(self) -> dict[str, object]:
        """Return the hyperparameters. The deployment reads the content of the data."""
        return {"hyperparameters": self.all_hyperparameters}
