"""A model of SageMaker's API without some operations, as the SDK of an older Lambda runtime has it."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

from botocore.loaders import Loader

_KIND = "service-2"


def write_model(operations: Collection[str], folder: Path) -> None:
    """Write SageMaker's model without ``operations`` into ``folder``, which AWS_DATA_PATH may name."""
    loader: Any = Loader()
    version = loader.determine_latest_version("sagemaker", _KIND)
    model = loader.load_service_model("sagemaker", _KIND, version)
    kept = {name: shape for name, shape in model["operations"].items() if name not in operations}
    path = folder / "sagemaker" / version / f"{_KIND}.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({**model, "operations": kept}), encoding="utf-8")
