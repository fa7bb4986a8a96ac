"""The output of jobs that copy or quantize a model, if the local cloud only simulates them: small files, no model.

Source of the names: constructs_optim/training/copying.py and quantizing.py.
"""

from __future__ import annotations

import json
from pathlib import PurePosixPath

from constructs_optim_local.sagemaker.optimization.artifacts import stand_in_model
from constructs_optim_local.sagemaker.records import Record

_MORE_FILES = {"copy_model.py": "source.json", "quantize.py": "quantization_report.json"}


def files(job: Record) -> dict[str, bytes] | None:
    """Return the files of the model that a CreateTrainingJob request makes, by name; None if its code must run."""
    # The script, and what it needs.
    script, *_ = job["AlgorithmSpecification"].get("ContainerArguments") or [""]
    more = _MORE_FILES.get(PurePosixPath(script).name)
    if more is None:
        return None
    return {**stand_in_model(), more: json.dumps({"made_by": "a local cloud"}, indent=1).encode()}
