"""What a plan's container starts: the release of its engine, and the engine's arguments and variables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pydantic import BaseModel

from constructs_optim.recipe.catalog import engine_arguments, entry_points, images, instances
from constructs_optim.recipe.plan_data import (
    ArtifactSource,
    HubDraftSource,
    HubSource,
    HuggingFaceSource,
    Plan,
    S3Source,
    Source,
)
from constructs_optim.recipe.servers import MODEL_PATH, LmiServer, VllmServer

ENGINE = "vllm"
TRUST_CODE = "trust_remote_code"
"""The engine's argument that lets the model's own code run."""
_CHANNELS = "/opt/ml/additional-model-data-sources"
_VARIABLES = "VLLM_"


class DryStartError(ValueError):
    """A plan cannot be started on this machine; the message says why, and what works."""


class PlannedGpu(BaseModel, frozen=True):
    """The GPUs that the engine would see: their name, compute capability, memory in MiB, and number."""

    name: str
    capability: tuple[int, int]
    memory_mib: int
    count: int


class ModelFiles(BaseModel, frozen=True):
    """Where the engine finds a model, and whose files stand for it: those of the plan, or of the input of a job."""

    path: str
    source: HuggingFaceSource | S3Source
    unfinished_jobs: tuple[str, ...] = ()


class PlannedEngine(BaseModel, frozen=True):
    """The engine of a plan.

    ``release`` is None if the image's engine is unknown. ``options`` are the engine's arguments and the words that
    follow each, ``variables`` those of the container that the engine reads. ``models`` begins with the served one.
    """

    release: str | None
    options: Mapping[str, tuple[str, ...]]
    variables: Mapping[str, str]
    gpu: PlannedGpu
    degree: int
    models: tuple[ModelFiles, ...]


def planned_engine(plan: Plan) -> PlannedEngine:
    """Return the engine that a plan's container starts.

    Raises:
        DryStartError: if it is not vLLM on GPUs, or its model is not one of Hugging Face or S3.
    """
    container, instance = plan.container, instances.find(plan.instance_type)
    if container.image is None or container.server not in images.VLLM:
        what = container.server or "the configuration of the hub"
        raise DryStartError(
            f"a dry start runs vLLM's build for CPUs, and {what} is not vLLM: only plans for the containers of vLLM "
            "and Large Model Inference can be started. --server vllm chooses one"
        )
    if instance is None or instance.compute_capability is None:
        raise DryStartError(
            f"a dry start runs vLLM, and vLLM does not run on {plan.instance_type}: choose an instance type with GPUs"
        )
    name = container.image.partition("/")[2]
    release = (images.find(name) or images.uncataloged(name)).engine
    major, minor = divmod(round(instance.compute_capability * 10), 10)
    environment = container.environment
    options = _of_lmi(environment, release) if container.server == LmiServer.name else _of_vllm(environment, release)
    return PlannedEngine(
        release=release,
        options=dict(options),
        variables={name: value for name, value in environment.items() if name.startswith(_VARIABLES)},
        gpu=PlannedGpu(
            name=instance.accelerator,
            capability=(major, minor),
            memory_mib=instance.accelerator_memory_mib,
            count=instance.accelerator_count,
        ),
        degree=plan.tensor_parallel_degree,
        models=(
            _files(MODEL_PATH, container.model, plan),
            *(_files(f"{_CHANNELS}/{channel.name}", channel.source, plan) for channel in container.channels),
        ),
    )


def command_line(options: Mapping[str, Sequence[str]]) -> list[str]:
    """Return arguments as vLLM's parser reads them."""
    return [word for name, words in options.items() for word in (f"--{name.replace('_', '-')}", *words)]


def _files(path: str, source: Source, plan: Plan) -> ModelFiles:
    unfinished: list[str] = []
    while isinstance(source, ArtifactSource):
        job = plan.jobs[source.job]
        unfinished += [] if job.copies else [job.name]
        source = job.source
    if isinstance(source, HubSource | HubDraftSource):
        raise DryStartError(
            f"the files of {source.model_id} are known to JumpStart only: use the same model from Hugging Face or S3"
        )
    return ModelFiles(path=path, source=source, unfinished_jobs=tuple(unfinished))


def _of_vllm(environment: Mapping[str, str], release: str | None) -> Iterator[tuple[str, tuple[str, ...]]]:
    translation = entry_points.of_release(VllmServer.name, release) or "words"
    for variable, value in environment.items():
        if variable.startswith(VllmServer.prefix):
            name = VllmServer.argument(variable)
            words = entry_points.words(translation, name, value)
            if words is not None:
                yield _canonical(name, release), tuple(words)


def _of_lmi(environment: Mapping[str, str], release: str | None) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the arguments of vLLM; djl-serving reads the other ``OPTION_`` variables itself."""
    known = engine_arguments.of_release(ENGINE, release) or engine_arguments.of_newest(ENGINE)
    given = {LmiServer.argument(name): value for name, value in environment.items() if name.startswith("OPTION_")}
    for name, value in {"model": environment.get("HF_MODEL_ID", MODEL_PATH), **given}.items():
        if (found := known.find(name)) is None:
            continue
        if found.row.takes != "switch":
            yield found.name, (value,)
        elif value.lower() == "true":
            yield found.name, ()
        elif found.row.negated:
            yield f"no_{found.name}", ()


def _canonical(name: str, release: str | None) -> str:
    known = engine_arguments.of_release(ENGINE, release) or engine_arguments.of_newest(ENGINE)
    found = known.find(name)
    return name if found is None else f"no_{found.name}" if found.negates else found.name
