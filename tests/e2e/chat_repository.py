"""The repository of examples/pipeline.py: the example as its app, with what the pipeline's own commands ask for."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

from .stack import CDK, CHECKOUT

EXAMPLE = CHECKOUT / "examples" / "pipeline.py"
# `npm ci` installs a package of the repository itself, for which it asks no registry: the CLI that this checkout has.
_CLI = "tools/aws-cdk"


def write_repository(folder: Path) -> None:
    """Lay out a repository of which ``npm ci``, ``pip install -r requirements.txt`` and ``npx cdk synth`` succeed."""
    shutil.copy(EXAMPLE, folder / "app.py")
    settings = json.loads((CHECKOUT / "cdk.json").read_text())
    _write(folder / "cdk.json", {**settings, "app": "python app.py"})
    (folder / "requirements.txt").write_text("aws-cdk-lib>=2.275\nconstructs-optim\n")
    package = {"name": "aws-cdk", "version": "2.0.0", "bin": {"cdk": "cdk"}}
    _write(folder / _CLI / "package.json", package)
    (folder / _CLI / "cdk").write_text(f'#!/usr/bin/env node\nrequire("{CDK.resolve()}")\n')
    (folder / _CLI / "cdk").chmod(0o755)
    wanted = {"name": "chat", "private": True, "devDependencies": {"aws-cdk": f"file:{_CLI}"}}
    _write(folder / "package.json", wanted)
    lock = {
        "name": "chat",
        "lockfileVersion": 3,
        "requires": True,
        "packages": {
            "": {"name": "chat", "devDependencies": wanted["devDependencies"]},
            "node_modules/aws-cdk": {"resolved": _CLI, "link": True},
            _CLI: {**package, "dev": True},
        },
    }
    _write(folder / "package-lock.json", lock)
    (folder / ".gitignore").write_text("cdk.out\nnode_modules\n")
    subprocess.run(["git", "init", "--quiet", str(folder)], check=True)


def change(folder: Path, old: str, new: str) -> None:
    """Change the app, as a commit would."""
    app = folder / "app.py"
    text = app.read_text()
    assert text.count(old) == 1, f"{old!r} is in the example {text.count(old)} times"
    app.write_text(text.replace(old, new))


def _write(path: Path, content: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=2))
