"""What AWS's entry points make of variables: run by hand after a change of the scripts, never imported.

    python tests/conformance/record_entry_points.py <a clone of https://github.com/aws/deep-learning-containers>

Runs the scripts of the commits below in bash, with stand-ins for the programs that they start, and records the
arguments of the engine. The scripts are Apache-2.0, and are not stored.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

RECORDED = Path(__file__).parent / "recorded" / "entry_points.json"
OLD, NEW = "959bbf5c18", "dceae13291"
SCRIPTS = {
    "vllm until 0.27.1": (OLD, "scripts/docker/vllm/sagemaker_entrypoint.sh", "SM_VLLM_"),
    "vllm": (NEW, "scripts/docker/vllm/sagemaker_args.py", "SM_VLLM_"),
    "sglang": ("e0ecedea6a", "scripts/docker/sglang/sagemaker_entrypoint.sh", "SM_SGLANG_"),
}
VALUES = [
    "",
    "true",
    "TRUE",
    "false",
    " false",
    "8192",
    "two words",
    "a=b",
    "YWJj=",
    "YWJj==",
    "a=b=",
    "a=b==",
    "=",
    '{"a": 1}',
    '{"a": {"b": [1, 2]}, "c": "d e"}',
    '{\n "a": 1\n}',
    "first\nsecond",
    '["one"]',
    '["one", "two"]',
    '[{"name": "a", "path": "/x"}]',
    '[{"name": "a", "path": "/x"}, {"name": "b", "path": "/y"}]',
    '["one",\n "two"]',
    "[1, 2, true, null]",
    "[]",
    "[not json]",
    '{"a": 1} {"b": 2}',
    "a=/x b=/y",
    "$(date) `date` 'quoted' \"double\"",
    "*",
]
ARGUMENTS = ["SOME_ARGUMENT", "ALLOWED_ORIGINS"]
# Prints the arguments that a script starts an engine with.
STARTED = '#!/bin/bash\nprintf "%s\\\\0" "$@"\n'


def arguments(script: str, environment: dict[str, str]) -> list[str]:
    """Return the engine's arguments, without the program."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "script"
        path.write_text(script, encoding="utf-8")
        if "import argparse" in script or "import json" in script:
            command = [sys.executable, str(path)]
            search = os.environ["PATH"]
        else:
            for name in ("standard-supervisor", "python3"):
                program = Path(folder) / name
                program.write_text(STARTED, encoding="utf-8")
                program.chmod(0o755)
            command, search = ["bash", str(path)], f"{folder}:{os.environ['PATH']}"
        ended = subprocess.run(command, env={**environment, "PATH": search}, capture_output=True, check=True)
    output = ended.stdout.decode()
    # The first line is the script's own message.
    own = output[output.rindex("\n-m\0") + 1 :] if "\n-m\0" in output else output
    found = own.split("\0")[:-1]
    return found[found.index("-m") + 2 :] if "-m" in found else found


def main() -> None:
    """Write what the scripts of the clone make of each value."""
    clone = sys.argv[1]
    recorded: dict[str, object] = {}
    for name, (commit, path, prefix) in SCRIPTS.items():
        shown = ["git", "-C", clone, "show", f"{commit}:{path}"]
        script = subprocess.run(shown, capture_output=True, check=True, text=True).stdout
        cases = []
        for argument in ARGUMENTS:
            flag = f"--{argument.lower().replace('_', '-')}"
            for value in VALUES:
                given = arguments(script, {prefix + argument: value})
                rest = given[given.index(flag) :] if flag in given else []
                # The scripts add the port, the host and the model.
                own = rest[1 : next((i for i, word in enumerate(rest) if i and word.startswith("--")), None)]
                cases.append({"argument": argument, "value": value, "words": own if rest else None})
        recorded[name] = {"commit": commit, "path": path, "cases": cases}
    RECORDED.write_text(json.dumps(recorded, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
