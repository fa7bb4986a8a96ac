"""Node.js, in which the AWS CDK runs."""

from __future__ import annotations

import os
import shutil


class NodeError(Exception):
    """Node.js is missing."""


def require_node() -> None:
    """Look for Node.js as jsii does, before the CDK is imported.

    Raises:
        NodeError: if there is none.
    """
    # jsii's environment variable.
    chosen = os.environ.get("JSII_NODE")
    if shutil.which(chosen or "node"):
        return
    missing = f"JSII_NODE names {chosen}, which is not a program" if chosen else "Node.js is not on the PATH"
    raise NodeError(f"{missing}: the AWS CDK needs it. Install Node.js 22 or 24, or set JSII_NODE to its path.")
