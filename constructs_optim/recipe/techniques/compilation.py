"""Compilation: the model's graph compiled ahead of time, so that an instance starts without compiling it.

Sources: LMI user guides of djl-serving for transformers-neuronx and TensorRT-LLM; the SageMaker SDK's test payloads.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from constructs_optim.recipe.named_arguments import NamesItsFactories, knows_its_arguments

from .base import Stage, Technique


class _Compilation(Technique):
    kind: ClassVar[str] = "compilation"
    stage: ClassVar[Stage] = Stage.OPTIMIZE
    # What is compiled is the quantized model.
    place_in_job: ClassVar[int] = 1
    job_member: ClassVar[str] = "ModelCompilationConfig"


class NeuronCompilation(_Compilation):
    """For Inferentia and Trainium. The artifact fits exactly these shapes, precision and tensor parallel degree."""

    method: ClassVar[str] = "neuron"
    catalog_column: ClassVar[str] = "neuron"
    capabilities: ClassVar[frozenset[str]] = frozenset({"neuron"})
    tested_families: ClassVar[frozenset[str]] = frozenset({"inf2", "trn1", "trn1n"})

    maximum_sequence_length: int = Field(default=2048, ge=1, le=131_072)
    maximum_batch_size: int = Field(default=4, ge=1, le=256)
    dtype: Literal["fp16", "bf16", "fp32"] = "fp16"
    optimize_level: Literal[1, 2, 3] = 2

    @property
    def label(self) -> str:
        """For instance ``Neuron (batch 4, length 2048, fp16)``."""
        return f"Neuron (batch {self.maximum_batch_size}, length {self.maximum_sequence_length}, {self.dtype})"

    def job_environment(self) -> dict[str, str]:
        """All settings: together they say which artifact it is."""
        return {
            "OPTION_DTYPE": self.dtype,
            "OPTION_MAX_ROLLING_BATCH_SIZE": str(self.maximum_batch_size),
            "OPTION_NEURON_OPTIMIZE_LEVEL": str(self.optimize_level),
            "OPTION_N_POSITIONS": str(self.maximum_sequence_length),
            "OPTION_ROLLING_BATCH": "auto",
        }

    def serving_environment(self) -> dict[str, str]:
        """The same: another shape would be compiled anew when the container starts."""
        return self.job_environment()

    def batch_size(self) -> int | None:
        """The compiled one."""
        return self.maximum_batch_size

    def sequence_length(self) -> int | None:
        """The compiled one."""
        return self.maximum_sequence_length


class TensorRtLlmCompilation(_Compilation):
    """For NVIDIA GPUs: an engine for these shapes and this kind of GPU."""

    method: ClassVar[str] = "tensorrt_llm"
    catalog_column: ClassVar[str] = "tensorrt_llm"
    capabilities: ClassVar[frozenset[str]] = frozenset({"tensorrt_llm"})
    tested_families: ClassVar[frozenset[str]] = frozenset({"p4d", "p4de", "p5", "g5", "g6"})

    maximum_input_length: int = Field(default=1024, ge=1, le=131_072)
    maximum_output_length: int = Field(default=512, ge=1, le=131_072)
    maximum_batch_size: int = Field(default=64, ge=1, le=2048)

    @property
    def label(self) -> str:
        """For instance ``TensorRT-LLM (batch 64, 1024 tokens in, 512 out)``."""
        return (
            f"TensorRT-LLM (batch {self.maximum_batch_size}, {self.maximum_input_length} tokens in, "
            f"{self.maximum_output_length} out)"
        )

    def job_environment(self) -> dict[str, str]:
        """All settings: together they say which engine it is."""
        return {
            "OPTION_MAX_INPUT_LEN": str(self.maximum_input_length),
            "OPTION_MAX_OUTPUT_LEN": str(self.maximum_output_length),
            "OPTION_MAX_ROLLING_BATCH_SIZE": str(self.maximum_batch_size),
            "OPTION_ROLLING_BATCH": "trtllm",
        }

    def serving_environment(self) -> dict[str, str]:
        """The engine's batch size, and the batching that runs engines."""
        return {
            "OPTION_MAX_ROLLING_BATCH_SIZE": str(self.maximum_batch_size),
            "OPTION_ROLLING_BATCH": "trtllm",
        }

    def batch_size(self) -> int | None:
        """The compiled one."""
        return self.maximum_batch_size

    def sequence_length(self) -> int | None:
        """Input and output together."""
        return self.maximum_input_length + self.maximum_output_length


class Compilation(metaclass=NamesItsFactories):
    """The model compiled ahead of time: faster starts, on hardware that compiles."""

    @staticmethod
    @knows_its_arguments
    def neuron(
        *,
        maximum_sequence_length: int = 2048,
        maximum_batch_size: int = 4,
        dtype: Literal["fp16", "bf16", "fp32"] = "fp16",
        optimize_level: Literal[1, 2, 3] = 2,
        tensor_parallel_degree: int | None = None,
    ) -> Technique:
        """For inf2, trn1 and trn1n instances.

        Args:
            maximum_sequence_length: tokens of a request, prompt and answer. Default: 2048.
            maximum_batch_size: requests at once. Default: 4.
            dtype: precision of the weights: fp16, bf16 or fp32. Default: fp16.
            optimize_level: the Neuron compiler's ``-O``: 1 compiles fastest, 3 runs fastest. Default: 2.
            tensor_parallel_degree: NeuronCores one copy is spread over. Default: all of the instance.
        """
        return NeuronCompilation.model_construct(
            maximum_sequence_length=maximum_sequence_length,
            maximum_batch_size=maximum_batch_size,
            dtype=dtype,
            optimize_level=optimize_level,
            tensor_parallel_degree=tensor_parallel_degree,
        )

    @staticmethod
    @knows_its_arguments
    def tensorrt_llm(
        *,
        maximum_input_length: int = 1024,
        maximum_output_length: int = 512,
        maximum_batch_size: int = 64,
        tensor_parallel_degree: int | None = None,
    ) -> Technique:
        """A TensorRT-LLM engine, for GPU instances.

        Args:
            maximum_input_length: tokens of a prompt. Default: 1024.
            maximum_output_length: tokens of an answer. Default: 512.
            maximum_batch_size: requests at once. Default: 64.
            tensor_parallel_degree: accelerators one copy is spread over. Default: all of the instance.
        """
        return TensorRtLlmCompilation.model_construct(
            maximum_input_length=maximum_input_length,
            maximum_output_length=maximum_output_length,
            maximum_batch_size=maximum_batch_size,
            tensor_parallel_degree=tensor_parallel_degree,
        )
