"""``constructs-optim local``: a local cloud for trying the library."""

from __future__ import annotations

import contextlib
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from constructs_optim_local.access.credentials import ACCOUNT
from constructs_optim_local.cloud import IN_THE_WAY, LocalCloud, LocalCloudError
from constructs_optim_local.demo import DemoFailed, run_demo
from constructs_optim_local.ministack.patches import UntestedMinistack
from constructs_optim_local.sagemaker.serving.settings import problems

from . import completion
from .aws import REGION_WITHOUT_CALLS, failed, region_without_calls
from .cdk_cli import cdk_command, cdk_name
from .commands import Commands
from .job_packages import Jobs, shortfalls
from .presentation import JsonOption, print_json, working

local_app = Commands(help="Run a local cloud that needs no AWS account.")
_console = Console(stderr=True)
_INTERRUPTED = 130

Region = Annotated[
    str | None,
    typer.Option(help=f"Region of the local cloud. {REGION_WITHOUT_CALLS}", autocompletion=completion.regions),
]
EnforceIam = Annotated[bool, typer.Option("--enforce-iam", help="Enforce the policies of the deployment's roles.")]
_PROGRAMS = (
    "Directory of programs that stand in for those of a training image. Default: that of this Python, and jobs that "
    "copy or quantize a model are simulated."
)


def _with_packages(folder: Path | None) -> Path | None:
    found = shortfalls(folder) if folder is not None else {}
    text = "\n".join(found.values())
    if len(found) == len(Jobs):
        raise typer.BadParameter(f"no training job can run, because jobs install nothing from the network.\n{text}")
    if text:
        _console.print(text, highlight=False)
    return folder


TrainingPath = Annotated[
    Path | None,
    typer.Option(exists=True, file_okay=False, metavar="DIR", help=_PROGRAMS, callback=_with_packages),
]
_EXAMPLE = "'ml.g5.12xlarge for endpoint usage=0'"
_QUOTAS = f"Quota of SageMaker instances: {_EXAMPLE}. Repeatable."
QuotaOption = Annotated[list[str] | None, typer.Option("--quota", metavar="NAME=VALUE", help=_QUOTAS)]
_SERVE = "Start a model server on the CPU for each instance of an endpoint. Default: completions are synthetic."
Serve = Annotated[bool, typer.Option("--serve", help=_SERVE)]
_SERVE_WITH = (
    "Start this program as the model server: 'vllm serve {arguments} --host 127.0.0.1 --port {port}'. {arguments} are "
    "those of the plan, and {model} is the directory of the model."
)


def _checked(command: str | None) -> str | None:
    if command is not None and (found := list(problems(command))):
        raise typer.BadParameter("; ".join(found))
    return command


ServeWith = Annotated[str | None, typer.Option("--serve-with", metavar="COMMAND", help=_SERVE_WITH, callback=_checked)]
_ENRICHMENT = "Start OTel enrichment, without which PromQL finds no metrics of engines. Default: stopped, as on AWS."
OtelEnrichment = Annotated[bool, typer.Option("--otel-enrichment", help=_ENRICHMENT)]
Port = Annotated[int | None, typer.Option(min=0, max=65_535, help="Port to listen on. Default: a free port.")]


@local_app.command()
def start(
    port: Port = None,
    region: Region = None,
    enforce_iam: EnforceIam = False,
    training_path: TrainingPath = None,
    quota: QuotaOption = None,
    otel_enrichment: OtelEnrichment = False,
    serve: Serve = False,
    serve_with: ServeWith = None,
    as_json: JsonOption = False,
) -> None:
    """Run a local cloud until Ctrl-C, and print the variables to export.

    With these variables, the CDK CLI, the AWS CLI, and boto3 call the local cloud.

    Examples:
        constructs-optim local start --port 4566
    """
    region = region_without_calls(region)
    cloud = LocalCloud(
        port=port,
        region=region,
        enforce_iam=enforce_iam,
        training_path=training_path,
        simulate_training=training_path is None,
        quotas=_quotas(quota),
        otel_enrichment=otel_enrichment,
        serve=serve_with or serve,
    )
    with contextlib.suppress(KeyboardInterrupt), _interruptible(), _failures_printed(), contextlib.ExitStack() as stack:
        with working("Starting the local cloud"):
            stack.enter_context(cloud)
        if as_json:
            print_json({"unset": [*IN_THE_WAY], "export": cloud.environment()})
        else:
            typer.echo(f"unset {' '.join(IN_THE_WAY)}")
            for name, value in cloud.environment().items():
                typer.echo(f"export {name}={value}")
        sys.stdout.flush()
        served = "its endpoints serve" if serve_with or serve else "its endpoints answer with synthetic text"
        _console.print(
            f"\nThe local cloud listens on {cloud.endpoint_url}. Use it to test: {served}.\n"
            "It runs code as you, for anyone who has the secret access key above. Each start creates a new key.\n"
            "Copy the lines above into another shell, and run there:\n"
            f"  {cdk_name()} bootstrap {_environment(region)}\n"
            f"Then deploy an app or a file: {cdk_name()} deploy, or constructs-optim deploy endpoint.yaml. "
            "Press Ctrl-C to stop.",
            highlight=False,
        )
        while True:
            signal.pause()


