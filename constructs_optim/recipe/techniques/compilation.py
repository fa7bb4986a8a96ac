"""Work done ahead of time: compiled graphs, weights cut into shards, and configurations that JumpStart optimized.

Sources: LMI user guides of djl-serving for transformers-neuronx and TensorRT-LLM, and its ``sm_neo_shard.py``; the
SageMaker SDK's test payloads; Amazon SageMaker developer guide, "Fast model loading".
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from .base import OPTIMIZE, Option, Stage, Technique, TechniqueGroup

_BATCH_SIZE = Option("OPTION_MAX_ROLLING_BATCH_SIZE", always=True)


class _Compilation(Technique):
    kind: ClassVar[str] = "compilation"
    stage: ClassVar[Stage | None] = OPTIMIZE
    # What is compiled is the quantized model.
    order_in_job: ClassVar[int] = 1
    job_member: ClassVar[str] = "ModelCompilationConfig"
    recommended: ClassVar[tuple[str, ...]] = ("",)


class NeuronCompilation(_Compilation):
    """For inf2, trn1 and trn1n instances. The artifact fits exactly these shapes and this precision.

    Attributes:
        maximum_sequence_length: tokens of a request, prompt and completion. Default: 2048.
        maximum_batch_size: requests at once. Default: 4.
        dtype: precision of the weights: fp16, bf16 or fp32. Default: fp16.
        optimize_level: the Neuron compiler's ``-O``: 1 compiles fastest, 3 runs fastest. Default: 2.
    """

    name: ClassVar[str] = "neuron"
    capabilities: ClassVar[frozenset[str]] = frozenset({"neuron"})
    accelerators: ClassVar[Literal["gpu", "neuron"]] = "neuron"

    dtype: Annotated[Literal["fp16", "bf16", "fp32"], Option("OPTION_DTYPE", always=True)] = "fp16"
    maximum_batch_size: Annotated[int, _BATCH_SIZE] = Field(default=4, ge=1, le=256)
    optimize_level: Annotated[Literal[1, 2, 3], Option("OPTION_NEURON_OPTIMIZE_LEVEL", always=True)] = 2
    maximum_sequence_length: Annotated[int, Option("OPTION_N_POSITIONS", always=True)] = Field(
        default=2048, ge=1, le=131_072
    )

    @property
    def label(self) -> str:
        """For instance ``Neuron (batch 4, length 2048, fp16)``."""
        return f"Neuron (batch {self.maximum_batch_size}, length {self.maximum_sequence_length}, {self.dtype})"

    def job_environment(self) -> dict[str, str]:
        """All settings: together they say which artifact it is."""
        return {**self.options(), "OPTION_ROLLING_BATCH": "auto"}

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
    """A TensorRT-LLM engine for GPUs: for these shapes, and for this kind of GPU.

    Attributes:
        maximum_input_length: tokens of a prompt. Default: 1024.
        maximum_output_length: tokens of a completion. Default: 512.
        maximum_batch_size: requests at once. Default: 64.
    """

    name: ClassVar[str] = "tensorrt_llm"
    capabilities: ClassVar[frozenset[str]] = frozenset({"tensorrt_llm"})
    sdk_lists_only: ClassVar[bool] = True

    maximum_input_length: Annotated[int, Option("OPTION_MAX_INPUT_LEN", always=True)] = Field(
        default=1024, ge=1, le=131_072
    )
    maximum_output_length: Annotated[int, Option("OPTION_MAX_OUTPUT_LEN", always=True)] = Field(
        default=512, ge=1, le=131_072
    )
    maximum_batch_size: Annotated[int, _BATCH_SIZE] = Field(default=64, ge=1, le=2048)

    @property
    def label(self) -> str:
        """For instance ``TensorRT-LLM (batch 64, 1024 tokens in, 512 out)``."""
        return (
            f"TensorRT-LLM (batch {self.maximum_batch_size}, {self.maximum_input_length} tokens in, "
            f"{self.maximum_output_length} out)"
        )

    def job_environment(self) -> dict[str, str]:
        """All settings: together they say which engine it is."""
        return {**self.options(), "OPTION_ROLLING_BATCH": "trtllm"}

    def serving_environment(self) -> dict[str, str]:
        """The engine's batch size, and the batching that runs engines."""
        return {_BATCH_SIZE.variable: str(self.maximum_batch_size), "OPTION_ROLLING_BATCH": "trtllm"}

    def batch_size(self) -> int | None:
        """The compiled one."""
        return self.maximum_batch_size

    def sequence_length(self) -> int | None:
        """Input and output together."""
        return self.maximum_input_length + self.maximum_output_length


class FastLoadSharding(Technique):
    """Shards for the fast model loader, streamed from S3 straight into accelerator memory. For GPUs.

    They are served by an inference component; there is a shard for each accelerator of ``tensor_parallel_degree``.
    """

    kind: ClassVar[str] = "sharding"
    name: ClassVar[str] = "fast_load"
    capabilities: ClassVar[frozenset[str]] = frozenset({"fast_load"})
    stage: ClassVar[Stage | None] = Stage(3)
    job_member: ClassVar[str] = "ModelShardingConfig"
    # The loader reads S3 itself, and the service deploys its output to inference components only.
    network_isolation: ClassVar[bool] = False
    inference_component: ClassVar[bool] = True

    @property
    def label(self) -> str:
        """``fast load shards``."""
        return "fast load shards"


class PreOptimized(Technique):
    """A configuration that JumpStart optimized already, deployed without a job: image, environment and files are its.

    Attributes:
        config: its name in the model's hub document. Default: ``lmi-optimized``.
    """

    kind: ClassVar[str] = "pre_optimized"
    name: ClassVar[str] = "pre_optimized"
    hub_configuration: ClassVar[bool] = True
    # The provider may have quantized it.
    lossless: ClassVar[bool] = False

    config: str = "lmi-optimized"

    @classmethod
    def called(cls) -> str:
        """``PreOptimized``."""
        return cls.__name__

    @property
    def label(self) -> str:
        """For instance ``pre-optimized (lmi-optimized)``."""
        return f"pre-optimized ({self.config})"

    def deciding_settings(self) -> dict[str, Any]:
        """No job, so no artifact."""
        return {}


class Compilation(metaclass=TechniqueGroup):
    """The model compiled ahead of time: faster starts, on hardware that compiles."""

    neuron = NeuronCompilation
    tensorrt_llm = TensorRtLlmCompilation


class Sharding(metaclass=TechniqueGroup):
    """The weights cut up as the accelerators will load them: instances that start in less time."""

    fast_load = FastLoadSharding
