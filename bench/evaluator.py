"""Compare the evaluator's accuracy and cost with other tools'.

All tools measure a server with exactly known timing (tests/support/timing_server.py), in turn, on this machine: first
token after 200 ms, 50 tokens 20 ms apart, so that a user gets at most one answer in 1.18 s. Each runs in its own
environment, which the first run creates below bench/.environments (18 GB, most of it PyTorch with CUDA for guidellm and
vLLM). The benchmark names and skips tools that cannot be installed or fail. inference-perf needs Python 3.12. All
figures are also written to bench/.results/evaluator.json.

    .venv/bin/python bench/evaluator.py --users 1,8,64,256 --repeats 3
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

from evaluation_clients import ANSWER_SECONDS, CHECKOUT, FIRST_TOKEN_MS, INTER_TOKEN_MS, TOKENS, Run, Tool, tools
from rich.console import Console
from rich.table import Table
from targets import Target, target_table

RESULTS = Path(__file__).resolve().parent / ".results" / "evaluator.json"
SERVER = CHECKOUT / "tests" / "support" / "timing_server.py"
# Largest relative error of the time to first token, by number of users.
MOST_OFF = {64: 0.01, 256: 0.03}
# The server's timers have millisecond ticks, so smaller differences are not significant.
CLOCK_MS = 1
MOST_MEMORY_MB, MOST_INSTALLED_MB = 120, 150
INSTALL_SECONDS, RUN_SECONDS = 1800, 240
MEMORY_EVERY_SECONDS = 0.5


class ToolError(Exception):
    """A tool that could not be installed or failed."""


def install(tool: Tool) -> None:
    """Create a tool's environment, if it does not exist."""
    stamp = tool.folder / "packages"
    pip_install = ("pip", "install", "--compile-bytecode", "--python", str(tool.folder))
    if not stamp.exists() or stamp.read_text() != str(tool.packages):
        _uv("venv", "--clear", "--python", tool.python, str(tool.folder))
        _uv(*pip_install, *tool.packages)
        stamp.write_text(str(tool.packages))
    if tool.name.startswith("constructs-optim"):
        _uv(*pip_install, "--no-deps", "--reinstall", str(CHECKOUT))
    tool.installed_mb = sum(file.lstat().st_size for file in tool.folder.rglob("*")) / 1e6


def _uv(*command: str) -> None:
    uv = [sys.executable, "-m", "uv", *command]
    done = subprocess.run(uv, capture_output=True, text=True, timeout=INSTALL_SECONDS)
    if done.returncode:
        raise ToolError(done.stderr[-1500:])


@contextlib.contextmanager
def serving(tool: Tool) -> Iterator[str]:
    """Run the timing server in a separate process, with this library's environment for its event loop."""
    timing = ["--first-token", str(FIRST_TOKEN_MS / 1000), "--inter-token", str(INTER_TOKEN_MS / 1000)]
    command = [str(tool.folder / "bin" / "python"), str(SERVER), *timing, "--tokens", str(TOKENS)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        assert process.stdin is not None
        process.stdin.close()


def measure(tool: Tool, url: str, users: int, requests_a_user: int) -> dict[str, float]:
    """Run a tool once. Return its results, its processes' resource usage, and the server's lateness."""
    _lateness(url)
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        run = Run(url, users, requests_a_user, Path(folder))
        memory = _run(tool.command(run), run.folder)
        seconds, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
        said = tool.measured(run)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    load = os.getloadavg()[0]
    return said | {"cpu": cpu, "memory_mb": memory, "seconds": seconds, "late_ms": _lateness(url), "load": load}


def _run(command: list[str], folder: Path) -> float:
    """Run a command to its end. Return its processes' peak memory in megabytes, counting each page once."""
    log, memory = folder / "log", 0.0
    with log.open("w") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, cwd=folder, start_new_session=True)
        deadline = time.monotonic() + RUN_SECONDS
        try:
            while (left := deadline - time.monotonic()) > 0:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(min(left, MEMORY_EVERY_SECONDS))
                    break
                memory = max(memory, sum(map(_proportional_mb, _processes(process.pid))))
        finally:
            # Remaining processes would run beside the next tool.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    if process.returncode:
        reason = f"ended with {process.returncode}" if left > 0 else f"was not done after {RUN_SECONDS} s"
        raise ToolError(f"{reason}: {log.read_text(errors='replace')[-1500:]}")
    return memory


def _processes(session: int) -> Iterator[int]:
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if os.getsid(int(path.name)) == session:
                yield int(path.name)


def _proportional_mb(process: int) -> float:
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{process}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024 / 1e6
    return 0


def _lateness(url: str) -> float:
    """Return the mean lateness of the server's tokens since the last call, in milliseconds."""
    with urllib.request.urlopen(f"{url}/reset") as answer:
        return json.load(answer)["mean"] * 1000


def median(tool: Tool, users: int, name: str) -> float:
    """Return the median of a figure over all runs of a tool with a number of users."""
    return statistics.median(run[name] for run in tool.runs[users])


