"""The parts that both trainings share: the Trainer's arguments and callbacks, and resuming from a checkpoint."""

from __future__ import annotations

import hashlib
import importlib.util
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch.utils.tensorboard.writer import SummaryWriter
from transformers import EarlyStoppingCallback, PrinterCallback, TrainerCallback
from transformers.integrations.integration_utils import TensorBoardCallback

from ..data.tokenization import IGNORED, Example
from ..environment import TrainingEnvironment
from ..errors import Interrupted, LossNotFinite, TrainingError
from ..job_log import VALIDATION, line, say
from ..model.backbone import precision_of
from ..settings import TrainingSettings
from .checkpoints import CheckpointWhenAsked, WholeCheckpoints, newest_whole_checkpoint

_SCHEDULES = {"constant": "constant_with_warmup", "cosine": "cosine", "linear": "linear"}
_PRINTED = {"mean_token_accuracy": "token_accuracy"}


def trainer_arguments(
    settings: TrainingSettings, environment: TrainingEnvironment, *, examples: int, has_validation: bool
) -> dict[str, Any]:
    """Return the ``TrainingArguments`` for the settings.

    Args:
        settings: the hyperparameters.
        environment: the job's environment.
        examples: number of examples.
        has_validation: whether there is validation data.
    """
    batches = math.ceil(examples / (settings.batch_size * environment.world_size))
    steps = settings.maximum_steps or math.ceil(
        max(1, batches // settings.gradient_accumulation_steps) * settings.epochs
    )
    # To load the best weights at the end, they must be evaluated and saved at the same step, at least once.
    checkpoint_steps = min(settings.checkpoint_steps, steps)
    return {
        "output_dir": str(environment.checkpoints),
        "learning_rate": settings.learning_rate,
        "lr_scheduler_type": _SCHEDULES[settings.learning_rate_schedule],
        "warmup_steps": math.ceil(settings.warmup_ratio * steps),
        "num_train_epochs": settings.epochs,
        "max_steps": settings.maximum_steps or -1,
        "per_device_train_batch_size": settings.batch_size,
        "per_device_eval_batch_size": settings.batch_size,
        "gradient_accumulation_steps": settings.gradient_accumulation_steps,
        "optim": optimizer_of(settings),
        "weight_decay": settings.weight_decay,
        "max_grad_norm": settings.gradient_clipping,
        "bf16": precision_of(settings.precision) is torch.bfloat16,
        "use_cpu": not torch.cuda.is_available(),
        "logging_steps": settings.logging_steps,
        "logging_first_step": True,
        "logging_nan_inf_filter": False,
        "save_strategy": "steps",
        "save_steps": checkpoint_steps,
        "save_total_limit": settings.checkpoints_kept,
        "eval_strategy": "steps" if has_validation else "no",
        "eval_steps": checkpoint_steps if has_validation else None,
        "load_best_model_at_end": has_validation,
        "metric_for_best_model": "eval_loss" if has_validation else None,
        "greater_is_better": False if has_validation else None,
        "restore_callback_states_from_checkpoint": True,
        "report_to": [],
        "disable_tqdm": True,
        "seed": settings.seed,
        "data_seed": settings.seed,
        "dataloader_pin_memory": torch.cuda.is_available(),
        "remove_unused_columns": False,
        "ddp_find_unused_parameters": False,
    }


def optimizer_of(settings: TrainingSettings) -> str:
    """Return transformers' name of the optimizer.

    Raises:
        TrainingError: if 8-bit AdamW is set without a GPU or bitsandbytes.
    """
    possible = torch.cuda.is_available() and importlib.util.find_spec("bitsandbytes") is not None
    if settings.optimizer == "adamw_8bit" and not possible:
        raise TrainingError("optimizer=adamw_8bit needs a GPU and bitsandbytes; use auto, or adamw")
    return "adamw_bnb_8bit" if settings.optimizer != "adamw" and possible else "adamw_torch"


def callbacks_of(
    settings: TrainingSettings, environment: TrainingEnvironment, *, identity: str, has_validation: bool
) -> list[TrainerCallback]:
    """Return callbacks for metric lines, TensorBoard, whole checkpoints and, with validation data, early stopping."""
    callbacks: list[TrainerCallback] = [MetricLines(), WholeCheckpoints(identity)]
    callbacks.append(TensorBoardCallback(SummaryWriter(str(environment.tensorboard))))
    if has_validation and settings.early_stopping_patience:
        callbacks.append(EarlyStoppingCallback(settings.early_stopping_patience, settings.early_stopping_threshold))
    return callbacks


def train_and_resume(trainer: Any, environment: TrainingEnvironment, identity: str) -> None:
    """Train from the newest whole checkpoint, or from the start.

    Raises:
        Interrupted: if the process was told to end, after writing a checkpoint.
        OtherRun: if the checkpoints are from another run.
    """
    ending = CheckpointWhenAsked()
    trainer.add_callback(ending)
    trainer.remove_callback(PrinterCallback)
    newest = newest_whole_checkpoint(environment.checkpoints, identity)
    if newest is not None and trainer.is_world_process_zero():
        say(f"resuming from {newest.name}")
    trainer.train(resume_from_checkpoint=str(newest) if newest else None)
    if ending.asked:
        raise Interrupted(f"told to end; {environment.checkpoints} has step {trainer.state.global_step}")


class MetricLines(TrainerCallback):
    """Prints metrics in the format of the job's metric definitions, with this project's names."""

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **_: Any) -> None:
        """Print the Trainer's metrics."""
        if not state.is_world_process_zero or not logs:
            return
        values = {}
        for name, value in logs.items():
            bare = name.removeprefix("eval_")
            prefix = VALIDATION if bare != name else ""
            bare = _PRINTED.get(bare, bare)
            if isinstance(value, (int, float)) and _is_printed(bare):
                values[f"{prefix}{bare}"] = float(value)
        if values:
            say(f"step {state.global_step}: {line(values)}")


def require_finite(loss: torch.Tensor, step: int) -> None:
    """Raise an error for a loss that is not finite, before it reaches the weights.

    Raises:
        LossNotFinite: if the loss is not finite. The text has the step.
    """
    if not torch.isfinite(loss):
        raise LossNotFinite(step, float(loss))


def padded(examples: Sequence[Example], padding: int) -> dict[str, torch.Tensor]:
    """Return a batch: ``input_ids``, ``attention_mask`` and ``labels``, ``[batch, length]``, padded at the end."""
    length = max(len(example.input_ids) for example in examples)
    batch: dict[str, list[list[int]]] = {"input_ids": [], "attention_mask": [], "labels": []}
    for example in examples:
        missing = length - len(example.input_ids)
        batch["input_ids"].append(example.input_ids + [padding] * missing)
        batch["attention_mask"].append([1] * len(example.input_ids) + [0] * missing)
        batch["labels"].append(example.labels + [IGNORED] * missing)
    return {name: torch.tensor(rows) for name, rows in batch.items()}


def _is_printed(name: str) -> bool:
    return name in ("loss", "learning_rate", "token_accuracy", "grad_norm", "epoch") or name.startswith("head_")


def data_identity(folder: Path) -> str:
    """Return a hash of a channel's files."""
    digest = hashlib.sha256()
    files = [folder] if folder.is_file() else sorted(file for file in folder.rglob("*") if file.is_file())
    for file in files:
        digest.update(f"{file.name}\0{file.stat().st_size}\0".encode())
        digest.update(file.read_bytes())
    return digest.hexdigest()
