"""Quantization: less precise weights need less accelerator memory, and leave more of it for the KV cache.

Sources of settings and defaults: ``sm_neo_quantize.py`` and ``partition.py`` of djl-serving (LMI 10 to 27), and its
TensorRT-LLM user guide for SmoothQuant; llm-compressor's documentation for its own jobs.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from constructs_optim.recipe.catalog.models import ModelRow
from constructs_optim.recipe.catalog.quantized_modules import not_quantized
from constructs_optim.recipe.catalog.splits import StoredQuantization
from constructs_optim.recipe.model import Model
from constructs_optim.recipe.settings import Group, as_text
from constructs_optim.training.job_log import MetricDefinition, definition, quantization_metrics
from constructs_optim.training.settings import QUANTIZATION_VERSION, QuantizationSettings

from .base import OPTIMIZE, Names, Option, Stage, Technique
from .training_job import TrainedTechnique

_HYPERPARAMETERS = frozenset(field.name for field in dataclasses.fields(QuantizationSettings))
_WITH_DRAFT = "speculative_decoding=sagemaker_draft"


class _JobQuantization(Technique):
    kind = "quantization"
    lossless = False
    # vLLM's Marlin kernels support formats without instructions on the accelerator (get_min_capability of vLLM 0.30).
    compute_capability = (7.5, 12.0)
    stage = OPTIMIZE
    job_member = "ModelQuantizationConfig"

    checkpoint: Model | None = None

    @property
    def ready_made(self) -> Model | None:
        """The ready-made checkpoint."""
        return self.checkpoint

    def job_environment(self) -> dict[str, str]:
        """Return ``OPTION_QUANTIZE``, and the settings that differ from the container's defaults."""
        return {"OPTION_QUANTIZE": self.name, **self.options()}


class AwqQuantization(_JobQuantization):
    """AWQ: activation-aware quantization of the weights to INT4. Activations are not quantized. For GPUs.

    Three of the container's settings have only one valid value, so they are not settings here: 4 bits, a zero point
    (AutoAWQ does not quantize without one) and GEMM packing (vLLM does not load GEMV packing).

    Attributes:
        group_size: number of weights that share a scale: 32, 64 or 128. Default: 128.
        ignored_layers: names of layers that are not quantized. Default: none.
        checkpoint: a ready-made AWQ checkpoint of the model, instead of a job. Default: none.
    """

    name = "awq"
    title = "AWQ INT4 (group size {group_size})"
    support = "quantization"
    makes = frozenset({"awq"})
    # AutoAWQ's last release is 0.2.9 of May 2025; Qwen3 is the newest model that it supports (awq/models/auto.py).
    newest_engine = "0.8.5"
    serves = frozenset({"awq"})
    recommended = ("", _WITH_DRAFT)
    weight_bits = 4
    precisions = frozenset({"int4"})

    group_size: Annotated[Literal[32, 64, 128], Option("OPTION_AWQ_BLOCK_SIZE")] = 128
    ignored_layers: Annotated[Names, Option("OPTION_AWQ_IGNORE_LAYERS")] = ()

    @property
    def quantization(self) -> StoredQuantization:
        """AWQ, in groups."""
        ignored = not_quantized(self.ignored_layers, "parts")
        return StoredQuantization(method="awq", bits=4, group_size=self.group_size, ignored=ignored)


class Fp8Quantization(_JobQuantization):
    """FP8: weights and activations in 8-bit floating point. For GPUs.

    Attributes:
        scheme: FP8 calibrates the activations' scales on samples; FP8_DYNAMIC computes them at run time. Default: FP8.
        ignored_layers: names of layers that are not quantized. Default: ``lm_head``.
        calibration_size: number of calibration samples. Default: 512.
        calibration_length: tokens per sample. Default: 2048.
        checkpoint: a ready-made FP8 checkpoint of the model, instead of a job. Default: none.
    """

    name = "fp8"
    makes = frozenset({"fp8"})
    serves = frozenset({"fp8"})
    recommended = ("", _WITH_DRAFT, "compilation=tensorrt_llm")
    weight_bits = 8
    precisions = frozenset({"fp8"})

    scheme: Annotated[Literal["FP8", "FP8_DYNAMIC"], Option("OPTION_FP8_SCHEME")] = "FP8"
    ignored_layers: Annotated[Names, Option("OPTION_FP8_IGNORE")] = ("lm_head",)
    calibration_size: Annotated[int, Option("OPTION_CALIB_SIZE")] = Field(default=512, ge=1, le=100_000)
    calibration_length: Annotated[int, Option("OPTION_MAX_MODEL_LEN")] = Field(default=2048, ge=1, le=131_072)

    @property
    def label(self) -> str:
        """The display name, for example ``FP8``."""
        return "FP8" if self.scheme == "FP8" else "FP8 (dynamic activations)"


