"""``constructs-optim deploy``: deploy an endpoint file with the CDK CLI."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

from .cdk_cli import cdk_command, cdk_name
from .endpoint_file import STANDARD_INPUT, FileArgument, document_of
from .presentation import refusals_printed


def deploy_command(
    file: FileArgument,
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar="-- ARGUMENTS", help="Other arguments of `cdk deploy`.")
    ] = None,
) -> None:
    """Deploy an endpoint file with the CDK CLI.

    The account and Region must be bootstrapped: `npx cdk bootstrap aws://ACCOUNT/REGION`, once. If they cannot be,
    deploy the template of `constructs-optim synth FILE --format cloudformation`, which needs no bootstrap.

    Examples:
        constructs-optim deploy endpoint.yaml
        constructs-optim deploy endpoint.yaml -- --require-approval never
    """
    if file == STANDARD_INPUT:
        raise typer.BadParameter("deploy needs a file, because the CDK CLI reads it several times")
    with refusals_printed():
        document = document_of(file)
        from constructs_optim.constructs.declared_stack.stack_file import stack_form

        document.validated(stack_form())
    app = shlex.join([sys.executable, "-m", "constructs_optim", "synth", str(Path(file))])
    status = subprocess.run([*cdk_command(), "deploy", "--app", app, *(arguments or ())], check=False).returncode
    if status:
        # Without an app, `cdk bootstrap`, which the CDK CLI advises, needs the environment.
        typer.echo(f"To bootstrap an account and Region: {cdk_name()} bootstrap aws://ACCOUNT/REGION", err=True)
        raise typer.Exit(status)
