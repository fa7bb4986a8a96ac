"""Quantizes a model with llm-compressor, and compares the result with the model.

If scales depend only on the weights, weights are quantized file by file, for any architecture. If they depend on
samples (GPTQ, AWQ, the activation scales of NVFP4), the model is loaded into the host's memory, and layer by layer into
an accelerator's.

Sources: llm-compressor's documentation ("Model-free PTQ", "oneshot"), compressed-tensors (presets, formats).
"""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
import transformers
from compressed_tensors.compressors import BaseCompressor
from compressed_tensors.offload import dispatch_model
from compressed_tensors.quantization import QuantizationConfig, QuantizationScheme
from datasets import Dataset
from llmcompressor import model_free_ptq, oneshot
from llmcompressor.modifiers.gptq import GPTQModifier
from llmcompressor.modifiers.quantization import QuantizationModifier
from llmcompressor.modifiers.transform.awq import AWQModifier
from safetensors import safe_open

from .data.conversations import read_conversations
from .data.tokenization import tokenized
from .documents import json_object
from .environment import TrainingEnvironment
from .errors import SeveralProblems, TrainingError
from .job_log import line, say
from .settings import QuantizationSettings

REPORT_FILE = "quantization_report.json"
"""The file beside the model with its settings, its size, and its differences from the original."""
# The modules whose inputs llm-compressor observes in a forward pass.
_TARGETS = ["Linear"]
_WEIGHT, _SCALE, _CONFIG = ".weight", ".weight_scale", "config.json"
_WEIGHT_FILES = (".safetensors", ".safetensors.index.json", ".bin", ".bin.index.json", ".pt", ".pth")
_Read = Callable[[], torch.Tensor]
# Number of calibration samples on which the losses before and after are measured.
_COMPARED = 16
_FILE_THREADS = 4


def quantize(environment: TrainingEnvironment, settings: QuantizationSettings) -> None:
    """Quantize the model of channel ``model``, and write it to the folder of the job's artifact.

    Args:
        environment: the job's environment. Channel ``calibration`` has samples in the formats of training data, if the
            settings need them.
        settings: the hyperparameters.

    Raises:
        TrainingError: if an input or setting is invalid, with the fix.
        SeveralProblems: if the result is not a quantization of the model, or differs too much from it.
    """
    source = environment.needed_channel("model", "the model to quantize")
    _require_whole_weights(source)
    ignored = [name for name in settings.ignored_layers.split(",") if name]
    say(f"quantizing to {settings.scheme}; not quantized: {', '.join(ignored) or 'no layers'}")
    losses: dict[str, float] = {}
    if settings.calibrates:
        losses = _by_samples(source, environment, settings, ignored)
    else:
        model_free_ptq(source, environment.model, settings.scheme, ignore=ignored, max_workers=_FILE_THREADS)
    report = {**losses, **_compared(source, environment.model, comparable=settings.algorithm != "awq")}
    say(line(report))
    content = {"settings": settings.to_json(), **report, "llmcompressor": version("llmcompressor")}
    (environment.model / REPORT_FILE).write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    _require_close(report, settings)


def _require_whole_weights(source: Path) -> None:
    configuration = _json(source / _CONFIG)
    if (quantization := configuration.get("quantization_config")) is not None:
        method = quantization.get("quant_method", "another method")
        raise TrainingError(f"the model's weights are already quantized by {method}: use the model in 16 bits")
    if not any(source.glob("*.safetensors")):
        raise TrainingError("the model has no safetensors: convert its weights, for example with save_pretrained()")


def _by_samples(
    source: Path, environment: TrainingEnvironment, settings: QuantizationSettings, ignored: list[str]
) -> dict[str, float]:
    """Quantize with samples, and return the losses before and after, in nats per token."""
    samples = _samples(environment.needed_channel("calibration", "samples, *.jsonl"), source, settings)
    configuration = transformers.AutoConfig.from_pretrained(source)
    # The weights' own class, which may include a vision tower.
    kind = getattr(transformers, (configuration.architectures or [""])[0], transformers.AutoModelForCausalLM)
    model = kind.from_pretrained(source, dtype="auto", device_map=None)
    compared = samples.select(range(min(_COMPARED, len(samples))))
    before = _loss(model, compared)
    oneshot(
        model=model,
        dataset=samples,
        recipe=_modifiers(settings, ignored),
        max_seq_length=settings.calibration_length,
        num_calibration_samples=len(samples),
        pipeline="sequential",
    )
    after = _loss(model, compared)
    model.save_pretrained(environment.model, save_compressed=True)
    # Tokenizer, chat template, generation settings: everything except weights and their configuration.
    for file in source.iterdir():
        if file.is_file() and file.name != _CONFIG and not file.name.endswith(_WEIGHT_FILES):
            shutil.copyfile(file, environment.model / file.name)
    return {"loss": before, "quantized_loss": after}


def _modifiers(settings: QuantizationSettings, ignored: list[str]) -> list[Any]:
    """Return the modifiers for the algorithm and the scheme."""
    scheme = {"targets": _TARGETS, "scheme": settings.scheme, "ignore": ignored}
    if settings.scheme == "W4A16" and settings.algorithm == "gptq":
        return [GPTQModifier(**scheme)]
    if settings.scheme == "W4A16" and settings.algorithm == "awq":
        return [AWQModifier(), QuantizationModifier(**scheme)]
    return [QuantizationModifier(**scheme)]


