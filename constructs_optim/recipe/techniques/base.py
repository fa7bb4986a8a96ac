"""What every technique says about itself."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field

from constructs_optim.recipe.given import is_list, is_tuple

if TYPE_CHECKING:
    from .training import Training


class Stage(IntEnum):
    """Which job of a stack's chain carries a technique out. Techniques of one stage share a job."""

    NONE = 0
    """No job: the technique only changes how the model is served."""
    FINE_TUNE = 1
    """Another model, which all else starts from."""
    OPTIMIZE = 2
    """Quantization and compilation."""
    SHARD = 3
    """From the artifact of what comes before."""
    TRAIN_HEADS = 4
    """Heads for the model as it is; what is served is the model, with the heads beside it."""
    TRAIN_MEDUSA_HEADS = 5
    """Heads for the model as it is; what is served is the artifact, which holds both."""


class Channel(BaseModel):
    """Files that the container gets beside the model: a draft model or heads.

    Attributes:
        name: the channel's name; the files are below ``/opt/ml/additional-model-data-sources/<name>``.
        kind: where they come from: ``target_hub`` (the served model's own hub document names them), ``hub`` (a model
            of the hub), ``s3``, or ``job`` (the job of this technique writes them).
        model_id: the hub's model, for ``hub``.
        version: its version; the newest where None.
        uri: the S3 prefix, for ``s3``; may hold tokens.
        suffix: what follows the job's output location, for ``job``.
        accept_eula: whether the licence of these files is accepted.
        provider: who provides them, as the SageMaker SDK tags models: sagemaker, jumpstart or custom.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True)

    name: str
    kind: str
    model_id: Any = None
    version: Any = None
    uri: Any = None
    suffix: str = ""
    accept_eula: bool = False
    provider: str = "custom"


class Technique(BaseModel):
    """What all techniques say about themselves. A technique knows neither instances nor AWS.

    Adding one takes a subclass, its rules, its catalog data, its tests and docs.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid", strict=True)

    kind: ClassVar[str] = ""
    """What stacks only once, for instance ``quantization``."""
    method: ClassVar[str] = ""
    """Its name within the kind, for instance ``awq``."""
    catalog_column: ClassVar[str] = ""
    """The column of the model catalog that says whether a model supports it."""
    catalog_source: ClassVar[str] = "SageMaker's own matrix"
    """What that column was taken from, as the subject of a sentence that ends in "says no"."""
    capabilities: ClassVar[frozenset[str]] = frozenset()
    """What a container image must be able to do (``images.json``)."""
    tested_families: ClassVar[frozenset[str]] = frozenset()
    """Instance families the vendor's SDK allows it on."""
    other_families: ClassVar[frozenset[str]] = frozenset()
    """Instance families the service accepts and the hardware supports, which the SDK does not list."""
    stage: ClassVar[Stage] = Stage.NONE
    """Which job carries it out."""
    place_in_job: ClassVar[int] = 0
    """Its place among the techniques of that job, however they were listed."""
    job_member: ClassVar[str] = ""
    """The member of ``OptimizationConfigs`` that asks for it."""
    takes_image: ClassVar[bool] = True
    """Whether that member names a container image."""
    weight_bits: ClassVar[int | None] = None
    """Bits of a weight afterwards; None where they stay what they were."""
    network_isolation: ClassVar[bool] = True
    """Whether the model's container may be cut off from the network."""
    inference_component: ClassVar[bool] = False
    """Whether what it yields is served as an inference component only."""
    variant_only: ClassVar[bool] = False
    """Whether what it yields cannot be served as an inference component."""
    lossless: ClassVar[bool] = True
    """Whether what it yields gives the model's own answers, rounding aside."""
    hub_configuration: ClassVar[bool] = False
    """Whether the hub's own configuration says how the model is served."""

    tensor_parallel_degree: int | None = Field(default=None, ge=1)

    @property
    def label(self) -> str:
        """How people name it, with the settings that matter most."""
        raise NotImplementedError

    def job_environment(self) -> dict[str, str]:
        """The ``OverrideEnvironment`` of its part of the job, tensor parallel degree aside."""
        return {}

    def job_details(self) -> dict[str, Any]:
        """The other members of its part of the job."""
        return {}

    def before(self) -> tuple[Technique, ...]:
        """Techniques that were declared with it and are carried out before it."""
        return ()

    def training(self) -> Training | None:
        """What its job is made of, where that is a training job."""
        return None

    def reads(self) -> tuple[str, ...]:
        """S3 prefixes that its job reads besides the model."""
        return ()

    def serving_environment(self) -> dict[str, str]:
        """What the container that serves the result must be told."""
        return {}

    def channel(self) -> Channel | None:
        """Files that the container needs beside the model."""
        return None

    def added_parameters(self, hidden_size: int, vocabulary_size: int) -> int:
        """Weights that it adds to a model of that shape."""
        return 0

    def batch_size(self) -> int | None:
        """Requests in flight that it fixes, if it does."""
        return None

    def sequence_length(self) -> int | None:
        """Tokens of a request that it fixes, if it does."""
        return None

    def deciding_settings(self) -> dict[str, Any]:
        """The settings that decide the bytes of its artifact and differ from their defaults.

        A setting that is added later leaves the keys there are. The tensor parallel degree is part of a key by itself,
        whoever chose it.
        """
        return self.model_dump(mode="json", exclude_defaults=True, exclude={"tensor_parallel_degree"})

    def _chosen(self, variables: Mapping[str, tuple[Any, str]]) -> dict[str, str]:
        """The variables whose settings differ from their defaults: a request shows what was chosen."""
        fields = type(self).model_fields
        return {
            name: as_text(value) for name, (value, of) in variables.items() if getattr(self, of) != fields[of].default
        }


def as_text(value: object) -> str:
    """A setting as environments and hyperparameters have it."""
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(str, value)) if is_tuple(value) else str(value)


def settings(technique: Technique) -> dict[str, Any]:
    """What was chosen, by name, as it was given."""
    return {name: getattr(technique, name) for name in type(technique).model_fields}


def names(given: Any) -> Any:
    """A list of names as the tuple that a frozen model holds; anything else as it is, for a rule to report."""
    return tuple(given) if is_list(given) else given
