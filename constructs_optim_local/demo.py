"""``constructs-optim local demo``: deploy a CDK app to a local cloud with the real CDK CLI."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from botocore.exceptions import ClientError
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)
from rich.text import Text

from .cloud import LocalCloud

_POLL_SECONDS = 0.5
# A poll takes a tenth of a second, and longer on a busy machine.
_LAST_POLL_SECONDS = 30
_NOT_SERVED = "Jobs are simulated, and no model is served."
_SERVED = "Jobs are simulated, and a tiny model stands in for the app's model."
# Width of the column of field names.
_NAMES = 15
_QUESTION = "Why are small models fast?"
_INTERRUPTIONS = (signal.SIGINT, signal.SIGTERM)


class DemoFailed(Exception):
    """A step of the demo failed. The message says which, and where to find more."""


@dataclass(frozen=True)
class Toolchain:
    """The CDK CLI to run, and the app's directory."""

    cdk: str
    app_directory: Path

    @staticmethod
    def find(app_directory: Path) -> Toolchain:
        """Return the CDK CLI of the checkout, or else the one on the PATH.

        Raises:
            DemoFailed: if there is none.
        """
        # First beside this Python, then where npm installs it, then on the PATH.
        beside, local = Path(sys.executable).with_name("cdk"), app_directory / "node_modules" / ".bin" / "cdk"
        found = next((str(path) for path in (beside, local) if path.exists()), None) or shutil.which("cdk")
        if found is None:
            raise DemoFailed("the CDK CLI is not installed: run `npm install aws-cdk@2` with Node.js 22 or 24")
        if not (app_directory / "cdk.json").exists():
            raise DemoFailed(
                f"{app_directory} has no cdk.json: run the demo in the directory of a CDK app. For an endpoint file, "
                "run `constructs-optim local run --bootstrap -- constructs-optim deploy endpoint.yaml`"
            )
        return Toolchain(found, app_directory)


def run_demo(app_directory: Path, console: Console | None = None, *, serve: bool | str = False) -> None:
    """Deploy the app in ``app_directory``, and print the progress and the result.

    Args:
        app_directory: the directory of ``cdk.json``.
        console: the console to print to. Default: standard output.
        serve: see ``LocalCloud``. The demo then requests a completion from each endpoint.

    Raises:
        DemoFailed: if bootstrap or deployment fails.
    """
    console = console or Console()
    tools = Toolchain.find(app_directory)
    started = time.monotonic()
    with LocalCloud(serve=serve, simulate_training=True) as cloud:
        console.print(
            f"A local cloud runs on {cloud.endpoint_url}. Jobs and endpoints pass through the states that they have on "
            f"AWS. {_SERVED if serve else _NOT_SERVED} The app's functions run as your user.\n",
            highlight=False,
        )
        log = app_directory / "cdk.out" / "demo.log"
        log.parent.mkdir(exist_ok=True)
        with log.open("w") as output:
            with _step(console, "cdk bootstrap"):
                _cdk(tools, cloud, output, "bootstrap")
            _deploy(console, tools, cloud, output)
        for stack in _stacks(cloud):
            console.print(f"\n[bold]Stack {stack}[/]")
            for name, value in _summary(cloud, stack, asks=bool(serve)):
                _print_field(console, name, value)
    seconds = time.monotonic() - started
    console.print(f"\n[green]Done[/] in {seconds:.0f} s. The output of the CDK CLI is in {_shown(log, tools)}.\n")
    _print_next(console, tools)


def _shown(path: Path | str, tools: Toolchain) -> str:
    """Return a program's name on the PATH, or its path from the app's directory."""
    path = Path(path)
    if shutil.which(path.name) == str(path):
        return path.name
    if path.parent == tools.app_directory / "node_modules" / ".bin":
        return f"npx {path.name}"
    return os.path.relpath(path, tools.app_directory)


def _print_field(console: Console, name: str, value: str) -> None:
    """Print a name and its value. A value that is too wide starts on a new line."""
    lines = value.splitlines()
    beside = all(_NAMES + len(line) <= console.width for line in lines)
    if not beside:
        console.print(name, style="bold", highlight=False)
    for number, line in enumerate(lines):
        start = f"{name if number == 0 else '':{_NAMES}}" if beside else "  "
        console.print(Text(start, "bold") + Text(line), soft_wrap=True)


