"""What the catalog and the local cloud say about AWS's entry points, against the scripts' own output.

``record_entry_points.py`` runs the scripts of aws/deep-learning-containers.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from constructs_optim.recipe.catalog import entry_points, images
from constructs_optim_local.sagemaker.serving.entry_points import options

RECORDED: dict[str, Any] = json.loads(
    (Path(__file__).parent / "recorded" / "entry_points.json").read_text(encoding="utf-8")
)
RELEASES = {
    "vllm until 0.27.1": ("vllm", "0.27.1", "SM_VLLM_"),
    "vllm": ("vllm", "0.28.0", "SM_VLLM_"),
    "sglang": ("sglang", "0.5.20", "SM_SGLANG_"),
}
CASES = [
    pytest.param(name, case["argument"], case["value"], case["words"], id=f"{name} {case['value']!r} {number}")
    for name, recorded in RECORDED.items()
    for number, case in enumerate(recorded["cases"])
]


@pytest.mark.parametrize(("name", "argument", "value", "expected"), CASES)
def test_the_catalog_and_the_local_cloud_know_what_the_script_makes_of_a_value(
    name: str, argument: str, value: str, expected: list[str] | None
) -> None:
    server, release, prefix = RELEASES[name]
    translation = entry_points.of_release(server, release)
    assert translation is not None
    assert entry_points.words(translation, argument.lower(), value) == expected

    image = f"763104351884.dkr.ecr.us-west-2.amazonaws.com/{server}:{release}-gpu-py312-cu130-ubuntu22.04-sagemaker"
    flag = f"--{argument.lower().replace('_', '-')}"
    assert list(options({prefix + argument: value}, image)) == ([] if expected is None else [flag, *expected])

    wrong = entry_points.problem(server, translation, argument.lower(), None, value)
    if wrong is not None or entry_points.written(translation, None, value) != value:
        assert expected != [value], "only a value that the script changes is refused or rewritten"
    assert wrong is None or ("or newer" in wrong[1]) == (name == "vllm until 0.27.1"), "a release of another server"


def test_every_image_with_an_entry_point_has_its_translation() -> None:
    for row in images.rows():
        if row.server in ("vllm", "sglang"):
            expected = "words" if row.server == "vllm" and row.engine not in _OLD else "lines"
            assert entry_points.of_release(row.server, row.engine) == expected, row.tag


_OLD = {"0.24.0", "0.25.0", "0.25.1", "0.26.0", "0.27.1"}


@pytest.mark.parametrize("value", ["true", "True=", "false=", "=", "==", "a=", "a==", "=a=", "a=b=", "[1]=", "é="])
def test_a_value_is_read_as_bash_reads_it(value: str) -> None:
    script = "IFS='=' read -r key value; printf %s \"$value\""
    read = subprocess.run(
        ["bash", "-c", script], input=f"SM_SGLANG_X={value}\n", capture_output=True, text=True, check=True
    )
    switch = {"true": [], "false": None, "": []}
    expected = switch.get(read.stdout.lower(), [read.stdout])
    assert entry_points.words("lines", "x", value) == expected
    image = "763104351884.dkr.ecr.us-west-2.amazonaws.com/sglang:0.5.20-gpu-py312-cu130-ubuntu22.04-sagemaker"
    assert list(options({"SM_SGLANG_X": value}, image)) == ([] if expected is None else ["--x", *expected])
