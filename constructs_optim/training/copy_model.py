"""What a job starts to copy a model of Hugging Face into the artifact store: ``python copy_model.py``, from any folder.

Hyperparameters: ``settings.CopySettings``. ``TOKEN_SECRET_ARN`` in the environment names a secret of Secrets Manager
whose text is a token of the hub; ``HF_ENDPOINT`` may name a mirror of the hub.
"""

from __future__ import annotations

import sys
from pathlib import Path


def main() -> int:
    """Copy, and return the exit status."""
    from .launch import run
    from .settings import CopySettings

    return run(Path(__file__), CopySettings, "copying", "copy_model")


if __name__ == "__main__":
    if not __package__:
        from as_package import NAME  # beside a script that was started as a file

        __package__ = NAME
    sys.exit(main())
