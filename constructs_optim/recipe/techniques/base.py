"""The base of all techniques."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Field

from constructs_optim.recipe.catalog.splits import StoredQuantization
from constructs_optim.recipe.model import Model
from constructs_optim.recipe.plan_data import ChannelPlan, ModelSource, S3Source
from constructs_optim.recipe.settings import Settings, as_text

Names = Annotated[Sequence[str], AfterValidator(tuple)]
"""A list of names."""


@dataclass(frozen=True)
class Option:
    """The container variable of a setting: set if the value differs from the default, or ``always``."""

    variable: str
    always: bool = False


@dataclass(frozen=True, order=True)
class Stage:
    """A job, by its position in a recipe's chain of jobs. Techniques of the same stage share a job.

    ``makes_model``: whether its artifact is the served model, as opposed to heads that the server loads with it.
    """

    order: int
    runtime_seconds: int = 36_000
    makes_model: bool = True


OPTIMIZE = Stage(2)
"""Quantization and compilation."""


REGISTRY: dict[str, dict[str, type[Technique]]] = {}
"""All techniques by kind and name, in the order of their definitions: every class with a ``name``."""


class Technique(Settings):
    """The base class of techniques. Techniques do not depend on instances and do not call AWS.

    Attributes:
        tensor_parallel_degree: accelerators (NeuronCores on Neuron devices) per copy of the model. Default: all
            accelerators of the instance.
    """

    rule = "OPT021"
    rule_link = "https://docs.djl.ai/master/docs/serving/serving/docs/lmi/user_guides/lmi-dist_user_guide.html"

    kind: ClassVar[str] = ""
    """The technique's kind, for example ``quantization``. A recipe has at most one technique of each kind."""
    name: ClassVar[str] = ""
    """The technique's name within its kind, for example ``awq``."""
    title: ClassVar[str] = ""
    """The format of the technique's label, with settings in braces."""
    support: ClassVar[str] = ""
    """The technique's name in ``supports`` of the model catalog. Default: ``name``."""
    makes: ClassVar[frozenset[str]] = frozenset()
    """What the job's image must be able to build (``images.json``)."""
    newest_engine: ClassVar[str | None] = None
    """The last vLLM release whose models the job supports, if the job's toolkit is no longer developed."""
    serves: ClassVar[frozenset[str]] = frozenset()
    """The capabilities that the serving image needs for the result."""
    serves_published: ClassVar[frozenset[str]] = frozenset()
    """The same for a model that its publisher releases in this form. Default: ``serves``."""
    served_by_job_image: ClassVar[bool] = False
    """Whether only the image that built the artifact can serve it."""
    accelerators: ClassVar[Literal["gpu", "neuron"]] = "gpu"
    compute_capability: ClassVar[tuple[float, float]] = (8.0, 9.0)
    """The lowest and the highest compute capability of GPUs that the container's kernels support."""
    stage: ClassVar[Stage | None] = None
    """The job that builds the artifact, if the technique needs a job."""
    order_in_job: ClassVar[int] = 0
    """The technique's position in that job."""
    job_member: ClassVar[str] = ""
    """The technique's member of ``OptimizationConfigs``."""
    takes_image: ClassVar[bool] = True
    """Whether that member names a container image."""
    recommended: ClassVar[tuple[str, ...]] = ()
    """The techniques that ``recommend`` combines it with, as text; empty text for none."""
    weight_bits: ClassVar[int | None] = None
    """Bits per weight of the result; None if the technique does not change the weights."""
    network_isolation: ClassVar[bool] = True
    """Whether the model's container supports network isolation."""
    inference_component: ClassVar[bool] = False
    """Whether only an inference component can serve the result."""
    lossless: ClassVar[bool] = True
    """Whether completions equal the original model's, except for rounding."""
    in_group: ClassVar[bool] = True
    """Whether the technique is a member of its group in code, for example ``Quantization.awq``."""
    hub_configuration: ClassVar[bool] = False
    """Whether JumpStart's configuration defines how the model is served."""
    of_hub: ClassVar[bool] = False
    """Whether JumpStart publishes the technique's files for each model."""
    precisions: ClassVar[frozenset[str]] = frozenset()
    """The precisions of ready-made checkpoints that match the technique (``huggingface_models.json``)."""
    draft_provider: ClassVar[str] = ""
    """The draft model's provider: sagemaker, jumpstart or custom, as in the SageMaker SDK's tags; empty if none."""

    tensor_parallel_degree: int | None = Field(default=None, ge=1)

    @property
    def ready_made(self) -> Model | None:
        """The checkpoint that is served instead of the model, without a job; None if there is no checkpoint."""
        return None

    @property
    def quantization(self) -> StoredQuantization | None:
        """How the weights that the technique's job makes are quantized; None if they are not, or no split matters."""
        return None

    @property
    def beside(self) -> Model | None:
        """A second model that the container needs, in a channel with the technique's name; None if it needs none."""
        return None

    def is_described_by(self, settings: Mapping[str, Any]) -> bool:
        """Return whether a ``speculative_config`` of the model's recipe supplies the settings that are not set."""
        return False

    @property
    def job_stage(self) -> Stage | None:
        """The job that the technique needs; None with a checkpoint, or if it changes only how the model is served."""
        return self.stage if self.ready_made is None else None

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        if "name" in cls.__dict__:
            cls.support = cls.__dict__.get("support", cls.support) or cls.name
            REGISTRY.setdefault(cls.kind, {})[cls.name] = cls

    @classmethod
    def display_name(cls) -> str:
        """Return the technique's name in code, for example ``Quantization.awq``."""
        group = "".join(word.capitalize() for word in cls.kind.split("_"))
        return f"{group}.{cls.name}" if cls.in_group else cls.__name__

    @classmethod
    def words(cls) -> Sequence[str]:
        """Return the technique's name and kind."""
        return cls.name, cls.kind

    @property
    def label(self) -> str:
        """The display name with the main settings, for example ``AWQ INT4 (group size 128)``."""
        return self.title.format(**dict(self))

    def options(self) -> dict[str, str]:
        """Return the container variables of the settings."""
        return {
            option.variable: as_text(getattr(self, name))
            for name, field in type(self).model_fields.items()
            for option in field.metadata
            if isinstance(option, Option) and (option.always or getattr(self, name) != field.default)
        }

    def job_environment(self) -> dict[str, str]:
        """Return the ``OverrideEnvironment`` of the technique's part of the job, without the tensor parallel degree."""
        return self.options()

    def job_details(self) -> dict[str, Any]:
        """Return the other members of the technique's part of the job."""
        return {}

    def reads(self) -> tuple[S3Source, ...]:
        """Return what the job reads in addition to the model."""
        return ()

    def engine_arguments(self) -> dict[str, Any]:
        """Return the engine arguments that serve the result, by vLLM's names."""
        return {}

    def serving_environment(self) -> dict[str, str]:
        """Return variables of the serving container that are specific to one server."""
        return {}

    def channel(self, served: ModelSource, job: int) -> ChannelPlan | None:
        """Return additional files that the container needs; ``job`` is the index of the job that trains heads."""
        return None

    def shape(self) -> tuple[int, int] | None:
        """Return the batch size and request length that the artifact is limited to; None if it has no limits."""
        return None

    def deciding_settings(self) -> dict[str, Any]:
        """Return the settings that determine the artifact's bytes and differ from their defaults.

        So new settings do not change existing keys. The tensor parallel degree is a separate part of the key.
        """
        return self.model_dump(mode="json", exclude_defaults=True, exclude={"tensor_parallel_degree"})
