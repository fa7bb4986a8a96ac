"""A preflight's report: all problems at once, each with its fix, and advice on what could not be checked."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

Level = Literal["problem", "advice"]
# The whole response of a custom resource has 4,000 bytes (custom_resource.py).
_REASON_CHARACTERS = 3000


@dataclass(frozen=True)
class PreflightFinding:
    """A check's finding.

    Attributes:
        check: the check's name.
        level: ``problem``, with which the deployment is certain to fail, or ``advice``.
        text: what is wrong or could not be checked.
        fix: what would solve it.
        is_early: whether the cause may be a recently granted permission that is not effective yet.
    """

    check: str
    level: Level
    text: str
    fix: str
    is_early: bool = False

    def __str__(self) -> str:
        return f"{self.check}: {self.text}. Next: {self.fix}"


def problem(check: str, text: str, fix: str, *, is_early: bool = False) -> PreflightFinding:
    """Return a finding with which the deployment is certain to fail."""
    return PreflightFinding(check, "problem", text, fix, is_early)


def advice(check: str, text: str, fix: str) -> PreflightFinding:
    """Return a finding that may fail the deployment or could not be checked."""
    return PreflightFinding(check, "advice", text, fix)


@dataclass(frozen=True)
class Report:
    """All findings in the order of the checks; ``asked`` is the number of subjects that were checked."""

    findings: tuple[PreflightFinding, ...]
    asked: int

    @property
    def problems(self) -> tuple[PreflightFinding, ...]:
        """The findings with which the deployment is certain to fail."""
        return tuple(finding for finding in self.findings if finding.level == "problem")

    @property
    def advice(self) -> tuple[PreflightFinding, ...]:
        """The findings that may fail the deployment or could not be checked."""
        return tuple(finding for finding in self.findings if finding.level == "advice")

    @property
    def is_early(self) -> bool:
        """Whether the result may change when new permissions are effective."""
        return any(finding.is_early for finding in self.findings)

    def as_advice(self) -> Report:
        """Return the report with all findings as advice, for a deployment that may not start their subjects."""
        return replace(self, findings=tuple(replace(finding, level="advice") for finding in self.findings))

    def reason(self, log_group: str) -> str:
        """Return the reason for a failure: as many problems as fit, and where to find the others."""
        count = len(self.problems)
        text = f"preflight found {count} problem{'s' if count != 1 else ''}; nothing was started."
        for number, problem in enumerate(self.problems, 1):
            item = f" ({number}) {problem}."
            if len(text) + len(item) > _REASON_CHARACTERS:
                return f"{text} And {count - number + 1} more, in the function's log {log_group}"
            text += item
        return text
