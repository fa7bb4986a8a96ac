"""How a local cloud runs builds."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from ..sagemaker.training_logs import NoTelemetry, Telemetry


class Projects(Protocol):
    """The build projects there are, as the API's ``Project`` has them."""

    def find(self, name: str, account: str, region: str) -> dict[str, Any] | None:
        """The project of that name; None where there is none."""
        ...

    def names(self, account: str, region: str) -> list[str]:
        """The names of all of them."""
        ...


@dataclass(frozen=True)
class BuildSettings:
    """How builds are run.

    Attributes:
        path: the folders whose programs stand for those of a build's image. Default: that of this interpreter.
        cloud: variables that point the SDKs and tools of a build of an account and region at this cloud.
        telemetry: where what a build of an account and region prints goes.
    """

    path: Sequence[Path] = (Path(sys.executable).parent,)
    cloud: Callable[[str, str], Mapping[str, str]] = field(default=lambda account, region: {})
    telemetry: Callable[[str, str], Telemetry] = field(default=lambda account, region: NoTelemetry())