@local_app.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
def run(
    command: Annotated[list[str], typer.Argument(help="Program to run and its arguments, after --.")],
    bootstrap: Annotated[bool, typer.Option("--bootstrap", help="Prepare the account for the CDK first.")] = False,
    port: Port = None,
    region: Region = None,
    enforce_iam: EnforceIam = False,
    training_path: TrainingPath = None,
    quota: QuotaOption = None,
    otel_enrichment: OtelEnrichment = False,
    serve: Serve = False,
    serve_with: ServeWith = None,
) -> None:
    """Run a program with a local cloud of its own.

    Exits with the status of the program, or with 127 if the program is not installed.

    Examples:
        constructs-optim local run --bootstrap -- npx cdk deploy --all
        constructs-optim local run --bootstrap -- constructs-optim deploy chat.yaml
    """
    region = region_without_calls(region)
    steps = [*([[*cdk_command(), "bootstrap", _environment(region)]] if bootstrap else []), command]
    for step in steps:
        if shutil.which(step[0]) is None:
            failed(f"{step[0]} is not installed")
            raise typer.Exit(127)
    cloud = LocalCloud(
        port=port,
        region=region,
        enforce_iam=enforce_iam,
        training_path=training_path,
        simulate_training=training_path is None,
        quotas=_quotas(quota),
        otel_enrichment=otel_enrichment,
        serve=serve_with or serve,
    )
    try:
        with _interruptible(), _failures_printed(), contextlib.ExitStack() as stack:
            with working("Starting the local cloud"):
                stack.enter_context(cloud)
            for step in steps:
                status = subprocess.call(step, env=cloud.child_environment())
                if status != 0:
                    raise typer.Exit(status)
    except KeyboardInterrupt:
        raise typer.Exit(_INTERRUPTED) from None


@local_app.command()
def requirements(
    jobs: Annotated[Jobs, typer.Argument(help="The jobs: those that quantize or copy models, or train them.")],
) -> None:
    """Print the path of the file with the packages of training jobs.

    An environment for --training-path has these packages, and PyTorch.

    Examples:
        pip install --no-deps -r "$(constructs-optim local requirements quantizing)"
    """
    typer.echo(str(jobs.requirements))


@local_app.command()
def demo(
    directory: Annotated[Path, typer.Option(metavar="DIR", help="Directory of the CDK app.")] = Path(),
    serve: Serve = False,
    serve_with: ServeWith = None,
) -> None:
    """Deploy a CDK app to a local cloud, and show the result.

    Examples:
        constructs-optim local demo
        constructs-optim local demo --serve
    """
    try:
        with _interruptible(), _failures_printed():
            run_demo(directory.resolve(), Console(), serve=serve_with or serve)
    except KeyboardInterrupt:
        _console.print("\nInterrupted. The local cloud and the CDK CLI have stopped.")
        raise typer.Exit(_INTERRUPTED) from None


def _environment(region: str) -> str:
    """Return the local cloud's account and Region, as `cdk bootstrap` takes them. It then needs no app."""
    return f"aws://{ACCOUNT}/{region}"


def _quotas(stated: list[str] | None) -> dict[str, float]:
    quotas: dict[str, float] = {}
    for text in stated or ():
        name, _, value = text.rpartition("=")
        try:
            quotas[name] = float(value)
        except ValueError:
            raise typer.BadParameter(f"{text!r} is not NAME=VALUE, such as {_EXAMPLE}") from None
    return quotas


@contextmanager
def _failures_printed() -> Iterator[None]:
    """Print a failure of the local cloud or the demo, and end the command with status 2."""
    try:
        yield
    except (DemoFailed, LocalCloudError, UntestedMinistack) as error:
        raise failed(str(error)) from None


@contextmanager
def _interruptible() -> Iterator[None]:
    """Make SIGTERM end a command like Ctrl-C, together with its child processes."""
    before = {sign: signal.signal(sign, signal.default_int_handler) for sign in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for sign, action in before.items():
            signal.signal(sign, action)
