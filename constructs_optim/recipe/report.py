"""A plan, violations and the catalog as JSON-serializable data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from pydantic import BaseModel

from .catalog import images, instances, models
from .errors import Advice, RecipeError
from .metrics import by_name as metrics_by_name
from .plan_data import CODE_CHANNEL, ArtifactSource, HubDraftSource, HuggingFaceSource, Plan, S3Source, Source
from .planning import channel
from .rules import all_rules

# Placeholders for locations that are known only at deployment.
_STORE = "s3://artifact-store"
_HUB = "s3://resolved-at-deployment"


class JobReport(BaseModel):
    """A job of a plan; ``request`` is complete, except for the job's name and role."""

    artifact_key: str | None
    name: str
    kind: str
    pre_compiled: bool
    request: dict[str, Any]


class ContainerReport(BaseModel):
    """The serving container of a plan."""

    image: str | None
    server: str | None
    inference_ami_version: str | None
    environment: Mapping[str, str]
    model_data_source: dict[str, Any]
    additional_model_data_sources: list[dict[str, Any]]
    enable_network_isolation: bool
    inference_component: bool
    tags: Mapping[str, str]


class Estimates(BaseModel):
    """The estimated needs of a plan; ``memory`` is in GB."""

    memory: dict[str, Any] | None
    tensor_parallel_degree: int


class PlanReport(BaseModel):
    """A plan: its last artifact, its jobs in order, its container, memory and advice."""

    artifact_key: str | None
    jobs: list[JobReport]
    container: ContainerReport
    estimates: Estimates
    warnings: tuple[Advice, ...]


def plan_report(plan: Plan) -> PlanReport:
    """Return the plan with its requests."""
    memory, container = plan.memory, plan.container
    if memory is not None:
        memory = {**memory.model_dump(), "total_gb": round(memory.total_gb, 3)}
    return PlanReport(
        artifact_key=plan.artifact_key,
        jobs=[
            JobReport(
                artifact_key=job.artifact_key,
                name=job.name,
                kind=job.kind,
                pre_compiled=job.pre_compiled,
                request=_request(plan, index),
            )
            for index, job in enumerate(plan.jobs)
        ],
        container=ContainerReport(
            image=container.image,
            server=container.server,
            inference_ami_version=container.inference_ami_version,
            environment=container.environment,
            model_data_source=_data_source(plan, container.model),
            additional_model_data_sources=[
                {"ChannelName": channel.name, **_data_source(plan, channel.source)} for channel in container.channels
            ],
            enable_network_isolation=container.network_isolation,
            inference_component=container.component is not None,
            tags=container.tags,
        ),
        estimates=Estimates(memory=memory, tensor_parallel_degree=plan.tensor_parallel_degree),
        warnings=plan.warnings,
    )


def refusal_report(error: RecipeError) -> dict[str, Any]:
    """Return an error's violations as plain data, and the number of the others (or None) if it has only the first."""
    return {
        "violations": [
            {
                **violation.model_dump(exclude={"reason"}),
                "value": violation.value if isinstance(violation.value, str | int | float) else violation.shown_value,
                "message": violation.reason,
            }
            for violation in error.violations
        ],
        **({"more": error.more} if error.more != 0 else {}),
    }


_COLUMNS = {
    "models": (
        "model_id", "family", "gated", "parameters_billion", "active_parameters_billion", "weight_bits", "max_position",
        "memory_gb", "supports", "ready_made",
    ),
    "images": ("repository", "tag", "engine", "cuda", "makes", "serves"),
    "rules": ("id", "title", "reason", "link", "advisory"),
}  # fmt: skip
_SETS = ("supports", "makes", "serves")


def catalog_report(part: str) -> list[dict[str, Any]]:
    """Return the rows of ``models``, ``instances``, ``images``, ``metrics`` or ``rules``, with columns for users."""
    if part in ("instances", "metrics"):
        return [asdict(row) for row in (instances.by_name() if part == "instances" else metrics_by_name()).values()]
    rows = {"models": _newest_first(), "images": images.rows(), "rules": all_rules()}[part]
    reports = [{column: getattr(row, column) for column in _COLUMNS[part]} for row in rows]
    for report in reports:
        report |= {column: sorted(report[column]) for column in _SETS if column in report}
    return reports


def _newest_first() -> list[models.ModelRow]:
    """Return the models by family, the family with the newest model first.

    The lowest vLLM release that serves a model tells its age. JumpStart's table has no such column: its families are
    last, and the last ones of the table are the newest.
    """
    of_hub = [row for row in models.by_id().values() if not row.is_checkpoint]
    others = [row for row in models.of_hugging_face().values() if not row.is_checkpoint]
    releases = {row.model_id: row.recipe.release if row.recipe is not None else () for row in others}
    newest: dict[str, tuple[int, ...]] = {}
    for row in others:
        newest[row.family] = max(newest.get(row.family, ()), releases[row.model_id])
    by_age = sorted(others, key=lambda row: releases[row.model_id], reverse=True)
    families = sorted(newest, key=lambda family: newest[family], reverse=True)
    older = dict.fromkeys(row.family for row in reversed(of_hub))
    return [
        *(row for family in families for row in by_age if row.family == family),
        *(row for family in older for row in of_hub if row.family == family),
    ]


def _request(plan: Plan, index: int) -> dict[str, Any]:
    job = plan.jobs[index]
    uri, output = _model_source(plan, job.source), _output(plan, index)
    if not job.trains:
        return {"ModelSource": {"S3": uri}, "OutputConfig": {"S3OutputLocation": output}, **job.request}
    model = {"ChannelName": job.model_channel, "DataSource": {"S3DataSource": {**uri, "S3DataType": "S3Prefix"}}}
    channels = [
        *([model] if job.model_channel is not None else []),
        *job.request.get("InputDataConfig", []),
        channel(CODE_CHANNEL, f"{_STORE}/code/"),
    ]
    return {
        **job.request,
        "InputDataConfig": channels,
        "OutputDataConfig": {"CompressionType": "NONE", "S3OutputPath": output},
    }


def _output(plan: Plan, index: int) -> str:
    return f"{_STORE}/artifacts/{plan.jobs[index].artifact_key or 'key-known-at-deployment'}/model/"


def _model_source(plan: Plan, source: Source) -> dict[str, Any]:
    if isinstance(source, ArtifactSource):
        return {"S3Uri": _output(plan, source.job) + source.suffix}
    if isinstance(source, HuggingFaceSource):
        return {}
    if isinstance(source, S3Source):
        uri = source.uri
    else:
        draft = "draft/" if isinstance(source, HubDraftSource) else ""
        uri = f"{_HUB}/{source.hub_name}/{source.model_id}/{source.version or 'newest'}/{draft}"
    return {"S3Uri": uri, **({"ModelAccessConfig": {"AcceptEula": True}} if source.accept_eula else {})}


def _data_source(plan: Plan, source: Source) -> dict[str, Any]:
    return {"S3DataSource": {**_model_source(plan, source), "S3DataType": "S3Prefix", "CompressionType": "None"}}
