"""Quantization: less precise weights take less accelerator memory, and leave more of it to the KV cache.

Source of settings and defaults: ``sm_neo_quantize.py`` and ``partition.py`` of djl-serving (LMI 10 to 27), and its
TensorRT-LLM user guide for SmoothQuant.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from constructs_optim.recipe.named_arguments import NamesItsFactories, knows_its_arguments

from .base import Stage, Technique, names

_TESTED = frozenset({"p4d", "p4de", "p5", "g5", "g6"})


class _Quantization(Technique):
    lossless: ClassVar[bool] = False
    kind: ClassVar[str] = "quantization"
    stage: ClassVar[Stage] = Stage.OPTIMIZE
    job_member: ClassVar[str] = "ModelQuantizationConfig"
    tested_families: ClassVar[frozenset[str]] = _TESTED


class AwqQuantization(_Quantization):
    """Activation-aware weight quantization of the weights to INT4.

    Three of the container's settings have one value that works, so they are none here: 4 bits, a zero point (AutoAWQ
    refuses to quantize without one) and GEMM packing (vLLM does not load GEMV's).
    """

    method: ClassVar[str] = "awq"
    catalog_column: ClassVar[str] = "quantization"
    capabilities: ClassVar[frozenset[str]] = frozenset({"awq"})
    weight_bits: ClassVar[int | None] = 4
    # INT4 kernels need compute capability 7.5 or later; all of these have it.
    other_families: ClassVar[frozenset[str]] = frozenset({"g4dn", "g6e", "p5e", "p5en"})

    group_size: Literal[32, 64, 128] = 128
    ignored_layers: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """For instance ``AWQ INT4 (group size 128)``."""
        return f"AWQ INT4 (group size {self.group_size})"

    def job_environment(self) -> dict[str, str]:
        """``OPTION_QUANTIZE``, and the settings that differ from the container's own."""
        return {
            "OPTION_QUANTIZE": self.method,
            **self._chosen(
                {
                    "OPTION_AWQ_BLOCK_SIZE": (self.group_size, "group_size"),
                    "OPTION_AWQ_IGNORE_LAYERS": (self.ignored_layers, "ignored_layers"),
                }
            ),
        }


class Fp8Quantization(_Quantization):
    """Weights and activations in 8-bit floating point."""

    method: ClassVar[str] = "fp8"
    catalog_column: ClassVar[str] = "fp8"
    capabilities: ClassVar[frozenset[str]] = frozenset({"fp8"})
    weight_bits: ClassVar[int | None] = 8
    other_families: ClassVar[frozenset[str]] = frozenset({"g6e", "p5e", "p5en"})

    scheme: Literal["FP8", "FP8_DYNAMIC"] = "FP8"
    ignored_layers: tuple[str, ...] = ("lm_head",)
    calibration_size: int = Field(default=512, ge=1, le=100_000)
    calibration_length: int = Field(default=2048, ge=1, le=131_072)

    @property
    def label(self) -> str:
        """For instance ``FP8``."""
        return "FP8" if self.scheme == "FP8" else "FP8 (dynamic activations)"

    def job_environment(self) -> dict[str, str]:
        """``OPTION_QUANTIZE``, and the settings that differ from the container's own."""
        return {
            "OPTION_QUANTIZE": self.method,
            **self._chosen(
                {
                    "OPTION_FP8_SCHEME": (self.scheme, "scheme"),
                    "OPTION_FP8_IGNORE": (self.ignored_layers, "ignored_layers"),
                    "OPTION_CALIB_SIZE": (self.calibration_size, "calibration_size"),
                    "OPTION_MAX_MODEL_LEN": (self.calibration_length, "calibration_length"),
                }
            ),
        }


class SmoothQuantization(_Quantization):
    """SmoothQuant: weights and activations in INT8, with the outliers of the activations moved into the weights."""

    method: ClassVar[str] = "smoothquant"
    catalog_column: ClassVar[str] = "smoothquant"
    capabilities: ClassVar[frozenset[str]] = frozenset({"smoothquant"})
    weight_bits: ClassVar[int | None] = 8

    alpha: float = Field(default=0.8, ge=0, le=1)
    per_token: bool = False
    per_channel: bool = False
    calibration_size: int = Field(default=512, ge=1, le=100_000)

    @property
    def label(self) -> str:
        """For instance ``SmoothQuant INT8 (alpha 0.8)``."""
        return f"SmoothQuant INT8 (alpha {self.alpha})"

    def job_environment(self) -> dict[str, str]:
        """``OPTION_QUANTIZE``, and the settings that differ from the container's own."""
        return {
            "OPTION_QUANTIZE": self.method,
            **self._chosen(
                {
                    "OPTION_SMOOTHQUANT_ALPHA": (self.alpha, "alpha"),
                    "OPTION_SMOOTHQUANT_PER_TOKEN": (self.per_token, "per_token"),
                    "OPTION_SMOOTHQUANT_PER_CHANNEL": (self.per_channel, "per_channel"),
                    "OPTION_CALIB_SIZE": (self.calibration_size, "calibration_size"),
                }
            ),
        }


class Quantization(metaclass=NamesItsFactories):
    """Less precise weights: less accelerator memory, and more of it for the KV cache."""

    # Nothing is validated in these factories: planning reports a bad setting together with all else that is wrong.

    @staticmethod
    @knows_its_arguments
    def awq(
        *,
        group_size: Literal[32, 64, 128] = 128,
        ignored_layers: tuple[str, ...] | list[str] = (),
        tensor_parallel_degree: int | None = None,
    ) -> Technique:
        """AWQ: weights in INT4, activations as they are. For GPUs.

        Args:
            group_size: weights that share a scale. Default: 128.
            ignored_layers: names of layers left as they are. Default: none.
            tensor_parallel_degree: accelerators one copy is spread over. Default: all of the instance.
        """
        return AwqQuantization.model_construct(
            group_size=group_size,
            ignored_layers=names(ignored_layers),
            tensor_parallel_degree=tensor_parallel_degree,
        )

    @staticmethod
    @knows_its_arguments
    def fp8(
        *,
        scheme: Literal["FP8", "FP8_DYNAMIC"] = "FP8",
        ignored_layers: tuple[str, ...] | list[str] = ("lm_head",),
        calibration_size: int = 512,
        calibration_length: int = 2048,
        tensor_parallel_degree: int | None = None,
    ) -> Technique:
        """FP8: weights and activations in 8 bits. For GPUs.

        Args:
            scheme: FP8 calibrates the activations' scales on samples; FP8_DYNAMIC finds them at run time. Default: FP8.
            ignored_layers: names of layers left as they are. Default: ``lm_head``.
            calibration_size: samples to calibrate on. Default: 512.
            calibration_length: tokens of a sample. Default: 2048.
            tensor_parallel_degree: accelerators one copy is spread over. Default: all of the instance.
        """
        return Fp8Quantization.model_construct(
            scheme=scheme,
            ignored_layers=names(ignored_layers),
            calibration_size=calibration_size,
            calibration_length=calibration_length,
            tensor_parallel_degree=tensor_parallel_degree,
        )

    @staticmethod
    @knows_its_arguments
    def smoothquant(
        *,
        alpha: float = 0.8,
        per_token: bool = False,
        per_channel: bool = False,
        calibration_size: int = 512,
        tensor_parallel_degree: int | None = None,
    ) -> Technique:
        """SmoothQuant: weights and activations in INT8. For GPUs, together with ``Compilation.tensorrt_llm()`` only.

        Args:
            alpha: how much of the activations' range is moved into the weights, 0 to 1. Default: 0.8.
            per_token: whether each token has a scale of its own. Default: it has not.
            per_channel: whether each channel has a scale of its own. Default: it has not.
            calibration_size: samples to calibrate on. Default: 512.
            tensor_parallel_degree: accelerators one copy is spread over. Default: all of the instance.
        """
        return SmoothQuantization.model_construct(
            alpha=alpha,
            per_token=per_token,
            per_channel=per_channel,
            calibration_size=calibration_size,
            tensor_parallel_degree=tensor_parallel_degree,
        )
