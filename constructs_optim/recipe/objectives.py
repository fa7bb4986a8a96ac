"""The objectives of an endpoint, for which a recipe is chosen.

Latencies are means over all requests, like forecasts. In an evaluation, the requirements ``mean_ttft_ms`` and
``mean_itl_ms`` correspond to them (https://constructs-optim.dev/metrics/).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from .documentation import page
from .settings import Settings
from .tasks import GENERATE, TaskName

CONFIDENCE = 0.8
"""The default probability with which a choice must meet its objectives."""
MOST_TOKENS = 1_000_000
"""The maximum number of tokens in a prompt, and in a response."""
_MOST_REQUESTS = 100_000
LATENCY_TEXT = re.compile(r"(\d+(?:\.\d+)?) ?(ms|s)")
"""The form of a latency as text, such as ``40ms`` or ``1.5s``."""
_UNITS = {"ms": 1.0, "s": 1000.0}


Quality = Literal["lossless", "near-lossless", "any"]
"""How much completions can differ from the published model's.

``near-lossless`` allows 8-bit weights and KV cache, which cost less than 1% of the accuracy on benchmarks (Kurtic et
al., "Give Me BF16 or Give Me Death", 2024). ``any`` also allows 4-bit weights.
"""


def milliseconds(given: object) -> object:
    """Convert a duration such as ``"1.5s"`` or ``"40ms"`` to milliseconds; return anything else unchanged."""
    # A Duration of the AWS CDK, which recipes do not import.
    if (convert := getattr(given, "to_milliseconds", None)) is not None:
        raise ValueError(f"this is a Duration, and a latency is in milliseconds, or text with a unit: {convert():g}")
    if not isinstance(given, str):
        return given
    found = LATENCY_TEXT.fullmatch(given.strip())
    if found is None:
        raise ValueError('a duration as text needs a unit: "40ms" or "1.5s"')
    return float(found[1]) * _UNITS[found[2]]


Latency = Annotated[float, BeforeValidator(milliseconds), Field(gt=0, allow_inf_nan=False)]


def plain(number: float) -> str:
    """Return a number with all of its digits and without an exponent."""
    return f"{Decimal(repr(number)).normalize():f}"


def percent(share: float) -> str:
    """Return a share as a percentage with all of its digits."""
    return f"{(100 * Decimal(repr(share))).normalize():f}%"


LIMITS = ("requests_per_second", "time_to_first_token", "inter_token_latency")
"""The objectives that a recipe meets with a probability."""


class Objectives(Settings):
    """The requests that an endpoint serves, and the objectives that it must meet.

    Attributes:
        input_tokens: mean number of tokens in a prompt; ``constructs-optim captures`` measures it on an endpoint.
        output_tokens: mean number of tokens in a response.
        requests_per_second: requests per second at the busiest time, arriving at random. Default: as many as one
            instance serves within the other objectives.
        time_to_first_token: the maximum mean time from a request to its first token, in milliseconds or as text:
            ``1s``. Default: no limit.
        inter_token_latency: the maximum mean time between two tokens of a response, in milliseconds or as text:
            ``40ms``. Default: no limit.
        max_price_per_hour: the maximum price of all instances per hour, in US dollars. Default: no limit.
        quality: ``lossless``, ``near-lossless`` (8 bits) or ``any``. Default: ``near-lossless``.
        confidence: the probability with which a choice meets all objectives. Default: 0.8.
    """

    rule = "OPT230"
    rule_link = page("recommendation")

    input_tokens: Annotated[int, Field(ge=1, le=MOST_TOKENS)]
    output_tokens: Annotated[int, Field(ge=1, le=MOST_TOKENS)]
    requests_per_second: Annotated[float, Field(gt=0, le=_MOST_REQUESTS)] | None = None
    time_to_first_token: Latency | None = None
    inter_token_latency: Latency | None = None
    max_price_per_hour: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    quality: Quality = "near-lossless"
    confidence: Annotated[float, Field(ge=0.5, lt=1)] = CONFIDENCE

    @property
    def are_limits(self) -> bool:
        """Whether there is a rate or a latency, which a recipe meets with a probability."""
        return any(getattr(self, name) is not None for name in LIMITS)

    def __str__(self) -> str:
        """Return all of them: ``12 requests/s of 1000+300 tokens, first token within 1000 ms, a token every 40 ms``."""
        count = self.requests_per_second
        rate = f"{plain(count)} request{'' if count == 1 else 's'}/s" if count else "requests"
        parts = [f"{rate} of {self.input_tokens}+{self.output_tokens} tokens"]
        if self.time_to_first_token is not None:
            parts.append(f"first token within {plain(self.time_to_first_token)} ms")
        if self.inter_token_latency is not None:
            parts.append(f"a token every {plain(self.inter_token_latency)} ms")
        if self.max_price_per_hour is not None:
            parts.append(f"at most ${plain(self.max_price_per_hour)} an hour")
        if self.quality != "near-lossless":
            parts.append("lossless" if self.quality == "lossless" else "any quality")
        if self.confidence != CONFIDENCE:
            parts.append(f"with {percent(self.confidence)}")
        return ", ".join(parts)


@dataclass(frozen=True)
class Feasibility:
    """The best values that any instance type and recipe can reach for the objectives; None: unknown.

    ``price_per_hour`` is the price of the instances that the requests would need at the speed that physics allows.
    ``task`` is what the model does.
    """

    objectives: Objectives
    context_length: int | None = None
    time_to_first_token_ms: float | None = None
    inter_token_latency_ms: float | None = None
    price_per_hour: float | None = None
    task: TaskName = GENERATE


@dataclass(frozen=True)
class ServedOtherwise:
    """How an endpoint with objectives serves its model, and how the recorded choice with the forecast serves it.

    Each is a server and its batch limit, which is None for the server's default.
    """

    served: tuple[str, int | None]
    chosen: tuple[str, int | None]


@dataclass(frozen=True)
class Intended:
    """The objectives of a declared endpoint; ``recorded`` has the names of the lock file's choices by model.

    ``mistake`` is the error in the recorded choice, if any.
    """

    model: str
    objectives: Objectives
    recorded: Mapping[str, Sequence[str]]
    command: str
    mistake: str | None = None

    @property
    def name(self) -> str:
        """The choice's name in the lock file."""
        return choice_name(self.model, self.objectives)


def choice_name(model: str, objectives: Objectives) -> str:
    """Return the lock file's name for the choice for a model and objectives."""
    return f"{model} for {objectives}"
