"""The app's lock file: read for every plan, and written when the CDK CLI synthesizes a container that it lacks.

The CLI keeps what its context providers looked up in ``cdk.context.json`` for the same reason: so that the next
synthesis has the same template.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from aws_cdk import Annotations, Stack
from constructs import Construct

from constructs_optim.recipe.lock import LOCK_FILE, Lock

from .stack_context import StackContext

LOCK_FILE_CONTEXT = "constructs-optim:lock-file"
"""Context key of another path than ``optim.lock.json`` in the current folder."""
# The CDK CLI sets it for apps (aws-cdk-lib, cx-api: OUTDIR_ENV). Unit tests synthesize without it, and write nothing.
_WRITTEN_BY_CLI = "CDK_OUTDIR"


class _LockFile:
    def __init__(self, stack: Stack) -> None:
        self.path = Path(stack.node.try_get_context(LOCK_FILE_CONTEXT) or LOCK_FILE)
        self.lock = Lock.read(self.path)


def _file_of(scope: Construct) -> _LockFile:
    context = StackContext.of(scope)
    return context.once(_LockFile, lambda: _LockFile(context.stack))


def recorded_containers(scope: Construct) -> Mapping[str, str]:
    """The images that are recorded for the app of ``scope``, by requirement; the file is read once a stack."""
    return _file_of(scope).lock.containers


def record_containers(scope: Construct, containers: Mapping[str, str]) -> None:
    """Record images that the app has from now on. Does nothing where no CDK CLI runs the app."""
    file = _file_of(scope)
    if _WRITTEN_BY_CLI not in os.environ or containers.keys() <= file.lock.containers.keys():
        return
    # Another stack of the app may have recorded them.
    lock = Lock.read(file.path)
    added = [f"{name}: {image}" for name, image in containers.items() if name not in lock.containers]
    file.lock = lock.adding(containers)
    if not added:
        return
    try:
        file.lock.write(file.path)
    except OSError as error:
        Annotations.of(scope).add_warning_v2(
            "constructs-optim:lock-file",
            f"{file.path} cannot be written ({error.strerror}), and it lacks {', '.join(added)}. A newer release of "
            "constructs-optim may choose other containers, and make artifacts again: synthesize once where the file "
            "can be written, and commit it",
        )
    else:
        # Not an annotation: the CDK's validation would report it as a finding, with a way to acknowledge it.
        sys.stderr.write(f"{file.path} records {', '.join(added)}: commit it with the app\n")
