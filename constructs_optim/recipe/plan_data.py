"""Plans as data, which constructs translate and handlers run."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

from constructs_optim.recipe.catalog.lock import NO_COMMIT, Lock
from constructs_optim.recipe.errors import Advice
from constructs_optim.recipe.keys import canonical, sha256
from constructs_optim.recipe.tasks import GENERATE, TaskName
from constructs_optim.recipe.tokens import is_token, without_tokens

PUBLIC_HUB = "SageMakerPublicHub"
CODE_CHANNEL = "code"
"""The input channel of a training job that contains this library's code."""
# The API's maximum, because instances download and load weights of 35 GB and more when they start.
STARTUP_SECONDS = 3600


class _Data(BaseModel):
    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid")

    def __hash__(self) -> int:
        return hash(canonical(self.model_dump(mode="json")))


class HubSource(_Data):
    """A model of a SageMaker hub; the newest version if ``version`` is None.

    ``configuration`` names one of the document's inference configurations; None for its default. ``accept_draft_eula``:
    whether the license of a draft model is accepted that the configuration itself serves.
    """

    kind: Literal["hub"] = "hub"
    hub_name: str = PUBLIC_HUB
    model_id: str
    version: str | None = None
    accept_eula: bool = False
    configuration: str | None = None
    # Excluded unless accepted, so that other plans keep their hashes.
    accept_draft_eula: bool = Field(default=False, exclude_if=lambda accepted: not accepted)


class HubDraftSource(_Data):
    """The draft model that SageMaker provides for a hub model, as named in the hub model's document."""

    kind: Literal["hub_draft"] = "hub_draft"
    hub_name: str = PUBLIC_HUB
    model_id: str
    version: str | None = None
    accept_eula: bool = False


class S3Source(_Data):
    """Uncompressed files under an S3 prefix; ``uri`` can contain tokens."""

    kind: Literal["s3"] = "s3"
    uri: str
    accept_eula: bool = False
    # Excluded from keys and hashes: artifacts do not depend on the encryption of their source.
    encryption_key_arn: str | None = Field(default=None, exclude=True)
    # Whether the token after s3:// is only a bucket's name, so that permissions can name the prefix below it.
    names_bucket: bool = Field(default=False, exclude=True)
    # Excluded if None, so that plans without a manifest keep their hashes.
    manifest_uri: str | None = Field(default=None, exclude_if=lambda uri: uri is None)
    manifest_etag: str | None = Field(default=None, exclude_if=lambda etag: etag is None)


class HuggingFaceSource(_Data):
    """A Hugging Face model at a commit. Only the job that copies the model reads it."""

    kind: Literal["huggingface"] = "huggingface"
    model_id: str
    revision: str

    @property
    def identity(self) -> str:
        """Text that identifies its files."""
        return f"huggingface:{self.model_id}@{self.revision}"

    def __str__(self) -> str:
        return f"{self.model_id}@{self.revision[:12]}" if self.revision != NO_COMMIT else self.model_id


class ArtifactSource(_Data):
    """The output of a job in the same plan, or the files below ``suffix`` of it."""

    kind: Literal["artifact"] = "artifact"
    job: int
    suffix: str = ""


ModelSource = HubSource | S3Source | HuggingFaceSource
"""The source of a model."""
Source = Annotated[
    HubSource | HubDraftSource | S3Source | HuggingFaceSource | ArtifactSource, Field(discriminator="kind")
]


def _external(sources: Iterable[Source]) -> tuple[HubSource | HubDraftSource | S3Source, ...]:
    """Return the distinct sources in AWS that are not outputs of the plan's jobs."""
    within = (source for source in sources if not isinstance(source, ArtifactSource | HuggingFaceSource))
    return tuple(dict.fromkeys(within))


class MemoryEstimate(_Data):
    """The accelerator memory that one copy of the model needs, and the memory available to it, in GB.

    ``kv_cache_gb`` is for ``batch_size`` requests of ``sequence_length`` tokens, or None if the model's geometry is
    unknown. INT4 weights include embeddings and an output layer in 16 bits.
    """

    weights_gb: float
    draft_gb: float
    kv_cache_gb: float | None
    batch_size: int
    sequence_length: int
    available_gb: float

    @property
    def fixed_gb(self) -> float:
        """The memory that is used before the first request: weights and draft."""
        return self.weights_gb + self.draft_gb

    @property
    def weights_fit(self) -> bool:
        """Whether the weights fit, regardless of the memory left for the KV cache."""
        return self.fixed_gb <= self.available_gb

    @property
    def total_gb(self) -> float:
        """The memory of weights, draft and KV cache."""
        return self.fixed_gb + (self.kv_cache_gb or 0)


