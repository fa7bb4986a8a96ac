"""The repository of examples/pipeline.py: the example as its app, with what the pipeline's own commands ask for."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from constructs_optim.local.cloud import LocalCloud

from .stack import CDK, CHECKOUT

EXAMPLE = CHECKOUT / "examples" / "pipeline.py"
CONNECTED = "my-organization/chat"
"""What the example calls its repository."""
_LONGEST = 300
# The newest cdk-assets (4.7.3) reads manifests up to version 54; those of aws-cdk-lib 2.275 say 55, and are the same
# otherwise.
_PUBLISHER = """\
#!/bin/sh
sed 's/"version": "55[.][0-9.]*"/"version": "54.0.0"/' "$2" >"$2.54" && mv "$2.54" "$2"
exec "{program}" "$@"
"""
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


def write_programs(folder: Path) -> None:
    """Make the programs of a build's image that are not just this checkout's."""
    publisher = folder / "cdk-assets"
    publisher.write_text(_PUBLISHER.format(program=CDK.with_name("cdk-assets")))
    publisher.chmod(0o755)


def cdk(cloud: LocalCloud, folder: Path, *arguments: str) -> None:
    """Run the CDK CLI in the repository, as whoever works on it does."""
    done = subprocess.run(
        [str(CDK), *arguments],
        cwd=folder,
        env={**cloud.child_environment(), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=_LONGEST,
    )
    assert done.returncode == 0, done.stdout


def change(folder: Path, old: str, new: str) -> None:
    """Change the app, as a commit would."""
    app = folder / "app.py"
    text = app.read_text()
    assert text.count(old) == 1, f"{old!r} is in the example {text.count(old)} times"
    app.write_text(text.replace(old, new))


def _write(path: Path, content: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=2))
