"""The root command; sub-commands are in modules of the same name."""

from __future__ import annotations

from importlib import metadata
from typing import Annotated

import typer

from .adoption.adopt import adopt_command
from .aws import failed
from .commands import Commands
from .deploy import deploy_command
from .evaluate import evaluate_command
from .explain import explain_command
from .installation import installing
from .mcp import mcp_command
from .medusa import medusa_app
from .operations.artifacts import artifacts_app
from .operations.captures import captures_command
from .operations.dashboard import dashboard_app
from .operations.endpoint import endpoint_app
from .operations.jobs import jobs_app
from .preflight import preflight_command
from .recipes.catalog import catalog_command
from .recipes.dry_start import dry_start_command
from .recipes.lock import lock_command
from .recipes.plan import plan_command
from .recipes.recommend import recommend_command
from .schema import schema_command
from .synth import synth_command

_DEPLOY, _CHOOSE = "Declare and deploy", "Plan and compare"
_OPERATE, _TRY = "Measure and operate", "Local cloud and agents"

app = Commands(name="constructs-optim")


def _print_version(requested: bool) -> None:
    if requested:
        typer.echo(f"constructs-optim {metadata.version('constructs-optim')}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Deploy optimized LLM endpoints on Amazon SageMaker.

    Examples:
        constructs-optim plan endpoint.yaml
        constructs-optim explain cdk.out --against deployed
        constructs-optim local demo

    Exit status:
        0    Success.
        1    The command ran and found a problem: damage, a failed job, an event
             of --fail-on, a deployment that would fail, a plan that its engine
             refuses; or you declined to confirm.
        2    The command could not do its work: an option is wrong, a rule refuses
             the recipe, nothing meets the objectives, AWS or a hub refuses a
             request, the local cloud or the demo fails, or an extra is missing.
        3    evaluate: no request succeeded under some load.
        4    evaluate: the evaluation stopped early.
        5    evaluate: more requests failed than --max-error-rate allows.
        127  local run: the program is not installed.
        130  You pressed Ctrl-C.
        deploy and local run otherwise exit with the status of what they run.
    """


app.command("synth", rich_help_panel=_DEPLOY)(synth_command)
app.command("deploy", rich_help_panel=_DEPLOY)(deploy_command)
app.command("explain", rich_help_panel=_DEPLOY)(explain_command)
app.command("preflight", rich_help_panel=_DEPLOY)(preflight_command)
app.command("lock", rich_help_panel=_DEPLOY)(lock_command)
app.command("adopt", rich_help_panel=_DEPLOY)(adopt_command)
app.command("schema", rich_help_panel=_DEPLOY)(schema_command)
app.command("plan", rich_help_panel=_CHOOSE)(plan_command)
app.command("dry-start", rich_help_panel=_CHOOSE)(dry_start_command)
app.command("recommend", rich_help_panel=_CHOOSE)(recommend_command)
app.command("catalog", rich_help_panel=_CHOOSE)(catalog_command)
app.command("evaluate", rich_help_panel=_OPERATE)(evaluate_command)
app.add_typer(jobs_app, name="jobs", rich_help_panel=_OPERATE)
app.add_typer(artifacts_app, name="artifacts", rich_help_panel=_OPERATE)
app.add_typer(endpoint_app, name="endpoint", rich_help_panel=_OPERATE)
app.add_typer(dashboard_app, name="dashboard", rich_help_panel=_OPERATE)
app.command("captures", rich_help_panel=_OPERATE)(captures_command)
app.add_typer(medusa_app, name="medusa", rich_help_panel=_OPERATE)
app.command("mcp", rich_help_panel=_TRY)(mcp_command)
_LOCAL_EXTRA = ("constructs_optim_local", "ministack", "moto", "cfnlint", "yaml", "werkzeug", "boto3")
try:
    from .local import local_app
    from .replay import replay_command
except ModuleNotFoundError as missing:
    if not (missing.name or "").startswith(_LOCAL_EXTRA):
        raise

    _ANY: dict[str, bool] = {"ignore_unknown_options": True, "allow_extra_args": True}

    @app.command("replay", rich_help_panel=_CHOOSE, context_settings=_ANY)
    @app.command("local", rich_help_panel=_TRY, context_settings=_ANY)
    def _not_installed() -> None:
        """Install the extra "local" to use this command."""
        raise failed(f"The local cloud is an extra: {installing('local')}")
else:
    app.command("replay", rich_help_panel=_CHOOSE)(replay_command)
    app.add_typer(local_app, name="local", rich_help_panel=_TRY)
