"""Write the catalog's container images, from AWS's metadata and the facts in this file.

    pip download --no-deps sagemaker-core==2.27.0
    git clone https://github.com/aws/deep-learning-containers
    python tooling/container_images.py sagemaker_core-2.27.0-*.whl deep-learning-containers

The SDK's wheel has repositories, tags and the registry's account by Region. The clone has the engine of LMI's tags. For
newer images, change the two pins, run this script, and review the difference.
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

WHEEL = ("sagemaker_core-2.27.0-py3-none-any.whl", "62e5b4e2296dd26c042f28d26b9292501cdcf0c83a02656e280d61f132114312")
DATE = "2026-10-21"
"""The wheel's date of publication."""
COMMIT = "e0ecedea6a1c56d6b5914f9cfb2fec5c548e67e0"
_DATA = Path(__file__).parent.parent / "constructs_optim" / "recipe" / "catalog" / "images.json"
_SOURCE = (
    "Written by tooling/container_images.py. Repositories, tags, registry accounts, and the regions of each tag "
    f"come from image_uri_config of {WHEEL[0]}. The vLLM release of each LMI tag comes from "
    f"docs/src/data/djl-inference of aws/deep-learning-containers at {COMMIT[:8]}. The wheel lacks the tags of LMI "
    "18 to 26 and 28: they are assumed to be in the regions of LMI 27. The vLLM release of LMI 29 is not "
    "published, so its capabilities are unknown here. makes (what a job in the image can make): the requirements "
    "and partition scripts in the *-dlc branches of djl-serving. FP8 is left out for LMI 22 and later, because "
    "their requirements do not show it. copying: any image with Python. Where several images can make an "
    "artifact, the first is used: LMI 14, which supports every technique of the toolkit. serves (what the image's "
    "engine reads): LMI up to 14 includes lmi-dist, which has draft_model and is the only documented server of "
    "SageMaker's own draft model. LMI 13 and 14 have the fast model loader. vLLM has read AWQ, GPTQ, and "
    "compressed-tensors checkpoints (w4a16) since before 0.6.3, --speculative-config since 0.8, and EAGLE-3 heads "
    "since 0.11. Draft models, NVFP4, MXFP4, and an FP8 KV cache are listed for vLLM's own images only, from 0.24 "
    "on. vLLM's own images before 0.24 are left out: their supervisor breaks JSON values. SGLang has supported "
    "all of these since 0.5.13 according to its source code (srt/speculative/spec_info.py, "
    "srt/layers/quantization), except MXFP4: in compressed-tensors it reads only the experts' layers, and it "
    "reads models that are published in MXFP4 (mxfp4_models: gpt-oss; Mxfp4Config of mxfp4.py). medusa: the "
    "source code of Text Generation Inference (server/text_generation_server/layers/medusa.py), which is in "
    "maintenance mode. training: the image has PyTorch, and the job installs what else the training code needs. "
    "quantizing: the image has PyTorch 2.10 or later, which llm-compressor 0.14 requires. ga and eop, general "
    "availability and the end of patches: docs/src/data/pytorch-training of the same clone; AWS's data has neither for "
    "the images of servers. Of the PyTorch images, the newest is used; the one before it is for lock files."
)
_OLDEST = {"vllm": (0, 24), "sglang": (0, 5, 13)}
_REGIONS_OF_LMI = "0.36.0-lmi27.0.0-cu130"
_DNS_SUFFIXES = {
    "cn-": "amazonaws.com.cn",
    "eusc-": "amazonaws.eu",
    "eu-isoe-": "cloud.adc-e.uk",
    "us-iso-": "c2s.ic.gov",
    "us-isob-": "sc2s.sgov.gov",
    "us-isof-": "csp.hci.ic.gov",
    "": "amazonaws.com",
}
_TOOLKIT = {10: ["awq"], 11: ["awq", "fp8"], 12: ["awq", "fp8"], 13: ["awq", "fp8", "fast_load"]}
_TOOLKIT |= {14: ["awq", "fp8", "fast_load"]} | {number: ["awq", "fp8"] for number in range(15, 22)}
_TOOLKIT |= {number: ["awq"] for number in range(22, 29)}
# The first vLLM release that supports each feature.
_VLLM_SERVES = {"awq": (0, 5), "fp8": (0, 6), "w4a16": (0, 6), "speculative_config": (0, 8), "eagle": (0, 11)}
# Further features of vLLM's own images. For LMI's, none are claimed.
_OF_VLLM = (*_VLLM_SERVES, "draft_model", "nvfp4", "mxfp4", "mxfp4_models", "fp8_kv_cache")

