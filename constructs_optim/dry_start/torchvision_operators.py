"""Declares the operators that importing torchvision needs, where its own kernels cannot be loaded.

An index may have torchvision's builds for CUDA alone, and beside PyTorch's build for CPUs their library does not load
(``torchvision/extension.py``). ``torchvision/_meta_registrations.py`` then fails with "operator torchvision::nms does
not exist", and with it most models that read images. Their processors use none of these kernels: they resize and
normalize with PyTorch's.

Every interpreter of the environment imports this module when it starts (``site``, .pth files), because vLLM's
processes import torchvision before anything of the environment's own.
"""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec
from importlib.metadata import PackageNotFoundError, version

_ARGUMENTS = "Tensor dets, Tensor scores, float iou_threshold"
# Their end would remove the operators.
_declared: list[object] = []


class _BeforeTorchvision:
    """Declares the operators when torchvision is looked for, and leaves finding it to others."""

    def find_spec(self, name: str, *_: object) -> ModuleSpec | None:
        if name == "torchvision" and self in sys.meta_path:
            sys.meta_path.remove(self)
            _declare()
        return None


def _declare() -> None:
    import torch

    try:
        has_kernels = torch.version.cuda is not None or "+cpu" in version("torchvision")
    except PackageNotFoundError:
        return
    if has_kernels:
        return
    library = torch.library.Library("torchvision", "FRAGMENT")
    for name in ("nms", "qnms"):
        library.define(f"{name}({_ARGUMENTS}) -> Tensor")
    _declared.append(library)


sys.meta_path.insert(0, _BeforeTorchvision())
