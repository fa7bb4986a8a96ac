"""The report of a preflight: all problems at once, each with its fix, and advice where a service does not tell."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

Level = Literal["problem", "advice"]
# The whole response of a custom resource has 4,000 bytes (custom_resource.py).
_REASON_CHARACTERS = 3000


@dataclass(frozen=True)
class PreflightFinding:
    """What a check found.

    Attributes:
        check: the check's name.
        level: a problem, with which the deployment certainly fails, or advice.
        text: what is wrong, or could not be asked.
        fix: what would work.
        is_early: whether a permission that was granted a moment ago may not be effective yet.
    """

    check: str
    level: Level
    text: str
    fix: str
    is_early: bool = False

    def __str__(self) -> str:
        return f"{self.check}: {self.text}. Next: {self.fix}"


def problem(check: str, text: str, fix: str, *, is_early: bool = False) -> PreflightFinding:
    """What the deployment certainly fails with."""
    return PreflightFinding(check, "problem", text, fix, is_early)


def advice(check: str, text: str, fix: str) -> PreflightFinding:
    """What may fail, or could not be asked."""
    return PreflightFinding(check, "advice", text, fix)


@dataclass(frozen=True)
class Report:
    """All findings, in the order of the checks; ``asked`` is how many questions were asked."""

    findings: tuple[PreflightFinding, ...]
    asked: int

    @property
    def problems(self) -> tuple[PreflightFinding, ...]:
        """What certainly fails."""
        return tuple(finding for finding in self.findings if finding.level == "problem")

    @property
    def advice(self) -> tuple[PreflightFinding, ...]:
        """What may fail, or could not be asked."""
        return tuple(finding for finding in self.findings if finding.level == "advice")

    @property
    def is_early(self) -> bool:
        """Whether another answer may come when permissions are effective."""
        return any(finding.is_early for finding in self.findings)

    def as_advice(self) -> Report:
        """The same where nobody can be sure that the deployment starts what a problem is about."""
        return replace(self, findings=tuple(replace(finding, level="advice") for finding in self.findings))

    def reason(self, log_group: str) -> str:
        """The problems as the reason of a failure: as many as fit, and where the others are."""
        count = len(self.problems)
        text = f"preflight found {count} problem{'s' if count != 1 else ''}; nothing was started."
        for number, problem in enumerate(self.problems, 1):
            item = f" ({number}) {problem}."
            if len(text) + len(item) > _REASON_CHARACTERS:
                return f"{text} And {count - number + 1} more, in the function's log {log_group}"
            text += item
        return text
