"""What the tests of the constructs share: the templates of the stacks that cover their options."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable
from typing import Any

import pytest
from aws_cdk import App, Stack

from ..support.construct_stacks import ENVIRONMENTS, STACKS, template_of

Synthesized = Callable[..., dict[str, Any]]


@pytest.fixture(scope="session")
def synthesized(tmp_path_factory: pytest.TempPathFactory) -> Synthesized:
    """The template of a stack in an environment, synthesized once for all processes of a run of pytest."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent

    def template(name: str, environment: str = "in_a_region") -> dict[str, Any]:
        path = folder / f"{name}-{environment}.template.json"
        with path.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not path.exists():
                stack = Stack(App(), "Chat", env=ENVIRONMENTS[environment])
                STACKS[name](stack)
                path.write_text(json.dumps(template_of(stack)))
        return json.loads(path.read_text())

    return template