def _print_next(console: Console, tools: Toolchain) -> None:
    cdk = _shown(tools.cdk, tools)
    cloud = _shown(Path(sys.executable).with_name("constructs-optim"), tools)
    console.print("Next, with a local cloud that keeps running:", style="bold")
    steps = (
        (f"{cloud} local start", "export what it prints"),
        (f"{cdk} bootstrap", ""),
        (f"{cdk} deploy", "what this demo did"),
        (f"{cdk} diff", "no differences, until you change app.py"),
        (f"{cdk} deploy", "reuses the artifact and runs no job"),
    )
    width = max(len(command) for command, _ in steps) + 4
    for command, what in steps:
        console.print(f"  {command:{width}}{f'# {what}' if what else ''}".rstrip(), soft_wrap=True, highlight=False)


@contextmanager
def _step(console: Console, title: str) -> Iterator[None]:
    started = time.monotonic()
    with console.status(f"{title} ..."):
        yield
    console.print(f"[green]✓[/] {title} ({time.monotonic() - started:.0f} s)")


def _cdk(tools: Toolchain, cloud: LocalCloud, output: IO[str], *arguments: str) -> None:
    with running([tools.cdk, *arguments], tools.app_directory, cloud.child_environment(), output) as process:
        status = process.wait()
    if status != 0:
        last_lines = Path(output.name).read_text().splitlines()[-30:]
        raise DemoFailed(f"cdk {arguments[0]} ended with exit status {status}:\n" + "\n".join(last_lines))


@contextmanager
def running(
    command: list[str], directory: Path, environment: dict[str, str], output: IO[str]
) -> Iterator[subprocess.Popen[str]]:
    """Run a process in its own session. An exception in the block, including Ctrl-C's, ends it and its children."""
    # Ctrl-C between the process's start and the `try` would leave it running, so it is deferred.
    with _ctrl_c_deferred() as raise_deferred:
        process = subprocess.Popen(
            command,
            cwd=directory,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            raise_deferred()
            yield process
        except BaseException:
            _end(process)
            raise


@contextmanager
def _ctrl_c_deferred() -> Iterator[Callable[[], None]]:
    """Defer SIGINT and SIGTERM until the yielded function is called, which raises pending ones."""
    received: list[int] = []
    handlers = {sign: signal.signal(sign, lambda number, _: received.append(number)) for sign in _INTERRUPTIONS}

    def restore() -> None:
        for sign, handler in handlers.items():
            signal.signal(sign, handler)

    def raise_deferred() -> None:
        restore()
        if received:
            raise KeyboardInterrupt

    try:
        yield raise_deferred
    finally:
        restore()


def _end(process: subprocess.Popen[str]) -> None:
    for sign in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, sign)
            process.wait(timeout=5)
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue


def _deploy(console: Console, tools: Toolchain, cloud: LocalCloud, output: IO[str]) -> None:
    started = time.monotonic()
    done = threading.Event()
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        bar = progress.add_task("cdk deploy", total=None)
        watcher = threading.Thread(target=_watch, args=(cloud, progress, bar, done), daemon=True)
        watcher.start()
        try:
            _cdk(tools, cloud, output, "deploy", "--all", "--require-approval", "never", "--progress", "events")
        finally:
            done.set()
            watcher.join(timeout=_LAST_POLL_SECONDS)
    console.print(f"[green]✓[/] cdk deploy ({time.monotonic() - started:.0f} s)")


def _watch(cloud: LocalCloud, progress: Progress, bar: Any, done: threading.Event) -> None:
    """Print each new state of a job, endpoint or resource, and update the progress bar."""
    cloudformation, seen = cloud.client("cloudformation"), set[str]()
    over = False
    # The states since the last poll are printed after the deployment has ended.
    while not over:
        over = done.wait(_POLL_SECONDS)
        for kind, jobs in (("optimization", cloud.jobs()), ("training", cloud.training_jobs())):
            for job in jobs:
                for entry in job["history"]:
                    key = f"{job['name']} {entry['status']}"
                    if key not in seen:
                        seen.add(key)
                        progress.console.print(f"  {kind} job {entry['status']}", highlight=False)
        for stack in _stacks(cloud):
            resources = cloudformation.describe_stack_resources(StackName=stack)["StackResources"]
            complete = [r for r in resources if r["ResourceStatus"] in ("CREATE_COMPLETE", "UPDATE_COMPLETE")]
            for resource in complete:
                if resource["LogicalResourceId"] not in seen and resource["ResourceType"].startswith(_TOLD):
                    seen.add(resource["LogicalResourceId"])
                    progress.console.print(f"  {resource['ResourceType']} created", highlight=False)
            body = cloudformation.get_template(StackName=stack)["TemplateBody"]
            total = len((body if isinstance(body, dict) else json.loads(body)).get("Resources", {}))
            progress.update(bar, completed=len(complete), total=total, description=f"cdk deploy {stack}")


