"""What can be done to a model. A technique says what the user chose; it knows neither instances nor AWS.

Adding one takes a subclass of :class:`Technique` here, its rules, its catalog data, its tests and docs.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field


class Technique(BaseModel):
    """What all techniques say about themselves; see :class:`AwqQuantization` for one that is filled in."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    kind: ClassVar[str] = ""
    """What stacks only once, for instance ``quantization``."""
    method: ClassVar[str] = ""
    """Its name within the kind, for instance ``awq``."""
    catalog_column: ClassVar[str] = ""
    """The column of the model catalog that says whether a model supports it."""
    capabilities: ClassVar[frozenset[str]] = frozenset()
    """What a container image must be able to do (``images.json``)."""
    tested_families: ClassVar[frozenset[str]] = frozenset()
    """Instance families the vendor's SDK allows it on."""
    other_families: ClassVar[frozenset[str]] = frozenset()
    """Instance families the service accepts and the hardware supports, which the SDK does not list."""

    @property
    def label(self) -> str:
        """How people name it, with the settings that matter most."""
        raise NotImplementedError

    @property
    def tensor_parallel(self) -> int | None:
        """The tensor parallel degree it asks for; None for as many as the instance has accelerators."""
        return None

    def job_environment(self) -> dict[str, str]:
        """The ``OverrideEnvironment`` of its part of the job, tensor parallel degree aside."""
        raise NotImplementedError

    @property
    def job_member(self) -> str:
        """The member of ``OptimizationConfigs`` that asks for it."""
        raise NotImplementedError


class AwqQuantization(Technique):
    """Activation-aware weight quantization of the weights to INT4.

    Source of settings and defaults: ``sm_neo_quantize.py`` and ``partition.py`` of djl-serving (LMI 10 to 27). Three
    of the container's settings have one value that works, so they are none here: 4 bits, a zero point (AutoAWQ
    refuses to quantize without one) and GEMM packing (vLLM does not load GEMV's).
    """

    kind: ClassVar[str] = "quantization"
    method: ClassVar[str] = "awq"
    catalog_column: ClassVar[str] = "quantization"
    capabilities: ClassVar[frozenset[str]] = frozenset({"awq"})
    tested_families: ClassVar[frozenset[str]] = frozenset({"p4d", "p4de", "p5", "g5", "g6"})
    # INT4 kernels need compute capability 7.5 or later; all of these have it.
    other_families: ClassVar[frozenset[str]] = frozenset({"g4dn", "g6e", "p5e", "p5en"})

    group_size: Literal[32, 64, 128] = 128
    ignored_layers: tuple[str, ...] = ()
    tensor_parallel_degree: int | None = Field(default=None, ge=1)

    @property
    def label(self) -> str:
        """For instance ``AWQ INT4 (group size 128)``."""
        return f"AWQ INT4 (group size {self.group_size})"

    @property
    def tensor_parallel(self) -> int | None:
        """The degree that was chosen, if any."""
        return self.tensor_parallel_degree

    @property
    def job_member(self) -> str:
        """Quantization is a job configuration of its own."""
        return "ModelQuantizationConfig"

    def job_environment(self) -> dict[str, str]:
        """``OPTION_QUANTIZE``, and the settings that differ from the container's own."""
        given = {
            "OPTION_AWQ_BLOCK_SIZE": (self.group_size, "group_size"),
            "OPTION_AWQ_IGNORE_LAYERS": (",".join(self.ignored_layers), "ignored_layers"),
        }
        defaults = {name: info.default for name, info in type(self).model_fields.items()}
        # A default that the container has by itself is left out: the request shows what was chosen.
        chosen = {key: str(value) for key, (value, name) in given.items() if getattr(self, name) != defaults[name]}
        return {"OPTION_QUANTIZE": self.method, **chosen}


class Quantization:
    """Less precise weights: less accelerator memory, and more of it for the KV cache."""

    @staticmethod
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
        # Not validated here: planning reports a bad setting together with all else that is wrong.
        return AwqQuantization.model_construct(
            group_size=group_size,
            ignored_layers=tuple(ignored_layers) if isinstance(ignored_layers, list) else ignored_layers,
            tensor_parallel_degree=tensor_parallel_degree,
        )


def settings(technique: Technique) -> dict[str, Any]:
    """What was chosen, by name, as it was given."""
    return {name: getattr(technique, name) for name in type(technique).model_fields}
