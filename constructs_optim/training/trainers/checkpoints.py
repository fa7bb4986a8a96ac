"""Checkpoints that can be trusted after an interruption.

SageMaker copies ``/opt/ml/checkpoints`` to S3 while the job runs, and back when an interrupted job starts again: what
comes back may be half of a checkpoint. So each ends with a list of its files and their sizes, and only those that are
whole are gone on from. The list also says which run it is: another run's checkpoints are refused.
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

from ..errors import OtherRun

_LIST = "checkpoint.json"
_FOLDER = re.compile(r"checkpoint-(\d+)")


def run_identity(**what: Any) -> str:
    """A hash of what decides a training's outcome: settings, data, model."""
    return hashlib.sha256(json.dumps(what, sort_keys=True, default=str).encode()).hexdigest()


def newest_whole_checkpoint(folder: Path, identity: str) -> Path | None:
    """The checkpoint to go on from. Those that are not whole are removed, so that nothing takes them for one.

    Args:
        folder: where the checkpoints are; may be missing.
        identity: of this run.

    Raises:
        OtherRun: they are of another run.
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
            # Every process of the host comes here; one of them is first.
            shutil.rmtree(path, ignore_errors=True)
            continue
        if listed != identity:
            raise OtherRun(
                f"{path.name} in {folder} is of a run with other settings, data or model. Choose an empty prefix for "
                "the job's checkpoints, or run it with what it was begun with"
            )
        if newest is None or int(matched[1]) > newest[0]:
            newest = int(matched[1]), path
    return newest[1] if newest else None


def mark_whole(folder: Path, identity: str) -> None:
    """Write the list that makes a checkpoint whole."""
    sizes = {str(file.relative_to(folder)): file.stat().st_size for file in _files(folder)}
    written = folder / f"{_LIST}.part"
    written.write_text(json.dumps({"run": identity, "files": sizes}), encoding="utf-8")
    written.rename(folder / _LIST)


class WholeCheckpoints(TrainerCallback):
    """Marks every checkpoint as whole when all processes have written their part of it.

    Args:
        identity: of this run.
    """

    def __init__(self, identity: str) -> None:
        self._identity = identity

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """After a checkpoint was written."""
        if args.world_size > 1:
            torch.distributed.barrier()
        if state.is_world_process_zero:
            mark_whole(Path(args.output_dir) / f"checkpoint-{state.global_step}", self._identity)


class CheckpointWhenAsked(TrainerCallback):
    """Writes a checkpoint and stops when the process is terminated.

    SageMaker sends SIGTERM, and SIGKILL 120 seconds later (developer guide, "How Amazon SageMaker AI Runs Your Training
    Image"; managed spot training gives the same notice). ``asked`` says whether that is how the training ended.
    """

    def __init__(self) -> None:
        self.asked = False
        signal.signal(signal.SIGTERM, self._note)

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """After each step of the optimizer; all processes stop at the same one."""
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
    """The run that a checkpoint says it is of; None where it is not whole."""
    try:
        content = json.loads((folder / _LIST).read_text(encoding="utf-8"))
        sizes = {str(file.relative_to(folder)): file.stat().st_size for file in _files(folder)}
        return content["run"] if content["files"] == sizes else None
    except (OSError, ValueError, KeyError):
        return None


def _files(folder: Path) -> list[Path]:
    return sorted(file for file in folder.rglob("*") if file.is_file() and not file.name.startswith(_LIST))
