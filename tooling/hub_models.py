"""Write the models of the local cloud's hub, from the catalog and AWS's public metadata.

    git clone https://github.com/awslabs/generative-ai-cdk-constructs
    python tooling/hub_models.py \
        generative-ai-cdk-constructs/src/patterns/gen-ai/aws-model-deployment-sagemaker/jumpstart-models.json

That file has JumpStart's models in us-east-1, compressed, without frameworks such as djl-lmi. For a model that it
lacks, the version and the location are invented, and ``published`` is false.
"""

from __future__ import annotations

import json
import sys
import zlib
from pathlib import Path
from typing import Any

from constructs_optim.recipe.catalog import models

DATA = Path(__file__).parent.parent / "constructs_optim_local" / "data" / "hub_models.json"
_SOURCE = (
    "https://github.com/awslabs/generative-ai-cdk-constructs, commit 9d49b9d, "
    "src/patterns/gen-ai/aws-model-deployment-sagemaker/jumpstart-models.json (us-east-1, 2026-07-31)"
)


def main() -> None:
    """Read the metadata given as first argument, and write the file."""
    packed = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    metadata: dict[str, Any] = json.loads(zlib.decompress(bytes(packed["data"]), -zlib.MAX_WBITS))
    published: dict[str, list[dict[str, Any]]] = {}
    for spec in metadata.values():
        published.setdefault(spec["modelId"], []).append(spec)
    lines = [
        f"  {json.dumps(_entry(model, published.get(model.model_id, [])))}"
        for model in sorted(models.by_id().values(), key=lambda row: row.model_id)
    ]
    entries = ",\n".join(lines)
    DATA.write_text(f'{{\n "source": {json.dumps(_SOURCE)},\n "models": [\n{entries}\n ]\n}}\n', encoding="utf-8")


def _entry(model: models.ModelRow, specs: list[dict[str, Any]]) -> dict[str, Any]:
    specs = sorted(specs, key=lambda spec: _ordered(spec["version"]))
    newest = specs[-1] if specs else {}
    made_up = f"{model.model_id}/artifacts/inference-prepack/v1.0.0/"
    return {
        "model_id": model.model_id,
        "published": bool(specs),
        "versions": [spec["version"] for spec in specs] or ["1.0.0"],
        "artifact": newest.get("prepackedArtifactKey") or newest.get("artifactKey") or made_up,
        "gated": bool(newest.get("gatedBucket")),
        "eula": newest.get("requiresEula"),
        "draft": "sagemaker_draft_model" in model.supports,
        "instance_type": newest.get("defaultInstanceType", "ml.g5.12xlarge"),
        "environment": newest.get("environment", {}),
    }


def _ordered(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


if __name__ == "__main__":
    main()
