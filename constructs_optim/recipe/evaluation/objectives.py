"""Latency objectives of a request: a request that meets all of them adds to goodput.

Source: DistServe (OSDI 2024): goodput is the request rate at which a share of the requests, 90% of them for example,
meets objectives for time to first token and time per output token.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Protocol

from pydantic import BaseModel, ConfigDict, Field, PositiveFloat

ATTAINMENT = 0.9
"""The default share of requests that must meet the objectives."""


class Timed(Protocol):
    """A request with its latencies in milliseconds; None if it has none."""

    @property
    def time_to_first_token(self) -> float | None: ...  # noqa: D102

    @property
    def inter_token_latency(self) -> float | None: ...  # noqa: D102

    @property
    def client_latency(self) -> float | None: ...  # noqa: D102

    @property
    def output_tokens(self) -> float | None: ...  # noqa: D102


class LatencyObjectives(BaseModel):
    """The maximum latencies in milliseconds, None for no limit, and the ``attainment``.

    Attributes:
        time_to_first_token: from sending a request to its first token.
        inter_token_latency: the request's mean time per token after the first.
        client_latency: from sending a request to the end of its response.
        attainment: the share of requests that must meet all objectives.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid")

    time_to_first_token: PositiveFloat | None = None
    inter_token_latency: PositiveFloat | None = None
    client_latency: PositiveFloat | None = None
    attainment: Annotated[float, Field(gt=0, le=1)] = ATTAINMENT

    @property
    def limits(self) -> dict[str, float]:
        """The maximum latencies, by the names of their metrics."""
        named = ("time_to_first_token", "inter_token_latency", "client_latency")
        return {name: limit for name in named if (limit := getattr(self, name)) is not None}

    def are_met(self, request: Timed) -> bool | None:
        """Return whether a successful request meets all objectives; None if one cannot be measured.

        A response of one token has no inter-token latency, and so meets an objective for it.
        """
        values = {name: getattr(request, name) for name in self.limits}
        if any(value is not None and value > self.limits[name] for name, value in values.items()):
            return False
        return True if None not in values.values() or request.output_tokens == 1 else None
