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
from .mcp import mcp_command
from .medusa import medusa_app
from .operations.artifacts import artifacts_app
from .operations.captures import captures_command
from .operations.dashboard import dashboard_app
from .operations.endpoint import endpoint_app
from .operations.jobs import jobs_app
from .preflight import preflight_command
from .recipes.catalog import catalog_command
from .recipes.lock import lock_command
from .recipes.plan import plan_command
from .recipes.recommend import recommend_command
from .schema import schema_command
from .synth import synth_command

app = Commands(name="constructs-optim", help="Optimized LLM endpoints on Amazon SageMaker.", add_completion=False)


def _print_version(requested: bool) -> None:
    if requested:
        typer.echo(f"constructs-optim {metadata.version('constructs-optim')}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the release and exit.", callback=_print_version, is_eager=True)
    ] = False,
) -> None: ...


app.command("synth", short_help="Synthesize what a file declares.")(synth_command)
app.command("schema", short_help="Print the JSON Schema of such a file, for editors.")(schema_command)
app.command("deploy", short_help="Deploy what a file declares, with the CDK CLI.")(deploy_command)
app.command("plan", short_help="Preview a recipe: jobs, artifact keys, container, memory.")(plan_command)
app.command("recommend", short_help="Choose recipe and instances that meet objectives, by price.")(recommend_command)
app.command("catalog", short_help="List supported models, instances, images, rules.")(catalog_command)
app.command("explain", short_help="Explain what a deployment does to each endpoint.")(explain_command)
app.command("preflight", short_help="Look at what would fail a deployment, before it.")(preflight_command)
app.command("evaluate", short_help="Measure latency, throughput and price.")(evaluate_command)
app.command("lock", short_help="Show and update the containers that an app records.")(lock_command)
app.command("captures", short_help="Write captured traffic as a workload or training data.")(captures_command)
app.command("adopt", short_help="Declare an existing endpoint, to import it.")(adopt_command)
app.command("mcp", short_help="Serve the planner to coding agents.")(mcp_command)
app.add_typer(jobs_app, name="jobs", help="List, watch and stop the account's jobs.")
app.add_typer(artifacts_app, name="artifacts", help="List, show, verify and prune a store's artifacts.")
app.add_typer(dashboard_app, name="dashboard", help="Preview a synthesized app's dashboards.")
app.add_typer(endpoint_app, name="endpoint", help="Show, stop and start an endpoint's capacity.")
app.add_typer(medusa_app, name="medusa", help="Verify Medusa heads.")
_LOCAL = "Run a local cloud, without an AWS account."
_REPLAY = "Tell what recorded traffic would have cost."
_LOCAL_EXTRA = ("constructs_optim_local", "ministack", "moto", "cfnlint", "yaml", "werkzeug", "boto3")
try:
    from .local import local_app
    from .replay import replay_command
except ModuleNotFoundError as missing:
    if not (missing.name or "").startswith(_LOCAL_EXTRA):
        raise

    _ANY: dict[str, bool] = {"ignore_unknown_options": True, "allow_extra_args": True}

    @app.command("replay", help=_REPLAY, context_settings=_ANY)
    @app.command("local", help=_LOCAL, context_settings=_ANY)
    def _not_installed() -> None:
        raise failed('The local cloud is an extra: pip install "constructs-optim[local]"')
else:
    app.command("replay", short_help=_REPLAY)(replay_command)
    app.add_typer(local_app, name="local", help=_LOCAL)
