"""``constructs-optim deploy``: deploy an endpoint file with the CDK CLI."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

from .aws import failed
from .endpoint_file import STANDARD_INPUT, FileArgument, document_of
from .presentation import refusals_printed


def deploy_command(
    file: FileArgument,
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar="-- ARGUMENTS", help="Other arguments of `cdk deploy`.")
    ] = None,
) -> None:
    """Deploy an endpoint file with the CDK CLI.

    The account and Region must be bootstrapped with `cdk bootstrap`. If they cannot be, deploy the template of
    `constructs-optim synth FILE --format cloudformation`, which needs no bootstrap.

    Examples:
        constructs-optim deploy endpoint.yaml
        constructs-optim deploy endpoint.yaml -- --require-approval never
    """
    if file == STANDARD_INPUT:
        raise typer.BadParameter("deploy needs a file, because the CDK CLI reads it several times")
    from constructs_optim.constructs.declared_stack.stack_file import stack_form

    with refusals_printed():
        document_of(file).validated(stack_form())
    app = shlex.join([sys.executable, "-m", "constructs_optim", "synth", str(Path(file))])
    status = subprocess.run([*_cdk(), "deploy", "--app", app, *(arguments or ())], check=False).returncode
    if status:
        raise typer.Exit(status)


def _cdk() -> list[str]:
    """Return the command for the CDK CLI: the project's, the one in PATH, or npx's."""
    beside, local = Path(sys.executable).with_name("cdk"), Path("node_modules/.bin/cdk")
    found = next((str(path) for path in (local, beside) if path.exists()), None) or shutil.which("cdk")
    if found is not None:
        return [found]
    if (npx := shutil.which("npx")) is not None:
        # npm's `latest` tag points to an older CLI (docs/getting-started.md).
        return [npx, "--yes", "aws-cdk@2"]
    raise failed(
        "The CDK CLI is not installed. Run `npm install aws-cdk@2` with Node.js 22 or 24. Without Node.js, "
        "`constructs-optim synth FILE --format cloudformation` writes a template that the AWS CLI deploys."
    )