_JOBS = ("Custom::OptimizationJob", "Custom::TrainingJob")
_TOLD = (
    "AWS::SageMaker::",
    "AWS::ApplicationAutoScaling::",
    "AWS::CloudWatch::Dashboard",
    *_JOBS,
)


def _stacks(cloud: LocalCloud) -> list[str]:
    """Return the app's stacks, without bootstrap's."""
    stacks = cloud.client("cloudformation").describe_stacks()["Stacks"]
    return [s["StackName"] for s in stacks if s["StackName"] != "CDKToolkit" and "DELETE" not in s["StackStatus"]]


def _summary(cloud: LocalCloud, stack: str, *, asks: bool) -> Iterator[tuple[str, str]]:
    """Yield names and values of the result."""
    resources = cloud.client("cloudformation").describe_stack_resources(StackName=stack)["StackResources"]
    by_type: dict[str, list[str]] = {}
    for resource in resources:
        by_type.setdefault(resource["ResourceType"], []).append(resource.get("PhysicalResourceId", ""))
    jobs = [*cloud.jobs(), *cloud.training_jobs()]
    histories = {job["name"]: [entry["status"] for entry in job["history"]] for job in jobs}
    manifests = [_manifest(cloud, key) for kind in _JOBS for key in by_type.get(kind, [])]
    for manifest in filter(None, manifests):
        yield "Model", manifest["description"]["Model"]
        yield "Techniques", "\n".join(manifest["description"]["Techniques"])
        statuses = histories.get(manifest["job_name"])
        yield "Job", manifest["job_name"] + "\n" + (" → ".join(statuses) if statuses else "reused")
        yield "Job image", manifest["image"]
        yield "Artifact", f"{manifest['model_data_uri']}\n{len(manifest['files'])} files"
    yield from _endpoint_fields(cloud, by_type, asks=asks)
    for name in by_type.get("AWS::CloudWatch::Dashboard", []):
        yield "Dashboard", name


def _manifest(cloud: LocalCloud, key: str) -> dict[str, Any] | None:
    """Return the artifact's manifest from any bucket, because a stack may use another stack's store."""
    s3 = cloud.client("s3")
    for bucket in s3.list_buckets()["Buckets"]:
        try:
            body = s3.get_object(Bucket=bucket["Name"], Key=f"artifacts/{key}/manifest.json")["Body"].read()
        except ClientError:
            continue
        return json.loads(body)
    return None


def _endpoint_fields(cloud: LocalCloud, by_type: dict[str, list[str]], *, asks: bool) -> Iterator[tuple[str, str]]:
    for arn in by_type.get("AWS::SageMaker::Endpoint", []):
        endpoint = cloud.client("sagemaker").describe_endpoint(EndpointName=arn.rpartition("/")[2])
        variants = ", ".join(
            f"{variant['VariantName']}: {count} instance{'' if count == 1 else 's'}"
            for variant in endpoint.get("ProductionVariants", [])
            for count in [variant.get("CurrentInstanceCount", 0)]
        )
        images = {
            image["ResolvedImage"]: None
            for variant in endpoint.get("ProductionVariants", [])
            for image in variant.get("DeployedImages", [])
        }
        if images:
            yield "Serving image", "\n".join(images)
        yield "Endpoint", f"{endpoint['EndpointName']}\n{endpoint['EndpointStatus']}, {variants}"
        targets = cloud.client("application-autoscaling").describe_scalable_targets(ServiceNamespace="sagemaker")
        for target in targets["ScalableTargets"]:
            if target["ResourceId"].startswith(f"endpoint/{endpoint['EndpointName']}/"):
                yield "Scaling range", f"{target['MinCapacity']} to {target['MaxCapacity']} instances"
        if asks:
            yield "Question", _QUESTION
            yield "Answer", _answer(cloud, endpoint["EndpointName"])


def _answer(cloud: LocalCloud, endpoint: str) -> str:
    request = {"messages": [{"role": "user", "content": _QUESTION}], "max_tokens": 40, "temperature": 0.6, "seed": 1}
    try:
        response = cloud.client("sagemaker-runtime").invoke_endpoint(
            EndpointName=endpoint, ContentType="application/json", Body=json.dumps(request)
        )
        return json.loads(response["Body"].read())["choices"][0]["message"]["content"]
    except ClientError as error:
        return str(error)
