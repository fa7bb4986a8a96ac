"""``constructs-optim plan``: preview a recipe without a cloud."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from constructs_optim.recipe import Model, Plan, Recipe, plan
from constructs_optim.recipe.catalog.lock import LOCK_FILE
from constructs_optim.recipe.plan_data import HuggingFaceSource
from constructs_optim.recipe.report import PlanReport, plan_report
from constructs_optim.recipe.servers import parse as parse_server
from constructs_optim.recipe.settings import UnknownSettingsError
from constructs_optim.recipe.techniques.parsing import parse

from ..aws import DEFAULT_REGION
from ..endpoint_file import document_of
from ..presentation import Format, FormatOption, print_fields, print_json, refusals_printed, say
from .lock import read_lock
from .model_of_text import MODEL_HELP, Commits, is_missing, model_of, without_missing_commits


def plan_command(
    file: Annotated[
        str | None,
        typer.Argument(metavar="[FILE]", help="A file that declares endpoints, - for standard input; or the options."),
    ] = None,
    instance_type: Annotated[
        str | None, typer.Option(help="The instance type of the endpoint, for instance ml.g5.12xlarge.")
    ] = None,
    technique: Annotated[
        list[str] | None,
        typer.Option(
            help="kind=variant[,setting=value], for instance quantization=awq,group_size=64 or "
            "quantization=nvfp4,checkpoint=owner/name. Repeatable; none by default."
        ),
    ] = None,
    model: Annotated[str | None, typer.Option(help=f"{MODEL_HELP}.")] = None,
    model_version: Annotated[str | None, typer.Option(help="The version of a JumpStart model, or the commit.")] = None,
    model_s3: Annotated[
        str | None, typer.Option(metavar="URI", help="An S3 prefix of model files, instead of --model.")
    ] = None,
    token_secret_arn: Annotated[
        str | None, typer.Option(metavar="ARN", help="The secret with a token of Hugging Face, for a gated model.")
    ] = None,
    server: Annotated[
        str | None,
        typer.Option(help="name[,setting=value], for instance vllm,context_length=8192. The plan's own by default."),
    ] = None,
    region: Annotated[str, typer.Option(help="The AWS region.")] = DEFAULT_REGION,
    accept_eula: Annotated[bool, typer.Option("--accept-eula", help="You have read and accept the licence.")] = False,
    format: FormatOption = "table",
) -> None:
    """Preview a recipe: jobs, artifact keys, container, memory. Exit status 2 when a rule refuses it."""
    recipe_options = [instance_type, technique, model, model_version, model_s3, token_secret_arn, server]
    if file is not None:
        if any(option is not None for option in recipe_options):
            raise typer.BadParameter(f"{file} has the recipes: leave the options of a recipe out")
        with refusals_printed(format):
            plans = planned_of_file(file, region)
        _print_plans(plans, format)
        return
    if instance_type is None:
        raise typer.BadParameter("either a file that declares endpoints, or --instance-type and a model")
    with refusals_printed(format):
        result = planned(
            instance_type,
            technique or (),
            model=model,
            model_version=model_version,
            model_s3=model_s3,
            token_secret_arn=token_secret_arn,
            server=server,
            region=region,
            accept_eula=accept_eula,
        )
    if format == "json":
        print_json(plan_report(result))
    else:
        print_fields(_fields(result))


def planned(
    instance_type: str,
    techniques: Iterable[str],
    *,
    model: str | None,
    model_version: str | None,
    model_s3: str | None,
    token_secret_arn: str | None,
    server: str | None,
    region: str,
    accept_eula: bool,
) -> Plan:
    """The plan of a recipe in words, with the app's lock file; the arguments are those of the command.

    Raises:
        RecipeError: has every rule that the recipe breaks.
        typer.BadParameter: where arguments do not go together.
    """
    if (model is None) == (model_s3 is None):
        raise typer.BadParameter("use either --model or --model-s3")
    if model_s3 is not None and model_version is not None:
        raise typer.BadParameter("--model-version is of JumpStart and Hugging Face, and --model-s3 has none")
    containers = read_lock(Path(LOCK_FILE))
    if model is not None:
        named = model_of(model, model_version, accept_eula=accept_eula, token_secret_arn=token_secret_arn)
    else:
        named = Model.s3(str(model_s3), accept_eula=accept_eula)
    if token_secret_arn is not None and named.kind != "huggingface":
        raise typer.BadParameter("--token-secret-arn is for models of Hugging Face alone")
    if accept_eula and named.kind == "huggingface":
        raise typer.BadParameter(
            "--accept-eula is for models of JumpStart and S3: a licence of Hugging Face is accepted on the page of "
            "the model, and --token-secret-arn names the secret with a token"
        )
    commits = Commits(containers)
    chosen = commits.given_in(_parsed(parse, text) for text in techniques)
    served_by = _parsed(parse_server, server) if server is not None else None
    recipe = Recipe(commits.given(named), chosen, instance_type, region, containers=containers, server=served_by)
    return without_missing_commits(plan(recipe))


def planned_of_file(file: str, region: str) -> dict[str, tuple[Plan, ...]]:
    """The plans of a file's endpoints and components, of all pools; ``region`` is that of a file without one.

    Raises:
        RecipeError: has everything that is wrong in the file.
    """
    from constructs_optim.constructs.declared_stack.stack_file import DeclaredStack

    return DeclaredStack(document_of(file), region=region).plans


def plan_reports(plans: Mapping[str, Sequence[Plan]]) -> dict[str, dict[str, PlanReport]]:
    """The reports of plans, by endpoint or component and by instance type."""
    return {name: {each.instance_type: plan_report(each) for each in of_one} for name, of_one in plans.items()}


def _print_plans(plans: Mapping[str, Sequence[Plan]], format: Format) -> None:
    if format == "json":
        print_json(plan_reports(plans))
        return
    for name, of_one in plans.items():
        for each in of_one:
            say(f"{name} on {each.instance_type}" if len(of_one) > 1 else name, style="bold")
            print_fields(_fields(each))


def _parsed(parse: Callable[[str], Any], text: str) -> Any:
    """What a text names; the text itself where it names nothing, as a rule reports it with all other violations."""
    try:
        return parse(text)
    except UnknownSettingsError:
        return text


def _fields(plan: Plan) -> Iterator[tuple[str, str]]:
    yield "model", plan.description["Model"]
    yield "techniques", "\n".join(plan.description["Techniques"]) or "none"
    yield (
        "instance type",
        f"{plan.instance_type}: {plan.accelerator_count} x {plan.accelerator}, tensor parallel degree "
        f"{plan.tensor_parallel_degree}",
    )
    for number, job in enumerate(plan.jobs, 1):
        source = "\nserved from SageMaker's pre-compiled artifacts" if job.pre_compiled else ""
        is_fixed = not (isinstance(job.source, HuggingFaceSource) and is_missing(job.source))
        key = job.artifact_key or f"known when the {'stack is deployed' if is_fixed else 'commit is fixed'}"
        image = job.image or "the service chooses"
        yield f"job {number}", f"{job.name}\nartifact {key}\nimage {image}{source}"
    if not plan.jobs:
        yield "jobs", "none"
    container = plan.container
    yield "container image", container.image or "defined by the hub's configuration"
    if container.server is not None:
        yield "server", container.server
    if container.inference_ami_version is not None:
        yield "inference AMI version", container.inference_ami_version
    yield "environment", "\n".join(f"{name}={value}" for name, value in container.environment.items()) or "none"
    for channel in container.channels:
        yield "channel", f"{channel.name}: {channel.source.kind}"
    if (memory := plan.memory) is not None:
        cache = f"{memory.kv_cache_gb:.0f} GB" if memory.kv_cache_gb is not None else "not known"
        yield (
            "memory",
            f"weights {memory.weights_gb:.0f} GB, draft {memory.draft_gb:.0f} GB, KV cache {cache} "
            f"({memory.batch_size} requests of {memory.sequence_length} tokens); usable {memory.available_gb:.0f} GB",
        )
    for warning in plan.warnings:
        yield "warning", f"{warning.message}\n{warning.id}"
