"""A host's file system and environment for a training job: ``/opt/ml`` as a folder of this machine.

Source: developer guide, "How Amazon SageMaker AI Provides Training Information" (``/opt/ml/input/config``, hosts) and
"Amazon SageMaker AI Training Storage Folders for Training Datasets, Checkpoints, Model Artifacts, and Outputs".
``SAGEMAKER_BASE_DIR`` moves ``/opt/ml``, as it does for the SageMaker training toolkit.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from constructs_optim_local.sagemaker.processes.opt_ml import ROOT, moved
from constructs_optim_local.sagemaker.records import Record

CHECKPOINTS = "/opt/ml/checkpoints"
TENSORBOARD = "/opt/ml/output/tensorboard"
# The folders of the programs that every container has.
_SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True)
class Host:
    """One host of a job.

    Attributes:
        name: the host's name or address for the others; ``algo-1`` for a single host.
        number: the host's number, counted from 1.
        folder: the host's folder on this machine.
    """

    name: str
    number: int
    folder: Path

    @property
    def root(self) -> Path:
        """The folder that stands for ``/opt/ml``."""
        return self.folder / "ml"

    @property
    def model(self) -> Path:
        """The folder that becomes the model artifact."""
        return self.root / "model"

    @property
    def output_data(self) -> Path:
        """The folder of the job's other output."""
        return self.root / "output" / "data"

    @property
    def failure(self) -> str:
        """The failure reason that the code wrote; empty if it wrote none."""
        path = self.root / "output" / "failure"
        try:
            return path.read_text(encoding="utf-8", errors="replace").strip()
        except OSError:
            return ""

    def channel(self, name: str) -> Path:
        """Return the folder of an input channel."""
        return self.root / "input" / "data" / name

    def local(self, path: str) -> Path:
        """Return the folder that stands for a path below ``/opt/ml``."""
        return self.root / PurePosixPath(path).relative_to(ROOT)

    def text(self, text: str) -> str:
        """Return a text of the request with ``/opt/ml`` replaced by this host's folder."""
        return moved(text, self.root)

    def prepare(self, job: Record, hosts: Sequence[Host]) -> None:
        """Create the folders and write the job's configuration files."""
        for folder in (self.root / "input" / "config", self.root / "input" / "data", self.model, self.output_data):
            folder.mkdir(parents=True)
        for folder in ("home", "tmp"):
            (self.folder / folder).mkdir()
        resources, names = job["ResourceConfig"], [host.name for host in hosts]
        group = {"instance_group_name": "homogeneousCluster", "instance_type": resources["InstanceType"]}
        self._write("hyperparameters", job.get("HyperParameters", {}))
        self._write("inputdataconfig", {item["ChannelName"]: _input(job, item) for item in job["InputDataConfig"]})
        self._write(
            "resourceconfig",
            {
                "current_host": self.name,
                "current_instance_type": resources["InstanceType"],
                "current_group_name": group["instance_group_name"],
                "hosts": names,
                "instance_groups": [{**group, "hosts": names}],
                "network_interface_name": "lo",
            },
        )

    def environment(self, job: Record, path: Path, cloud: Mapping[str, str]) -> dict[str, str]:
        """Return the code's environment variables: those of its image, of the job and of SageMaker.

        Args:
            job: the CreateTrainingJob request.
            path: the folder of the programs to run instead of the image's.
            cloud: variables that point its SDK at this cloud.
        """
        image = {
            "PATH": f"{path}:{_SYSTEM_PATH}",
            "HOME": str(self.folder / "home"),
            "TMPDIR": str(self.folder / "tmp"),
            "LANG": "C.UTF-8",
            "OMP_NUM_THREADS": "1",
            "MEDUSA_PROCESSES_PER_HOST": "1",
            "PYTHONUNBUFFERED": "1",
            "PYTHONNOUSERSITE": "1",
            # An environment of this machine stands for the image. A job must not install into it.
            "PIP_CONFIG_FILE": os.devnull,
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "PIP_NO_INDEX": "1",
            "PIP_NO_INPUT": "1",
            "PIP_ROOT_USER_ACTION": "ignore",
        }
        variables = {name: self.text(value) for name, value in job.get("Environment", {}).items()}
        service = {
            "SAGEMAKER_BASE_DIR": str(self.root),
            "TRAINING_JOB_NAME": job["TrainingJobName"],
            "TRAINING_JOB_ARN": job["TrainingJobArn"],
        }
        return {**image, **cloud, **variables, **service}

    def _write(self, name: str, content: object) -> None:
        (self.root / "input" / "config" / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")


def hosts_of(job: Record, folder: Path) -> list[Host]:
    """Return the hosts of a job, below a folder. Several hosts are named by loopback addresses."""
    count = job["ResourceConfig"]["InstanceCount"]
    names = ["algo-1"] if count == 1 else [f"127.0.0.{number}" for number in range(1, count + 1)]
    return [Host(name, number, folder / f"algo-{number}") for number, name in enumerate(names, 1)]


def can_have_several() -> bool:
    """Return whether hosts can have separate addresses: only Linux listens on all of 127.0.0.0/8."""
    return sys.platform == "linux"


def _input(job: Record, channel: Record) -> dict[str, str]:
    mode = channel.get("InputMode", job["AlgorithmSpecification"]["TrainingInputMode"])
    source = channel["DataSource"]["S3DataSource"]
    distribution = source.get("S3DataDistributionType", "FullyReplicated")
    content = {"ContentType": channel["ContentType"]} if "ContentType" in channel else {}
    return {
        **content,
        "TrainingInputMode": mode,
        "S3DistributionType": distribution,
        "RecordWrapperType": channel.get("RecordWrapperType", "None"),
    }
