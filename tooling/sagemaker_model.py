"""Write constructs_optim/runtime/botocore_data: the SageMaker operations that Lambda's boto3 may lack.

Run it after upgrading botocore: ``python tooling/sagemaker_model.py``. tests/runtime/test_sagemaker_model.py fails if
the file is out of date. botocore merges such a file into its own model of the service (botocore/loaders.py,
"sdk-extras").
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import botocore
import botocore.session

FILE = (
    Path(__file__).parent.parent
    / "constructs_optim/runtime/botocore_data/sagemaker/2017-07-24/service-2.sdk-extras.json"
)
# Operations of 2025 and 2026, because a Lambda runtime's boto3 is months old.
OPERATIONS = [
    f"{verb}{job}"
    for job in ("AIBenchmarkJob", "AIRecommendationJob", "OptimizationJob")
    for verb in ("Create", "Describe", "Stop")
] + [
    # These have accelerator partitions.
    *("CreateEndpointConfig", "CreateInferenceComponent", "DescribeInferenceComponent", "UpdateInferenceComponent"),
]


def content() -> dict[str, Any]:
    """Return the file's content, from the installed botocore."""
    model = botocore.session.get_session().get_component("data_loader").load_service_model("sagemaker", "service-2")
    operations = {name: model["operations"][name] for name in OPERATIONS}
    wanted: set[str] = set()
    left = list(_shapes(list(operations.values())))
    while left:
        name = left.pop()
        if name not in wanted:
            wanted.add(name)
            left += _shapes(model["shapes"][name])
    merge = {"operations": operations, "shapes": {name: model["shapes"][name] for name in sorted(wanted)}}
    return {"version": 1.0, "source": f"botocore {botocore.__version__} (Apache-2.0)", "merge": _undocumented(merge)}


def _shapes(value: Any) -> Iterator[str]:
    """Yield the names of the shapes to which a definition refers."""
    if isinstance(value, dict):
        if isinstance(value.get("shape"), str):
            yield value["shape"]
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from _shapes(item)


def _undocumented(value: Any) -> Any:
    if isinstance(value, dict):
        # A member may be named "documentation"; its value is not text.
        kept = {name: each for name, each in value.items() if not (name == "documentation" and isinstance(each, str))}
        return {name: _undocumented(each) for name, each in kept.items()}
    return [_undocumented(item) for item in value] if isinstance(value, list) else value


if __name__ == "__main__":
    FILE.parent.mkdir(parents=True, exist_ok=True)
    FILE.write_text(json.dumps(content(), indent=1, sort_keys=True) + "\n")
