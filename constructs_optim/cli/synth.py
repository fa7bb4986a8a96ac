"""``constructs-optim synth``: the cloud assembly of an endpoint file, or one template for any tool."""

from __future__ import annotations

import json
import os
from importlib.metadata import version
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from constructs_optim.operations.code_upload import upload
from constructs_optim.recipe import RecipeError

from .aws import AWS_PANEL, Account, Profile, Region, failed
from .endpoint_file import FileArgument, SynthesisError, changed, declared_or, document_of, synthesized
from .presentation import OUTPUT_PANEL, JsonOption, refusals_printed, say, working

if TYPE_CHECKING:
    from constructs_optim.constructs.declaration.document import Document
    from constructs_optim.constructs.standalone_template.standalone_template import StandaloneTemplate

_INLINE = "inline"


def synth_command(
    file: FileArgument,
    format: Annotated[
        Literal["cdk", "cloudformation"],
        typer.Option(
            help="cdk for a cloud assembly, or cloudformation for one template that needs no bootstrap.",
            metavar="FORMAT",
            rich_help_panel=OUTPUT_PANEL,
        ),
    ] = "cdk",
    output: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Directory to write to. Default: cdk.out, or cloudformation.out.",
            rich_help_panel=OUTPUT_PANEL,
        ),
    ] = None,
    code_bucket: Annotated[
        str | None,
        typer.Option(
            metavar="BUCKET|inline",
            help="For cloudformation: bucket in the template's Region to upload the handlers' code to, in which "
            "${AWS::Region} stands for the Region; or `inline`, to put the code into the template. Default: write the "
            "code beside the template.",
            rich_help_panel=OUTPUT_PANEL,
        ),
    ] = None,
    stack_name: Annotated[
        str | None, typer.Option(metavar="NAME", help="Name of the stack. Default: the file's.")
    ] = None,
    tag: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="Tag of all resources. Repeatable.")
    ] = None,
    account: Annotated[
        str | None, typer.Option(metavar="NUMBER", help="AWS account, if it is known.", rich_help_panel=AWS_PANEL)
    ] = None,
    region: Region = None,
    profile: Profile = None,
    as_json: JsonOption = False,
) -> None:
    """Synthesize an endpoint file to a cloud assembly or a template.

    `cdk deploy --app DIR` deploys an assembly, and `aws cloudformation deploy` a template.

    Examples:
        constructs-optim synth endpoint.yaml
        constructs-optim synth endpoint.yaml --format cloudformation
          --code-bucket inline
    """
    if format == "cdk" and (code_bucket is not None or profile is not None):
        raise typer.BadParameter("--code-bucket and --profile need --format cloudformation")
    warnings: list[str] = []
    # Refusals are text even with --json, because Terraform shows only a program's standard error.
    with refusals_printed(), working("Synthesizing"):
        document = changed(document_of(file), stack=stack_name, tags=dict(map(_tag, tag or ())))
        account, region = declared_or(document, "account", account), declared_or(document, "region", region)
        if format == "cloudformation":
            folder = output or Path("cloudformation.out")
            made, written = _write_template(document, folder, code_bucket, Account(profile, region))
            warnings.extend(() if as_json else made.warnings)
            # Terraform's external data source accepts a mapping of text and keeps it in the plan.
            result = {**written, "body": made.body, "warnings": "\n".join(made.warnings)}
        else:
            # The CDK CLI names the folder for the assembly of an app that it runs, and prints its warnings.
            of_cli = os.environ.get("CDK_OUTDIR")
            folder = output or Path(of_cli or "cdk.out")
            synthesized(document, folder, region, account, warn=None if of_cli else warnings.append, record=True)
            result = written = {"assembly": str(folder)}
    for warning in warnings:
        say(f"Warning: {warning}", style="yellow", err=True)
    if as_json:
        # On one line, for programs that read it among other lines.
        typer.echo(json.dumps({"version": version("constructs-optim"), **result}))
        return
    for name, path in written.items():
        say(f"{name}: {path}")


def _tag(text: str) -> tuple[str, str]:
    key, _, value = text.partition("=")
    if not key or not value:
        raise typer.BadParameter(f"--tag {text!r}: use KEY=VALUE")
    return key, value


def _write_template(
    document: Document, folder: Path, code_bucket: str | None, account: Account
) -> tuple[StandaloneTemplate, dict[str, str]]:
    """Upload the code if there is a bucket, write the template and the code, and return the paths by parameter."""
    from constructs_optim.constructs.declared_stack.stack_file import declared_template

    bucket = code_bucket if code_bucket != _INLINE else None
    try:
        name, made = declared_template(document, code_bucket=bucket, inline=code_bucket == _INLINE, record=True)
    except RecipeError:
        raise
    except (RuntimeError, ValueError) as error:
        raise SynthesisError(error) from None
    if bucket is not None and made.files:
        if (where := account.region) is None:
            raise failed(
                "No AWS Region is set, and the code bucket must be in the Region of the template. Use --region."
            )
        upload(
            lambda region: account.client("s3", region),
            bucket,
            {each.key: each.content for each in made.files},
            region=where,
            owner=account.id,
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise failed(f"Cannot write to {folder}: {error.strerror}") from None
    template = folder / f"{name}.template.json"
    written = {"template": str(template)}
    for each in made.files:
        path = folder / Path(each.key).name
        _replace(path, each.content)
        written[each.parameter] = str(path)
    _replace(template, made.body.encode())
    return made, written


def _replace(path: Path, content: bytes) -> None:
    """Write a file atomically: a `terraform apply` may read it while another plan writes it."""
    with NamedTemporaryFile(dir=path.parent, prefix=path.name, delete=False) as file:
        file.write(content)
    Path(file.name).chmod(0o644)
    Path(file.name).replace(path)
