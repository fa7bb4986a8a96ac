"""A training job's request: this library's training code in an AWS Deep Learning Container.

Source: Amazon SageMaker API reference, CreateTrainingJob; developer guide, "Use a custom entrypoint for training
algorithms" (AlgorithmSpecification.ContainerEntrypoint), "Managed Spot Training", "SageMaker-managed warm pools".
"""

from __future__ import annotations

from typing import Any

from constructs_optim.recipe.techniques import Training

CODE_CHANNEL = "code"
"""The input channel that brings the training code, as one zip archive."""

# At most 256 characters; $0 is the first of ContainerArguments. What cannot be installed is written where SageMaker
# reads the reason of a failure. SAGEMAKER_BASE_DIR stands for /opt/ml where there is no container. requirements.txt is
# complete, says --require-hashes, and leaves PyTorch to the image: without --no-deps, pip would ask for a hash of it.
_START = (
    "cd ${SAGEMAKER_BASE_DIR:-/opt/ml} && python -m zipfile -e input/data/code/*.zip code && "
    "python -m pip install --no-deps -qr code/requirements.txt || "
    "{ echo cannot install code or requirements.txt, see the log >output/failure; exit 1; }; "
    "exec python code/$0"
)


def training_request(training: Training, *, image: str, instance_type: str, max_runtime_seconds: int) -> dict[str, Any]:
    """The body of CreateTrainingJob without name, role, the channels of model and code, output and checkpoints.

    Args:
        training: the job.
        image: the container's image, which has PyTorch.
        instance_type: what it runs on.
        max_runtime_seconds: how long it may run; with spot capacity, waiting comes on top.
    """
    compute = training.compute
    stopping = {"MaxRuntimeInSeconds": max_runtime_seconds}
    if compute.spot:
        stopping["MaxWaitTimeInSeconds"] = max_runtime_seconds + compute.spot_wait_seconds
    return {
        "AlgorithmSpecification": {
            "ContainerArguments": [training.script],
            "ContainerEntrypoint": ["/bin/bash", "-c", _START],
            "MetricDefinitions": [{"Name": name, "Regex": regex} for name, regex in training.metrics],
            "TrainingImage": image,
            "TrainingInputMode": "File",
        },
        # What the processes of several instances tell each other crosses the network.
        **({"EnableInterContainerTrafficEncryption": True} if compute.instance_count > 1 else {}),
        **({"EnableManagedSpotTraining": True} if compute.spot else {}),
        **({"Environment": dict(compute.environment)} if compute.environment else {}),
        "HyperParameters": dict(training.hyperparameters),
        "InputDataConfig": [channel(name, uri) for name, uri in training.channels.items()],
        "ResourceConfig": {
            "InstanceCount": compute.instance_count,
            "InstanceType": instance_type,
            **({"KeepAlivePeriodInSeconds": compute.keep_alive_seconds} if compute.keep_alive_seconds else {}),
            "VolumeSizeInGB": compute.volume_size_gb,
        },
        "StoppingCondition": stopping,
    }


def channel(name: str, uri: str) -> dict[str, Any]:
    """An input channel: all objects below an S3 prefix, on every instance."""
    prefix = uri if uri.endswith(("/", "}")) else f"{uri}/"
    return {"ChannelName": name, "DataSource": data_source(prefix)}


def data_source(uri: str) -> dict[str, Any]:
    """An input channel's ``DataSource``: all objects whose keys begin as the URI does."""
    source = {"S3DataDistributionType": "FullyReplicated", "S3DataType": "S3Prefix", "S3Uri": uri}
    return {"S3DataSource": source}