class SmoothQuantization(_JobQuantization):
    """SmoothQuant: weights and activations in INT8, with activation outliers moved into the weights.

    For GPUs, and only with ``Compilation.tensorrt_llm()``.

    Attributes:
        alpha: share of the activations' range that moves into the weights, 0 to 1. Default: 0.8.
        per_token: whether each token has its own scale. Default: no.
        per_channel: whether each channel has its own scale. Default: no.
        calibration_size: number of calibration samples. Default: 512.
        checkpoint: a ready-made checkpoint of the model, instead of a job. Default: none.
    """

    name = "smoothquant"
    title = "SmoothQuant INT8 (alpha {alpha})"
    makes = frozenset({"smoothquant"})
    compute_capability = (8.0, 9.0)
    recommended = ("compilation=tensorrt_llm",)
    weight_bits = 8

    alpha: Annotated[float, Option("OPTION_SMOOTHQUANT_ALPHA")] = Field(default=0.8, ge=0, le=1)
    per_token: Annotated[bool, Option("OPTION_SMOOTHQUANT_PER_TOKEN")] = False
    per_channel: Annotated[bool, Option("OPTION_SMOOTHQUANT_PER_CHANNEL")] = False
    calibration_size: Annotated[int, Option("OPTION_CALIB_SIZE")] = Field(default=512, ge=1, le=100_000)


class CompressorQuantization(TrainedTechnique):
    """Quantization with llm-compressor in a training job, or a ready-made checkpoint.

    Attributes:
        checkpoint: a ready-made checkpoint of the model, instead of a job. Default: none.
        ignored_layers: names of layers that are not quantized; ``re:`` starts a regular expression. Default: output
            layer, embeddings, routers, recurrent layers, and image and audio encoders.
        compute: the job's instance and storage. Default: one instance of the endpoint's type.
    """

    kind = "quantization"
    support = "quantization"
    lossless = False
    # vLLM's Marlin kernels support formats without instructions on the accelerator (get_min_capability of vLLM 0.30).
    compute_capability = (7.5, 12.0)
    stage = Stage(2, runtime_seconds=86_400)
    code_version = QUANTIZATION_VERSION
    job_image = "quantizing"
    script = "quantize.py"
    requirements = "quantizing.txt"
    accelerator_use = "a layer and its statistics"
    host_use = "the model in 16 bits"
    distributed = False
    scheme: ClassVar[str]
    """The scheme's name in compressed-tensors."""
    group_size: ClassVar[int | None] = None
    """The number of weights that share a scale; None if all weights of an output do, or a block."""
    block_size: ClassVar[tuple[int, int] | None] = None
    """The outputs and inputs that share a scale."""

    checkpoint: Model | None = None
    ignored_layers: Names = tuple(QuantizationSettings().ignored_layers.split(","))

    @property
    def ready_made(self) -> Model | None:
        """The ready-made checkpoint."""
        return self.checkpoint

    @property
    def calibrates(self) -> bool:
        """Whether the job needs samples."""
        return QuantizationSettings(scheme=self.scheme).calibrates

    @property
    def quantization(self) -> StoredQuantization:
        """The scheme, in compressed-tensors."""
        ignored = not_quantized(self.ignored_layers, "compressed")
        return StoredQuantization(
            method="compressed-tensors",
            bits=self.weight_bits,
            group_size=self.group_size,
            block_size=self.block_size,
            ignored=ignored,
        )

    @property
    def all_hyperparameters(self) -> dict[str, str]:
        """The scheme, and the settings that differ from their defaults."""
        fields = type(self).model_fields
        chosen = {name: getattr(self, name) for name in fields if name in _HYPERPARAMETERS}
        changed = {name: value for name, value in chosen.items() if value != fields[name].default}
        return {"scheme": self.scheme, **{name: as_text(value) for name, value in sorted(changed.items())}}

    @property
    def channels(self) -> dict[str, str]:
        """No channels."""
        return {}

    @property
    def metrics(self) -> list[MetricDefinition]:
        """The metrics of ``quantize.py``."""
        return [definition(name, self.kind) for name in quantization_metrics(calibrates=self.calibrates)]

    def training_gb(self, row: ModelRow) -> float:
        """Return the size of a layer in float32; 0 if the number of layers is unknown."""
        return (row.parameters_billion or 0) * 4 / row.layers if row.layers else 0.0

    def host_gb(self, parameters_billion: float) -> float:
        """Return the size of the model, which processes samples; 0 without samples, if the job works file by file."""
        return parameters_billion * 2 if self.calibrates else 0.0

    @classmethod
    def storage_gb(cls, stored_gb: float) -> int:
        """Return storage for the model and the quantized output."""
        return math.ceil(2 * stored_gb)


class _CalibratedQuantization(CompressorQuantization):
    calibration_data: str | None = None
    calibration_size: int = Field(default=512, ge=1, le=100_000)
    calibration_length: int = Field(default=2048, ge=8, le=131_072)

    @property
    def channels(self) -> dict[str, str]:
        """The channel of the samples."""
        return {"calibration": self.calibration_data} if self.calibration_data is not None else {}