# The features of SGLang's images, since the oldest listed one.
_OF_SGLANG = (
    "awq",
    "fp8",
    "w4a16",
    "speculative_config",
    "eagle",
    "draft_model",
    "nvfp4",
    "mxfp4_models",
    "fp8_kv_cache",
)


@dataclass(frozen=True)
class _Image:
    repository: str
    tag: str
    server: str | None
    regions: frozenset[str]
    engine: str | None = None
    makes: tuple[str, ...] = ()
    serves: tuple[str, ...] = ()
    ga: str | None = None
    eop: str | None = None

    def row(self, accounts: dict[str, str]) -> dict[str, Any]:
        cuda = re.search(r"\bcu(\d\d)(\d)\b", self.tag)
        missing = sorted(set(accounts) - self.regions)
        return {
            "repository": self.repository,
            "tag": self.tag,
            "server": self.server,
            "engine": self.engine,
            "cuda": f"{cuda[1]}.{cuda[2]}" if cuda else None,
            "makes": list(self.makes),
            "serves": list(self.serves),
            **({"ga": self.ga} if self.ga is not None else {}),
            **({"eop": self.eop} if self.eop is not None else {}),
            **({"missing_in": missing} if missing else {}),
        }


class _Wheel:
    """The SDK's image configurations."""

    def __init__(self, path: Path) -> None:
        if hashlib.sha256(path.read_bytes()).hexdigest() != WHEEL[1]:
            sys.exit(f"{path} is not the pinned {WHEEL[0]}")
        self._archive = zipfile.ZipFile(path)

    def versions(self, name: str, part: str | None = None) -> dict[str, dict[str, Any]]:
        """Return the versions of a configuration, in its order."""
        configuration = json.loads(self._archive.read(f"sagemaker/core/image_uri_config/{name}.json"))
        return (configuration[part] if part else configuration)["versions"]

    def accounts(self) -> dict[str, str]:
        """Return the registry's account by Region, from any image that serves language models."""
        found: dict[str, str] = {}
        for name, part in (("djl-lmi", None), ("vllm", "inference"), ("sglang", "inference")):
            for version in self.versions(name, part).values():
                found |= version["registries"]
        return dict(sorted(found.items()))


def main() -> None:
    """Read the two inputs, and write the file."""
    wheel, repository = _Wheel(Path(sys.argv[1])), Path(sys.argv[2])
    accounts = wheel.accounts()
    images = [
        *_lmi(wheel, repository),
        *_engine(wheel, "vllm", _OF_VLLM),
        *_engine(wheel, "sglang", _OF_SGLANG),
        *_others(wheel),
        *_pytorch(wheel, repository),
    ]
    data: dict[str, Any] = {
        "date": DATE,
        "source": _SOURCE,
        "images": [image.row(accounts) for image in images],
        "registry_accounts": accounts,
        "dns_suffixes": _DNS_SUFFIXES,
    }
    lines = ",\n".join(f" {json.dumps(key)}: {_written(value)}" for key, value in data.items())
    _DATA.write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")


def _lmi(wheel: _Wheel, repository: Path) -> Iterator[_Image]:
    """Yield every LMI image, the one that jobs prefer first."""
    listed = {row["tag_prefix"]: frozenset(row["registries"]) for row in wheel.versions("djl-lmi").values()}
    engines = dict(_lmi_engines(repository))
    generation = {tag: int(found[1]) for tag in {*listed, *engines} if (found := re.search(r"-lmi(\d+)", tag))}
    # LMI 14 and 13 have the whole toolkit. The newest that can still quantize to FP8 follows.
    order = [14, 13, 17, 16, 15, *range(21, 17, -1), *range(22, 99), 12, 11, 10]
    for tag in sorted(generation, key=lambda tag: order.index(generation[tag])):
        number, engine = generation[tag], engines.get(tag)
        serves = [name for name, since in _VLLM_SERVES.items() if engine is not None and _numbers(engine) >= since]
        if number <= 14:
            serves = [*(name for name in ("awq", "fp8") if name in _TOOLKIT[number]), "draft_model", "sagemaker_draft"]
            serves += ["fast_load"] if "fast_load" in _TOOLKIT[number] else []
        regions = listed.get(tag, listed[_REGIONS_OF_LMI])
        yield _Image("djl-inference", tag, "lmi", regions, engine, tuple(_TOOLKIT.get(number, ())), tuple(serves))


