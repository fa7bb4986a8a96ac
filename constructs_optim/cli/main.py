"""The command's root: each sub-command lives in the module of its name."""

from __future__ import annotations

import typer

from .artifacts import artifacts_app
from .catalog import catalog_command
from .dashboard import dashboard_app
from .endpoint import endpoint_app
from .evaluate import evaluate_command
from .explain import explain_command
from .jobs import jobs_app
from .medusa import medusa_app
from .plan import plan_command
from .recommend import recommend_command

app = typer.Typer(
    name="constructs-optim",
    help="Optimized LLM endpoints on Amazon SageMaker.",
    no_args_is_help=True,
    add_completion=False,
)

try:
    from .local import local_app
except ModuleNotFoundError as missing:
    if not (missing.name or "").startswith(("ministack", "moto", "cfnlint", "yaml", "werkzeug", "hypercorn", "boto3")):
        raise
    local_app = None


app.command("plan")(plan_command)
app.command("recommend")(recommend_command)
app.command("catalog")(catalog_command)
app.command("explain")(explain_command)
app.command("evaluate")(evaluate_command)
app.add_typer(jobs_app, name="jobs", help="The account's optimization and training jobs: list, watch, stop.")
app.add_typer(artifacts_app, name="artifacts", help="A store's artifacts: list, show, verify, prune.")
app.add_typer(
    dashboard_app, name="dashboard", help="A synthesized app's dashboards: preview them, record their metrics."
)
app.add_typer(endpoint_app, name="endpoint", help="An endpoint's capacity: show, stop, start.")
app.add_typer(medusa_app, name="medusa", help="Medusa heads: verify their speed-up, and that outputs stay the same.")
_LOCAL = "A local cloud to try the library on, without an AWS account."
if local_app is not None:
    app.add_typer(local_app, name="local", help=_LOCAL)
else:

    @app.command("local", help=_LOCAL, context_settings={"ignore_unknown_options": True, "allow_extra_args": True})
    def _not_installed() -> None:
        typer.echo('The local cloud is an extra: pip install "constructs-optim[local]"', err=True)
        raise typer.Exit(2)
