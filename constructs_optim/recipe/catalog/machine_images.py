"""Machine images of instances: their NVIDIA drivers, and the ones that containers need by instance family."""

from __future__ import annotations

from functools import cache
from types import MappingProxyType

from pydantic import BaseModel

from . import load
from .images import ImageRow, is_from
from .instances import InstanceRow


class MachineImage(BaseModel, frozen=True):
    """A value of ``InferenceAmiVersion``: the kind of accelerator, and for GPUs the driver and its CUDA release."""

    kind: str
    driver: int | None
    cuda: str | None


class _Cuda(BaseModel, frozen=True):
    least_driver: int
    machine_image: str


class _Failure(BaseModel, frozen=True):
    repository: str
    cuda: str
    least_version: str
    driver: int
    source: str


class _Family(BaseModel, frozen=True):
    default_driver: int | None
    machine_images: tuple[str, ...]
    least_driver: int | None = None
    failure: _Failure | None = None


@cache
def by_name() -> MappingProxyType[str, MachineImage]:
    """Return SageMaker's machine images by name."""
    rows = load("machine_images")["machine_images"]
    return MappingProxyType({name: MachineImage.model_validate(row) for name, row in rows.items()})


def least_driver(cuda: str | None) -> int | None:
    """Return the oldest NVIDIA driver that runs a container for a CUDA release; None if that is unknown."""
    row = _cuda(cuda)
    return row.least_driver if row is not None else None


def least_driver_of(instance: InstanceRow) -> int | None:
    """Return the oldest NVIDIA driver that the GPUs of an instance type need; None if no source names it."""
    row = _families().get(instance.family)
    return row.least_driver if row is not None else None


def needed(cuda: str | None, instance: InstanceRow) -> str | None:
    """Return the machine image that a container for a CUDA release needs on an instance type.

    None if the default machine image suffices, or if no source names the machine image for the instance family.
    """
    row, family = _cuda(cuda), _families().get(instance.family)
    if row is None or family is None or row.machine_image not in family.machine_images:
        return None
    if family.default_driver is None:
        # The default of these families is newer than CUDA 12. No document says whether it is new enough for CUDA 13.
        return row.machine_image if row.least_driver > _of_cuda_12() else None
    return row.machine_image if family.default_driver < row.least_driver else None


def is_undocumented(cuda: str | None, instance: InstanceRow) -> bool:
    """Return whether no source says on which machine image an instance type runs a container for a CUDA release."""
    row, family = _cuda(cuda), _families().get(instance.family)
    if row is None or family is None or row.least_driver <= _of_cuda_12():
        return False
    return row.machine_image not in family.machine_images


def is_named_for(version: str, instance: InstanceRow) -> bool:
    """Return whether a source names a machine image for the family of an instance type."""
    row = _families().get(instance.family)
    return row is not None and version in row.machine_images


def default_driver(instance: InstanceRow) -> int | None:
    """Return the NVIDIA driver of the default machine image of an instance type; None if it is not documented."""
    row = _families().get(instance.family)
    return row.default_driver if row is not None else None


def reported_failure(image: ImageRow, instance: InstanceRow, driver: int) -> str | None:
    """Return the report of such a container that failed on the instance family with this driver or a newer one."""
    row = _families().get(instance.family)
    failure = row.failure if row is not None else None
    if failure is None or image.repository != failure.repository or driver > failure.driver:
        return None
    is_of_release = (image.cuda or "").partition(".")[0] == failure.cuda
    return failure.source if is_of_release and is_from(image.tag, failure.least_version) else None


def _cuda(cuda: str | None) -> _Cuda | None:
    row = load("machine_images")["cuda"].get(cuda.partition(".")[0]) if cuda is not None else None
    return _Cuda.model_validate(row) if row is not None else None


def _of_cuda_12() -> int:
    return _Cuda.model_validate(load("machine_images")["cuda"]["12"]).least_driver


@cache
def _families() -> MappingProxyType[str, _Family]:
    rows = load("machine_images")["families"]
    return MappingProxyType({name: _Family.model_validate(row) for name, row in rows.items()})
