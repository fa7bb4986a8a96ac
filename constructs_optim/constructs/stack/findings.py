"""What rules find, with its line of the app, where ``cdk validate`` and the CDK's language server look for both.

Advice is an annotation. A refusal is raised; where it ends an app that the CDK CLI runs, what the app has declared is
synthesized with the violations as errors, with which its stack cannot be deployed.

Source of the places: aws-cdk 2.1148.1, ``cdk-explorer/lib/core/assembly-index-with-source-locations.ts`` and
``cloud-assembly-api/lib/validation/loading.ts``. A finding is at the first frame of its own trace or, if it has none,
of the ``aws:cdk:creationStack`` of its construct. An annotation's own trace has frames of jsii's kernel alone
(``captureStackTrace`` of constructs 10.8), which are no place in an app.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import sys
import sysconfig
import traceback
from collections.abc import Iterable
from pathlib import Path
from types import FrameType, TracebackType

from aws_cdk import Annotations, App, Stack, Validations
from constructs import Construct, IConstruct

from constructs_optim.recipe import RecipeError, Violation
from constructs_optim.recipe.errors import Advice, shown

from .stack_context import StackContext

_LIBRARY = str(Path(__file__).parents[2]) + os.sep
_INSTALLED = {sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib", "purelib", "platlib", "scripts")}
_NOT_OF_THE_APP = ("<", _LIBRARY, *_INSTALLED)
# The CDK's names: aws-cdk-lib/cx-api, and ArtifactMetadataEntryType of its cloud-assembly-schema.
_CREATED_AT, _NO_TRACES = "aws:cdk:creationStack", "aws:cdk:disable-stack-trace"
_RUN_BY_CLI = "CDK_OUTDIR"


def advise(construct: IConstruct, *advice: Advice) -> None:
    """Warn of settings at a construct, and at the line of the app that has led there."""
    if advice:
        _trace(construct, traceback.walk_stack(None))
    for each in advice:
        Annotations.of(construct).add_warning_v2(each.id, each.message)


def warnings_of(assembly: Path, stack: Stack) -> tuple[str, ...]:
    """The warnings of a synthesized stack, which the CDK CLI prints where it runs the app.

    Raises:
        RuntimeError: with the stack's errors, with which the CDK CLI does not deploy it.
    """
    metadata = json.loads((assembly / f"{stack.artifact_id}.metadata.json").read_bytes())
    warnings, errors = (
        tuple(
            entry["data"] for entries in metadata.values() for entry in entries if entry["type"] == f"aws:cdk:{level}"
        )
        for level in ("warning", "error")
    )
    if errors:
        raise RuntimeError("\n".join(errors))
    return warnings


def _trace(construct: IConstruct, frames: Iterable[tuple[FrameType, int]]) -> None:
    """Have the findings at a construct traced to ``frames``, the innermost first, unless they are traced already."""
    node = construct.node
    if any(entry.type == _CREATED_AT for entry in node.metadata):
        return
    if not node.children:
        # A construct that has children takes no context any more.
        node.set_context(_NO_TRACES, True)
    trace = [
        f"{frame.f_code.co_name} ({frame.f_code.co_filename}:{line})"
        for frame, line in frames
        if not frame.f_code.co_filename.startswith(_NOT_OF_THE_APP)
    ]
    node.add_metadata(_CREATED_AT, trace)


class _UncaughtRefusal:
    """The interpreter's hook for what ends an app, as an app may catch a refusal and declare something else."""

    def __init__(self) -> None:
        self._before = sys.excepthook
        self._constructors: tuple[RecipeError, Construct, str] | None = None

    def keep(self, error: RecipeError, scope: object, id: object) -> None:
        """Remember which construct it is that is refused."""
        if isinstance(scope, Construct) and isinstance(id, str):
            self._constructors = error, scope, id

    def __call__(self, kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if isinstance(error, RecipeError) and error.violations:
            # What there is of the app may be unfit for synthesis, and the refusal is yet to be printed.
            with contextlib.suppress(Exception):
                self._synthesize(error, trace)
        self._before(kind, error, trace)

    def _synthesize(self, error: RecipeError, trace: TracebackType | None) -> None:
        if self._constructors is not None and error is self._constructors[0]:
            _, scope, name = self._constructors
        else:
            # By a method, or by the class of an argument.
            scope, name = StackContext.latest(), error.violations[0].rule
        if scope is None or not isinstance(app := scope.node.root, App):
            return
        if scope.node.try_find_child(name) is not None:
            name = error.violations[0].rule
        refused = Construct(scope, name)
        _trace(refused, [*traceback.walk_tb(trace)][::-1])
        for violation in error.violations:
            Validations.of(refused).add_error(f"constructs-optim::{violation.rule}", _described(violation))
        app.synth(skip_validation=True)


def _described(violation: Violation) -> str:
    return (
        f"{violation.location} = {shown(violation.value)}: {violation.reason}\n"
        f"What works: {violation.suggestion}\n{violation.link}"
    )


def keep_refusal(error: RecipeError, scope: object, id: object) -> None:
    """Remember that the construct ``id`` of ``scope`` is refused, in case that ends the app."""
    if isinstance(sys.excepthook, _UncaughtRefusal):
        sys.excepthook.keep(error, scope, id)


def _leave_library_out_of_traces() -> None:
    """Have the traces of resources begin at the app's line instead of this library's, as behind packages of Node.

    The CDK takes the first frame of Python that jsii sends where JSII_HOST_STACK_TRACES is set. jsii 1.142 leaves out
    its own, which it has a private name for.
    """
    with contextlib.suppress(ImportError, AttributeError):
        from jsii import _stack_trace

        # Between the library's own frames are those of cached properties and context managers.
        left_out = (_LIBRARY, functools.__file__, contextlib.__file__)
        _stack_trace._INTERNAL_PREFIXES += left_out  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]


if _RUN_BY_CLI in os.environ:
    sys.excepthook = _UncaughtRefusal()
    _leave_library_out_of_traces()
