"""Errors that end a job, and their report to the user who deployed it.

SageMaker uses the first 1,024 characters of ``/opt/ml/output/failure`` as the job's ``FailureReason`` (Amazon SageMaker
AI developer guide, "How Amazon SageMaker AI Signals Algorithm Success and Failure").
"""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from pathlib import Path

LONGEST_REASON = 1024
TEMPORARY = "temporary failure: "
"""How the reason of a failure begins that another job with the same input may not have. The watcher reads it."""
_SHOWN = 20


class TrainingError(Exception):
    """An error that a user can fix. Its message has the value, the reason and the fix."""


class SeveralProblems(TrainingError):
    """All problems of one input.

    Args:
        heading: a summary.
        problems: the details, in order. The message shows the first 20 and the number of the others.
    """

    def __init__(self, heading: str, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        shown = [f"  {problem}" for problem in self.problems[:_SHOWN]]
        if len(self.problems) > _SHOWN:
            shown.append(f"  and {len(self.problems) - _SHOWN} more")
        super().__init__("\n".join([f"{heading}:", *shown]))


class InvalidData(SeveralProblems):
    """Lines of a data file that cannot be used."""


class InvalidSettings(SeveralProblems):
    """Hyperparameters that cannot be used."""


class CopyError(TrainingError):
    """A model that cannot be copied from the hub."""


class Unavailable(CopyError):
    """A copy that the hub, AWS, or the network broke off. The next job may succeed, which the reason says."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"{TEMPORARY}{problem}")


class UnusableModel(TrainingError):
    """A folder without a model that this code can train, or with another model than expected."""


class UnusableHeads(TrainingError):
    """Heads that do not belong to their model."""


class LossNotFinite(TrainingError):
    """The loss became infinite or NaN."""

    def __init__(self, step: int, loss: float) -> None:
        super().__init__(
            f"the loss became {loss} at step {step}: the training has diverged and cannot recover. "
            "Lower learning_rate or gradient_clipping, set warmup_ratio above 0, or try precision=float32"
        )


class OtherVersion(TrainingError):
    """The artifact's recorded version is not the one that this release makes."""


class OtherRun(TrainingError):
    """Checkpoints of another run."""


class OutOfMemory(TrainingError):
    """The device or the machine ran out of memory."""


class Interrupted(Exception):
    """The training had to stop, and has written a checkpoint to resume from."""


def describe_error(error: BaseException, settings: object = None) -> str:
    """Return one message: a user's error unchanged, out of memory with settings to lower, others with their location.

    Args:
        error: the exception.
        settings: the training's settings. The advice names their values.
    """
    if isinstance(error, TrainingError):
        return str(error)
    if is_out_of_memory(error):
        return str(out_of_memory(error, settings))
    if isinstance(error, ModuleNotFoundError):
        return f"the image lacks {error.name}: install requirements.txt, which is beside the training code"
    last = traceback.extract_tb(error.__traceback__)[-1:]
    location = f" ({Path(last[0].filename).name}, line {last[0].lineno})" if last else ""
    return f"{type(error).__name__}: {error}{location}"


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an accelerator or the machine ran out of memory. PyTorch has no error type for the latter."""
    return (
        isinstance(error, MemoryError)
        or type(error).__name__ in ("OutOfMemoryError", "AcceleratorOutOfMemoryError")
        or (isinstance(error, RuntimeError) and "not enough memory" in str(error))
        or (isinstance(error, RuntimeError) and "can't allocate memory" in str(error))
    )


def out_of_memory(error: BaseException, settings: object = None) -> OutOfMemory:
    """Return an error that advises settings to lower, largest effect first."""
    advice = []
    batch_size = getattr(settings, "batch_size", None)
    if batch_size != 1:
        current = "" if batch_size is None else f" from {batch_size}"
        advice.append(f"lower batch_size{current}, and raise gradient_accumulation_steps by the same factor")
    length = getattr(settings, "maximum_sequence_length", None)
    advice.append("lower maximum_sequence_length" + ("" if length is None else f" from {length}"))
    if getattr(settings, "gradient_checkpointing", None) is False:
        advice.append("set gradient_checkpointing=true")
    if getattr(settings, "method", None) in ("full", "lora"):
        advice.append("choose method=" + ("lora or qlora" if getattr(settings, "method", None) == "full" else "qlora"))
    heads = getattr(settings, "heads", None)
    if heads is not None and heads > 1:
        advice.append(f"train fewer heads than {heads}")
    advice.append("choose an instance type with more memory for each accelerator")
    first_line = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    return OutOfMemory(f"out of memory. To fix it: {'; '.join(advice)}. ({first_line})")


def write_failure(path: Path, reason: str) -> None:
    """Write the failure reason for SageMaker. The first of several processes to fail wins.

    Args:
        path: ``/opt/ml/output/failure``.
        reason: the reason, truncated visibly to 1,024 characters, because the service truncates it invisibly.
    """
    if len(reason) > LONGEST_REASON:
        reason = reason[: LONGEST_REASON - 3] + "..."
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(reason)
    except FileExistsError:
        return
