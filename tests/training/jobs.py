"""Training jobs as SageMaker starts them: the shipped folder alone, in a process and below a root of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_SHIPPED = Path(__file__).resolve().parents[2] / "constructs_optim" / "training"
FAST = {"batch_size": "16", "gradient_accumulation_steps": "1", "logging_steps": "25"}
FINE_TUNING = {**FAST, "method": "full", "gradient_checkpointing": "false", "gradient_clipping": "1"}
FINE_TUNING |= {"learning_rate": "3e-3", "learning_rate_schedule": "cosine", "epochs": "3"}
HEADS = {**FAST, "learning_rate": "3e-3", "learning_rate_schedule": "cosine", "epochs": "2"}


@dataclass(frozen=True)
class Job:
    """A job's folders, and how it is started."""

    root: Path
    script: str
    python: str = sys.executable

    @property
    def model(self) -> Path:
        return self.root / "model"

    @property
    def checkpoints(self) -> Path:
        return self.root / "checkpoints"

    @property
    def failure(self) -> str | None:
        path = self.root / "output" / "failure"
        return path.read_text(encoding="utf-8") if path.is_file() else None

    @property
    def log(self) -> str:
        """What it printed since it was started last."""
        return (self.root / "log").read_text(encoding="utf-8")

    def start(self, **variables: str) -> subprocess.Popen[bytes]:
        """Start it; its working folder is no part of the checkout, and neither is its path."""
        return subprocess.Popen(
            [self.python, str(self.root / "code" / f"{self.script}.py")],
            cwd=self.root,
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(self.root),
                "OMP_NUM_THREADS": "1",
                "HF_HUB_OFFLINE": "1",
                "SAGEMAKER_BASE_DIR": str(self.root),
                "SM_NUM_GPUS": "0",
                **variables,
            },
            stdout=(self.root / "log").open("wb"),
            stderr=subprocess.STDOUT,
        )

    def run(self, **variables: str) -> tuple[int, str]:
        """Its exit status, and its log."""
        with self.start(**variables) as process:
            process.wait(timeout=300)
        return process.returncode, self.log


def job(root: Path, script: str, hyperparameters: Mapping[str, str], **channels: Path) -> Job:
    """A job with its code, hyperparameters and channels; a file becomes a channel with it alone."""
    shutil.copytree(_SHIPPED, root / "code", ignore=shutil.ignore_patterns("__pycache__"))
    (root / "input" / "config").mkdir(parents=True)
    (root / "input" / "config" / "hyperparameters.json").write_text(json.dumps(dict(hyperparameters)))
    for name, source in channels.items():
        channel = root / "input" / "data" / name
        channel.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            channel.symlink_to(source)
        else:
            channel.mkdir()
            shutil.copy(source, channel)
    return Job(root, script)


@dataclass(frozen=True)
class Trained:
    """What two jobs made: a fine-tuned model, and the artifact with heads on it."""

    family: str
    base: Path
    fine_tuned: Path
    artifact: Path
    fine_tuning_log: str
    heads_log: str
    heads_job: Job


def train(family: str, folder: Path, corpus: Path) -> Trained:
    # It stands on PyTorch, which those who bring a model of their own do without.
    from .models import save_small_model

    base = save_small_model(family, folder / "base")
    data = {"training": corpus / "training.jsonl", "validation": corpus / "validation.jsonl"}
    fine_tuning = job(folder / "fine-tuning", "fine_tune", FINE_TUNING, model=base, **data)
    status, fine_tuning_log = fine_tuning.run()
    assert status == 0, fine_tuning_log
    heads = job(folder / "heads", "train_heads", HEADS, finetuned=fine_tuning.model, **data)
    status, heads_log = heads.run()
    assert status == 0, heads_log
    return Trained(family, base, fine_tuning.model, heads.model, fine_tuning_log, heads_log, heads)
