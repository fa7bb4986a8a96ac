"""``constructs-optim plan``: preview a recipe without a cloud."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from constructs_optim.recipe import Model, Plan, Recipe, plan, tasks
from constructs_optim.recipe.catalog import images
from constructs_optim.recipe.catalog.lock import LOCK_FILE
from constructs_optim.recipe.errors import did_you_mean
from constructs_optim.recipe.plan_data import HuggingFaceSource
from constructs_optim.recipe.report import PlanReport, plan_report
from constructs_optim.recipe.servers import parse as parse_server
from constructs_optim.recipe.settings import UnknownSettingsError
from constructs_optim.recipe.tasks import TaskName
from constructs_optim.recipe.techniques.parsing import parse

from .. import completion
from ..aws import AWS_PANEL, DEFAULT_REGION, REGION_WITHOUT_CALLS, region_without_calls
from ..endpoint_file import document_of
from ..presentation import JsonOption, print_fields, print_json, refusals_printed, say, working
from .lock import read_lock
from .model_of_text import MODEL_HELP, VERSION_HELP, Commits, is_missing, model_of, without_missing_commits
from .option_wording import in_options, remedies_as_options

_RECIPE, _WARNING = "Recipe", "Warning"
TaskOption = Annotated[
    TaskName | None,
    typer.Option(
        help="What the model does. Default: what its architecture is for, or its lock file entry says.",
        rich_help_panel=_RECIPE,
    ),
]
"""The option of a command that plans a recipe."""


def plan_command(
    file: Annotated[
        str | None,
        typer.Argument(metavar="FILE", help="Endpoint file, or - for standard input. Excludes the recipe options."),
    ] = None,
    instance_type: Annotated[
        str | None,
        typer.Option(
            help="Instance type of the endpoint: ml.g5.12xlarge.",
            autocompletion=completion.instance_types,
            rich_help_panel=_RECIPE,
        ),
    ] = None,
    technique: Annotated[
        list[str] | None,
        typer.Option(
            help="kind=variant[,setting=value]: quantization=awq,group_size=64, or "
            "quantization=nvfp4,checkpoint=owner/name. Repeatable. Default: none.",
            autocompletion=completion.techniques,
            rich_help_panel=_RECIPE,
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(help=f"{MODEL_HELP}.", autocompletion=completion.model_ids, rich_help_panel=_RECIPE),
    ] = None,
    model_version: Annotated[str | None, typer.Option(help=VERSION_HELP, rich_help_panel=_RECIPE)] = None,
    model_s3: Annotated[
        str | None,
        typer.Option(metavar="URI", help="S3 prefix of model files, in place of --model.", rich_help_panel=_RECIPE),
    ] = None,
    task: TaskOption = None,
    token_secret_arn: Annotated[
        str | None,
        typer.Option(
            metavar="ARN", help="Secret with a Hugging Face token, for a gated model.", rich_help_panel=_RECIPE
        ),
    ] = None,
    server: Annotated[
        str | None,
        typer.Option(
            help="name[,setting=value]: vllm,context_length=8192. Default: the planner chooses.",
            autocompletion=completion.servers,
            rich_help_panel=_RECIPE,
        ),
    ] = None,
    accept_eula: Annotated[
        bool,
        typer.Option("--accept-eula", help="You have read and accept the model's license.", rich_help_panel=_RECIPE),
    ] = False,
    region: Annotated[
        str | None,
        typer.Option(
            help=f"AWS Region. {REGION_WITHOUT_CALLS}", autocompletion=completion.regions, rich_help_panel=AWS_PANEL
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Preview a recipe: its jobs, artifact keys, container, and memory.

    Calls nothing outside this machine. Exits with status 2 if a rule refuses the recipe.

    Examples:
        constructs-optim plan endpoint.yaml
        constructs-optim plan --model Qwen/Qwen3-32B --instance-type ml.g6e.12xlarge
          --technique quantization=fp8_dynamic
    """
    recipe_options = [instance_type, technique, model, model_version, model_s3, task, token_secret_arn, server]
    if file is not None:
        if any(option is not None for option in recipe_options):
            raise typer.BadParameter(f"{file} declares the recipes: leave out the recipe options")
        with refusals_printed(as_json=as_json), working("Planning"):
            plans = planned_of_file(file, region)
        _print_plans(plans, as_json=as_json)
        return
    if instance_type is None:
        raise typer.BadParameter("name an endpoint file, or use --instance-type and --model")
    with refusals_printed(as_json=as_json), remedies_as_options(as_json=as_json):
        result = planned(
            instance_type,
            technique or (),
            model=model,
            model_version=model_version,
            model_s3=model_s3,
            task=task,
            token_secret_arn=token_secret_arn,
            server=server,
            region=region,
            accept_eula=accept_eula,
        )
    if as_json:
        print_json(plan_report(result))
    else:
        fields = _fields(result)
        print_fields((name, in_options(text) if name == _WARNING else text) for name, text in fields)


