"""What a dry start found."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import BaseModel

Outcome = Literal["starts", "refused", "unknown"]
NOT_SHOWN = (
    "the kernels of the GPUs, and their speed",
    "the memory of the GPUs: weights, KV cache, CUDA graphs",
    "the files of the weights, and what the model answers",
    "AWS's container: its entry point, its packages, its limits",
)
"""What no dry start can show."""


class Refusal(BaseModel, frozen=True):
    """Why the engine does not start: its own line, what causes it, and what works; None if that is unknown."""

    line: str
    cause: str | None = None
    fix: str | None = None

    def with_paths(self, paths: Mapping[str, str]) -> Refusal:
        """Return it with the container's paths instead of this machine's, given by the container's."""
        line = self.line
        for inside, here in paths.items():
            line = line.replace(here, inside)
        return self.model_copy(update={"line": line})


class EndedError(Exception):
    """A dry start ended before the engine answered."""

    def __init__(self, outcome: Outcome, refusal: Refusal) -> None:
        super().__init__(refusal.line)
        self.outcome: Outcome = outcome
        self.refusal = refusal


class DryStart(BaseModel, frozen=True):
    """The result of a dry start.

    Attributes:
        model: the plan's model.
        instance_type: the plan's instance type.
        outcome: ``starts`` if the engine answered; ``refused`` if it refuses the plan; ``unknown`` if something that
            only GPUs can do, the time, or the memory of this machine ended the dry start.
        engine: vLLM's release that ran.
        planned: the release of the plan's image; None if it is unknown.
        question: what the engine was asked, or None.
        refusal: why it does not start, or None.
        changed: in what the started engine differed from the plan.
        not_shown: what a dry start cannot show.
        seconds: how long it took, without the installation of the engine.
    """

    model: str
    instance_type: str
    outcome: Outcome
    engine: str
    planned: str | None
    question: str | None = None
    refusal: Refusal | None = None
    changed: tuple[str, ...] = ()
    not_shown: tuple[str, ...] = NOT_SHOWN
    seconds: float
