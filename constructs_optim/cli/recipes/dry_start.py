"""``constructs-optim dry-start``: starts the engine's CPU build with a plan's arguments, and asks it one question."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated

import typer

from constructs_optim.dry_start.environment import default_folder, environment_of
from constructs_optim.dry_start.planned_engine import DryStartError, planned_engine
from constructs_optim.dry_start.report import DryStart
from constructs_optim.dry_start.start import Start
from constructs_optim.recipe import Plan

from .. import completion
from ..aws import AWS_PANEL, REGION_WITHOUT_CALLS, Account, Profile, failed
from ..presentation import JsonOption, print_fields, print_json, refusals_printed, say, working
from .model_download import download
from .model_of_text import MODEL_HELP, VERSION_HELP
from .option_wording import remedies_as_options
from .plan import TaskOption, planned, planned_of_file

_RECIPE, _RUN = "Recipe", "Dry start"
_SECONDS = 180
_OUTCOMES = {"starts": "starts", "refused": "does not start", "unknown": "unknown"}
_STYLES = {"starts": "green", "refused": "red", "unknown": "yellow"}


def dry_start_command(
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
            help="kind=variant[,setting=value], as for plan. Repeatable. Default: none.",
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
    timeout: Annotated[
        float,
        typer.Option(
            min=1,
            metavar="SECONDS",
            help="Longest time of a dry start, without the installation of the engine.",
            rich_help_panel=_RUN,
        ),
    ] = _SECONDS,
    engines: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Folder of the engines' environments. Default: ~/.cache/constructs-optim/engines.",
            rich_help_panel=_RUN,
        ),
    ] = None,
    trust_remote_code: Annotated[
        bool,
        typer.Option(
            "--trust-remote-code",
            help="Run the model's own Python code on this machine, if the plan allows it. Review the code first.",
            rich_help_panel=_RUN,
        ),
    ] = False,
    region: Annotated[
        str | None,
        typer.Option(
            help=f"AWS Region. {REGION_WITHOUT_CALLS}", autocompletion=completion.regions, rich_help_panel=AWS_PANEL
        ),
    ] = None,
    profile: Profile = None,
    as_json: JsonOption = False,
) -> None:
    """Start the engine's CPU build with a plan's arguments and dummy weights, and ask it one question.

    Installs vLLM's CPU build on first use. Reads the model's small files from Hugging Face or S3. Exits with status 1
    if the engine refuses the plan, and with status 2 if that cannot be told without GPUs.

    Examples:
        constructs-optim dry-start endpoint.yaml
        constructs-optim dry-start --model Qwen/Qwen3-8B --instance-type ml.g6.2xlarge
    """
    with refusals_printed(as_json=as_json):
        if file is not None:
            given = (instance_type, technique, model, model_version, model_s3, task, server)
            if any(option is not None for option in given):
                raise typer.BadParameter(f"{file} declares the recipes: leave out the recipe options")
            plans = plans_of_file(file, region)
        elif instance_type is None:
            raise typer.BadParameter("name an endpoint file, or use --instance-type and --model")
        else:
            with remedies_as_options(as_json=as_json):
                one = planned(
                    instance_type,
                    technique or (),
                    model=model,
                    model_version=model_version,
                    model_s3=model_s3,
                    task=task,
                    token_secret_arn=None,
                    server=server,
                    region=region,
                    accept_eula=accept_eula,
                )
            plans = {one.description["Model"]: one}
    results = dict(
        dry_starts(
            plans,
            Account(profile, region),
            seconds=timeout,
            engines=engines,
            trusts_code=trust_remote_code,
            as_json=as_json,
        )
    )
    if as_json:
        print_json(results)
    raise typer.Exit(status_of(results.values()))


def plans_of_file(file: str, region: str | None) -> dict[str, Plan]:
    """Return the different plans of a file's endpoints and components, by what they are called in messages."""
    with working("Planning"):
        plans = planned_of_file(file, region)
    return {
        f"{name} on {each.instance_type}" if len(of_one) > 1 else name: each
        for name, of_one in plans.items()
        for each in of_one
    }


def dry_starts(
    plans: dict[str, Plan],
    account: Account,
    *,
    seconds: float = _SECONDS,
    engines: Path | None = None,
    trusts_code: bool = False,
    as_json: bool = False,
) -> Iterator[tuple[str, DryStart]]:
    """Start each plan in turn, say what came of it unless ``as_json``, and yield it with its name."""
    for name, plan in plans.items():
        try:
            found = Start(
                plan=plan,
                planned=(engine := planned_engine(plan)),
                environment=environment_of(engine.release, engines or default_folder(), _progress),
                fetch=lambda source, folder, is_wanted: download(source, folder, is_wanted, account),
                seconds=seconds,
                trusts_code=trusts_code,
                say=_progress,
            ).result()
        except DryStartError as error:
            raise failed(f"{name}: {error}") from None
        if not as_json:
            _print(name, found)
        yield name, found


def status_of(results: Iterable[DryStart]) -> int:
    """Return the exit status: 1 if an engine refuses a plan, 2 if something could not be told, otherwise 0."""
    outcomes = {each.outcome for each in results}
    return 1 if "refused" in outcomes else 2 if "unknown" in outcomes else 0


def _progress(text: str) -> None:
    say(text, err=True)


def _print(name: str, found: DryStart) -> None:
    say(f"{name}: {_OUTCOMES[found.outcome]}", style=_STYLES[found.outcome])
    rows = [("Engine", f"vLLM {found.engine} on the CPU, {found.seconds:g} s")]
    if found.question is not None:
        rows.append(("Answered", found.question))
    if found.refusal is not None:
        rows.append(("Its line", found.refusal.line))
        rows += [
            (label, text)
            for label, text in (("Cause", found.refusal.cause), ("Next", found.refusal.fix))
            if text is not None
        ]
    rows.append(("Changed", "\n".join(found.changed) or "nothing"))
    rows.append(("Not shown", "\n".join(found.not_shown)))
    print_fields(rows)