# The heading of each column, and its cell for a tool and a number of users.
COLUMNS: dict[str, Callable[[Tool, int], str]] = {
    "TTFT p50 ms": lambda tool, users: f"{median(tool, users, 'first_p50'):.1f}",
    "TTFT p99 ms": lambda tool, users: f"{median(tool, users, 'first_p99'):.1f}",
    "ITL p50 ms": lambda tool, users: f"{median(tool, users, 'inter_token_p50'):.2f}",
    "requests/s": lambda tool, users: (
        f"{median(tool, users, 'requests_per_second'):.2f} of {users / ANSWER_SECONDS:.2f}"
    ),
    "errors": lambda tool, users: f"{median(tool, users, 'errors'):.0f}",
    "CPU s": lambda tool, users: f"{median(tool, users, 'cpu'):.1f}",
    "memory MB": lambda tool, users: f"{median(tool, users, 'memory_mb'):.0f}",
    "installed MB": lambda tool, _: f"{tool.installed_mb:.0f}",
    "run s": lambda tool, users: f"{median(tool, users, 'seconds'):.1f}",
    "server late ms": lambda tool, users: f"{median(tool, users, 'late_ms'):.1f}",
}


def table(compared: list[Tool], levels: list[int]) -> Table:
    """Return the medians of all runs. A request's inter-token latency is (end - first token) / (tokens - 1)."""
    shown = Table(title=f"TTFT {FIRST_TOKEN_MS} ms, ITL {INTER_TOKEN_MS} ms, {TOKENS} tokens; {os.cpu_count()} cores")
    shown.add_column("users")
    shown.add_column("tool")
    for heading in COLUMNS:
        shown.add_column(heading, justify="right")
    for users in levels:
        for tool in compared:
            if users in tool.runs:
                shown.add_row(str(users), tool.name, *(cell(tool, users) for cell in COLUMNS.values()))
        shown.add_section()
    return shown


def targets(own: Tool, others: list[Tool], levels: list[int]) -> Iterator[Target]:
    """Yield the targets of this library's evaluator."""
    for users in levels:
        beside = [tool for tool in others if users in tool.runs]
        if users not in MOST_OFF or users not in own.runs or not beside:
            continue
        exact = abs(median(own, users, "first_p50") / FIRST_TOKEN_MS - 1)
        yield Target(
            f"TTFT p50 at {users} users", f"{exact:.2%} off", f"{MOST_OFF[users]:.0%}", exact <= MOST_OFF[users]
        )
        for name in ("first_p50", "first_p99"):
            off, *others_off = (abs(median(tool, users, name) - FIRST_TOKEN_MS) for tool in (own, *beside))
            best = min(others_off)
            label = f"TTFT {name.removeprefix('first_')} at {users} users"
            yield Target(label, f"{off:.1f} ms off", f"the best other's {best:.1f} ms", off <= best + CLOCK_MS)
        held, *others_held = (median(tool, users, "requests_per_second") for tool in (own, *beside))
        best = max(others_held)
        yield Target(f"requests/s at {users} users", f"{held:.2f}", f"the best other's {best:.2f}", held >= best)
        cpu, *others_cpu = (median(tool, users, "cpu") for tool in (own, *beside))
        best = min(others_cpu)
        yield Target(f"CPU at {users} users", f"{cpu:.1f} s", f"the best other's {best:.1f} s", cpu <= best)
    memory = max(run["memory_mb"] for runs in own.runs.values() for run in runs)
    yield Target("memory", f"{memory:.0f} MB", f"{MOST_MEMORY_MB} MB", memory <= MOST_MEMORY_MB)
    size = own.installed_mb
    yield Target("installed", f"{size:.0f} MB", f"{MOST_INSTALLED_MB} MB", size <= MOST_INSTALLED_MB)


def main() -> None:
    """Measure, print the table, and fail if a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--users", default="1,8,64,256")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--requests-a-user", type=int, default=6)
    parser.add_argument("--only", help="words of tools' names, separated by commas; this library is always included")
    given = parser.parse_args()
    levels = [int(level) for level in given.users.split(",")]
    own, *others = tools()
    if given.only is not None:
        others = [tool for tool in others if tool.name.split()[0] in given.only.split(",")]
    console, failed = Console(width=180), dict[str, str]()
    compared = list[Tool]()
    for tool in (own, *others):
        try:
            install(tool)
            compared.append(tool)
        except (ToolError, subprocess.TimeoutExpired) as error:
            failed[tool.name] = f"not installed: {error}"
    with serving(own) as url:
        for repeat in range(given.repeats):
            for users in levels:
                for tool in compared:
                    try:
                        run = measure(tool, url, users, given.requests_a_user)
                    except (ToolError, OSError, ValueError, LookupError) as error:
                        failed[f"{tool.name}, {users} users"] = str(error)
                        console.print(f"{repeat + 1}: {users} {tool.name}: failed")
                        continue
                    tool.runs.setdefault(users, []).append(run)
                    _write(compared, failed)
                    console.print(
                        f"{repeat + 1}: {users} {tool.name}: {run['first_p50']:.1f} ms (load {run['load']:.1f})"
                    )
    _write(compared, failed)
    console.print(table(compared, levels))
    for name, reason in failed.items():
        console.print(f"{name}: {reason}", markup=False)
    if not own.runs:
        raise SystemExit(1)
    promises = list(targets(own, [tool for tool in compared[1:] if tool.one_of_five], levels))
    console.print(target_table(promises))
    if not all(promise.holds for promise in promises):
        raise SystemExit(1)


def _write(compared: list[Tool], failed: dict[str, str]) -> None:
    RESULTS.parent.mkdir(exist_ok=True)
    measured = {tool.name: {"installed_mb": tool.installed_mb, "runs": tool.runs} for tool in compared}
    RESULTS.write_text(json.dumps({"measured": measured, "failed": failed}, indent=1))


if __name__ == "__main__":
    main()
