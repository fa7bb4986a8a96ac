"""The page of likely mistakes, and the apps in which they are made: the app of Getting started, changed by a diff.

``python -m tests.likely_mistakes`` writes anew what the page says is printed.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import traceback
from dataclasses import dataclass
from pathlib import Path

from .support.documents import CHECKOUT, first_example

CDK = (Path(sys.executable).parent / "node", CHECKOUT / "node_modules" / "aws-cdk" / "bin" / "cdk")
PAGE = CHECKOUT / "docs" / "likely-mistakes.md"
_SECTION = re.compile(
    r"^### (?P<title>[^\n]+)\n(?:(?!^### ).)*?"
    r"^```diff\n(?P<diff>.*?)^```\n(?:(?!^### ).)*?"
    r"^```text\n(?P<told>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
# Where the message begins: after the frames of a traceback, or in the report of the CDK's validation.
_MESSAGE = re.compile(r"^(?:[A-Za-z_][\w.]*(?:Error|Exception): |ERROR )", re.MULTILINE)
# What the CDK CLI says of any app that fails.
_EXITED = re.compile(r"^python app\.py: Subprocess exited with error 1$", re.MULTILINE)


@dataclass(frozen=True)
class Mistake:
    """A section of the page.

    Args:
        title: its heading.
        diff: what is changed in the example.
        told: the end of what is printed.
    """

    title: str
    diff: str
    told: str

    def __str__(self) -> str:
        return self.title

    @property
    def is_raised(self) -> bool:
        """Whether Python is told; otherwise the CDK's validation reports it when the app is synthesized."""
        return "Validations" not in self.diff

    @property
    def app(self) -> str:
        """The example with the mistake."""
        changed = first_example()
        for part in self.diff.split("@@\n"):
            lines = part.splitlines(keepends=True)
            before = "".join(line[1:] for line in lines if line[0] in " -")
            after = "".join(line[1:] for line in lines if line[0] in " +")
            assert changed.count(before) == 1, f"{self.title}: the example does not have, once:\n{before}"
            changed = changed.replace(before, after)
        return changed


def mistakes(text: str | None = None) -> list[Mistake]:
    """The page's sections."""
    found = _SECTION.finditer(text if text is not None else PAGE.read_text())
    return [Mistake(each["title"], each["diff"], each["told"]) for each in found]


def message(printed: str) -> str:
    """The end of what was printed, from where the message begins, as the page has it."""
    printed = _EXITED.sub("", printed).rstrip() + "\n"
    begins = [found.start() for found in _MESSAGE.finditer(printed)]
    return printed[begins[-1] :] if begins else printed


def command(mistake: Mistake) -> list[str | Path]:
    """What prints it: Python by itself, and the CDK CLI where its validation does."""
    return ["python", "app.py"] if mistake.is_raised else [*CDK, "synth", "--quiet", "--app", "python app.py"]


def raised_by(mistake: Mistake) -> str:
    """The end of the traceback of the app, which runs in this process."""
    try:
        exec(compile(mistake.app, mistake.title, "exec"), {"__name__": "__main__"})
    except Exception as error:
        return "".join(traceback.format_exception_only(error))
    raise AssertionError(f"{mistake} raises nothing: {mistake.app}")


def _reported_about(mistake: Mistake) -> str:
    """The end of the report of the CDK's validation, with this interpreter and this checkout."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "app.py").write_text(mistake.app)
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        environment = {**os.environ, "PATH": path, "PYTHONPATH": str(CHECKOUT)}
        done = subprocess.run(
            command(mistake), cwd=folder, env=environment, capture_output=True, text=True, timeout=300
        )
    assert done.returncode != 0, f"{mistake} is none: {mistake.app}"
    return message(done.stdout + done.stderr)


def _written_anew(text: str) -> str:
    for each in mistakes(text):
        old = f"```diff\n{each.diff}```"
        start = text.index("```text\n", text.index(old)) + len("```text\n")
        told = raised_by(each) if each.is_raised else _reported_about(each)
        text = text[:start] + told + text[text.index("```\n", start) :]
    return text


if __name__ == "__main__":
    PAGE.write_text(_written_anew(PAGE.read_text()))
