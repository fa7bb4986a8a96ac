"""Quantization by llm-compressor, with the packages that a job installs: of small models, and on the CPU."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file

from .jobs import Job, job
from .models import save_small_model

QUANTIZER = Path(__file__).parents[2] / ".venv-quantization" / "bin" / "python"
SAMPLES = {"calibration_size": "32"}
# By the settings: compressed-tensors' format, the bits of a weight with its scales, and what errors of weights are.
SCHEMES = [
    pytest.param({"scheme": "FP8_BLOCK"}, "float-quantized", 8.1, (0.01, 0.05), marks=pytest.mark.exhaustive),
    ({"scheme": "FP8_DYNAMIC"}, "float-quantized", 8.3, (0.01, 0.05)),
    pytest.param({"scheme": "MXFP4"}, "mxfp4-pack-quantized", 4.3, (0.05, 0.2), marks=pytest.mark.exhaustive),
    ({"scheme": "W4A16", **SAMPLES}, "pack-quantized", 4.3, (0.05, 0.25)),
    pytest.param(
        {"scheme": "W4A16", "algorithm": "awq", **SAMPLES}, "pack-quantized", 4.3, None, marks=pytest.mark.exhaustive
    ),
    pytest.param(
        {"scheme": "NVFP4", **SAMPLES}, "nvfp4-pack-quantized", 4.6, (0.05, 0.2), marks=pytest.mark.exhaustive
    ),
]
# llm-compressor's AWQ pins memory for an accelerator, and there is none.
PINNING = "import torch\ntorch.Tensor.pin_memory = lambda tensor: tensor\n"


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("base")
    return save_small_model("llama", folder, hidden_size=256, intermediate_size=512)


def quantization(root: Path, model: Path, hyperparameters: dict[str, str], **channels: Path) -> Job:
    made = job(root, "quantize", hyperparameters, model=model, **channels)
    return Job(made.root, made.script, str(QUANTIZER))


@pytest.mark.parametrize(("settings", "kind", "bits", "errors"), SCHEMES)
def test_a_model_is_quantized_and_compared_with_the_original(
    tmp_path: Path,
    base: Path,
    corpus: Path,
    settings: dict[str, str],
    kind: str,
    bits: float,
    errors: tuple[float, float] | None,
) -> None:
    channels = {"calibration": corpus / "validation.jsonl"} if "calibration_size" in settings else {}
    (tmp_path / "sitecustomize.py").write_text(PINNING)
    running = quantization(tmp_path / "job", base, settings, **channels)
    # Of four GPUs, one process has all.
    status, log = running.run(SM_NUM_GPUS="4", PYTHONPATH=str(tmp_path))
    assert status == 0, log
    configuration = json.loads((running.model / "config.json").read_text())["quantization_config"]
    assert (configuration["quant_method"], configuration["format"]) == ("compressed-tensors", kind)
    before, after = load_file(base / "model.safetensors"), load_file(running.model / "model.safetensors")
    layers = [name.removesuffix(".weight_scale") for name in after if name.endswith(".weight_scale")]
    assert len(layers) == 14, "seven matrices in each of two layers"
    written = sum(
        tensor.numel() * tensor.element_size() for name, tensor in after.items() if name.rpartition(".")[0] in layers
    )
    assert written * 8 / sum(before[f"{name}.weight"].numel() for name in layers) < bits
    embeddings = "model.embed_tokens.weight"
    assert after[embeddings].equal(before[embeddings].to(after[embeddings].dtype))
    report = json.loads((running.model / "quantization_report.json").read_text())
    assert report["layers"] == len(layers)
    assert report["size_gb"] < report["original_size_gb"]
    if errors is not None:
        assert errors[0] < report["weight_error"] <= report["largest_weight_error"] < errors[1]
        assert f"weight_error={report['weight_error']:.6g};" in log
    if channels:
        assert report["quantized_loss"] == pytest.approx(report["loss"], abs=0.1)
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "generation_config.json"):
        assert (running.model / name).read_bytes() == (base / name).read_bytes()


def test_a_model_that_is_too_far_from_the_original_fails_the_job(tmp_path: Path, base: Path, corpus: Path) -> None:
    settings = {"scheme": "NVFP4", "maximum_weight_error": "0.01", "maximum_loss_increase": "1e-9", **SAMPLES}
    running = quantization(tmp_path, base, settings, calibration=corpus / "validation.jsonl")
    assert running.run()[0] == 1
    assert "more than maximum_weight_error=0.01" in (running.failure or "")
    assert "more than maximum_loss_increase=1e-09" in (running.failure or "")


@pytest.mark.exhaustive
def test_a_quantization_of_no_layer_fails_the_job(tmp_path: Path, base: Path) -> None:
    running = quantization(tmp_path, base, {"ignored_layers": "re:.*"})
    assert running.run()[0] == 1
    assert "no layer is quantized" in (running.failure or "")


@pytest.mark.exhaustive
def test_a_quantized_model_is_refused(tmp_path: Path, base: Path) -> None:
    model = tmp_path / "quantized"
    shutil.copytree(base, model)
    configuration = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps({**configuration, "quantization_config": {"quant_method": "gptq"}}))
    running = quantization(tmp_path / "job", model, {})
    assert running.run()[0] == 1
    assert "already quantized by gptq" in (running.failure or "")


def test_weights_that_are_no_numbers_fail_the_job(tmp_path: Path, base: Path) -> None:
    model = tmp_path / "broken"
    shutil.copytree(base, model)
    tensors = load_file(model / "model.safetensors")
    tensors["model.layers.0.mlp.up_proj.weight"][3, 5] = float("nan")
    save_file(tensors, model / "model.safetensors", metadata={"format": "pt"})
    running = quantization(tmp_path / "job", model, {"scheme": "FP8_DYNAMIC"})
    assert running.run()[0] == 1
    assert "model.layers.0.mlp.up_proj has weights that are not finite" in (running.failure or "")


@pytest.mark.parametrize(
    ("hyperparameters", "reason"),
    [
        ({"scheme": "W4A16"}, "no input channel 'calibration', which must hold samples"),
        ({"scheme": "INT3"}, "use one of FP8_BLOCK, FP8_DYNAMIC, W4A16, NVFP4, MXFP4"),
    ],
)
def test_what_is_missing_is_the_reason_of_the_failure(
    tmp_path: Path, base: Path, hyperparameters: dict[str, str], reason: str
) -> None:
    running = quantization(tmp_path, base, hyperparameters)
    assert running.run()[0] == 1
    assert reason in (running.failure or "")
