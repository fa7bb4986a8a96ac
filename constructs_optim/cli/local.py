"""``constructs-optim local``: a local cloud to try the library on."""

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

from constructs_optim_local.cloud import DEFAULT_REGION, IN_THE_WAY, LocalCloud, LocalCloudError
from constructs_optim_local.demo import DemoFailed, run_demo
from constructs_optim_local.ministack.patches import UntestedMinistack
from constructs_optim_local.sagemaker.serving.settings import problems

from .commands import Commands

local_app = Commands()
_console = Console(stderr=True)
_INTERRUPTED = 130

Region = Annotated[str, typer.Option(help="The region of its services.")]
EnforceIam = Annotated[bool, typer.Option("--enforce-iam", help="Hold the deployment's roles to their policies.")]
_PROGRAMS = "A folder of programs to run for those of a training job's image; this Python's by default."
TrainingPath = Annotated[Path | None, typer.Option(exists=True, file_okay=False, help=_PROGRAMS)]
_EXAMPLE = "'ml.g5.12xlarge for endpoint usage=0'"
_QUOTAS = f"A quota of SageMaker's instances, {_EXAMPLE}. Repeatable."
QuotaOption = Annotated[list[str] | None, typer.Option("--quota", metavar="NAME=VALUE", help=_QUOTAS)]
_SERVE = "Start a model server for each instance of an endpoint, on the CPU; completions are synthetic by default."
Serve = Annotated[bool, typer.Option("--serve", help=_SERVE)]
_SERVE_WITH = (
    "Start this program instead, for example 'vllm serve {arguments} --host 127.0.0.1 --port {port}'. The words in "
    "braces become the plan's arguments, the port, and {model}, the folder of the model."
)


def _checked(command: str | None) -> str | None:
    if command is not None and (found := list(problems(command))):
        raise typer.BadParameter("; ".join(found))
    return command


ServeWith = Annotated[str | None, typer.Option("--serve-with", metavar="COMMAND", help=_SERVE_WITH, callback=_checked)]
Port = Annotated[int | None, typer.Option(help="The port it listens on; a free one by default.")]


@local_app.command()
def start(
    port: Port = None,
    region: Region = DEFAULT_REGION,
    enforce_iam: EnforceIam = False,
    training_path: TrainingPath = None,
    quota: QuotaOption = None,
    serve: Serve = False,
    serve_with: ServeWith = None,
) -> None:
    """Run a local cloud until Ctrl-C, and print the variables that point the CDK CLI at it."""
    cloud = LocalCloud(
        port=port,
        region=region,
        enforce_iam=enforce_iam,
        training_path=training_path,
        quotas=_quotas(quota),
        serve=serve_with or serve,
    )
    with contextlib.suppress(KeyboardInterrupt), _interruptible(), _failures_printed(), cloud:
        typer.echo(f"unset {' '.join(IN_THE_WAY)}")
        for name, value in cloud.environment().items():
            typer.echo(f"export {name}={value}")
        sys.stdout.flush()
        served = "its endpoints serve" if serve_with or serve else "its endpoints answer with synthetic text"
        _console.print(
            f"\nA local cloud listens on {cloud.endpoint_url}: a test ground and a way to try the library; {served}."
            "\nIt runs code as you, for whoever has the secret access key above; each start has another."
            "\nCopy the lines above into another shell, then: cdk bootstrap && cdk deploy. Ctrl-C ends it."
        )
        while True:
            signal.pause()


@local_app.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
def run(
    command: Annotated[list[str], typer.Argument(help="The command and its arguments, after --.")],
    bootstrap: Annotated[bool, typer.Option(help="Run `cdk bootstrap` first.")] = False,
    port: Port = None,
    region: Region = DEFAULT_REGION,
    enforce_iam: EnforceIam = False,
    training_path: TrainingPath = None,
    quota: QuotaOption = None,
    serve: Serve = False,
    serve_with: ServeWith = None,
) -> None:
    """Run COMMAND with a local cloud of its own; the exit status is the command's."""
    steps = [*([["cdk", "bootstrap"]] if bootstrap else []), command]
    for step in steps:
        if shutil.which(step[0]) is None:
            _console.print(f"[red]{step[0]} is not installed[/]")
            raise typer.Exit(127)
    cloud = LocalCloud(
        port=port,
        region=region,
        enforce_iam=enforce_iam,
        training_path=training_path,
        quotas=_quotas(quota),
        serve=serve_with or serve,
    )
    try:
        with _interruptible(), _failures_printed(), cloud:
            for step in steps:
                status = subprocess.call(step, env=cloud.child_environment())
                if status != 0:
                    raise typer.Exit(status)
    except KeyboardInterrupt:
        raise typer.Exit(_INTERRUPTED) from None


@local_app.command()
def demo(
    app_directory: Annotated[Path, typer.Option(help="The directory of the CDK app.")] = Path(),
    serve: Serve = False,
    serve_with: ServeWith = None,
) -> None:
    """Deploy the CDK app of this directory to a local cloud, and show the result."""
    try:
        with _interruptible(), _failures_printed():
            run_demo(app_directory.resolve(), Console(), serve=serve_with or serve)
    except KeyboardInterrupt:
        _console.print("\nInterrupted; the local cloud and the CDK CLI have ended.")
        raise typer.Exit(_INTERRUPTED) from None


def _quotas(stated: list[str] | None) -> dict[str, float]:
    quotas: dict[str, float] = {}
    for text in stated or ():
        name, _, value = text.rpartition("=")
        try:
            quotas[name] = float(value)
        except ValueError:
            raise typer.BadParameter(f"{text!r} is not NAME=VALUE, for instance {_EXAMPLE}") from None
    return quotas


@contextmanager
def _failures_printed() -> Iterator[None]:
    """Print a failure of the local cloud in one line, and end the command with status 1."""
    try:
        yield
    except (DemoFailed, LocalCloudError, UntestedMinistack) as error:
        _console.print(f"[red]{error}[/]", highlight=False)
        raise typer.Exit(1) from None


@contextmanager
def _interruptible() -> Iterator[None]:
    """Let SIGTERM end a command as Ctrl-C does, together with its child processes."""
    before = {sign: signal.signal(sign, signal.default_int_handler) for sign in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for sign, action in before.items():
            signal.signal(sign, action)
