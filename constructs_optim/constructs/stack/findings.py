"""Findings of rules with the app's line, in the form that ``cdk validate`` and the CDK's language server read.

Advice is an annotation. A refusal is an exception. If it ends an app that the CDK CLI runs, the app's constructs are
synthesized with the violations as errors, so that the stack cannot be deployed.

Source of the locations: aws-cdk 2.1148.1, ``cdk-explorer/lib/core/assembly-index-with-source-locations.ts`` and
``cloud-assembly-api/lib/validation/loading.ts``. A finding is located at the first frame of its own trace or, if it has
none, of its construct's ``aws:cdk:creationStack``. An annotation's own trace only has frames of jsii's kernel
(``captureStackTrace`` of constructs 10.8), not of the app.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import sys
import sysconfig
import traceback
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from types import FrameType, TracebackType

import jsii
from aws_cdk import Acknowledgment, Annotations, App, Stack, Validations
from constructs import Construct, IConstruct, IValidation
from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

from constructs_optim.recipe import RecipeError, Violation
from constructs_optim.recipe.errors import Advice

from .stack_context import StackContext

_LIBRARY = str(Path(__file__).parents[2]) + os.sep
_INSTALLED = {sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib", "purelib", "platlib", "scripts")}
_NOT_OF_THE_APP = ("<", _LIBRARY, *_INSTALLED)
# The CDK's names: aws-cdk-lib/cx-api, and ArtifactMetadataEntryType of its cloud-assembly-schema.
_CREATED_AT, _NO_TRACES = "aws:cdk:creationStack", "aws:cdk:disable-stack-trace"
_RUN_BY_CLI = "CDK_OUTDIR"
# aws-cdk-lib 2.275.0: "Resources section must exist and be non-empty".
_EMPTY_STACK = "CloudFormation-Validate::F0001"


_TRANSLATION: ContextVar[Callable[[str], str]] = ContextVar("translation", default=str)


@contextmanager
def translated(by: Callable[[str], str]) -> Generator[None]:
    """Translate the block's warnings, for instance for the reader of a file, who does not see the app's code."""
    token = _TRANSLATION.set(by)
    try:
        yield
    finally:
        _TRANSLATION.reset(token)


def warning(text: str) -> str:
    """Return the text of a warning as the current block translates it."""
    return _TRANSLATION.get()(text)


def advise(construct: IConstruct, *advice: Advice) -> None:
    """Add warnings to a construct, located at the app's line."""
    if advice:
        _advise(construct, _frames_of_app(traceback.walk_stack(None)), advice)


def advise_when_complete(construct: Construct, advice: Callable[[], Iterable[Advice]]) -> None:
    """Add warnings that depend on the whole app, located at the app's current line, when it is synthesized."""
    frames, translation = _frames_of_app(traceback.walk_stack(None)), _TRANSLATION.get()
    context = StackContext.of(construct)

    def advise_now() -> None:
        with translated(translation):
            _advise(construct, frames, tuple(advice()))

    def pending() -> _PendingAdvice:
        created = _PendingAdvice()
        context.stack.node.add_validation(created)
        return created

    context.once(_PendingAdvice, pending).add(advise_now)


def refuse_when_complete(construct: Construct, violations: Callable[[], Iterable[Violation]]) -> None:
    """Refuse what depends on the whole app, with the construct's path: no line of the app causes it."""
    construct.node.add_validation(_Complete(construct.node.path, violations))


@jsii.implements(IValidation)
class _Complete:
    """Stops synthesis after all constructs and aspects."""

    def __init__(self, path: str, violations: Callable[[], Iterable[Violation]]) -> None:
        self._path, self._violations = path, violations

    def validate(self) -> list[str]:
        """Return the violations."""
        found = [each.model_copy(update={"location": f"{self._path} {each.location}"}) for each in self._violations()]
        return [str(RecipeError(found))] if found else []


@jsii.implements(IValidation)
class _PendingAdvice:
    """Adds warnings after all constructs and aspects, before the templates are written."""

    def __init__(self) -> None:
        self._pending: list[Callable[[], None]] = []

    def add(self, advise: Callable[[], None]) -> None:
        """Add a function that adds warnings."""
        self._pending.append(advise)

    def validate(self) -> list[str]:
        """Return no errors."""
        # An app may be synthesized several times.
        pending, self._pending = self._pending, []
        for each in pending:
            each()
        return []


def _advise(construct: IConstruct, frames: list[str], advice: tuple[Advice, ...]) -> None:
    if advice:
        _trace(construct, frames)
    for each in advice:
        Annotations.of(construct).add_warning_v2(each.id, warning(each.message))


