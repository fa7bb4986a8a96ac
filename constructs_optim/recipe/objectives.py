"""What an endpoint has to do: the intent that a recipe is chosen for.

Latencies are means of all requests, as forecasts are; an evaluation requires them by ``mean_ttft_ms`` and
``mean_itl_ms`` (docs/metrics.md).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from .settings import Settings

CONFIDENCE = 0.8
"""The probability that a choice has to meet its objectives with, unless a caller says otherwise."""
MOST_TOKENS = 1_000_000
"""Of a prompt, and of a response."""
_MOST_REQUESTS = 100_000
_DURATION = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(ms|s)\s*")
_UNITS = {"ms": 1.0, "s": 1000.0}


Quality = Literal["lossless", "near-lossless", "any"]
"""How much completions may differ from those of the model as it is published.

``near-lossless`` allows weights and KV cache of 8 bits: less than 1 % of the accuracy on benchmarks (Kurtic et al.,
"Give Me BF16 or Give Me Death", 2024). ``any`` allows weights of 4 bits as well.
"""


def milliseconds(given: object) -> object:
    """A duration as text, ``"1.5s"`` or ``"40ms"``, in milliseconds; anything else as it is."""
    if not isinstance(given, str):
        return given
    found = _DURATION.fullmatch(given)
    if found is None:
        raise ValueError('a duration as text has a unit: "40ms" or "1.5s"')
    return float(found[1]) * _UNITS[found[2]]


Latency = Annotated[float, BeforeValidator(milliseconds), Field(gt=0, allow_inf_nan=False)]


def plain(number: float) -> str:
    """A number with all of its digits and without an exponent."""
    return f"{Decimal(repr(number)).normalize():f}"


def percent(share: float) -> str:
    """A share as a percentage, with all of its digits."""
    return f"{(100 * Decimal(repr(share))).normalize():f}%"


class Objectives(Settings):
    """What an endpoint has to do, and for which requests.

    Attributes:
        input_tokens: tokens of a prompt, on average; ``constructs-optim captures`` counts those of an endpoint.
        output_tokens: tokens of a response, on average.
        requests_per_second: requests that arrive at the busiest time, at random. Default: as many as one instance takes
            within the other objectives.
        time_to_first_token: the longest mean time from a request to its first token, in milliseconds; files and
            commands may write ``1s``. Default: any.
        inter_token_latency: the longest mean time between two tokens of a response, likewise. Default: any.
        max_price_per_hour: what all instances may cost in an hour, in US dollars. Default: any price.
        quality: ``lossless``, ``near-lossless`` (8 bits) or ``any``. Default: ``near-lossless``.
        confidence: the probability that a choice meets all of this with. Default: 0.8.
    """

    rule = "OPT230"

    input_tokens: Annotated[int, Field(ge=1, le=MOST_TOKENS)]
    output_tokens: Annotated[int, Field(ge=1, le=MOST_TOKENS)]
    requests_per_second: Annotated[float, Field(gt=0, le=_MOST_REQUESTS)] | None = None
    time_to_first_token: Latency | None = None
    inter_token_latency: Latency | None = None
    max_price_per_hour: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    quality: Quality = "near-lossless"
    confidence: Annotated[float, Field(ge=0.5, lt=1)] = CONFIDENCE

    def __str__(self) -> str:
        """All of it: ``12 requests/s of 1000+300 tokens, first token within 1000 ms, a token every 40 ms``."""
        rate = f"{plain(self.requests_per_second)} requests/s" if self.requests_per_second else "requests"
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
    """What is possible at best of objectives, on all instance types and with all recipes; None: not known.

    ``price_per_hour`` is that of the instances that take the requests, were they as fast as physics allows.
    """

    objectives: Objectives
    context_length: int | None = None
    time_to_first_token_ms: float | None = None
    inter_token_latency_ms: float | None = None
    price_per_hour: float | None = None


@dataclass(frozen=True)
class ServedOtherwise:
    """How an endpoint with objectives serves its model, and how the choice for them does that the forecast is of.

    Each is a server and its limit of a batch, None for its own.
    """

    served: tuple[str, int | None]
    chosen: tuple[str, int | None]


@dataclass(frozen=True)
class Intended:
    """Objectives of a declared endpoint; ``recorded`` are the names of the choices in the lock file, by model.

    ``mistake`` is what is wrong with the choice that is recorded.
    """

    model: str
    objectives: Objectives
    recorded: Mapping[str, Sequence[str]]
    command: str
    mistake: str | None = None

    @property
    def name(self) -> str:
        """The name of the choice in the lock file."""
        return choice_name(self.model, self.objectives)


def choice_name(model: str, objectives: Objectives) -> str:
    """The name of the choice for a model and objectives in the lock file."""
    return f"{model} for {objectives}"