HUB_VARIABLE = "HF_ENDPOINT"
"""huggingface_hub's setting for a hub other than the public one."""
# Settings of pip, and of Python's HTTP clients.
_PACKAGE_INDEXES = {"PIP_INDEX_URL", "PIP_CONFIG_FILE", "PIP_FIND_LINKS", "PIP_NO_INDEX"}
_PROXIES = {"https_proxy", "all_proxy", "pip_proxy"}
TOKEN_VARIABLE = "TOKEN_SECRET_ARN"  # noqa: S105 - the name of a variable
"""The environment variable with the ARN of a copy job's secret."""


class TokenSecret(_Data):
    """A Secrets Manager secret, and its customer managed KMS key, if it has one."""

    arn: str
    encryption_key_arn: str | None = None


class JobPlan(_Data):
    """One job, which builds one artifact.

    ``recipe_key`` is the SHA-256 of all inputs that determine the artifact's bytes, except the source. ``artifact_key``
    is None if the source is known only at deployment. ``request`` is the request body of the operation that creates the
    job, without the fields that the deployment adds: name, role, model source and output. ``deployment_hash`` has 8
    hexadecimal digits that change exactly with the artifact.

    ``image`` is None if the service chooses it. ``pre_compiled`` tells whether SageMaker already has the compiled
    artifact, which the job only fetches. ``reads`` are additional inputs, for example training data. ``model_channel``
    is None if the service or the job's own code fetches the source. A training job runs this library's code. ``token``
    is the secret that the job reads, or None.
    """

    kind: Literal["OptimizationJob", "TrainingJob"] = "OptimizationJob"
    name: str
    recipe_key: str
    artifact_key: str | None
    image: str | None
    source: Source
    request: dict[str, Any]
    deployment_hash: str
    pre_compiled: bool = False
    reads: tuple[S3Source, ...] = ()
    model_channel: str | None = None
    token: TokenSecret | None = None

    @property
    def trains(self) -> bool:
        """Whether it is a training job."""
        return self.kind == "TrainingJob"

    @property
    def copies(self) -> bool:
        """Whether it copies a Hugging Face model."""
        return isinstance(self.source, HuggingFaceSource)

    @property
    def hosts(self) -> tuple[str, ...]:
        """The servers outside of AWS that it reads from; without those for which variables name a mirror or a proxy.

        Training jobs install packages (planning.py).
        """
        variables = self.request.get("Environment", {})
        if not self.trains or any(name.lower() in _PROXIES for name in variables):
            return ()
        packages = () if _PACKAGE_INDEXES & variables.keys() else ("pypi.org",)
        models = ("huggingface.co",) if self.copies and HUB_VARIABLE not in variables else ()
        return (*models, *packages)


def sources_of(jobs: Iterable[JobPlan]) -> tuple[HubSource | HubDraftSource | S3Source, ...]:
    """Return the distinct sources in AWS that jobs read, except artifacts of other jobs."""
    return _external(source for job in jobs for source in (job.source, *job.reads))


class ChannelPlan(_Data):
    """Files in the container's ``/opt/ml/additional-model-data-sources/<name>``."""

    name: str
    source: Source


class ComponentPlan(_Data):
    """The resources that a copy of the model reserves: accelerators (or NeuronCores), and host memory in MiB."""

    accelerators: int
    memory_mib: int


class ContainerPlan(_Data):
    """How the artifact is served. Timeouts are in seconds.

    ``image`` and ``server`` are None if the hub's configuration determines them. ``inference_ami_version`` is the
    machine image that the container needs, or None for the default. ``environment`` overrides a hub configuration's.
    ``channels`` are files next to the model, for which ``AWS::SageMaker::Model`` has no property. ``component`` is None
    for a variant. ``loads_adapters`` tells whether it can load LoRA adapters. ``max_concurrent_requests`` is the
    maximum number of requests in a batch, or None.
    """

    image: str | None
    server: str | None = None
    inference_ami_version: str | None = None
    environment: dict[str, str]
    network_isolation: bool = True
    model: Source
    channels: tuple[ChannelPlan, ...] = ()
    tags: dict[str, str] = {}
    component: ComponentPlan | None = None
    loads_adapters: bool = False
    max_concurrent_requests: int | None = None
    model_data_download_timeout_seconds: int = STARTUP_SECONDS
    container_startup_timeout_seconds: int = STARTUP_SECONDS

    @property
    def sources(self) -> tuple[HubSource | HubDraftSource | S3Source, ...]:
        """The distinct sources that the container serves, except artifacts of the plan's jobs."""
        return _external(self._served)

    @property
    def artifacts(self) -> frozenset[int]:
        """The indexes, in the plan, of the jobs whose artifacts the container serves."""
        return frozenset(source.job for source in self._served if isinstance(source, ArtifactSource))

    @property
    def _served(self) -> list[Source]:
        return [self.model, *(channel.source for channel in self.channels)]

    @property
    def is_native(self) -> bool:
        """Whether ``AWS::SageMaker::Model`` can express it."""
        return not self.channels and isinstance(self.model, ArtifactSource)


