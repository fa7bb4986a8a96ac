"""What a response has to keep to: a request that meets every objective adds to goodput.

Source: DistServe (OSDI 2024): goodput is the request rate at which a share of the requests, 90 % of them for example,
meets objectives for time to first token and time per output token.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Protocol

from pydantic import BaseModel, ConfigDict, Field, PositiveFloat

ATTAINMENT = 0.9
"""The share of requests that have to meet the objectives, unless a caller says otherwise."""


class Timed(Protocol):
    """A request with its latencies in milliseconds, None where it has none."""

    @property
    def time_to_first_token(self) -> float | None: ...  # noqa: D102

    @property
    def inter_token_latency(self) -> float | None: ...  # noqa: D102

    @property
    def client_latency(self) -> float | None: ...  # noqa: D102

    output_tokens: int | None


class LatencyObjectives(BaseModel):
    """The longest latencies in milliseconds, None where any will do, and the ``attainment``.

    Attributes:
        time_to_first_token: from sending a request to its first token.
        inter_token_latency: the mean of a request, for each token after the first.
        client_latency: from sending a request to its whole response.
        attainment: the share of requests that have to meet all of them.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid")

    time_to_first_token: PositiveFloat | None = None
    inter_token_latency: PositiveFloat | None = None
    client_latency: PositiveFloat | None = None
    attainment: Annotated[float, Field(gt=0, le=1)] = ATTAINMENT

    @property
    def limits(self) -> dict[str, float]:
        """The longest latency by the name of its metric."""
        named = ("time_to_first_token", "inter_token_latency", "client_latency")
        return {name: limit for name in named if (limit := getattr(self, name)) is not None}

    def are_met(self, request: Timed) -> bool | None:
        """Whether a request that succeeded meets all of them; None where one cannot be measured.

        A response of one token has no inter-token latency, and meets an objective for it.
        """
        values = {name: getattr(request, name) for name in self.limits}
        if any(value is not None and value > self.limits[name] for name, value in values.items()):
            return False
        return True if None not in values.values() or request.output_tokens == 1 else None
