"""Checkpoints that are safe to resume from after an interruption.

SageMaker copies ``/opt/ml/checkpoints`` to S3 while the job runs, and back when an interrupted job restarts. The copy
may have half of a checkpoint. Therefore, writing a checkpoint ends with a list of its files and their sizes, and a run
resumes only from whole checkpoints. The list also identifies the run, so that another run's checkpoints are refused.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import signal
from pathlib import Path
from typing import Any

import torch
from transformers import TrainerCallback

from ..documents import json_object
from ..errors import OtherRun, TrainingError

_LIST = "checkpoint.json"
_FOLDER = re.compile(r"checkpoint-(\d+)")


def run_identity(**what: Any) -> str:
    """Return a hash of a training's settings, data and model."""
    return hashlib.sha256(json.dumps(what, sort_keys=True, default=str).encode()).hexdigest()


def newest_whole_checkpoint(folder: Path, identity: str) -> Path | None:
    """Return the checkpoint to resume from, and remove incomplete ones.

    Args:
        folder: the folder of the checkpoints, which may be missing.
        identity: the identity of this run.

    Raises:
        OtherRun: if a checkpoint is from another run.
    """
    if not folder.is_dir():
        return None
    newest: tuple[int, Path] | None = None
    for path in sorted(folder.iterdir()):
        matched = _FOLDER.fullmatch(path.name)
        if not matched or not path.is_dir():
            continue
        listed = _listed(path)
        if listed is None:
            # All processes of the host try to remove it.
            shutil.rmtree(path, ignore_errors=True)
            continue
        if listed != identity:
            raise OtherRun(
                f"{path.name} in {folder} is from a run with other settings, data or model. Choose an empty prefix for "
                "the job's checkpoints, or restore the original settings, data and model"
            )
        if newest is None or int(matched[1]) > newest[0]:
            newest = int(matched[1]), path
    return newest[1] if newest else None


def mark_whole(folder: Path, identity: str) -> None:
    """Write the list that marks a checkpoint as whole."""
    sizes = {str(file.relative_to(folder)): file.stat().st_size for file in _files(folder)}
    written = folder / f"{_LIST}.part"
    written.write_text(json.dumps({"run": identity, "files": sizes}), encoding="utf-8")
    written.rename(folder / _LIST)


class WholeCheckpoints(TrainerCallback):
    """Marks every checkpoint as whole after all processes have written their parts.

    Args:
        identity: the identity of this run.
    """

    def __init__(self, identity: str) -> None:
        self._identity = identity

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Mark the checkpoint as whole."""
        if args.world_size > 1:
            torch.distributed.barrier()
        if state.is_world_process_zero:
            mark_whole(Path(args.output_dir) / f"checkpoint-{state.global_step}", self._identity)


class CheckpointWhenAsked(TrainerCallback):
    """Writes a checkpoint and stops when the process is terminated.

    SageMaker sends SIGTERM, and SIGKILL 120 seconds later (developer guide, "How Amazon SageMaker AI Runs Your Training
    Image"; managed spot training gives the same notice). ``asked`` is whether the training ended in this way.
    """

    def __init__(self) -> None:
        self.asked = False
        signal.signal(signal.SIGTERM, self._note)

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Stop after an optimizer step, the same in all processes."""
        if args.world_size > 1:
            flag = torch.tensor(float(self.asked), device=args.device)
            torch.distributed.all_reduce(flag, op=torch.distributed.ReduceOp.MAX)
            self.asked = bool(flag.item())
        if self.asked:
            control.should_save = True
            control.should_training_stop = True

    def _note(self, *_: Any) -> None:
        self.asked = True


def _listed(folder: Path) -> str | None:
    """Return the identity of a checkpoint's run; None if the checkpoint is incomplete."""
    try:
        content = json_object(folder / _LIST, TrainingError)
        sizes = {str(file.relative_to(folder)): file.stat().st_size for file in _files(folder)}
        return content["run"] if content["files"] == sizes else None
    except (OSError, KeyError, TrainingError):
        return None


def _files(folder: Path) -> list[Path]:
    return sorted(file for file in folder.rglob("*") if file.is_file() and not file.name.startswith(_LIST))
