"""The environment of a training job: folders, channels, hyperparameters, hosts.

Source: Amazon SageMaker AI developer guide, "How Amazon SageMaker AI Provides Training Information"
(``/opt/ml/input/config``, ``/opt/ml/input/data/<channel>``, ``/opt/ml/model``, ``/opt/ml/output/failure``) and
"Checkpoints in Amazon SageMaker AI" (``/opt/ml/checkpoints``). ``SAGEMAKER_BASE_DIR`` moves ``/opt/ml``, as it does
for the SageMaker training toolkit.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .documents import json_object
from .errors import TrainingError

BASE_DIRECTORY = "SAGEMAKER_BASE_DIR"
PROCESSES_PER_HOST = "MEDUSA_PROCESSES_PER_HOST"


@dataclass(frozen=True)
class TrainingEnvironment:
    """The folders and hosts of a training job.

    Attributes:
        root: the folder in place of ``/opt/ml``.
        hosts: the sorted names of all hosts of the job.
        host: the name of this host.
        processes_per_host: one for each accelerator of a host, at least 1.
        variables: the container's environment variables.
    """

    root: Path
    hosts: tuple[str, ...] = ("localhost",)
    host: str = "localhost"
    processes_per_host: int = 1
    variables: Mapping[str, str] = field(default_factory=lambda: os.environ, repr=False)

    @classmethod
    def of(cls, variables: Mapping[str, str] = os.environ) -> TrainingEnvironment:
        """Read the environment from the container's variables and ``resourceconfig.json``.

        Args:
            variables: environment variables. Default: this process's.
        """
        root = Path(variables.get(BASE_DIRECTORY, "/opt/ml"))
        resources = _configuration(root, "resourceconfig.json")
        hosts = tuple(sorted(resources.get("hosts") or ["localhost"]))
        return cls(
            root=root,
            hosts=hosts,
            host=str(resources.get("current_host") or hosts[0]),
            processes_per_host=_processes_per_host(variables),
            variables=variables,
        )

    @property
    def hyperparameters(self) -> dict[str, str]:
        """The job's hyperparameters, all as strings."""
        return _configuration(self.root, "hyperparameters.json")

    @property
    def model(self) -> Path:
        """The folder that becomes the job's model artifact."""
        return Path(self.variables.get("SM_MODEL_DIR") or self.root / "model")

    @property
    def checkpoints(self) -> Path:
        """The folder of checkpoints, which SageMaker copies to S3 and restores before the job starts."""
        return self.root / "checkpoints"

    @property
    def tensorboard(self) -> Path:
        """The folder for TensorBoard's events."""
        return self.root / "output" / "tensorboard"

    @property
    def failure(self) -> Path:
        """The file whose text becomes the job's FailureReason."""
        return self.root / "output" / "failure"

    def channel(self, name: str) -> Path | None:
        """Return the folder of an input channel; None if the job does not have the channel."""
        path = Path(self.variables.get(f"SM_CHANNEL_{name.upper()}") or self.root / "input" / "data" / name)
        return path if path.is_dir() else None

    def needed_channel(self, name: str, holds: str) -> Path:
        """Return the folder of an input channel.

        Args:
            name: the channel's name.
            holds: its intended content, for the error.

        Raises:
            TrainingError: if the job does not have the channel.
        """
        path = self.channel(name)
        if path is None:
            there = self.root / "input" / "data"
            channels = sorted(child.name for child in there.iterdir() if child.is_dir()) if there.is_dir() else []
            raise TrainingError(
                f"the job has no input channel {name!r}, which must hold {holds}; "
                f"its channels are {', '.join(channels) or 'none'}"
            )
        return path

    @property
    def world_size(self) -> int:
        """The number of training processes."""
        return len(self.hosts) * self.processes_per_host


def _configuration(root: Path, name: str) -> dict[str, Any]:
    path = root / "input" / "config" / name
    return json_object(path, TrainingError) if path.is_file() else {}


def _processes_per_host(variables: Mapping[str, str]) -> int:
    for name in (PROCESSES_PER_HOST, "SM_NUM_GPUS"):
        text = variables.get(name)
        if text:
            if not text.isdigit():
                raise TrainingError(f"{name} = {text!r}: use a whole number")
            return max(1, int(text))
    try:
        import torch
    except ModuleNotFoundError:
        # The training reports the missing library in the job's failure reason.
        return 1
    return max(1, torch.cuda.device_count())
