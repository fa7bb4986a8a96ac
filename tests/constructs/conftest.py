"""What the tests of the constructs share: the templates of the stacks that cover their options."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import App, Stack

from ..support.construct_stacks import ENVIRONMENTS, STACKS, template_of
from ..support.made_once import folder_of_run, made_once

Synthesized = Callable[..., dict[str, Any]]


@pytest.fixture(scope="session")
def synthesized(tmp_path_factory: pytest.TempPathFactory) -> Synthesized:
    """The template of a stack in an environment, synthesized once for all processes of a run of pytest."""
    folder = folder_of_run(tmp_path_factory)

    def template(name: str, environment: str = "anywhere") -> dict[str, Any]:
        def synthesize(path: Path) -> None:
            stack = Stack(App(), "Chat", env=ENVIRONMENTS[environment])
            STACKS[name](stack)
            path.write_text(json.dumps(template_of(stack)))

        return json.loads(made_once(folder / f"{name}-{environment}.template.json", synthesize).read_text())

    return template
