"""``constructs-optim synth``: the cloud assembly of an endpoint file, or one template for any tool."""

from __future__ import annotations

import errno
import json
import os
import re
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from constructs_optim.explanation.assembly import StackTemplate
from constructs_optim.explanation.explain import explain
from constructs_optim.explanation.text import contents
from constructs_optim.operations.code_upload import upload
from constructs_optim.recipe import RecipeError

from . import completion
from .aws import AWS_PANEL, Account, Profile, failed
from .endpoint_file import FileArgument, SynthesisError, changed, declared_or, document_of, synthesized
from .output_files import writing
from .presentation import OUTPUT_PANEL, JsonOption, refusals_printed, say, working

if TYPE_CHECKING:
    from constructs_optim.constructs.declaration.document import Document
    from constructs_optim.constructs.declared_stack.stack_file import DeclaredStack
    from constructs_optim.constructs.standalone_template.standalone_template import StandaloneTemplate

_INLINE = "inline"
_ACCOUNT = re.compile(r"\d{12}", re.ASCII)


def _account(value: str | None) -> str | None:
    if value is not None and not _ACCOUNT.fullmatch(value):
        raise typer.BadParameter(f"{value!r} is not an account. An account has 12 digits, such as 111122223333")
    return value


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
        str | None,
        typer.Option(
            metavar="NAME",
            help="Name of the stack. Default: the file's; with --format cloudformation, a template for stacks of any "
            "name.",
        ),
    ] = None,
    tag: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="Tag of all resources. Repeatable.")
    ] = None,
    account: Annotated[
        str | None,
        typer.Option(
            metavar="NUMBER", help="AWS account, if it is known.", callback=_account, rich_help_panel=AWS_PANEL
        ),
    ] = None,
    region: Annotated[
        str | None,
        typer.Option(
            help="AWS Region, if it is known. Default for --code-bucket: AWS_REGION, or the profile's.",
            autocompletion=completion.regions,
            rich_help_panel=AWS_PANEL,
        ),
    ] = None,
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
            reusable = stack_name is None
            stack, made = _template(document, code_bucket, reusable=reusable)
            written = {"template": folder / f"{stack.stack_name}.template.json"}
            written |= {file.parameter: folder / Path(file.key).name for file in made.files}
            # The template last, because it refers to the code.
            contents = {written[file.parameter]: file.content for file in made.files}
            with _written({**contents, written["template"]: made.body.encode()}):
                bucket = code_bucket if code_bucket != _INLINE else None
                uploaded = _upload(made, bucket, Account(profile, region)) if bucket is not None else []
            advice = [*made.warnings, *filter(None, [stack.record_containers()])]
            warnings.extend(() if as_json else advice)
            lines = [f"{name}: {path}" for name, path in written.items()]
            lines += [f"upload to: {file.key}, the default of {file.parameter}" for file in made.files if not bucket]
            lines += uploaded
            # Terraform's external data source accepts a mapping of text and keeps it in the plan.
            result = {name: str(path) for name, path in written.items()}
            result |= {"body": made.body, "warnings": "\n".join(advice), "explanation": _explanation(stack, made)}
        else:
            # The CDK CLI names the folder for the assembly of an app that it runs, and prints its warnings.
            of_cli = os.environ.get("CDK_OUTDIR")
            folder = output or Path(of_cli or "cdk.out")
            with writing(folder):
                NamedTemporaryFile(dir=_existing(folder)).close()
            stack = synthesized(document, folder, region, account, warn=None if of_cli else warnings.append)
            warnings.extend(filter(None, [stack.record_containers()]))
            result, lines = {"assembly": str(folder)}, [f"assembly: {folder}"]
    for warning in warnings:
        say(f"Warning: {warning}", style="yellow", err=True)
    if as_json:
        # On one line, for programs that read it among other lines.
        typer.echo(json.dumps({"version": version("constructs-optim"), **result}))
        return
    for line in lines:
        say(line)


def _tag(text: str) -> tuple[str, str]:
    key, _, value = text.partition("=")
    if not key or not value:
        raise typer.BadParameter(f"--tag {text!r}: use KEY=VALUE")
    return key, value


def _template(
    document: Document, code_bucket: str | None, *, reusable: bool
) -> tuple[DeclaredStack, StandaloneTemplate]:
    from constructs_optim.constructs.declared_stack.stack_file import declared_template

    inline = code_bucket == _INLINE
    try:
        return declared_template(
            document, code_bucket=None if inline else code_bucket, inline=inline, reusable=reusable
        )
    except RecipeError:
        raise
    except (RuntimeError, ValueError) as error:
        raise SynthesisError(error) from None


def _explanation(stack: DeclaredStack, made: StandaloneTemplate) -> str:
    template: dict[str, Any] = json.loads(made.body)
    return "\n".join(contents(explain([StackTemplate(stack.stack_name, stack.stack_name, template)])))


def _upload(made: StandaloneTemplate, bucket: str, account: Account) -> list[str]:
    """Upload the code, and return lines that say what was uploaded."""
    if not made.files:
        return []
    if (region := account.region) is None:
        raise failed(
            "No AWS Region is set, and the code bucket must be in the Region of the template. Use --region, or set "
            "AWS_REGION."
        )
    files = {each.key: each.content for each in made.files}
    new = upload(lambda region: account.client("s3", region), bucket, files, region=region, owner=account.id)
    folder = f"s3://{bucket.replace('${AWS::Region}', region)}"
    return [f"{'uploaded' if key in new else 'already uploaded'}: {folder}/{key}" for key in files]


def _existing(folder: Path) -> Path:
    """Return a folder, or the folder in which it would be created."""
    return next(each for each in (folder.absolute(), *folder.absolute().parents) if each.exists())


@contextmanager
def _written(contents: Mapping[Path, bytes]) -> Generator[None]:
    """Write files, which replace existing ones at the end of the block, and not at all if the block fails.

    A `terraform apply` may read them while another plan writes them.
    """
    staged: dict[Path, Path] = {}
    try:
        for path, content in contents.items():
            with writing(path):
                if path.is_dir():
                    raise IsADirectoryError(errno.EISDIR, "it is a folder")
                with NamedTemporaryFile(dir=_existing(path.parent), prefix=path.name, delete=False) as file:
                    staged[path] = Path(file.name)
                    file.write(content)
                staged[path].chmod(0o644)
        yield
        for path, temporary in staged.items():
            with writing(path):
                path.parent.mkdir(parents=True, exist_ok=True)
                temporary.replace(path)
    finally:
        for temporary in staged.values():
            temporary.unlink(missing_ok=True)
