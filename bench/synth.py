"""Time synth of our constructs (bare and with every feature), raw L1 constructs, and the peer's constructs.

It also times our finished templates with every feature, included in the CDK with one call for each stack. This is the
CDK's own time, a lower bound for declaring the same resources.

Every measurement is a whole process, as `cdk synth` would start it: import, construction, synthesis and the CDK's own
validation of the templates. The kinds of app take turns, so that other load on the machine affects all of them. The
minimum of all repeats counts, because it includes the least of other work's time.

    .venv/bin/python bench/synth.py --repeats 3 --endpoints 1 10 50 200

The peer (cdklabs.generative-ai-cdk-constructs) has a separate environment, which `make peer` creates. Without it, the
peer is skipped.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from handlers import cold_starts, handler_targets
from rich.console import Console
from rich.table import Table
from synth_apps import FULL, INCLUDED, OURS, PEER, RAW
from targets import Target, target_table

CHECKOUT = Path(__file__).resolve().parent.parent
PEER_PYTHON = CHECKOUT / ".venv-peer" / "bin" / "python"

_FULL, _OURS, _PEER, _RAW = "ours, all on", "ours", "peer", "raw L1"
_INCLUDED = "templates of that, included"
_APPS = {_RAW: RAW, _OURS: OURS, _FULL: FULL, _INCLUDED: INCLUDED, _PEER: PEER}

# 10% above the ratios measured at 126e5eb on a quiet machine: 1.97 in wall time, 1.59 in processor time.
_MOST_OF_INCLUDED = {"wall": 1.97 * 1.1, "cpu": 1.59 * 1.1}
_MOST_OF_INCLUDED_AT = 50
_MOST_MB_AN_ENDPOINT = 1.0
_MOST_IMPORT_MS = 50.0
_MOST_GROWTH = 1.5  # maximum ratio of an added endpoint's cost between the last two counts to between the first two


@dataclass(frozen=True)
class Run:
    """One app in one process.

    Attributes:
        wall: seconds from start to end.
        cpu: seconds of processor time until synthesis has ended, of Python and (on Linux) of the CDK's Node processes.
        constructed: seconds of wall time for declaring the constructs.
        synthesized: seconds of wall time for making and validating the templates.
        python_mb: peak memory of Python.
        node_mb: peak memory of the Node processes; 0 if unknown.
        resources: number of resources in all templates.
    """

    wall: float
    cpu: float
    constructed: float
    synthesized: float
    python_mb: float
    node_mb: float
    resources: int


class Bench:
    """Runs apps in a separate directory, with Node and the context of the checkout's `cdk.json`."""

    def __init__(self, directory: Path, *, validates: bool) -> None:
        self.directory = directory
        self.environment = {
            **os.environ,
            "CDK_CONTEXT_JSON": json.dumps(json.loads((CHECKOUT / "cdk.json").read_text()).get("context", {})),
            "JSII_NODE": os.environ.get("JSII_NODE") or str(Path(sys.executable).with_name("node")),
            "PYTHONPATH": str(CHECKOUT),
        }
        if not validates:
            self.environment["CDK_VALIDATION"] = "false"
        # As on a developer's machine, imported modules are already compiled.
        self.environment.pop("PYTHONDONTWRITEBYTECODE", None)

    def run(self, kind: str, endpoints: int) -> Run:
        """Run an app to its end.

        Raises:
            SystemExit: if the app fails, with its output.
        """
        if kind == _INCLUDED and not self._templates(endpoints).exists():
            self.run(_FULL, endpoints)
        script, output = self.directory / "app.py", self.directory / "cdk.out"
        script.write_text(_APPS[kind])
        shutil.rmtree(output, ignore_errors=True)
        python = str(PEER_PYTHON) if kind == _PEER else sys.executable
        said = self.directory / "said.txt"
        started = time.perf_counter()
        with said.open("w") as file:
            process = subprocess.run(
                [python, str(script), str(endpoints)],
                cwd=self.directory,
                env={**self.environment, "CDK_OUTDIR": str(output)},
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                check=False,
            )
        wall = time.perf_counter() - started
        if process.returncode != 0:
            raise SystemExit(f"{kind} app with {endpoints} endpoints failed:\n{said.read_text()}")
        told = json.loads(said.read_text().splitlines()[-1])
        if kind == _FULL:
            self._keep_templates(output, self._templates(endpoints))
        return Run(
            wall,
            told["cpu"],
            told["constructed"],
            told["synthesized"],
            told["python_mb"],
            told["node_mb"],
            self._resources(output),
        )

    def _templates(self, endpoints: int) -> Path:
        return self.directory / f"templates-{endpoints}"

    def _keep_templates(self, output: Path, folder: Path) -> None:
        """Keep the templates without the CDK's additions to each stack."""
        folder.mkdir(exist_ok=True)
        for path in output.glob("*.template.json"):
            template = json.loads(path.read_text())
            template.pop("Rules", None)
            template.get("Parameters", {}).pop("BootstrapVersion", None)
            (folder / path.name.replace(".template", "")).write_text(json.dumps(template))

    def _resources(self, output: Path) -> int:
        templates = output.glob("*.template.json")
        return sum(len(json.loads(template.read_text())["Resources"]) for template in templates)

    def import_ms(self, repeats: int) -> float:
        """Return CPU milliseconds of `import constructs_optim` beyond `aws_cdk`."""
        timed = (
            "import aws_cdk, time\n"
            "started = time.process_time()\n"
            "import constructs_optim\n"
            "print((time.process_time() - started) * 1000)"
        )
        return min(
            float(
                subprocess.run(
                    [sys.executable, "-c", timed],
                    cwd=self.directory,
                    env=self.environment,
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    text=True,
                    check=True,
                ).stdout
            )
            for _ in range(repeats)
        )


