"""``constructs-optim synth``: the cloud assembly of a file that declares endpoints, or one template for any tool."""

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

from .aws import Account, Profile, Region, failed
from .endpoint_file import FileArgument, SynthesisError, changed, declared_or, document_of, synthesized
from .presentation import refusals_printed, say

if TYPE_CHECKING:
    from constructs_optim.constructs.declaration.document import Document
    from constructs_optim.constructs.standalone_template.standalone_template import StandaloneTemplate

_INLINE = "inline"


def synth_command(
    file: FileArgument,
    format: Annotated[
        Literal["cdk", "cloudformation"],
        typer.Option(help="An assembly of the CDK, or one template that needs no bootstrap.", metavar="FORMAT"),
    ] = "cdk",
    output: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="The folder to write to. Default: cdk.out, or cloudformation.out."),
    ] = None,
    code_bucket: Annotated[
        str | None,
        typer.Option(
            metavar="BUCKET|inline",
            help="Of a template: the bucket that the handlers' code is uploaded to, in its Region; ${AWS::Region} "
            "stands for that. Or `inline`, for a template with the code in it. Default: the code is in the folder.",
        ),
    ] = None,
    stack: Annotated[
        str | None, typer.Option(metavar="NAME", help="The stack's name, in place of the file's own.")
    ] = None,
    tag: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="A tag of all resources; several are possible.")
    ] = None,
    account: Annotated[str | None, typer.Option(metavar="NUMBER", help="The AWS account, if it is known.")] = None,
    region: Region = None,
    profile: Profile = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the version and what was written as JSON, in one line.")
    ] = False,
) -> None:
    """Write the cloud assembly, or the template, of a file that declares endpoints. Exit status 2 if it is wrong.

    `cdk deploy --app FOLDER` deploys an assembly, and `aws cloudformation deploy` a template.
    """
    if format == "cdk" and (code_bucket is not None or as_json or profile is not None):
        raise typer.BadParameter("--code-bucket, --profile and --json are of --format cloudformation")
    with refusals_printed("table"):
        document = changed(document_of(file), stack=stack, tags=dict(map(_tag, tag or ())))
        account, region = declared_or(document, "account", account), declared_or(document, "region", region)
        if format == "cloudformation":
            folder = output or Path("cloudformation.out")
            made, written = _write_template(document, folder, code_bucket, Account(profile, region))
            # Terraform's external data source takes a mapping of text, and keeps it in the plan.
            result = {**written, "body": made.body, "warnings": "\n".join(made.warnings)}
        else:
            # The CDK CLI says where it looks for the assembly of an app that it runs, and prints its warnings.
            of_cli = os.environ.get("CDK_OUTDIR")
            folder = output or Path(of_cli or "cdk.out")
            assembly = synthesized(document, folder, region, account, warn=None if of_cli else _warn, record=True)
            result = written = {"assembly": str(assembly)}
    if as_json:
        typer.echo(json.dumps({"version": version("constructs-optim"), **result}))
        return
    for name, path in written.items():
        say(f"{name}: {path}")


def _tag(text: str) -> tuple[str, str]:
    key, _, value = text.partition("=")
    if not key or not value:
        raise typer.BadParameter(f"--tag is {text!r}, and a tag is KEY=VALUE")
    return key, value


def _warn(warning: str) -> None:
    typer.echo(f"warning: {warning}", err=True)


def _write_template(
    document: Document, folder: Path, code_bucket: str | None, account: Account
) -> tuple[StandaloneTemplate, dict[str, str]]:
    """Upload the code if there is a bucket, then write the template and the code; the paths by their parameters."""
    from constructs_optim.constructs.declared_stack.stack_file import declared_template

    bucket = code_bucket if code_bucket != _INLINE else None
    try:
        name, made = declared_template(document, code_bucket=bucket, inline=code_bucket == _INLINE, record=True)
    except RecipeError:
        raise
    except (RuntimeError, ValueError) as error:
        raise SynthesisError(error) from None
    for warning in made.warnings:
        _warn(warning)
    if bucket is not None and made.files:
        if (where := account.region) is None:
            raise failed("No AWS region is set, and the code bucket has to be in the template's: use --region.")
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
        raise failed(f"{folder} cannot be written to: {error.strerror}") from None
    template = folder / f"{name}.template.json"
    written = {"template": str(template)}
    for each in made.files:
        path = folder / Path(each.key).name
        _replace(path, each.content)
        written[each.parameter] = str(path)
    _replace(template, made.body.encode())
    return made, written


def _replace(path: Path, content: bytes) -> None:
    """Write a file in one step: a `terraform apply` may read it while another plan writes it."""
    with NamedTemporaryFile(dir=path.parent, prefix=path.name, delete=False) as file:
        file.write(content)
    Path(file.name).chmod(0o644)
    Path(file.name).replace(path)