def _lmi_engines(repository: Path) -> Iterator[tuple[str, str]]:
    """Yield the vLLM release of each LMI tag."""
    folder = f"{COMMIT}:docs/src/data/djl-inference"
    for name in _git(repository, "ls-tree", "--name-only", folder).split():
        content = _git(repository, "show", f"{folder}/{name}")
        engine, tag = re.search(r"vLLM ([\d.]+)", content), re.search(r'- "(\S+-lmi\S+)"', content)
        if engine and tag:
            yield tag[1], engine[1]


def _engine(wheel: _Wheel, server: str, serves: tuple[str, ...]) -> Iterator[_Image]:
    """Yield an engine's own images, newest first."""
    for version, row in reversed(wheel.versions(server, "inference").items()):
        if _numbers(version) < _OLDEST[server]:
            continue
        tag = f"{row['tag_prefix']}-gpu-{row['py_versions'][0]}-{row['container_version']['gpu']}"
        yield _Image(row["repository"], tag, server, frozenset(row["registries"]), version, (), serves)


def _others(wheel: _Wheel) -> Iterator[_Image]:
    neuron = wheel.versions("djl-neuronx")["0.29.0"]
    regions = frozenset(neuron["registries"])
    yield _Image("djl-inference", neuron["tag_prefix"], "lmi", regions, None, ("neuron",), ("neuron",))
    compiler = wheel.versions("djl-tensorrtllm")["0.33.0"]
    made = ("tensorrt_llm", "awq", "fp8", "smoothquant")
    regions = frozenset(compiler["registries"])
    yield _Image("djl-inference", compiler["tag_prefix"], "lmi", regions, None, made, ("tensorrt_llm",))
    generation = wheel.versions("huggingface-llm", "inference")["3.3.6"]
    tag = f"{generation['tag_prefix']}-gpu-{generation['py_versions'][0]}-{generation['container_version']['gpu']}"
    server, regions = "text_generation_inference", frozenset(generation["registries"])
    yield _Image(generation["repository"], tag, server, regions, "3.3.6", (), ("awq", "medusa"))


def _pytorch(wheel: _Wheel, repository: Path) -> Iterator[_Image]:
    """Yield the images of training and copying jobs, the newest release first."""
    for version, of_gpu in (("2.10.0", ("training", "quantizing")), ("2.9.0", ("training",))):
        row = wheel.versions("pytorch", "training")[version]
        for processor, makes in (("gpu", of_gpu), ("cpu", ("copying",))):
            name = f"docs/src/data/pytorch-training/{version.rpartition('.')[0]}-{processor}-sagemaker.yml"
            content = _git(repository, "show", f"{COMMIT}:{name}")
            ga, eop = (re.search(rf'^{key}: "(\S+)"', content, re.MULTILINE) for key in ("ga", "eop"))
            yield _Image(
                row["repository"],
                f"{version}-{processor}-{row['py_versions'][0]}",
                None,
                frozenset(row["registries"]),
                None,
                makes,
                ga=ga[1] if ga else None,
                eop=eop[1] if eop else None,
            )


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version))


def _git(repository: Path, *arguments: str) -> str:
    command = ["git", "-C", str(repository), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def _written(value: Any) -> str:
    if isinstance(value, dict):
        return "{\n" + ",\n".join(f"  {json.dumps(key)}: {json.dumps(item)}" for key, item in value.items()) + "\n }"
    if isinstance(value, list):
        return "[\n" + ",\n".join(f"  {json.dumps(item)}" for item in value) + "\n ]"
    return json.dumps(value)


if __name__ == "__main__":
    main()
