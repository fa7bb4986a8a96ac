"""How long synth takes against raw L1 constructs, and what the Lambda handlers cost to load.

Every measurement is a whole process, as `cdk synth` would start it: import, construction and synthesis. The
two kinds of app take turns, so that a busy moment of the machine does not fall on one of them alone.

    .venv/bin/python bench/synth.py --repeats 5 --endpoints 1 10 50
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import zipfile
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

CHECKOUT = Path(__file__).resolve().parent.parent
PACKAGE = CHECKOUT / "constructs_optim"
HANDLERS = ("artifact_handler", "capacity_handler", "job_handler", "job_watcher", "model_handler")
# What a handler imports of the Powertools layer; boto3 and what that needs are the runtime's.
LAYER = ("aws_lambda_powertools", "typing_extensions")

# A template holds 500 resources: the endpoints of both kinds of app are spread over stacks alike.
ENDPOINTS_A_STACK = 25

MOST_TIMES_RAW = {1: 1.3, 50: 2.0}
MOST_GROWTH = 1.5  # seconds an added endpoint may cost between the last two counts, against between the first two
MOST_IMPORT_MS = 50.0
MOST_LAYER_MS = 100.0  # Powertools from its layer; half of it is typing_extensions, compiled anew
MOST_ZIP_KB = 100.0

_FRAME = """
import sys
from aws_cdk import App, Stack
{imports}

app = App()
for i in range(int(sys.argv[1])):
    if i % {endpoints_a_stack} == 0:
        stack = Stack(app, f"Bench{{i // {endpoints_a_stack}}}")
{body}
app.synth()
"""

RAW = _FRAME.format(
    endpoints_a_stack=ENDPOINTS_A_STACK,
    imports="from aws_cdk import aws_iam as iam, aws_sagemaker as sagemaker",
    body="""
    role = iam.CfnRole(stack, f"Role{i}", assume_role_policy_document={
        "Version": "2012-10-17",
        "Statement": [{
            "Effect": "Allow",
            "Principal": {"Service": "sagemaker.amazonaws.com"},
            "Action": "sts:AssumeRole"}]})
    model = sagemaker.CfnModel(stack, f"Model{i}", execution_role_arn=role.attr_arn,
        primary_container=sagemaker.CfnModel.ContainerDefinitionProperty(
            image="111122223333.dkr.ecr.us-west-2.amazonaws.com/llm:1",
            environment={"OPTION_QUANTIZE": "awq"}))
    config = sagemaker.CfnEndpointConfig(stack, f"Config{i}", production_variants=[
        sagemaker.CfnEndpointConfig.ProductionVariantProperty(
            variant_name="AllTraffic", initial_variant_weight=1, initial_instance_count=1,
            instance_type="ml.g5.12xlarge", model_name=model.attr_model_name)])
    sagemaker.CfnEndpoint(stack, f"Endpoint{i}", endpoint_config_name=config.attr_endpoint_config_name)
""",
)

OURS = _FRAME.format(
    endpoints_a_stack=ENDPOINTS_A_STACK,
    imports="from constructs_optim import Model, OptimizedEndpoint, Quantization",
    body="""
    endpoint = OptimizedEndpoint(stack, f"E{i}",
        model=Model.jumpstart("meta-textgeneration-llama-2-70b", version="4.13.0", accept_eula=True),
        techniques=[Quantization.awq()], instance_type="ml.g5.12xlarge")
    endpoint.auto_scale(max_capacity=4).on_concurrency(target=8)
    endpoint.dashboard