def warnings_of(assembly: Path, stack: Stack) -> tuple[str, ...]:
    """Return the warnings of a synthesized stack, which the CDK CLI prints if it runs the app.

    Raises:
        RuntimeError: if the stack has errors, which keep the CDK CLI from deploying it; contains them.
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


class _OfReport(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel)


class _Place(_OfReport):
    construct_path: str


class _PluginFinding(_OfReport):
    rule_name: str
    description: str
    suggested_fix: str = ""
    violating_constructs: tuple[_Place, ...] = ()


class _PluginReport(_OfReport):
    plugin_name: str
    conclusion: str
    violations: tuple[_PluginFinding, ...] = ()

    def texts(self) -> Iterator[str]:
        for each in self.violations:
            places = ", ".join(place.construct_path for place in each.violating_constructs)
            fix = f". What works: {each.suggested_fix}" if each.suggested_fix else ""
            yield f"{places}: {each.description}{fix} [ack: {self.plugin_name}::{each.rule_name}]"


class _Report(_OfReport):
    plugin_reports: tuple[_PluginReport, ...]


UNPRINTED: Mapping[str, bool] = {"@aws-cdk/core:failSynthOnValidationErrors": False}
"""The context of an app in a temporary folder: the CDK does not print a report that names its file there."""


def policy_warnings_of(assembly: Path) -> tuple[str, ...]:
    """Return the warnings of validation plugins, such as ``PolicyValidation``, about an app that does not print them.

    Raises:
        RuntimeError: if a plugin refuses the app; contains its findings.
    """
    file = assembly / "validation-report.json"
    reports = _Report.model_validate_json(file.read_bytes()).plugin_reports if file.exists() else ()
    if refused := [text for each in reports if each.conclusion != "success" for text in each.texts()]:
        raise RuntimeError("\n".join(refused))
    return tuple(text for each in reports for text in each.texts())


def _trace(construct: IConstruct, frames: list[str]) -> None:
    """Locate a construct's findings at ``frames``, the innermost first, unless they already have a location."""
    node = construct.node
    if any(entry.type == _CREATED_AT for entry in node.metadata):
        return
    if not node.children:
        # A construct with children does not accept context.
        node.set_context(_NO_TRACES, True)
    node.add_metadata(_CREATED_AT, frames)


def _frames_of_app(frames: Iterable[tuple[FrameType, int]]) -> list[str]:
    return [
        f"{frame.f_code.co_name} ({frame.f_code.co_filename}:{line})"
        for frame, line in frames
        if not frame.f_code.co_filename.startswith(_NOT_OF_THE_APP)
    ]


class _UncaughtRefusal:
    """The interpreter's hook for uncaught exceptions; an app may also catch a refusal and continue."""

    def __init__(self) -> None:
        self._before = sys.excepthook
        self._constructors: tuple[RecipeError, Construct, str] | None = None

    def keep(self, error: RecipeError, scope: object, id: object) -> None:
        """Remember the refused construct."""
        if isinstance(scope, Construct) and isinstance(id, str):
            self._constructors = error, scope, id

    def __call__(self, kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if isinstance(error, RecipeError) and error.violations:
            # The incomplete app may not be synthesizable, and the refusal must still be printed.
            with contextlib.suppress(Exception):
                self._synthesize(error, trace)
        self._before(kind, error, trace)

    def _synthesize(self, error: RecipeError, trace: TracebackType | None) -> None:
        if self._constructors is not None and error is self._constructors[0]:
            _, scope, name = self._constructors
        else:
            # A method or an argument's class raised it, so no construct is known.
            scope, name = StackContext.latest(), error.violations[0].rule
        if scope is None or not isinstance(app := scope.node.root, App):
            return
        if scope.node.try_find_child(name) is not None:
            name = error.violations[0].rule
        refused = Construct(scope, name)
        _trace(refused, _frames_of_app([*traceback.walk_tb(trace)][::-1]))
        for violation in error.violations:
            Validations.of(refused).add_error(f"constructs-optim::{violation.rule}", _described(violation))
        # The CDK would print its report on this before or after the refusal.
        reason = "The app ended before the stack had resources."
        Validations.of(app).acknowledge(Acknowledgment(id=_EMPTY_STACK, reason=reason))
        app.synth(skip_validation=True)


def _described(violation: Violation) -> str:
    return (
        f"{violation.location} = {violation.shown_value}: {violation.reason}\n"
        f"What works: {violation.suggestion}\n{violation.link}"
    )


def keep_refusal(error: RecipeError, scope: object, id: object) -> None:
    """Remember that the construct ``id`` of ``scope`` is refused, in case this ends the app."""
    if isinstance(sys.excepthook, _UncaughtRefusal):
        sys.excepthook.keep(error, scope, id)


def _leave_library_out_of_traces() -> None:
    """Make resources' traces begin at the app's line instead of this library's, as with Node packages.

    If JSII_HOST_STACK_TRACES is set, the CDK uses the first Python frame that jsii sends. jsii 1.142 omits its own
    frames, by a list with a private name.
    """
    with contextlib.suppress(ImportError, AttributeError):
        from jsii import _stack_trace

        # Frames of cached properties and context managers are between the library's own frames.
        left_out = (_LIBRARY, functools.__file__, contextlib.__file__)
        _stack_trace._INTERNAL_PREFIXES += left_out  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]


if _RUN_BY_CLI in os.environ:
    sys.excepthook = _UncaughtRefusal()
    _leave_library_out_of_traces()
