"""Refuses a template that CloudFormation does not take, with what works.

Source of the limits: AWS CloudFormation user guide, "Understand CloudFormation quotas" (500 resources; 1 MB in an
object of S3).
"""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

import jsii
from aws_cdk import Annotations, ISynthesisSession, Stack, StackSynthesizer
from aws_cdk.cx_api import CloudAssemblyBuilder
from constructs import Construct, IValidation

from constructs_optim.constructs.stack.stack_context import StackContext

# The rule about the bootstrap version comes later, less than 1 KB: within that the CDK's own warning has to do.
_MOST_BYTES = 1_000_000
# An endpoint with everything on counts twice, with its job, and takes 20 resources and 100 KB at most: what is less
# than this cannot reach a limit, and its template is not written a second time.
_WATCHED_FROM = 16
_SPLIT = (
    "declare some of the stack's endpoints in another stack, which shares the artifact store with "
    "artifact_store=ArtifactStore.from_bucket(store.bucket), or leave features out: evaluate() makes a dashboard 40 KB "
    "instead of 14 KB, and each policy and schedule of auto_scale() is a resource"
)


def watch_template_size(construct: Construct) -> None:
    """Count one more construct of its stack, and have the template measured where there are many."""
    StackContext.of(construct).singleton(_Count, _Count).add()


class _Count:
    def __init__(self, stack: Stack) -> None:
        self._stack, self._constructs = stack, 0

    def add(self) -> None:
        self._constructs += 1
        if self._constructs == _WATCHED_FROM:
            self._stack.node.add_validation(_Measurement(self._stack))


@jsii.implements(IValidation)
class _Measurement:
    """Measures one stack when all its constructs and aspects are through, before templates are written."""

    def __init__(self, stack: Stack) -> None:
        self._stack, self._refused = stack, False

    def validate(self) -> list[str]:
        """What stops synthesis: too many resources, in the CDK's words and with what to do.

        A template of too many bytes is an error annotation instead, so that it can still be written and looked at.
        """
        try:
            text = written_template(self._stack)
        except RuntimeError as refused:
            (message, *_) = str(refused).splitlines()
            if "Number of resources" not in message:
                raise
            return [f"{message}. What works: {_SPLIT}"]
        size = len(text.encode())
        # An app may be synthesized several times.
        if size > _MOST_BYTES and not self._refused:
            self._refused = True
            self._refuse(
                size, compact=len(json.dumps(json.loads(text), separators=(",", ":"), ensure_ascii=False).encode())
            )
        return []

    def _refuse(self, size: int, *, compact: int) -> None:
        unindented = (
            'set "@aws-cdk/core:suppressTemplateIndentation": true in the context of cdk.json, which makes it '
            f"about {compact:,} bytes; or "
            if compact <= _MOST_BYTES
            else ""
        )
        annotations = Annotations.of(self._stack)
        # The CDK's warning of the same, which does not say what to do.
        annotations.acknowledge_warning("@aws-cdk/core:Stack.templateSize")
        annotations.add_error(
            f"the template of {self._stack.node.path} has about {size:,} bytes, and CloudFormation takes "
            f"{_MOST_BYTES:,}: {unindented}{_SPLIT}"
        )


def written_template(stack: Stack) -> str:
    """The text of the template as it will be written, overrides (``add_property_override``) included."""
    reader = _TemplateReader()
    reader.bind(stack)
    with TemporaryDirectory() as folder:
        reader.write(folder)
        return Path(folder, stack.template_file).read_text(encoding="utf-8")


class _TemplateReader(StackSynthesizer):
    """Writes a stack's template, and adds nothing to the app."""

    def write(self, folder: str) -> None:
        self._synthesize_template(cast("ISynthesisSession", _Session(folder)))

    def add_docker_image_asset(self, *arguments: Any, **options: Any) -> Any:
        raise NotImplementedError

    def add_file_asset(self, *arguments: Any, **options: Any) -> Any:
        raise NotImplementedError

    def synthesize(self, session: ISynthesisSession) -> None:
        """Do nothing."""


@jsii.implements(ISynthesisSession)
class _Session:
    """A synthesis into another folder."""

    def __init__(self, folder: str) -> None:
        self._folder, self._builder = folder, CloudAssemblyBuilder(folder)

    @property
    def assembly(self) -> CloudAssemblyBuilder:
        return self._builder

    @property
    def outdir(self) -> str:
        return self._folder

    @property
    def validate_on_synth(self) -> bool:
        return False