class Fp8BlockQuantization(CompressorQuantization):
    """FP8 with a scale for each block of 128 by 128 weights. Activations are scaled at run time. For GPUs.

    Attributes:
        checkpoint: a ready-made checkpoint of the model, instead of a job. Default: none.
        ignored_layers: names of layers that are not quantized; ``re:`` starts a regular expression. Default: output
            layer, embeddings, routers, recurrent layers, and image and audio encoders.
        compute: the job's instance and storage. Default: one instance of the endpoint's type.
    """

    name = "fp8_block"
    title = "FP8 (blocks)"
    serves = frozenset({"fp8"})
    weight_bits = 8
    precisions = frozenset({"fp8"})
    scheme = "FP8_BLOCK"
    block_size = (128, 128)


class Fp8DynamicQuantization(CompressorQuantization):
    """FP8 with a scale for each row of weights. Activations are scaled at run time, per token. For GPUs.

    Attributes:
        checkpoint: a ready-made checkpoint of the model, instead of a job. Default: none.
        ignored_layers: names of layers that are not quantized; ``re:`` starts a regular expression. Default: output
            layer, embeddings, routers, recurrent layers, and image and audio encoders.
        compute: the job's instance and storage. Default: one instance of the endpoint's type.
    """

    name = "fp8_dynamic"
    title = "FP8 (rows)"
    serves = frozenset({"fp8"})
    weight_bits = 8
    precisions = frozenset({"fp8"})
    scheme = "FP8_DYNAMIC"


class W4A16Quantization(_CalibratedQuantization):
    """W4A16: weights in INT4, with a scale for each 128 weights. Activations stay in 16 bits. For GPUs.

    Attributes:
        checkpoint: a ready-made checkpoint of the model, instead of a job. Default: none.
        ignored_layers: names of layers that are not quantized; ``re:`` starts a regular expression. Default: output
            layer, embeddings, routers, recurrent layers, and image and audio encoders.
        compute: the job's instance and storage. Default: one instance of the endpoint's type.
        algorithm: ``gptq`` compensates for the rounding errors of earlier weights, ``awq`` scales the most important
            weights. Default: ``gptq``.
        calibration_data: S3 prefix with one or more ``*.jsonl`` files of samples. A job needs it; https://constructs-optim.dev/medusa/
            describes the formats. May be or contain a token. Default: none.
        calibration_size: maximum number of samples. Default: 512.
        calibration_length: maximum tokens per sample. Default: 2048.
    """

    name = "w4a16"
    title = "W4A16"
    serves = frozenset({"w4a16"})
    weight_bits = 4
    precisions = frozenset({"int4"})
    scheme = "W4A16"
    group_size = 128

    algorithm: Literal["gptq", "awq"] = "gptq"


class Nvfp4Quantization(_CalibratedQuantization):
    """NVFP4: 4-bit floating point with a scale for each 16 weights. Blackwell GPUs compute in NVFP4, others in 16 bits.

    Attributes:
        checkpoint: a ready-made checkpoint of the model, instead of a job. Default: none.
        ignored_layers: names of layers that are not quantized; ``re:`` starts a regular expression. Default: output
            layer, embeddings, routers, recurrent layers, and image and audio encoders.
        compute: the job's instance and storage. Default: one instance of the endpoint's type.
        calibration_data: S3 prefix with one or more ``*.jsonl`` files of samples. A job needs it; https://constructs-optim.dev/medusa/
            describes the formats. May be or contain a token. Default: none.
        calibration_size: maximum number of samples. Default: 512.
        calibration_length: maximum tokens per sample. Default: 2048.
    """

    name = "nvfp4"
    title = "NVFP4"
    serves = frozenset({"nvfp4"})
    weight_bits = 4
    precisions = frozenset({"nvfp4"})
    scheme = "NVFP4"
    group_size = 16


class Mxfp4Quantization(CompressorQuantization):
    """MXFP4: 4-bit floating point with a scale for each 32 weights, as in gpt-oss. For GPUs.

    Attributes:
        checkpoint: a ready-made checkpoint of the model, instead of a job. Default: none.
        ignored_layers: names of layers that are not quantized; ``re:`` starts a regular expression. Default: output
            layer, embeddings, routers, recurrent layers, and image and audio encoders.
        compute: the job's instance and storage. Default: one instance of the endpoint's type.
    """

    name = "mxfp4"
    title = "MXFP4"
    serves = frozenset({"mxfp4"})
    serves_published = frozenset({"mxfp4_models"})
    # vLLM, Mxfp4Config.get_min_capability.
    compute_capability = (8.0, 12.0)
    weight_bits = 4
    precisions = frozenset({"mxfp4"})
    scheme = "MXFP4"
    group_size = 32


class Quantization(metaclass=Group):
    """Less precise weights: they need less accelerator memory, and leave more of it for the KV cache."""

    awq = AwqQuantization
    fp8 = Fp8Quantization
    fp8_block = Fp8BlockQuantization
    fp8_dynamic = Fp8DynamicQuantization
    w4a16 = W4A16Quantization
    nvfp4 = Nvfp4Quantization
    mxfp4 = Mxfp4Quantization
    smoothquant = SmoothQuantization