class Figures:
    """The minima of all repeats, by kind of app and number of endpoints."""

    def __init__(self, runs: dict[tuple[str, int], list[Run]]) -> None:
        self._runs = runs

    @cached_property
    def kinds(self) -> list[str]:
        """The kinds of app, in their order."""
        return list(dict.fromkeys(kind for kind, _ in self._runs))

    @cached_property
    def counts(self) -> list[int]:
        """The numbers of endpoints."""
        return sorted({count for _, count in self._runs})

    def least(self, kind: str, count: int, figure: str) -> float:
        """Return the minimum of a figure."""
        return min(getattr(run, figure) for run in self._runs[kind, count])

    def growth(self, kind: str, figure: str, first: int, last: int) -> float:
        """Return the cost of each added endpoint between two counts."""
        return (self.least(kind, last, figure) - self.least(kind, first, figure)) / (last - first)


def main() -> int:
    """Measure, print, and return the exit status: 0 if the targets hold."""
    arguments = _arguments()
    console = Console(width=None if sys.stdout.isatty() else 120)
    kinds = [kind for kind in _APPS if kind != _PEER or PEER_PYTHON.exists()]
    if arguments.only is not None:
        kinds = [kind for kind in kinds if kind in arguments.only]
    console.print(
        f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the start, "
        f"Python {platform.python_version()}, the CDK's validation of templates "
        f"{'on' if arguments.validation else 'off'}"
    )
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        bench = Bench(Path(directory), validates=arguments.validation)
        figures = _measured(bench, kinds, sorted(arguments.endpoints), arguments.repeats, console)
        console.print(_table(figures))
        targets = _synth_targets(figures)
        ms = bench.import_ms(arguments.repeats)
        name = "import of constructs_optim beyond aws_cdk"
        targets.append(Target(name, f"{ms:.1f} ms", f"< {_MOST_IMPORT_MS:.0f} ms", ms < _MOST_IMPORT_MS))
        if arguments.only is None:
            targets += handler_targets(cold_starts(bench.directory, bench.environment, arguments.repeats))
    console.print(f"load {os.getloadavg()[0]:.1f} at the end")
    console.print(target_table(targets))
    return 0 if all(target.holds for target in targets) else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeats", type=int, default=3, help="runs of each app; the least counts (default: 3)")
    parser.add_argument("--endpoints", type=int, nargs="+", default=[1, 10, 50, 200], help="default: 1 10 50 200")
    parser.add_argument("--only", nargs="+", choices=list(_APPS), help="these kinds of app, and no handlers")
    parser.add_argument(
        "--no-validation",
        dest="validation",
        action="store_false",
        help="without the CDK's own validation of templates (CDK_VALIDATION=false)",
    )
    return parser.parse_args()


def _measured(bench: Bench, kinds: list[str], counts: list[int], repeats: int, console: Console) -> Figures:
    runs: dict[tuple[str, int], list[Run]] = {(kind, count): [] for kind in kinds for count in counts}
    with console.status("warming the caches"):
        for kind in kinds:
            bench.run(kind, 1)
    for repeat in range(repeats):
        for (kind, count), found in runs.items():
            with console.status(f"repeat {repeat + 1} of {repeats}: {count} endpoints, {kind}"):
                found.append(bench.run(kind, count))
    return Figures(runs)


def _table(figures: Figures) -> Table:
    table = Table(title="synth, whole processes, the least of all repeats")
    for heading in ("app", "endpoints", "wall s", "CPU s", "constructed s", "Python MB", "Node MB", "resources"):
        table.add_column(heading, justify="left" if heading == "app" else "right")
    for kind in figures.kinds:
        for count in figures.counts:
            seconds = [f"{figures.least(kind, count, name):.2f}" for name in ("wall", "cpu", "constructed")]
            sizes = [f"{figures.least(kind, count, name):.0f}" for name in ("python_mb", "node_mb", "resources")]
            table.add_row(kind, str(count), *seconds, *sizes)
        table.add_section()
    return table


def _synth_targets(figures: Figures) -> list[Target]:
    targets: list[Target] = []
    counts = figures.counts
    if {_INCLUDED, _FULL} <= set(figures.kinds) and _MOST_OF_INCLUDED_AT in counts:
        for figure, most in _MOST_OF_INCLUDED.items():
            ours = figures.least(_FULL, _MOST_OF_INCLUDED_AT, figure)
            ratio = ours / figures.least(_INCLUDED, _MOST_OF_INCLUDED_AT, figure)
            name = f"{_MOST_OF_INCLUDED_AT} of ours with all on, against their templates included, {figure}"
            targets.append(Target(name, f"{ratio:.2f}x", f"<= {most:.2f}x", ratio <= most))
    if len(counts) < 2:
        return targets
    for kind in (kind for kind in (_OURS, _FULL) if kind in figures.kinds):
        memory = sum(figures.growth(kind, figure, counts[0], counts[-1]) for figure in ("python_mb", "node_mb"))
        name, limit = f"{kind}: memory of an endpoint, Python and Node", f"< {_MOST_MB_AN_ENDPOINT:.0f} MB"
        targets.append(Target(name, f"{memory:.2f} MB", limit, memory < _MOST_MB_AN_ENDPOINT))
        if len(counts) >= 3:
            early = figures.growth(kind, "cpu", counts[0], counts[1])
            late = figures.growth(kind, "cpu", counts[-2], counts[-1])
            measured = f"{early * 1000:.0f} ms, then {late * 1000:.0f} ms of CPU"
            holds = late < _MOST_GROWTH * early
            targets.append(Target(f"{kind}: linear", measured, f"< {_MOST_GROWTH}x", holds))
    return targets


if __name__ == "__main__":
    sys.exit(main())
