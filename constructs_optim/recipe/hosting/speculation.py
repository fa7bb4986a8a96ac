"""What is done when the drafts of speculative decoding are accepted less often than they were, as data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from constructs_optim.recipe.settings import Settings
from constructs_optim.recipe.techniques import Technique

from . import Hosting
from .alarms import Alarms


class SpeculationCure(Settings):
    """What is done when drafts are accepted less often than they were. Use its static methods.

    A restart runs by itself. Everything else changes what the endpoint is declared to serve: the alarm's description
    has the change, and a person deploys it.

    Attributes:
        kind: which of the four.
        at_most_every_hours: the least hours between two restarts.
        speculative_tokens: how many tokens shorter drafts have.
    """

    rule = "OPT215"
    rule_link = "https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_UpdateEndpoint.html"

    kind: Literal["restart", "shorter_drafts", "drafts_off", "train_anew"]
    at_most_every_hours: int | None = Field(default=None, ge=1, le=720)
    speculative_tokens: int | None = Field(default=None, ge=1, le=32)

    @staticmethod
    def restart(*, at_most_every_hours: int = 12) -> SpeculationCure:
        """Replace the instances with new ones, by itself, as the endpoint's update policy says.

        Args:
            at_most_every_hours: the least hours between two restarts, 1 to 720. Default: 12.
        """
        return SpeculationCure(kind="restart", at_most_every_hours=at_most_every_hours)

    @staticmethod
    def shorter_drafts(*, speculative_tokens: int) -> SpeculationCure:
        """Propose fewer tokens at once.

        Args:
            speculative_tokens: how many, fewer than the technique proposes.
        """
        return SpeculationCure(kind="shorter_drafts", speculative_tokens=speculative_tokens)

    @staticmethod
    def drafts_off() -> SpeculationCure:
        """Serve without speculative decoding."""
        return SpeculationCure(kind="drafts_off")

    @staticmethod
    def train_anew() -> SpeculationCure:
        """Train EAGLE heads on what the endpoint has captured since."""
        return SpeculationCure(kind="train_anew")

    def advice(self, technique: Technique) -> str:
        """What happens, or what to change in the declaration of ``technique``; for the alarm's description."""
        name = technique.display_name()
        match self.kind:
            case "restart":
                return (
                    f"Cure: the instances are restarted by themselves, at most every {self.at_most_every_hours} h; if "
                    "it does not last, the prompts have changed."
                )
            case "shorter_drafts":
                return f"Cure: deploy {name}(..., speculative_tokens={self.speculative_tokens})."
            case "drafts_off":
                return f"Cure: deploy without {name}(...)."
            case "train_anew":
                return f'Cure: deploy {name}(training_data=data_capture.captured("<endpoint>").during("<last month>")).'


@dataclass(frozen=True)
class Speculation:
    """An endpoint with a cure for its drafts, for rules; ``technique`` is the one that speculates, None without."""

    hosting: Hosting
    cure: SpeculationCure
    technique: Technique | None
    alarms: Alarms
