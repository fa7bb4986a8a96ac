"""The CDK CLI: where it is installed, and how a user calls it."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from .aws import failed


def cdk_command() -> list[str]:
    """Return the command for the CDK CLI: the folder's, the one beside this Python, the one in PATH, or npx's."""
    beside, local = Path(sys.executable).with_name("cdk"), Path("node_modules/.bin/cdk")
    found = next((str(path) for path in (local, beside) if path.exists()), None) or shutil.which("cdk")
    if found is not None:
        return [found]
    if (npx := shutil.which("npx")) is not None:
        # npm's `latest` tag points to an older CLI (docs/getting-started.md).
        return [npx, "--yes", "aws-cdk@2"]
    raise failed(
        "The CDK CLI is not installed. Run `npm install aws-cdk@2` with Node.js 22 or 24. Without it, "
        "`constructs-optim synth FILE --format cloudformation` writes a template that the AWS CLI deploys."
    )


def cdk_name() -> str:
    """Return what a user types to call the CDK CLI in this directory."""
    if shutil.which("cdk"):
        return "cdk"
    beside = Path(sys.executable).with_name("cdk")
    return os.path.relpath(beside) if beside.exists() else "npx cdk"
