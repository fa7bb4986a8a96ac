"""The script that a training job starts to fine-tune a model: ``python fine_tune.py``, from any folder.

Channels: ``model``, ``training`` and optionally ``validation``. Hyperparameters: ``settings.FineTuningSettings``.
"""

from __future__ import annotations

import sys
from pathlib import Path


def main() -> int:
    """Train, and return the exit status."""
    from .launch import run
    from .settings import FineTuningSettings

    return run(Path(__file__), FineTuningSettings, "trainers.fine_tuning", "fine_tune")


if __name__ == "__main__":
    if not __package__:
        from as_package import NAME  # beside a script that was started as a file

        __package__ = NAME
    sys.exit(main())
