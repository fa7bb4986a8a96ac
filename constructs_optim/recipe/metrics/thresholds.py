"""Thresholds of alarms and limits of evaluations, and the values that their metrics can have."""

from __future__ import annotations

from dataclasses import dataclass

STREAM_SECONDS = 480
"""The longest request to a real-time endpoint: SageMaker ends a stream after 8 minutes, and any other request after 60
seconds (SageMaker developer guide, "Inference options"; API reference, InvokeEndpoint)."""
LATENCIES_MS = (1.0, 1_000.0 * STREAM_SECONDS)
"""The range of latencies of requests, in milliseconds: no request passes SageMaker's network in less than 1 ms."""


LEAST_MEANT_MS = {"time_to_first_token": 5.0, "inter_token_latency": 1.0, "client_latency": 5.0}
"""Latencies of requests, in milliseconds, below all published measurements (bench/forecast/measurements.jsonl)."""


@dataclass(frozen=True)
class Threshold:
    """A threshold, and the range of the values that it is compared with; ``most`` is None without a known limit.

    ``comparison`` is CloudWatch's operator with which a value breaches the threshold. ``must_pass`` tells whether some
    value has to be without a breach, as for a limit of an evaluation. Smaller percentages than ``least_meant`` are
    probably meant as shares, and smaller milliseconds as seconds; ``too_small`` says why.
    """

    location: str
    value: object
    unit: str
    comparison: str = "GreaterThanThreshold"
    least: float = 0
    most: float | None = None
    must_pass: bool = False
    least_meant: float = 0
    too_small: str = "which every endpoint in use exceeds"

    def is_reachable(self, value: float) -> bool:
        """Return whether a value of the metric can breach the threshold ``value``, and another one keep it."""
        least, most = self.least, self.most
        if self.comparison.startswith("Less"):
            return value > least
        reachable = most is None or (value <= most if "OrEqual" in self.comparison else value < most)
        return reachable and not (self.must_pass and value < least)

    @property
    def range(self) -> str:
        """The range of the metric's values in words."""
        return self._worded(" to ".join(f"{end:,g}" for end in (self.least, self.most) if end is not None)) + (
            " or more" if self.most is None else ""
        )

    @property
    def working(self) -> str:
        """The thresholds that can be reached, in words."""
        if self.comparison.startswith("Less"):
            return f"more than {self._worded(f'{self.least or 0:,g}')}"
        most = self._worded(f"{self.most or 0:,g}")
        below = f"at most {most}" if "OrEqual" in self.comparison else f"less than {most}"
        return f"{self.least:g} or more, and {below}" if self.must_pass and self.least else below

    def _worded(self, number: str) -> str:
        if self.unit == "%":
            return f"{number}%"
        is_singular = number == "1" and self.unit not in ("s", "ms")
        return f"{number} {self.unit.removesuffix('s') if is_singular else self.unit}".rstrip()

    def meant(self, value: float) -> str | None:
        """Return the value in this unit if the given one was meant in milliseconds, in seconds, or as a share."""
        factors = {"s": (1 / 1000, "ms"), "ms": (1000, "s"), "%": (100, "as a share")}
        if self.unit not in factors:
            return None
        factor, other = factors[self.unit]
        inside = self.is_reachable(value * factor)
        return f"{self._worded(f'{value * factor:g}')} for {value:g} {other}" if inside else None
