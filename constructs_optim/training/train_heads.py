"""The script that a training job starts to train Medusa heads: ``python train_heads.py``, from any folder.

Channels: ``finetuned``, ``training`` and optionally ``validation``. Hyperparameters: ``settings.HeadTrainingSettings``.
"""

from __future__ import annotations

import sys
from pathlib import Path


def main() -> int:
    """Train, and return the exit status."""
    from .launch import run
    from .settings import HeadTrainingSettings

    return run(Path(__file__), HeadTrainingSettings, "trainers.head_training", "train_heads")


if __name__ == "__main__":
    if not __package__:
        from as_package import NAME  # beside a script that was started as a file

        __package__ = NAME
    sys.exit(main())
