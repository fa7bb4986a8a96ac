"""How a local cloud runs training jobs."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from .training_logs import NoTelemetry, Telemetry


@dataclass(frozen=True)
class TrainingSettings:
    """How training jobs are run.

    Attributes:
        path: the folder whose programs stand for those of a job's image. Default: that of this interpreter.
        starting: how long a job waits for its instances, in seconds; one that reuses a warm pool does not.
        stop_seconds: from SIGTERM to SIGKILL. AWS's: 120.
        keep_alive_scale: what a second of a warm pool lasts.
        cloud: variables that point the code's SDK at this cloud.
        telemetry: where its logs and metrics go.
    """

    path: Path = Path(sys.executable).parent
    starting: float = 3.0
    stop_seconds: float = 120.0
    keep_alive_scale: float = 1.0
    cloud: Mapping[str, str] = field(default_factory=dict[str, str])
    telemetry: Telemetry = field(default_factory=NoTelemetry)
