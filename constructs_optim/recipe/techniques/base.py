"""The base of all techniques."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Field

from constructs_optim.recipe.model import Model
from constructs_optim.recipe.plan_data import ChannelPlan, ModelSource, S3Source
from constructs_optim.recipe.settings import Settings, as_text

Names = Annotated[Sequence[str], AfterValidator(tuple)]
"""A list of names."""


@dataclass(frozen=True)
class Option:
    """The container variable of a setting, which is set where it differs from the default, or ``always``."""

    variable: str
    always: bool = False


@dataclass(frozen=True, order=True)
class Stage:
    """A job by its position in a recipe's chain of jobs. Techniques of one stage share a job.

    ``makes_model``: whether its artifact is the served model, not heads that are served beside it.
    """

    order: int
    runtime_seconds: int = 36_000
    makes_model: bool = True


OPTIMIZE = Stage(2)
"""Quantization and compilation."""


REGISTRY: dict[str, dict[str, type[Technique]]] = {}
"""Every technique by kind and name, in the order of their definitions. A class with a ``name`` is in it."""


class Technique(Settings):
    """The base of techniques, which neither depend on instances nor call AWS.

    Attributes:
        tensor_parallel_degree: accelerators (NeuronCores on Neuron devices) per copy of the model. Default: all of the
            instance.
    """

    rule = "OPT021"
    rule_link = "https://docs.djl.ai/master/docs/serving/serving/docs/lmi/user_guides/lmi-dist_user_guide.html"

    kind: ClassVar[str] = ""
    """A recipe has one technique of a kind, for instance ``quantization``."""
    name: ClassVar[str] = ""
    """Its name within the kind, for instance ``awq``."""
    title: ClassVar[str] = ""
    """The format of its label, with settings in braces."""
    support: ClassVar[str] = ""
    """Its name in the ``supports`` of the model catalog. Default: the name."""
    makes: ClassVar[frozenset[str]] = frozenset()
    """What the image of its job must be able to make (``images.json``)."""
    newest_engine: ClassVar[str | None] = None
    """The release of vLLM whose models its job knows as well, where the job's toolkit is no longer developed."""
    serves: ClassVar[frozenset[str]] = frozenset()
    """What the image that serves the result must be able to read or do."""
    serves_published: ClassVar[frozenset[str]] = frozenset()
    """The same for a model whose own publisher has made it so. Default: ``serves``."""
    served_by_job_image: ClassVar[bool] = False
    """Whether only the image that made its artifact can serve it."""
    accelerators: ClassVar[Literal["gpu", "neuron"]] = "gpu"
    compute_capability: ClassVar[tuple[float, float]] = (8.0, 9.0)
    """The lowest and the highest compute capability of GPUs that the container's kernels support."""
    stage: ClassVar[Stage | None] = None
    """The job that makes its artifact, where one does."""
    order_in_job: ClassVar[int] = 0
    """Its position among the techniques of that job."""
    job_member: ClassVar[str] = ""
    """Its member of ``OptimizationConfigs``."""
    takes_image: ClassVar[bool] = True
    """Whether that member names a container image."""
    recommended: ClassVar[tuple[str, ...]] = ()
    """The techniques that ``recommend`` combines it with, as text; empty text for none."""
    weight_bits: ClassVar[int | None] = None
    """Bits of a weight afterwards; None where it does not change them."""
    network_isolation: ClassVar[bool] = True
    """Whether the model's container supports network isolation."""
    inference_component: ClassVar[bool] = False
    """Whether its result is served as an inference component only."""
    lossless: ClassVar[bool] = True
    """Whether completions are those of the original model, rounding aside."""
    in_group: ClassVar[bool] = True
    """Whether it is written as a member of its group, for instance ``Quantization.awq``."""
    hub_configuration: ClassVar[bool] = False
    """Whether the hub's configuration defines the serving of the model."""
    of_hub: ClassVar[bool] = False
    """Whether the hub publishes what it needs for each model."""
    precisions: ClassVar[frozenset[str]] = frozenset()
    """The precisions of ready-made checkpoints that are made as its own (``huggingface_models.json``)."""
    draft_provider: ClassVar[str] = ""
    """Who provides its draft: sagemaker, jumpstart or custom, as the SageMaker SDK tags models; empty without one."""

    tensor_parallel_degree: int | None = Field(default=None, ge=1)

    @property
    def ready_made(self) -> Model | None:
        """The checkpoint that is served instead of the model, without a job; None where there is none."""
        return None

    @property
    def beside(self) -> Model | None:
        """Files of another model that the container needs beside the model, in a channel of the technique's name."""
        return None

    def is_described_by(self, settings: Mapping[str, Any]) -> bool:
        """Whether a ``speculative_config`` of the model's recipe decides what the technique leaves open."""
        return False

    @property
    def job_stage(self) -> Stage | None:
        """The job that it needs; None where it has a checkpoint, or changes only the serving of the model."""
        return self.stage if self.ready_made is None else None

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        if "name" in cls.__dict__:
            cls.support = cls.__dict__.get("support", cls.support) or cls.name
            REGISTRY.setdefault(cls.kind, {})[cls.name] = cls

    @classmethod
    def display_name(cls) -> str:
        """How it is written in code, for instance ``Quantization.awq``."""
        group = "".join(word.capitalize() for word in cls.kind.split("_"))
        return f"{group}.{cls.name}" if cls.in_group else cls.__name__

    @property
    def label(self) -> str:
        """Its name for users with its main settings, for instance ``AWQ INT4 (group size 128)``."""
        return self.title.format(**dict(self))

    def options(self) -> dict[str, str]:
        """The container variables of its settings."""
        return {
            option.variable: as_text(getattr(self, name))
            for name, field in type(self).model_fields.items()
            for option in field.metadata
            if isinstance(option, Option) and (option.always or getattr(self, name) != field.default)
        }

    def job_environment(self) -> dict[str, str]:
        """The ``OverrideEnvironment`` of its part of the job, tensor parallel degree aside."""
        return self.options()

    def job_details(self) -> dict[str, Any]:
        """The other members of its part of the job."""
        return {}

    def reads(self) -> tuple[S3Source, ...]:
        """What its job reads besides the model."""
        return ()

    def engine_arguments(self) -> dict[str, Any]:
        """Arguments of the engine that serves the result, by vLLM's names."""
        return {}

    def serving_environment(self) -> dict[str, str]:
        """Variables of the container that serves the result, where they are of one server only."""
        return {}

    def channel(self, served: ModelSource, job: int) -> ChannelPlan | None:
        """Files that the container needs beside the model; ``job`` is the index of the job that trains heads."""
        return None

    def shape(self) -> tuple[int, int] | None:
        """The batch size and request length that its artifact is limited to, if it is."""
        return None

    def deciding_settings(self) -> dict[str, Any]:
        """The settings that determine the bytes of its artifact and differ from their defaults.

        New settings thus do not change existing keys. The tensor parallel degree is a part of keys on its own.
        """
        return self.model_dump(mode="json", exclude_defaults=True, exclude={"tensor_parallel_degree"})