def planned(
    instance_type: str,
    techniques: Iterable[str],
    *,
    model: str | None,
    model_version: str | None,
    model_s3: str | None,
    task: TaskName | None,
    token_secret_arn: str | None,
    server: str | None,
    region: str | None,
    accept_eula: bool,
) -> Plan:
    """Return the plan for a recipe in text form, with the app's lock file; the arguments are the command's.

    Raises:
        RecipeError: if the recipe breaks rules; lists all of them.
        typer.BadParameter: if arguments contradict each other.
    """
    if (model is None) == (model_s3 is None):
        raise typer.BadParameter("use one of --model and --model-s3")
    if model_s3 is not None and model_version is not None:
        raise typer.BadParameter("--model-version is for JumpStart and Hugging Face: models in S3 have no version")
    containers = read_lock(Path(LOCK_FILE))
    if model is not None:
        named = model_of(model, model_version, accept_eula=accept_eula, token_secret_arn=token_secret_arn)
    else:
        named = Model.s3(str(model_s3), accept_eula=accept_eula)
    if task is not None:
        named = named.model_copy(update={"task": task})
    if token_secret_arn is not None and named.kind != "huggingface":
        raise typer.BadParameter("--token-secret-arn is for Hugging Face models only")
    if accept_eula and named.kind == "huggingface":
        raise typer.BadParameter(
            "--accept-eula is for JumpStart and S3 models. Accept the license of a Hugging Face model on the model's "
            "page, and name the secret with your token with --token-secret-arn"
        )
    commits = Commits(containers)
    chosen = commits.given_in(_parsed(parse, text) for text in techniques)
    served_by = _parsed(parse_server, server) if server is not None else None
    where = region_without_calls(region)
    recipe = Recipe(commits.given(named), chosen, instance_type, where, containers=containers, server=served_by)
    return without_missing_commits(plan(recipe))


def planned_of_file(file: str, region: str | None) -> dict[str, tuple[Plan, ...]]:
    """Return the plans for all pools of a file's endpoints and components; ``region`` applies if the file has none.

    Raises:
        RecipeError: if the file has mistakes; lists all of them.
        typer.BadParameter: if there is no such Region.
    """
    document, where = document_of(file), region_without_calls(region)
    if document.value_at(("region",)) is None and where not in images.registry_accounts():
        named = "--region" if region is not None else "the Region of AWS_REGION, AWS_DEFAULT_REGION, or the profile"
        hint = did_you_mean(where, images.registry_accounts(), f"use a Region such as {DEFAULT_REGION}")
        raise typer.BadParameter(f"{named} is {where}, and there is no such Region: {hint}")
    from constructs_optim.constructs.declared_stack.stack_file import DeclaredStack

    return DeclaredStack(document, region=where).plans


def plan_reports(plans: Mapping[str, Sequence[Plan]]) -> dict[str, dict[str, PlanReport]]:
    """Return the reports of plans, by endpoint or component and by instance type."""
    return {name: {each.instance_type: plan_report(each) for each in of_one} for name, of_one in plans.items()}


def _print_plans(plans: Mapping[str, Sequence[Plan]], *, as_json: bool) -> None:
    if as_json:
        print_json(plan_reports(plans))
        return
    for place, (name, of_one) in enumerate(plans.items()):
        for number, each in enumerate(of_one):
            if place or number:
                say("")
            say(f"{name} on {each.instance_type}" if len(of_one) > 1 else name, style="bold")
            print_fields(_fields(each))


def _parsed(parse: Callable[[str], Any], text: str) -> Any:
    """Return what a text names, or the unknown text, which a rule then reports with all other violations."""
    try:
        return parse(text)
    except UnknownSettingsError:
        return text


def _fields(plan: Plan) -> Iterator[tuple[str, str]]:
    yield "Model", plan.description["Model"]
    if not (task := tasks.find(plan.task)).generates:
        yield "Task", task.title
    yield "Techniques", "\n".join(plan.description["Techniques"]) or "none"
    yield (
        "Instance type",
        f"{plan.instance_type}: {plan.accelerator_count} x {plan.accelerator}, tensor parallel degree "
        f"{plan.tensor_parallel_degree}",
    )
    for number, job in enumerate(plan.jobs, 1):
        source = "\nserved from pre-compiled artifacts of SageMaker" if job.pre_compiled else ""
        is_fixed = not (isinstance(job.source, HuggingFaceSource) and is_missing(job.source))
        key = job.artifact_key or f"known when the {'stack is deployed' if is_fixed else 'commit is recorded'}"
        image = job.image or "chosen by SageMaker"
        yield f"Job {number}", f"{job.name}\nartifact {key}\njob image {image}{source}"
    if not plan.jobs:
        yield "Jobs", "none"
    container = plan.container
    yield "Serving image", container.image or "set by the hub's configuration"
    if container.server is not None:
        yield "Server", container.server
    if container.inference_ami_version is not None:
        yield "Inference AMI", container.inference_ami_version
    yield "Environment", "\n".join(f"{name}={value}" for name, value in container.environment.items()) or "none"
    for channel in container.channels:
        yield "Channel", f"{channel.name}: {channel.source.kind}"
    if (memory := plan.memory) is not None:
        cache = f"{memory.kv_cache_gb:.0f} GB" if memory.kv_cache_gb is not None else "unknown"
        requests = f"KV cache {cache} ({memory.batch_size} requests of {memory.sequence_length} tokens)"
        if memory.kv_cache_gb == 0:
            requests = "no KV cache: the model reads each input once"
        yield (
            "Memory",
            f"weights {memory.weights_gb:.0f} GB\ndraft model {memory.draft_gb:.0f} GB\n{requests}\n"
            f"usable {memory.available_gb:.0f} GB",
        )
    for warning in plan.warnings:
        yield _WARNING, f"{warning.message}\n{warning.id}"
