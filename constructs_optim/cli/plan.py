"""``constructs-optim plan``: what a recipe comes to, without a cloud."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from constructs_optim.recipe import (
    Model,
    Plan,
    RecipeError,
    Violation,
)
from constructs_optim.recipe.lock import LOCK_FILE
from constructs_optim.recipe.planning.plan import plan
from constructs_optim.recipe.report import plan_report, refusal_report
from constructs_optim.recipe.techniques.parsing import UnknownTechniqueError, parse

from .lock import read_lock

_REFUSED = 2


class Format(StrEnum):
    """How a command prints."""

    table = "table"
    json = "json"


def plan_command(
    instance_type: Annotated[str, typer.Option(help="What the endpoint runs on, for instance ml.g5.12xlarge.")],
    technique: Annotated[
        list[str],
        typer.Option(help="kind=variant[,setting=value], for instance quantization=awq,group_size=64. Repeatable."),
    ],
    model: Annotated[str | None, typer.Option(help="A JumpStart model id.")] = None,
    model_version: Annotated[str | None, typer.Option(help="Its version; the newest by default.")] = None,
    model_s3: Annotated[
        str | None, typer.Option(metavar="URI", help="An S3 prefix of model files, instead of a JumpStart model.")
    ] = None,
    region: Annotated[str, typer.Option(help="Where.")] = "us-west-2",
    accept_eula: Annotated[bool, typer.Option("--accept-eula", help="You have read and accept the licence.")] = False,
    format: Annotated[Format, typer.Option(help="How to print it.")] = Format.table,
) -> None:
    """Show what a recipe comes to: jobs, artifact keys, container, memory. Exit status 2 when it is refused."""
    if (model is None) == (model_s3 is None):
        raise typer.BadParameter("give one of --model and --model-s3")
    source = (
        Model.s3(model_s3, accept_eula=accept_eula)
        if model_s3 is not None
        else Model.jumpstart(model or "", version=model_version, accept_eula=accept_eula)
    )
    try:
        techniques = [_parsed(text) for text in technique]
        made = plan(
            model=source,
            techniques=techniques,
            instance_type=instance_type,
            region=region,
            containers=read_lock(Path(LOCK_FILE)).containers,
        )
    except RecipeError as error:
        _refuse(list(error.violations), format)
        raise typer.Exit(_REFUSED) from None
    if format is Format.json:
        typer.echo(json.dumps(plan_report(made), indent=2))
    else:
        Console().print(_table(made))


def _parsed(text: str) -> Any:
    """The technique; the text itself where it names none, which a rule reports with all else that is wrong."""
    try:
        return parse(text)
    except UnknownTechniqueError:
        return text


def _refuse(violations: list[Violation], format: Format) -> None:
    if format is Format.json:
        typer.echo(json.dumps(refusal_report(violations), indent=2))
    else:
        typer.echo(str(RecipeError(violations)), err=True)


def _table(made: Plan) -> Table:
    described = made.description
    table = Table(show_header=False, show_lines=True)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    table.add_row("model", described["Model"])
    table.add_row("techniques", "\n".join(described["Techniques"]))
    table.add_row(
        "instance type",
        f"{made.instance_type}: {made.accelerator_count} x {made.accelerator}, tensor parallel degree "
        f"{made.tensor_parallel_degree}",
    )
    for number, job in enumerate(made.jobs, 1):
        fetched = "\nserved from SageMaker's pre-compiled artifacts" if job.pre_compiled else ""
        key = job.artifact_key or "known when the stack is deployed"
        table.add_row(
            f"job {number}", f"{job.name}\nartifact {key}\nimage {job.image or 'the service chooses'}{fetched}"
        )
    if not made.jobs:
        table.add_row("jobs", "none")
    container = made.container
    table.add_row("container image", container.image or "as the hub's configuration says")
    table.add_row(
        "environment", "\n".join(f"{name}={value}" for name, value in container.environment.items()) or "none"
    )
    for channel in container.channels:
        table.add_row("channel", f"{channel.name}: {channel.source.kind}")
    if made.memory is not None:
        memory = made.memory
        cache = f"{memory.kv_cache_gb:.0f} GB" if memory.kv_cache_gb is not None else "not known"
        table.add_row(
            "memory",
            f"weights {memory.weights_gb:.0f} GB, draft {memory.draft_gb:.0f} GB, KV cache {cache} "
            f"({memory.batch_size} requests of {memory.sequence_length} tokens); usable {memory.available_gb:.0f} GB",
        )
    for warning in made.warnings:
        table.add_row("warning", f"{warning.message}\n{warning.id}")
    return table
