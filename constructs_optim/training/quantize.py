"""The script that a training job starts to quantize a model: ``python quantize.py``, from any folder.

Channels: ``model`` and, if the settings need samples, ``calibration``. Hyperparameters:
``settings.QuantizationSettings``.
"""

from __future__ import annotations

import sys
from pathlib import Path


def main() -> int:
    """Quantize, and return the exit status."""
    from .launch import run
    from .settings import QuantizationSettings

    return run(Path(__file__), QuantizationSettings, "quantizing", "quantize", in_one_process=True)


if __name__ == "__main__":
    if not __package__:
        from as_package import NAME  # beside a script that was started as a file

        __package__ = NAME
    sys.exit(main())
