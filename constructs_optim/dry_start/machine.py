"""How much of a plan this machine can start: the tensor parallel degree, layers, and experts."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from .cpu_arguments import CACHE_GB
from .few_layers import FewLayers, weights_bytes
from .model_folder import few_layers
from .planned_engine import DryStartError

# One process of the engine with PyTorch and without weights needs 1.0 to 1.3 GB (vLLM 0.30). Two more serve requests
# and schedule.
_PROCESS_BYTES, _OTHER_PROCESSES = 1_300_000_000, 2
_MEMORY_SHARE = 0.8
# Processes beyond the CPUs take their time from each other, and imports alone take each 10 seconds of a CPU.
_FEWEST_PROCESSES = 2


class Fitting(NamedTuple):
    """The model's configurations as this machine can start them, and the tensor parallel degree."""

    configs: dict[str, FewLayers]
    degree: int

    def changes(self, planned: int) -> list[str]:
        """Return in words what the plan has more of."""
        few = next(iter(self.configs.values()))
        changes = [f"{few.layers[0]} of {few.layers[1]} layers"] if few.layers is not None else []
        if few.experts is not None and few.experts[0] < few.experts[1]:
            changes.append(f"{few.experts[0]} of {few.experts[1]} experts, for the memory of this machine")
        if self.degree < planned:
            changes.append(f"tensor parallel degree {self.degree} (planned: {planned}), for its memory and CPUs")
        return changes


def fitting(configs: Mapping[str, dict[str, object]], planned: int, available: int) -> Fitting | None:
    """Return the largest part of the planned tensor parallel degree that fits, with as many experts as fit then.

    Args:
        configs: the model's configurations by their files' names.
        planned: the planned degree.
        available: the bytes of memory that are available.
    """
    memory = available * _MEMORY_SHARE - _OTHER_PROCESSES * _PROCESS_BYTES
    most = max(_FEWEST_PROCESSES, os.cpu_count() or 1)
    for degree in (each for each in range(min(planned, most), 0, -1) if planned % each == 0):
        for_weights = int(memory - degree * (_PROCESS_BYTES + CACHE_GB * 2**30))
        cut = few_layers(configs, for_weights)
        if max(weights_bytes(few.config) for few in cut.values()) <= for_weights:
            return Fitting(cut, degree)
    return None


def available_bytes() -> int:
    """Return the memory that programs of this machine, or of its container, can still use (Linux, proc(5), cgroups(7)).

    Raises:
        DryStartError: if the machine does not say.
    """
    try:
        lines = Path("/proc/meminfo").read_text(encoding="utf-8").splitlines()
        free = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration, ValueError):
        raise DryStartError("this machine does not say in /proc/meminfo how much memory is available") from None
    try:
        limit, used = (
            int(Path(f"/sys/fs/cgroup/memory.{name}").read_text(encoding="utf-8")) for name in ("max", "current")
        )
    except (OSError, ValueError):
        return free
    return min(free, max(0, limit - used))