def _samples(folder: Path, source: Path, settings: QuantizationSettings) -> Dataset:
    """Return the calibration samples as tokens, in random order."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(source)
    tokenization = tokenized(
        read_conversations(folder), tokenizer, maximum_length=settings.calibration_length, with_prompts=True
    )
    say(f"calibration: {tokenization}")
    columns = {"input_ids": [example.input_ids for example in tokenization.examples]}
    shuffled = Dataset.from_dict(columns).shuffle(seed=settings.seed)
    return shuffled.select(range(min(settings.calibration_size, len(shuffled))))


@torch.no_grad()
def _loss(model: Any, samples: Dataset) -> float:
    """Return the mean cross-entropy of the samples' tokens, in nats."""
    dispatch_model(model)
    device = next(iter(model.parameters())).device
    losses: list[tuple[float, int]] = []
    for sample in samples:
        tokens = torch.tensor([sample["input_ids"]], device=device)
        losses.append((float(model(input_ids=tokens, labels=tokens).loss), tokens.shape[1] - 1))
    return sum(loss * count for loss, count in losses) / sum(count for _, count in losses)


def _compared(source: Path, written: Path, *, comparable: bool) -> dict[str, float]:
    """Return the errors of the written weights relative to the model's, and the sizes in GB.

    A layer's error is the Frobenius norm of the difference over that of the layer. AWQ scales a layer's weights and the
    outputs before it, so its weights are not ``comparable``.
    """
    configuration = QuantizationConfig.model_validate(_json(written / _CONFIG)["quantization_config"])
    (scheme,) = configuration.config_groups.values()
    errors: list[float] = []
    problems: list[str] = []
    with ExitStack() as opened:
        before, after = _tensors(source, opened), _tensors(written, opened)
        for name, layer in _quantized_layers(after):
            weight = _decompressed(layer, scheme)
            if not torch.isfinite(weight).all():
                problems.append(f"{name} has weights that are not finite")
            elif comparable and (original := before.get(f"{name}{_WEIGHT}")) is not None:
                reference = original().float()
                errors.append(float((weight.float() - reference).norm() / reference.norm().clamp(min=1e-12)))
            else:
                errors.append(math.nan)
    if not errors:
        problems.append("no layer is quantized: ignored_layers includes all of them, or the model has no linear layers")
    if problems:
        raise SeveralProblems("the result is not a quantization of the model", problems)
    known = [error for error in errors if not math.isnan(error)]
    report = {"layers": float(len(errors)), "size_gb": _size_gb(written), "original_size_gb": _size_gb(source)}
    if known:
        report |= {"weight_error": sum(known) / len(known), "largest_weight_error": max(known)}
    return report


def _quantized_layers(tensors: Mapping[str, _Read]) -> Iterator[tuple[str, dict[str, torch.Tensor]]]:
    """Yield the names of quantized layers with their tensors, by compressed-tensors' names."""
    for scale in sorted(name for name in tensors if name.endswith(_SCALE)):
        layer = scale.removesuffix(_SCALE)
        members = ("weight", "weight_packed", "weight_scale", "weight_global_scale", "weight_shape")
        yield layer, {each: tensors[f"{layer}.{each}"]() for each in members if f"{layer}.{each}" in tensors}


def _decompressed(layer: dict[str, torch.Tensor], scheme: QuantizationScheme) -> torch.Tensor:
    """Return the weights with which an engine computes."""
    if (packed := layer.get("weight_global_scale")) is not None:
        layer["weight_global_scale"] = packed.float()
    return BaseCompressor.get_value_from_registry(scheme.format).decompress(layer, scheme)["weight"]


def _tensors(folder: Path, opened: ExitStack) -> dict[str, _Read]:
    """Return a reader of each tensor of a model, by name."""
    readers: dict[str, _Read] = {}
    for file in sorted(folder.glob("*.safetensors")):
        content = opened.enter_context(safe_open(file, framework="pt"))
        readers |= {name: partial(content.get_tensor, name) for name in content.keys()}  # noqa: SIM118 - not a mapping
    return readers


def _require_close(report: Mapping[str, float], settings: QuantizationSettings) -> None:
    increase, error = report.get("quantized_loss", 0) - report.get("loss", 0), report.get("weight_error", 0)
    problems: list[str] = []
    if not increase <= settings.maximum_loss_increase:
        problems.append(
            f"the loss on samples rises from {report['loss']:.3f} to {report['quantized_loss']:.3f} nats per token, by "
            f"more than maximum_loss_increase={settings.maximum_loss_increase:g}"
        )
    if not error <= settings.maximum_weight_error:
        problems.append(
            f"the mean error of the layers' weights is {error:.1%}, more than "
            f"maximum_weight_error={settings.maximum_weight_error:g}"
        )
    if problems:
        raise SeveralProblems("the quantized model differs too much from the model", problems)


def _size_gb(folder: Path) -> float:
    return sum(file.stat().st_size for file in folder.glob("*.safetensors")) / 1e9


def _json(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise TrainingError(f"the model has no {path.name}")
    return json_object(path, TrainingError)
