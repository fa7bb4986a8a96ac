"""What llm-compressor writes, in each scheme of the quantization jobs, as the light server reads it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from constructs_optim.training.data.sample_corpus import write_corpus
from constructs_optim_local.light_server import tiny_model, weights
from constructs_optim_local.light_server.application import Application

from ..support.deployed_stack import CHECKOUT
from ..support.light_server import complete
from ..support.sampling import one_in
from ..training.jobs import Job, job

pytestmark = pytest.mark.trains

QUANTIZER = CHECKOUT / ".venv-quantization" / "bin" / "python"
# The mean error of a layer's weights, as a share of them, is between these (tests/training/test_quantizing.py).
SCHEMES = {
    "FP8_BLOCK": (0.01, 0.05),
    "FP8_DYNAMIC": (0.01, 0.05),
    "MXFP4": (0.05, 0.2),
    "W4A16": (0.05, 0.25),
    "NVFP4": (0.05, 0.2),
}
CALIBRATED = ("W4A16", "NVFP4")
CHAT = {"messages": [{"role": "user", "content": "Why?"}], "temperature": 0, "max_tokens": 12}


@pytest.mark.parametrize("scheme", one_in(2, SCHEMES))
def test_a_quantized_model_is_read_and_served(scheme: str, tmp_path: Path) -> None:
    original = tiny_model.write(tmp_path / "original")
    settings, channels = {"scheme": scheme}, {"model": original}
    if scheme in CALIBRATED:
        write_corpus(tmp_path / "samples", training=2, validation=16, test=2, seed=3)
        (tmp_path / "samples" / "training.jsonl").unlink()
        (tmp_path / "samples" / "test.jsonl").unlink()
        settings["calibration_size"], channels["calibration"] = "16", tmp_path / "samples"
    made = job(tmp_path / "job", "quantize", settings, **channels)
    running = Job(made.root, made.script, str(QUANTIZER))
    status, log = running.run()
    assert status == 0, log
    config = json.loads((running.model / "config.json").read_text())["quantization_config"]
    before, after = weights.read(original, None), weights.read(running.model, config)
    assert set(after) >= set(before)
    least, most = SCHEMES[scheme]
    layers = [name for name in before if name.endswith("_proj.weight")]
    assert len(layers) == 14
    errors = [np.linalg.norm(after[name] - before[name]) / np.linalg.norm(before[name]) for name in layers]
    assert least < float(np.mean(errors)) < most
    assert complete(Application(running.model, "quantized"), CHAT)["usage"]["completion_tokens"] > 0