""",
)


@dataclass(frozen=True)
class Target:
    """One thing that is promised, and whether it holds."""

    name: str
    measured: str
    limit: str
    holds: bool


class Bench:
    """Runs apps in a directory of their own, with Node and the context of the checkout's `cdk.json`."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.environment = {
            **os.environ,
            "CDK_CONTEXT_JSON": json.dumps(json.loads((CHECKOUT / "cdk.json").read_text()).get("context", {})),
            "JSII_NODE": os.environ.get("JSII_NODE") or str(Path(sys.executable).with_name("node")),
            "PYTHONPATH": str(CHECKOUT),
        }
        # As on a developer's machine: what was imported once is not compiled again.
        self.environment.pop("PYTHONDONTWRITEBYTECODE", None)

    def synth_seconds(self, kind: str, app: str, endpoints: int) -> float:
        """Time from the start of the app's process to its end.

        Raises:
            SystemExit: when the app fails, with what it said.
        """
        script = self.directory / f"{kind}.py"
        script.write_text(app)
        output = self.directory / f"{kind}.out"
        shutil.rmtree(output, ignore_errors=True)
        started = time.perf_counter()
        done = subprocess.run(
            [sys.executable, str(script), str(endpoints)],
            cwd=self.directory,
            env={**self.environment, "CDK_OUTDIR": str(output)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
        seconds = time.perf_counter() - started
        if done.returncode != 0:
            raise SystemExit(f"{kind} app with {endpoints} endpoints failed:\n{done.stdout}{done.stderr}")
        return seconds

    def resources(self, kind: str) -> int:
        """Resources in the templates of the app's last run."""
        templates = (self.directory / f"{kind}.out").glob("*.template.json")
        return sum(len(json.loads(template.read_text())["Resources"]) for template in templates)

    def import_ms(self, module: str, repeats: int) -> tuple[float, float]:
        """CPU milliseconds of a handler's first import beyond boto3: those of the Powertools layer, and its own."""
        timed = (
            "import boto3, botocore.config, botocore.exceptions, time\n"
            "started = time.process_time()\n"
            "import aws_lambda_powertools\n"
            "loaded = time.process_time()\n"
            f"import runtime.{module}\n"
            "print((loaded - started) * 1000, (time.process_time() - loaded) * 1000)"
        )
        environment = {
            **self.environment,
            "PYTHONPATH": os.pathsep.join(str(root) for root in self._lambda_roots()),
            # As in Lambda, which has no bytecode: the folders are read-only, and the layer is published without.
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        environment.setdefault("AWS_DEFAULT_REGION", "us-west-2")
        measured = [
            [
                float(milliseconds)
                for milliseconds in subprocess.run(
                    [sys.executable, "-c", timed],
                    cwd=self.directory,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    text=True,
                    check=True,
                ).stdout.split()
            ]
            for _ in range(repeats)
        ]
        layer, own = zip(*measured, strict=True)
        return statistics.median(layer), statistics.median(own)

    def _lambda_roots(self) -> tuple[Path, Path]:
        """Copies of the handlers' folder and of the layer, which show that they need nothing beside them."""
        task, layer = self.directory / "lambda", self.directory / "layer"
        no_bytecode = shutil.ignore_patterns("__pycache__")
        if not task.exists():
            shutil.copytree(PACKAGE / "runtime", task / "runtime", ignore=no_bytecode)
            layer.mkdir()
            for name in LAYER:
                origin = Path(importlib.util.find_spec(name).origin or "")  # pyright: ignore[reportOptionalMemberAccess]
                if origin.name == "__init__.py":
                    shutil.copytree(origin.parent, layer / name, ignore=no_bytecode)
                else:
                    shutil.copy(origin, layer)
        return task, layer

    def runtime_zip_kb(self) -> float:
        """The handlers' folder as the archive that a deployment uploads."""
        archive = self.directory / "runtime.zip"
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
            for path in sorted((PACKAGE / "runtime").rglob("*")):
                if path.is_file() and "__pycache__" not in path.parts:
                    packed.write(path, path.relative_to(PACKAGE))
        return archive.stat().st_size / 1024


def main() -> int:
    """Measure, print, and say by the exit status whether the targets hold."""
    arguments = _arguments()
    console = Console()
    apps = {"raw L1": RAW} if arguments.raw_only else {"raw L1": RAW, "ours": OURS}
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        bench = Bench(Path(directory))
        seconds, resources = _synth(bench, apps, sorted(arguments.endpoints), arguments.repeats, console)
        console.print(_synth_table(seconds, resources))
        targets = _synth_targets(seconds) + _runtime_targets(bench, arguments.repeats)
    console.print(_target_table(targets))
    return 0 if all(target.holds for target in targets) else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5, help="runs of each app; the median counts (default: 5)")
    parser.add_argument("--endpoints", type=int, nargs="+", default=[1, 10, 50], help="default: 1 10 50")
    parser.add_argument("--raw-only", action="store_true", help="only the raw L1 constructs, as a baseline")
    return parser.parse_args()


Seconds = dict[str, dict[int, float]]


def _synth(
    bench: Bench, apps: dict[str, str], counts: list[int], repeats: int, console: Console
) -> tuple[Seconds, dict[str, dict[int, int]]]:
    runs: dict[str, dict[int, list[float]]] = {kind: {count: [] for count in counts} for kind in apps}
    resources: dict[str, dict[int, int]] = {kind: {} for kind in apps}
    with console.status("warming the caches"):
        for kind, app in apps.items():
            bench.synth_seconds(kind, app, 1)
    for repeat in range(repeats):
        for count in counts:
            for kind, app in apps.items():
                with console.status(f"repeat {repeat + 1} of {repeats}: {count} endpoints, {kind}"):
                    runs[kind][count].append(bench.synth_seconds(kind, app, count))
                resources[kind][count] = bench.resources(kind)
    medians = {
        kind: {count: statistics.median(timed) for count, timed in by_count.items()} for kind, by_count in runs.items()
    }
    return medians, resources


def _synth_table(seconds: Seconds, resources: dict[str, dict[int, int]]) -> Table:
    table = Table(title="synth, whole process, median seconds")
    table.add_column("endpoints", justify="right")
    for kind in seconds:
        table.add_column(kind, justify="right")
        table.add_column("resources", justify="right")
    table.add_column("ours / raw", justify="right")
    for count in next(iter(seconds.values())):
        cells = [cell for kind in seconds for cell in (f"{seconds[kind][count]:.2f}", str(resources[kind][count]))]
        ratio = f"{seconds['ours'][count] / seconds['raw L1'][count]:.2f}" if "ours" in seconds else "-"
        table.add_row(str(count), *cells, ratio)
    return table


def _synth_targets(seconds: Seconds) -> list[Target]:
    if "ours" not in seconds:
        return []
    raw, ours = seconds["raw L1"], seconds["ours"]
    targets = [
        Target(f"synth of {count}, against raw L1", f"{ratio:.2f}x", f"< {most}x", ratio < most)
        for count, most in MOST_TIMES_RAW.items()
        if count in ours
        for ratio in [ours[count] / raw[count]]
    ]
    if len(ours) >= 3:
        first, *_, before, last = sorted(ours)
        early = (ours[before] - ours[first]) / (before - first)
        late = (ours[last] - ours[before]) / (last - before)
        targets.append(
            Target(
                "linear: an added endpoint",
                f"{early * 1000:.0f} ms, then {late * 1000:.0f} ms",
                f"< {MOST_GROWTH}x",
                late < MOST_GROWTH * early,
            )
        )
    return targets


def _runtime_targets(bench: Bench, repeats: int) -> list[Target]:
    targets: list[Target] = []
    measured = {module: bench.import_ms(module, repeats) for module in HANDLERS}
    layer = statistics.median(layer for layer, _ in measured.values())
    for module, (_, own) in measured.items():
        name = f"import of {module} beyond boto3 and Powertools"
        targets.append(Target(name, f"{own:.0f} ms", f"< {MOST_IMPORT_MS:.0f} ms", own < MOST_IMPORT_MS))
    targets.append(
        Target("import of Powertools", f"{layer:.0f} ms", f"< {MOST_LAYER_MS:.0f} ms", layer < MOST_LAYER_MS)
    )
    size = bench.runtime_zip_kb()
    targets.append(Target("handlers, zipped", f"{size:.0f} KB", f"< {MOST_ZIP_KB:.0f} KB", size < MOST_ZIP_KB))
    return targets


def _target_table(targets: list[Target]) -> Table:
    table = Table(title="targets")
    for heading in ("what", "measured", "target", "holds"):
        table.add_column(heading)
    for target in targets:
        table.add_row(target.name, target.measured, target.limit, "[green]yes[/]" if target.holds else "[red]no[/]")
    return table


if __name__ == "__main__":
    sys.exit(main())
