"""What the SageMaker of all accounts and regions of a local cloud stands on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from constructs_optim_local.access.authorization import Roles, Unchecked
from constructs_optim_local.api.call_log import CallLog
from constructs_optim_local.clock import Clock
from constructs_optim_local.cloudwatch.alarms import Alarms, NoAlarms
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
    """How long things take, in seconds.

    Attributes:
        jobs: the states of an optimization job.
        endpoint: the launch of instances, and of copies of inference components.
        scale: what a second of the API's own waits lasts.
    """

    jobs: JobDurations = field(default_factory=JobDurations)
    endpoint: float = 1.0
    scale: float = 1.0


@dataclass(frozen=True)
class Context:
    """What every account and region shares.

    Attributes:
        objects: the objects in S3 as the jobs of an account and region see them.
        hub: the public hub. Default: the models that come with this package.
        faults: in force. Default: none.
        calls: a record of every call.
        timing: how long things take.
        roles: what execution roles may do. Default: everything.
        alarms: CloudWatch's. Default: there are none.
        price: dollars an hour of an instance type; None for a type without a price.
        training: how the training jobs of an account and region are run.
        performances: how fast what endpoints serve is.
        clock: the time. Default: the machine's.
        quotas: of instances. Default: none was set.
        servers: what runs model servers. Default: nothing, and completions are synthetic.
    """

    objects: ObjectsOf
    hub: Hub = field(default_factory=Hub)
    faults: Faults = field(default_factory=Faults)
    calls: CallLog = field(default_factory=CallLog)
    timing: Timing = field(default_factory=Timing)
    roles: Roles = field(default_factory=Unchecked)
    alarms: Alarms = field(default_factory=NoAlarms)
    price: Callable[[str], float | None] = lambda instance_type: None
    training: Callable[[str, str], TrainingSettings] = lambda account, region: TrainingSettings()
    performances: Performances = field(default_factory=Performances)
    clock: Clock = field(default_factory=Clock)
    quotas: Quotas = field(default_factory=Quotas)
    servers: ServerPool | None = None
