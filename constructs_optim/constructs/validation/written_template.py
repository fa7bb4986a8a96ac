"""A stack's template before the app is written: constructs tell neither their overrides nor the size of it all."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

import jsii
from aws_cdk import ISynthesisSession, Stack, StackSynthesizer
from aws_cdk.cx_api import CloudAssemblyBuilder


def written_template(stack: Stack) -> str:
    """The text of the template as it will be written, overrides (``add_property_override``) included.

    Raises:
        RuntimeError: where the CDK refuses to write it.
    """
    reader = _TemplateReader()
    reader.bind(stack)
    with TemporaryDirectory() as folder:
        reader.write(folder)
        return Path(folder, stack.template_file).read_text(encoding="utf-8")


class _TemplateReader(StackSynthesizer):
    """Writes a stack's template, and adds nothing to the app."""

    def write(self, folder: str) -> None:
        """Write the template of the stack it is bound to into ``folder``."""
        self._synthesize_template(cast("ISynthesisSession", _Session(folder)))

    def add_docker_image_asset(self, *given: Any, **named: Any) -> Any:
        """Refuse: no stack is given this synthesizer."""
        raise NotImplementedError

    def add_file_asset(self, *given: Any, **named: Any) -> Any:
        """Refuse: no stack is given this synthesizer."""
        raise NotImplementedError

    def synthesize(self, session: ISynthesisSession) -> None:
        """Do nothing: the stack's own synthesizer does it."""


@jsii.implements(ISynthesisSession)
class _Session:
    """A synthesis into a folder of its own."""

    def __init__(self, folder: str) -> None:
        self._folder, self._builder = folder, CloudAssemblyBuilder(folder)

    @property
    def assembly(self) -> CloudAssemblyBuilder:
        """What manifests are collected in."""
        return self._builder

    @property
    def outdir(self) -> str:
        """Where files are written."""
        return self._folder

    @property
    def validate_on_synth(self) -> bool:
        """No: what is judged here need not be valid."""
        return False
