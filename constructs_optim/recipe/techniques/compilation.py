"""Compilation: the model compiled ahead of time.

Sources: LMI user guides of djl-serving for transformers-neuronx and TensorRT-LLM; the SageMaker SDK's test payloads.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from constructs_optim.recipe.settings import Group

from .base import OPTIMIZE, Option, Technique

_Tokens = Annotated[int, Field(ge=1, le=131_072)]
_BATCH_SIZE = Option("OPTION_MAX_ROLLING_BATCH_SIZE", always=True)


class _Compilation(Technique):
    kind = "compilation"
    stage = OPTIMIZE
    # After quantization.
    order_in_job = 1
    job_member = "ModelCompilationConfig"
    recommended = ("",)
    served_by_job_image = True
    rolling_batch: ClassVar[str]

    def job_environment(self) -> dict[str, str]:
        """Return all settings, because they determine the artifact."""
        return {**self.options(), "OPTION_ROLLING_BATCH": self.rolling_batch}


class NeuronCompilation(_Compilation):
    """Compilation for inf2, trn1 and trn1n instances. The artifact supports exactly these shapes and this precision.

    Attributes:
        maximum_sequence_length: maximum tokens of a request, prompt and completion together. Default: 2048.
        maximum_batch_size: maximum number of requests in a batch. Default: 4.
        dtype: precision of the weights: fp16, bf16 or fp32. Default: fp16.
        optimize_level: the Neuron compiler's ``-O`` level: 1 compiles fastest, 3 runs fastest. Default: 2.
    """

    name = "neuron"
    title = "Neuron (batch {maximum_batch_size}, length {maximum_sequence_length}, {dtype})"
    makes = frozenset({"neuron"})
    # The only image has Neuron SDK 2.19.1 of July 2024, when vLLM's release was 0.5.3.
    newest_engine = "0.5.3"
    accelerators = "neuron"
    rolling_batch = "auto"

    dtype: Annotated[Literal["fp16", "bf16", "fp32"], Option("OPTION_DTYPE", always=True)] = "fp16"
    maximum_batch_size: Annotated[int, _BATCH_SIZE] = Field(default=4, ge=1, le=256)
    optimize_level: Annotated[Literal[1, 2, 3], Option("OPTION_NEURON_OPTIMIZE_LEVEL", always=True)] = 2
    maximum_sequence_length: Annotated[_Tokens, Option("OPTION_N_POSITIONS", always=True)] = 2048

    def serving_environment(self) -> dict[str, str]:
        """Return the job's variables: with other shapes, the container would compile the model at startup."""
        return self.job_environment()

    def shape(self) -> tuple[int, int]:
        """Return the compiled shape."""
        return self.maximum_batch_size, self.maximum_sequence_length


class TensorRtLlmCompilation(_Compilation):
    """Compilation to a TensorRT-LLM engine for GPUs. The engine supports only these shapes and this type of GPU.

    Attributes:
        maximum_input_length: maximum tokens of a prompt. Default: 1024.
        maximum_output_length: maximum tokens of a completion. Default: 512.
        maximum_batch_size: maximum number of requests in a batch. Default: 64.
    """

    name = "tensorrt_llm"
    title = "TensorRT-LLM (batch {maximum_batch_size}, {maximum_input_length} tokens in, {maximum_output_length} out)"
    makes = frozenset({"tensorrt_llm"})
    # The newest image has TensorRT-LLM 0.21 of June 2025, which supports Qwen3 but no newer models.
    newest_engine = "0.8.5"
    rolling_batch = "trtllm"

    maximum_input_length: Annotated[_Tokens, Option("OPTION_MAX_INPUT_LEN", always=True)] = 1024
    maximum_output_length: Annotated[_Tokens, Option("OPTION_MAX_OUTPUT_LEN", always=True)] = 512
    maximum_batch_size: Annotated[int, _BATCH_SIZE] = Field(default=64, ge=1, le=2048)

    def serving_environment(self) -> dict[str, str]:
        """Return the engine's batch size, and the batching mode for engines."""
        return {_BATCH_SIZE.variable: str(self.maximum_batch_size), "OPTION_ROLLING_BATCH": self.rolling_batch}

    def shape(self) -> tuple[int, int]:
        """Return the compiled shape: batch size, and input and output tokens together."""
        return self.maximum_batch_size, self.maximum_input_length + self.maximum_output_length


class Compilation(metaclass=Group):
    """The model is compiled ahead of time: instances start faster."""

    neuron = NeuronCompilation
    tensorrt_llm = TensorRtLlmCompilation
