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
    if shutil.which("node" if chosen is None else chosen):
        return
    if chosen is None:
        missing, fix = "Node.js is not on the PATH", "Install Node.js 22 or 24, or set JSII_NODE to its path."
    else:
        missing = f"JSII_NODE is {chosen!r}, which is not a program"
        fix = "Unset JSII_NODE, or set it to the path of Node.js 22 or 24."
    raise NodeError(f"{missing}, and the AWS CDK needs Node.js. {fix}")
