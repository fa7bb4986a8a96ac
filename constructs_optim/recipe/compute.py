"""The compute resources of training jobs and of the jobs that copy models."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import Field

from .settings import Settings


class TrainingCompute(Settings):
    """The compute resources of a training job.

    Attributes:
        instance_type: the instance type, for example ``ml.g5.12xlarge``. Default: the endpoint's.
        instance_count: number of instances; each of their accelerators holds the whole model. Default: 1.
        volume_size_gb: storage in GB, if the instance type has no disks of its own. Default: 100.
        spot: whether to use Spot Instances, which cost less and can be interrupted; the job resumes from its last
            checkpoint. Default: no.
        spot_wait_seconds: with ``spot``, the maximum time to wait for capacity, in addition to the runtime. Default:
            86,400 (one day).
        keep_alive_seconds: how long SageMaker keeps the instances for another job of the same kind (a warm pool, which
            you pay for); at most 21,600. Default: none.
        environment: environment variables of the container, for example ``PIP_INDEX_URL`` for a mirror in a VPC. The
            template shows their values, so do not put secrets here. Default: none.
    """

    instance_type: str | None = None
    instance_count: int = Field(default=1, ge=1, le=64)
    volume_size_gb: int = Field(default=100, ge=1, le=16_384)
    spot: bool = False
    spot_wait_seconds: int = Field(default=86_400, ge=1, le=2_419_200)
    keep_alive_seconds: int | None = Field(default=None, ge=1, le=21_600)
    environment: Mapping[str, str] | None = None
