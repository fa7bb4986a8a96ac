"""Cures for speculative decoding whose acceptance length has decayed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from constructs_optim.recipe.settings import Settings
from constructs_optim.recipe.techniques import Technique

from . import Hosting
from .alarms import Alarms


class SpeculationCure(Settings):
    """A cure for speculative decoding whose acceptance length has decayed.

    A restart is automatic. Other cures change the endpoint's recipe: the alarm's description names the change, and you
    deploy it.

    Attributes:
        kind: the kind of cure.
        at_most_every_hours: minimum number of hours between two restarts.
        speculative_tokens: number of draft tokens of shorter drafts.
    """

    rule = "OPT215"
    rule_link = "https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_UpdateEndpoint.html"

    kind: Literal["restart", "shorter_drafts", "drafts_off", "train_anew"]
    at_most_every_hours: int | None = Field(default=None, ge=1, le=720)
    speculative_tokens: int | None = Field(default=None, ge=1, le=32)

    @staticmethod
    def restart(*, at_most_every_hours: int = 12) -> SpeculationCure:
        """Replace the instances automatically, according to the endpoint's update policy.

        Args:
            at_most_every_hours: minimum number of hours between two restarts, 1 to 720. Default: 12.
        """
        return SpeculationCure(kind="restart", at_most_every_hours=at_most_every_hours)

    @staticmethod
    def shorter_drafts(*, speculative_tokens: int) -> SpeculationCure:
        """Draft fewer tokens per step.

        Args:
            speculative_tokens: number of draft tokens, fewer than the technique's.
        """
        return SpeculationCure(kind="shorter_drafts", speculative_tokens=speculative_tokens)

    @staticmethod
    def drafts_off() -> SpeculationCure:
        """Serve without speculative decoding."""
        return SpeculationCure(kind="drafts_off")

    @staticmethod
    def train_anew() -> SpeculationCure:
        """Train EAGLE heads again, on traffic that the endpoint captured since the last training."""
        return SpeculationCure(kind="train_anew")

    def advice(self, technique: Technique) -> str:
        """Return what happens, or what to change in the declaration of ``technique``, for the alarm's description."""
        name = technique.display_name()
        match self.kind:
            case "restart":
                return (
                    f"Cure: the instances are replaced automatically, at most every {self.at_most_every_hours} h. If "
                    "the decay returns, the prompts have changed."
                )
            case "shorter_drafts":
                return f"Cure: deploy {name}(..., speculative_tokens={self.speculative_tokens})."
            case "drafts_off":
                return f"Cure: deploy without {name}(...)."
            case "train_anew":
                return f'Cure: deploy {name}(training_data=data_capture.captured("<endpoint>").during("<last month>")).'


@dataclass(frozen=True)
class Speculation:
    """An endpoint with a cure for its drafts, for the rules; ``technique`` is the one that speculates, if any."""

    hosting: Hosting
    cure: SpeculationCure
    technique: Technique | None
    alarms: Alarms
