"""Trains Medusa heads on a frozen model (Medusa-1), with transformers' Trainer."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import accelerate
import torch
import transformers
from torch.utils.data import Dataset
from transformers import Trainer, TrainingArguments

from ..data.conversations import read_conversations
from ..data.tokenization import Example, tokenized
from ..environment import TrainingEnvironment
from ..errors import UnusableModel
from ..job_log import say
from ..model.artifact import write_artifact
from ..model.backbone import load_backbone, load_tokenizer, precision_of, vocabulary_projection
from ..model.fingerprint import fingerprint
from ..model.heads import HeadTally, MedusaHeads
from ..settings import HeadTrainingSettings
from .checkpoints import run_identity
from .trainer import callbacks_of, data_identity, padded, require_finite, train_and_resume, trainer_arguments


class _Examples(Dataset[Example]):
    def __init__(self, examples: Sequence[Example]) -> None:
        self._examples = examples

    def __len__(self) -> int:
        return len(self._examples)

    def __getitem__(self, index: int) -> Example:
        return self._examples[index]


class HeadTrainer(Trainer):
    """Trains heads on a model's hidden states, without changing the model.

    The Trainer knows only the heads, so it saves, optimizes and synchronizes only their weights.

    Args:
        backbone: the frozen model.
        settings: the hyperparameters.
        more: further arguments of transformers' Trainer.
    """

    def __init__(self, *, backbone: Any, settings: HeadTrainingSettings, **more: Any) -> None:
        super().__init__(**more)
        self._settings = settings
        self._backbone = backbone.to(self.args.device).eval().requires_grad_(False)
        self._tallies: dict[str, list[HeadTally]] = {"train": [], "eval": []}
        self.last: dict[str, Any] = {}

    def compute_loss(
        self, model: Any, inputs: Any, return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        """Return the heads' loss on a batch, and add their guesses to the tally."""
        with torch.no_grad():
            hidden = self._backbone.base_model(
                input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"], use_cache=False
            ).last_hidden_state
        loss, tally = model(
            hidden.to(next(model.parameters()).dtype),
            inputs["labels"],
            decay=self._settings.head_loss_decay,
            ranks=self._settings.accuracy_ranks,
        )
        require_finite(loss, self.state.global_step)
        self._tallies["train" if model.training else "eval"].append(tally)
        return (loss, {"loss": loss}) if return_outputs else loss

    def prediction_step(
        self, model: Any, inputs: Any, prediction_loss_only: bool, ignore_keys: Any = None
    ) -> tuple[Any, None, None]:
        """Return only the loss, because the logits of all heads at all positions are too large to gather."""
        inputs = self._prepare_inputs(inputs)
        with torch.no_grad(), self.compute_loss_context_manager():
            return self.compute_loss(model, inputs).detach(), None, None

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Log the Trainer's values with each head's loss and accuracies."""
        kind = "eval" if any(name.startswith("eval_") for name in logs) else "train"
        if self._tallies[kind]:
            prefix = "eval_" if kind == "eval" else ""
            self.last[kind] = summary = self._summary(self._tallies[kind])
            self._tallies[kind] = []
            logs = {**logs, **{f"{prefix}{name}": value for name, value in summary["metrics"].items()}}
        super().log(logs, start_time)

    def _summary(self, tallies: Sequence[HeadTally]) -> dict[str, Any]:
        heads = len(tallies[0].losses)
        sums = torch.cat(
            [
                torch.stack([tally.losses for tally in tallies]).sum(0).double(),
                torch.stack([tally.counts for tally in tallies]).sum(0).double(),
                torch.stack([tally.ranks for tally in tallies]).sum(0).double().flatten(),
            ]
        )
        everywhere: Any = self.accelerator.reduce(sums.float(), reduction="sum")
        sums = everywhere.cpu()
        losses, counts = sums[:heads], sums[heads : 2 * heads].clamp(min=1)
        by_rank = sums[2 * heads :].reshape(heads, -1) / counts[:, None]
        metrics: dict[str, float] = {}
        for head in range(heads):
            name = f"head_{head + 1}"
            metrics[f"{name}_loss"] = float(losses[head] / counts[head])
            metrics[f"{name}_top1_accuracy"] = float(by_rank[head, 0])
            metrics[f"{name}_top5_accuracy"] = float(by_rank[head, :5].sum())
        return {"metrics": metrics, "accuracy_by_rank": [[round(float(x), 6) for x in row] for row in by_rank]}


def train_heads(environment: TrainingEnvironment, settings: HeadTrainingSettings) -> None:
    """Train heads on the model of channel ``finetuned`` with channel ``training``, and write the artifact.

    Args:
        environment: the job's environment. Without channel ``validation``, nothing is evaluated and all epochs run.
        settings: the hyperparameters.

    Raises:
        TrainingError: if an input or setting is invalid, with the fix.
        Interrupted: if the process was told to end. A restart resumes from its checkpoint.
    """
    base = environment.needed_channel("finetuned", "the model to train heads for")
    training = environment.needed_channel("training", "the training data, *.jsonl")
    validation = environment.channel("validation")
    tokenizer = load_tokenizer(base)
    learned = _examples(training, tokenizer, settings, "training")
    evaluated = None if validation is None else _examples(validation, tokenizer, settings, "validation")
    before = fingerprint(base)
    identity = run_identity(
        what="heads",
        settings=settings.to_json(),
        data=[data_identity(training), validation and data_identity(validation)],
        model=before,
    )
    backbone = load_backbone(base, dtype=precision_of(settings.precision))
    heads = MedusaHeads.beside(vocabulary_projection(backbone).float(), heads=settings.heads, layers=settings.layers)
    trainer = HeadTrainer(
        backbone=backbone,
        settings=settings,
        model=heads,
        args=TrainingArguments(
            **trainer_arguments(settings, environment, examples=len(learned), has_validation=evaluated is not None)
        ),
        train_dataset=_Examples(learned),
        eval_dataset=None if evaluated is None else _Examples(evaluated),
        data_collator=partial(padded, padding=tokenizer.pad_token_id or tokenizer.eos_token_id or 0),
        callbacks=callbacks_of(settings, environment, identity=identity, has_validation=evaluated is not None),
    )
    train_and_resume(trainer, environment, identity)
    if evaluated is not None:
        trainer.evaluate()
    if not trainer.is_world_process_zero():
        return
    if fingerprint(base) != before:
        raise UnusableModel("the model's files changed while heads were trained for it")
    write_artifact(
        environment.model,
        heads,
        base,
        served_from=settings.served_from,
        dtype=backbone.dtype,
        report=_report(trainer, settings),
    )
    say(f"saved {settings.heads} heads and their model in {environment.model}")


def _examples(folder: Path, tokenizer: Any, settings: HeadTrainingSettings, channel: str) -> list[Example]:
    tokenization = tokenized(
        read_conversations(folder),
        tokenizer,
        maximum_length=settings.maximum_sequence_length,
        with_prompts=settings.train_on_prompts,
    )
    say(f"{channel}: {tokenization}")
    return tokenization.examples


def _report(trainer: HeadTrainer, settings: HeadTrainingSettings) -> dict[str, Any]:
    measured_on = "eval" if "eval" in trainer.last else "train"
    return {
        "settings": settings.to_json(),
        "steps": trainer.state.global_step,
        "epochs": trainer.state.epoch,
        "measured_on": "validation" if measured_on == "eval" else "training",
        **trainer.last.get(measured_on, {}),
        "versions": {
            "torch": torch.__version__,
            "transformers": transformers.__version__,
            "accelerate": accelerate.__version__,
        },
    }