class TechniquePlan(_Data):
    """A technique with every effective setting."""

    kind: str
    name: str
    label: str
    settings: dict[str, Any]


class Plan(_Data):
    """The plan of a recipe.

    Attributes:
        source: the source of the model.
        task: what the model does.
        techniques: the applied techniques, in order.
        instance_type: the endpoint's instance type.
        accelerator: name of the type's accelerator, for example ``a10g``.
        accelerator_count: number of accelerators per instance.
        tensor_parallel_degree: GPUs or NeuronCores per copy of the model.
        jobs: the jobs, in order; a job's source is the model or the artifact of an earlier job.
        container: how the result is served.
        lossless: whether completions are the original model's, apart from rounding.
        copy_requirements: the resources that a copy reserves if it is served as an inference component.
        containers: the choices that a lock file records.
        memory: the accelerator memory of a copy; None if the model's size is unknown.
        warnings: settings that work but deserve attention.
    """

    source: Annotated[ModelSource, Field(discriminator="kind")]
    task: TaskName = GENERATE
    techniques: tuple[TechniquePlan, ...]
    instance_type: str
    accelerator: str
    accelerator_count: int
    tensor_parallel_degree: int
    jobs: tuple[JobPlan, ...]
    container: ContainerPlan
    lossless: bool = True
    copy_requirements: ComponentPlan
    containers: Lock = Field(default_factory=Lock)
    memory: MemoryEstimate | None = None
    warnings: tuple[Advice, ...] = ()

    @property
    def deployment_hash(self) -> str:
        """8 hexadecimal digits that change exactly with the served model and container."""
        served = [job.deployment_hash for job in self.jobs]
        if self.container.channels or not self.jobs:
            served.append(self._container_text)
        return served[0] if len(served) == 1 and self.jobs else sha256("\n".join(served))[:8]

    @property
    def artifact_key(self) -> str | None:
        """The last job's artifact key; None without a job, or if it is known only at deployment."""
        return self.jobs[-1].artifact_key if self.jobs else None

    @property
    def container_key(self) -> str:
        """SHA-256 of the container: the key of evaluations of a model without an artifact."""
        return sha256(self._container_text)

    @property
    def _container_text(self) -> str:
        # The image determines the server. Without the server, hashes do not differ from earlier releases'.
        return without_tokens(canonical(self.container.model_dump(mode="json", exclude={"server"})))

    def description_of(self, job: JobPlan) -> dict[str, Any]:
        """Return a job's result as in the manifest. A copy has only its model, because other recipes share it."""
        if isinstance(job.source, HuggingFaceSource):
            return {"Model": str(job.source), "Techniques": []}
        return self.description

    def summary_of(self, job: JobPlan) -> str:
        """Return a job's result in one line."""
        return f"a copy of {job.source}" if isinstance(job.source, HuggingFaceSource) else self.summary

    @property
    def summary(self) -> str:
        """The recipe in one line."""
        described = self.description
        techniques = " + ".join(described["Techniques"]) or "as it is"
        return (
            f"{described['Model']}: {techniques}, {self.instance_type}, "
            f"tensor parallel degree {self.tensor_parallel_degree}"
        )

    @property
    def description(self) -> dict[str, Any]:
        """Model, techniques and instance type, as in the manifest."""
        source = self.source
        if isinstance(source, HubSource):
            model = f"{source.model_id} {source.version or '(newest version)'}"
        elif isinstance(source, HuggingFaceSource):
            model = str(source)
        else:
            model = "a model in S3" if is_token(source.uri) else source.uri
        return {
            "Model": model,
            "Techniques": [technique.label for technique in self.techniques],
            "InstanceType": self.instance_type,
        }
