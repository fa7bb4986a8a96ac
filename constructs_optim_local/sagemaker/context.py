"""The services and settings that SageMaker's accounts and Regions share in a local cloud."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from constructs_optim_local.access.authorization import Roles, Unchecked
from constructs_optim_local.api.call_log import CallLog
from constructs_optim_local.clock import Clock
from constructs_optim_local.cloudwatch.alarms import Alarms, NoAlarms
from constructs_optim_local.cloudwatch.metrics import Metrics, NoMetrics
from constructs_optim_local.faults import Faults

from .hosting.performance import Performances
from .hub import Hub
from .objects import ObjectsOf
from .optimization.jobs import JobDurations
from .quotas import Quotas
from .serving.pool import ServerPool
from .training.telemetry import TrainingSettings


@dataclass(frozen=True)
class Timing:
    """Durations in seconds.

    Attributes:
        jobs: time in each state of an optimization job.
        endpoint: launch time of instances, and of copies of inference components.
        scale: real seconds for each second of the API's own waits.
    """

    jobs: JobDurations = field(default_factory=JobDurations)
    endpoint: float = 1.0
    scale: float = 1.0


@dataclass(frozen=True)
class Context:
    """The services and settings that every account and Region shares.

    Attributes:
        objects: returns S3's objects as the jobs of an account and Region see them.
        hub: the public hub. Default: this package's models.
        faults: the faults to inject. Default: none.
        calls: a record of every call.
        timing: durations of jobs and changes.
        roles: permissions of execution roles. Default: all.
        alarms: CloudWatch's alarms. Default: none.
        metrics: CloudWatch's metrics. Default: published ones are lost.
        price: returns an instance type's price in dollars an hour; None without a price.
        training: returns how to run the training jobs of an account and Region.
        performances: the speed of served models.
        clock: the clock. Default: the machine's.
        quotas: instance quotas. Default: none is set.
        servers: runs model servers. Default: None, for synthetic completions.
    """

    objects: ObjectsOf
    hub: Hub = field(default_factory=Hub)
    faults: Faults = field(default_factory=Faults)
    calls: CallLog = field(default_factory=CallLog)
    timing: Timing = field(default_factory=Timing)
    roles: Roles = field(default_factory=Unchecked)
    alarms: Alarms = field(default_factory=NoAlarms)
    metrics: Metrics = field(default_factory=NoMetrics)
    price: Callable[[str], float | None] = lambda instance_type: None
    training: Callable[[str, str], TrainingSettings] = lambda account, region: TrainingSettings()
    performances: Performances = field(default_factory=Performances)
    clock: Clock = field(default_factory=Clock)
    quotas: Quotas = field(default_factory=Quotas)
    servers: ServerPool | None = None
