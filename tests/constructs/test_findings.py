"""Advice at its line of the app."""

from __future__ import annotations

import inspect

from aws_cdk import Annotations, App, Stack

from constructs_optim import Model, OptimizedEndpoint, Quantization

UNPINNED = Model.jumpstart("meta-textgeneration-llama-2-70b", accept_eula=True)


def test_advice_is_traced_to_the_line_that_declares_it() -> None:
    app = App()
    stack = Stack(app, "Chat")
    first = inspect.currentframe()
    assert first is not None
    line = first.f_lineno + 1
    OptimizedEndpoint(stack, "Chat", model=UNPINNED, techniques=[Quantization.awq()], instance_type="ml.g5.12xlarge")
    (job,) = [node for node in app.node.find_all() if node.node.path == "Chat/Chat/Optimization"]
    found = {entry.type: entry for entry in job.node.metadata}
    assert str(found["aws:cdk:warning"].data).endswith("[ack: constructs-optim:OPT006]")
    assert found["aws:cdk:warning"].trace is None, "a trace of jsii's kernel would come first"
    frames = found["aws:cdk:creationStack"].data
    assert frames[0] == f"test_advice_is_traced_to_the_line_that_declares_it ({__file__}:{line})"


def test_advice_is_acknowledged_before_and_after() -> None:
    stack = Stack(App(), "Chat")
    Annotations.of(stack).acknowledge_warning("constructs-optim:OPT006")
    OptimizedEndpoint(stack, "Chat", model=UNPINNED, techniques=[Quantization.awq()], instance_type="ml.g5.12xlarge")
    assert not [entry for node in stack.node.find_all() for entry in node.node.metadata if "warning" in entry.type]
