"""The script that a job starts to copy a Hugging Face model to the artifact store: ``python copy_model.py``.

Hyperparameters: ``settings.CopySettings``. The environment variable ``TOKEN_SECRET_ARN`` may name a secret of Secrets
Manager with a token of the hub, and ``HF_ENDPOINT`` a mirror of the hub. Runs from any folder.
"""

from __future__ import annotations

import sys
from pathlib import Path


def main() -> int:
    """Copy the model, and return the exit status."""
    from .launch import run
    from .settings import CopySettings

    return run(Path(__file__), CopySettings, "copying", "copy_model")


if __name__ == "__main__":
    if not __package__:
        from as_package import NAME  # beside a script that was started as a file

        __package__ = NAME
    sys.exit(main())
