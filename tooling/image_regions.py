"""Write the local cloud's list of AWS's images by Region, from the SageMaker Python SDK.

pip download --no-deps sagemaker-core==2.27.0 && python tooling/image_regions.py sagemaker_core-2.27.0-*.whl
"""

from __future__ import annotations

import json
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

DATA = Path(__file__).parent.parent / "constructs_optim_local" / "data" / "image_regions.json"
_CONFIGS = "sagemaker/core/image_uri_config"
# The configurations of the SDK with images that serve or train language models.
_NAMES = ("djl-lmi", "djl-neuronx", "djl-tensorrtllm", "huggingface-llm", "pytorch", "sglang", "vllm")
# Tags of aws/deep-learning-containers (docs/src/data/djl-inference) that the SDK lacks, assumed in another's Regions.
_LISTED = "0.36.0-lmi27.0.0-cu130"
_LEFT_OUT = [f"0.36.0-lmi{number}.0.0-cu128" for number in (18, 19, 20)]
_LEFT_OUT += [f"0.36.0-lmi{number}.0.0-cu129" for number in (21, 22, 23, 24)]
_LEFT_OUT += [f"0.36.0-lmi{number}.0.0-cu130" for number in (25, 26, 28)]


def main() -> None:
    """Read the wheel that is the first argument, and write the file."""
    wheel = Path(sys.argv[1])
    grouped: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    accounts = set[str]()
    with zipfile.ZipFile(wheel) as archive:
        for name in _NAMES:
            for version, image in _versions(json.loads(archive.read(f"{_CONFIGS}/{name}.json"))):
                regions = tuple(sorted(image["registries"]))
                grouped.setdefault((image["repository"], regions), []).append(image.get("tag_prefix", version))
                accounts |= set(image["registries"].values())
    images = [
        {
            "repository": repository,
            "tags": sorted({*tags, *(_LEFT_OUT if _LISTED in tags else ())}),
            "regions": list(regions),
        }
        for (repository, regions), tags in sorted(grouped.items())
    ]
    names = ", ".join(_NAMES)
    source = f"image_uri_config of the SageMaker Python SDK, {wheel.name}: {names}; LMI 18 to 26 and 28 where LMI 27 is"
    found = {"source": source, "accounts": sorted(accounts), "images": images}
    lines = ",\n".join(f" {json.dumps(key)}: {_written(value)}" for key, value in found.items())
    DATA.write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")


def _versions(config: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for part in (config, *(config[scope] for scope in ("inference", "training") if scope in config)):
        yield from part.get("versions", {}).items()


def _written(value: Any) -> str:
    if not isinstance(value, list) or not isinstance(value[0], dict):
        return json.dumps(value)
    return "[\n" + ",\n".join(f"  {json.dumps(item)}" for item in value) + "\n ]"


if __name__ == "__main__":
    main()
