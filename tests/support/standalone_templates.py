"""Standalone templates of the examples and of stacks that tests declare."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aws_cdk
import pytest
from aws_cdk import App, IStackSynthesizer, Stack

from constructs_optim import OptimizedEndpoint
from constructs_optim.constructs.standalone_template.outputs import add_outputs
from constructs_optim.constructs.standalone_template.standalone_template import StandaloneTemplate, standalone_template

# The constructs load what they need when they are used, and are to find the CDK's own Stack.
assert OptimizedEndpoint


def of_stack(fill: Callable[[Stack], object], **options: Any) -> StandaloneTemplate:
    """The template of a stack without account and region, which ``fill`` declares the resources of."""

    def declare(app: App, synthesizer: IStackSynthesizer) -> Stack:
        stack = Stack(app, "Chat", synthesizer=synthesizer)
        fill(stack)
        return stack

    return standalone_template(declare, **options)


def of_example(path: Path, *, outputs: bool = False, **options: Any) -> StandaloneTemplate:
    """The template of a program with one stack, as if it named neither account nor region.

    With ``outputs``, it has those of each endpoint.
    """

    def declare(app: App, synthesizer: IStackSynthesizer) -> Stack:
        stacks: list[Stack] = []

        def stack(scope: App, name: str, **_: Any) -> Stack:
            stacks.append(Stack(scope, name, synthesizer=synthesizer))
            return stacks[0]

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(aws_cdk, "App", lambda: app)
            patched.setattr(aws_cdk, "Stack", stack)
            # It synthesizes once, after which nothing can be added.
            patched.setattr(App, "synth", lambda _: None)
            names = runpy.run_path(str(path), run_name="__main__")
        if outputs:
            for endpoint in [value for value in names.values() if isinstance(value, OptimizedEndpoint)]:
                add_outputs(endpoint.node.id, endpoint)
        return stacks[0]

    return standalone_template(declare, **options)
