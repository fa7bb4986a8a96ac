"""The Regions of AWS's own images, from ``data/image_regions.json``, which ``tooling/image_regions.py`` writes."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

UNPULLED = "Cannot pull algorithm container. Either the image does not exist or its permissions are incorrect."
"""A training job's message about a missing image: https://github.com/aws-samples/aws-sagemaker-build/issues/25.

Assumed, without a source: optimization jobs have the same message.
"""
_DATA = Path(__file__).parent.parent / "data"
_CUDA = re.compile(r"\bcu(\d\d)\d\b")
# LMI's images have a label (com.amazonaws.sagemaker.inference.cuda.verified_versions=12.2, lmi.Dockerfile of
# djl-serving), with which SageMaker chooses driver 535 for an endpoint that names the model.
_LABELED, _LABELED_DRIVER = "/djl-inference:", 535
# TGI's images load NVIDIA's compatibility package on an older driver (start-cuda-compat.sh and the entrypoints of
# awslabs/llm-hosting-container), and AWS tested them on ml.g5.12xlarge with its default driver, 470
# (tests/huggingface/sagemaker_dlc_test.py there, before pull request 193). The oldest that the package supports is 470.
_COMPATIBLE, _COMPATIBLE_DRIVER = "/huggingface-pytorch-tgi-inference:", 470
_NEURON_TYPE, _GPU_TYPE = re.compile(r"ml\.(inf|trn)\d"), re.compile(r"ml\.(g|gr|p)\d")
_FOR_NEURON, _FOR_GPUS = re.compile(r"-neuronx\b"), re.compile(r"-(gpu|cu\d{3})\b")
_IMAGE = re.compile(r"(\d{12})\.dkr\.ecr\.([a-z0-9-]+)\.[a-z.]+/([^:@]+):(.+)")


def missing_image(image: str | None) -> bool:
    """Return whether an image is one of AWS's that its Region lacks; False for unknown images."""
    found = _IMAGE.fullmatch(image or "")
    if found is None:
        return False
    account, region, repository, tag = found.groups()
    known = _known()
    if account not in known["accounts"]:
        return False
    for entry in known["images"]:
        if entry["repository"] == repository and any(f"{tag}-".startswith(f"{prefix}-") for prefix in entry["tags"]):
            return region not in entry["regions"]
    return False


def is_registry_of_aws(account: str) -> bool:
    """Return whether an account holds AWS's own images."""
    return account in _known()["accounts"]


def repositories() -> frozenset[str]:
    """Return the repositories of AWS's own images."""
    return frozenset(entry["repository"] for entry in _known()["images"])


def has_image(repository: str, tag: str, region: str) -> bool:
    """Return whether a Region has an image of AWS's; False for unknown images."""
    return any(
        region in entry["regions"]
        for entry in _known()["images"]
        if entry["repository"] == repository and any(f"{tag}-".startswith(f"{prefix}-") for prefix in entry["tags"])
    )


def lacks_driver(image: str | None, instance_type: str, ami_version: str | None, *, of_component: bool = False) -> bool:
    """Return whether the instances' machine image lacks a driver that runs an image; False if unknown.

    A machine image has drivers of one kind of accelerator (API reference, ProductionVariant.InferenceAmiVersion). An
    inference component's instances start without it, so that its image's label does not choose the driver. Sources:
    docs/vllm/deployment/sagemaker.md and docs/whisperx/deployment/sagemaker.md of aws/deep-learning-containers ("the
    default SageMaker host AMI has incompatible NVIDIA drivers"); aws/sagemaker-python-sdk pull request 6141 (an
    inference component with LMI for CUDA 12 fails on ml.g4dn.xlarge); ``data/drivers.json``.
    """
    known, found = _drivers(), _CUDA.search(image or "")
    if ami_version in known["machine_images"] and _FOR_NEURON.search(image or ""):
        return True
    if ami_version in known["neuron_machine_images"] and found is not None:
        return True
    family = instance_type.removeprefix("ml.").partition(".")[0]
    driver = known["machine_images"].get(ami_version) if ami_version else known["default_drivers"].get(family)
    if ami_version is None and driver is not None and _LABELED in (image or "") and not of_component:
        driver = max(driver, _LABELED_DRIVER)
    of_release = known["cuda"].get(found[1]) if found is not None else None
    if of_release is not None and _COMPATIBLE in (image or ""):
        of_release = min(of_release, _COMPATIBLE_DRIVER)
    least = [of_release, known["least_drivers"].get(family)]
    return driver is not None and any(driver < each for each in least if each is not None)


def cannot_start(variant: str, image: str | None) -> str:
    """Return the failure of a container that does not start; it has no logs.

    Source: developer guide, "GPU drivers", CannotStartContainerError.
    """
    return (
        f"CannotStartContainerError. Please ensure the model container for variant {variant} starts correctly when "
        f"invoked with 'docker run {image} serve'"
    )


def lacks_accelerators(instance_type: str, image: str | None) -> bool:
    """Return whether an instance type lacks the accelerators that an image needs; False for unknown images.

    The image tags in the SDK's image_uri_config name the processor: ``neuronx``, ``gpu`` or a CUDA release. Assumed:
    without accelerators, PyTorch's images for GPUs start, and servers of language models do not.
    """
    found = _IMAGE.fullmatch(image or "")
    if found is None or found[1] not in _known()["accounts"]:
        return False
    if _FOR_NEURON.search(found[4]):
        return not _NEURON_TYPE.match(instance_type)
    if not _FOR_GPUS.search(found[4]) or _GPU_TYPE.match(instance_type):
        return False
    return _NEURON_TYPE.match(instance_type) is not None or not found[3].startswith("pytorch-")


@functools.cache
def _known() -> Mapping[str, Any]:
    return json.loads((_DATA / "image_regions.json").read_text(encoding="utf-8"))


@functools.cache
def _drivers() -> Mapping[str, Any]:
    return json.loads((_DATA / "drivers.json").read_text(encoding="utf-8"))
