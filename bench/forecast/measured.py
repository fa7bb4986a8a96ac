"""Published measurements, and a calibration's forecasts of them."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import replace
from functools import cache, cached_property
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

from constructs_optim.recipe.catalog import instances
from constructs_optim.recipe.catalog.models import ModelRow
from constructs_optim.recipe.forecast import (
    FIGURES,
    PHYSICS,
    Calibration,
    Copy,
    Efficiency,
    Figure,
    ForwardPass,
    Server,
    copy_of,
    engine_limit,
    group_of,
    operand_bits,
)
from constructs_optim.recipe.memory import USABLE, weights_gb

HERE = Path(__file__).parent
SEED = 20
"""The seed of the split into a part to fit and a part to test."""
FIT_SHARE = 2 / 3
_BITS = {"bf16": 16, "fp8": 8, "int8": 8, "nvfp4": 4, "mxfp4": 4, "int4": 4}
# Memory of each accelerator besides weights and KV cache.
_WORKSPACE_GB = 2.0


class Measurement(BaseModel):
    """One published measurement of a whole server. README.md describes its members."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: str
    family: str
    accelerators: int
    tensor_parallel: int | None = None
    pipeline: int = 1
    precision: str
    cache: str | None = None
    engine: str
    engine_version: str | None = None
    input_tokens: float | None = None
    output_tokens: float | None = None
    load: Literal["users", "rate", "batch", "limit"]
    at: float | None = None
    time_to_first_token_ms: float | None = None
    inter_token_latency_ms: float | None = None
    output_tokens_per_second: float | None = None
    source: str
    where: str
    changed: str | None = None
    left_out: str | None = None

    @cached_property
    def instance(self) -> instances.InstanceRow:
        """An instance type with its accelerators."""
        return next(row for row in instances.by_name().values() if row.family == self.family)

    @cached_property
    def row(self) -> ModelRow:
        """The model in the measured precision."""
        row = models()[self.model]
        bits = _BITS[self.precision]
        # With data-parallel attention, each request stays on one accelerator.
        heads = row.key_value_heads if self.tensor_parallel is not None else None
        return replace(row, weight_bits=bits, precision=self.precision, key_value_heads=heads)

    @cached_property
    def copy_(self) -> Copy:
        """The copy of the model that was measured."""
        weights = weights_gb(self.row, []) * 1e9
        cores = self.instance.cores_per_accelerator
        memory = self.instance.accelerator_memory_mib * 2**20 * USABLE - _WORKSPACE_GB * 1e9
        return copy_of(
            self.row,
            self.instance,
            weight_bytes=weights,
            precision=self.precision,
            units=self.tensor_parallel or self.accelerators * cores // self.pipeline,
            pipeline=self.pipeline,
            accelerators=self.accelerators,
            cache_share=0.5 if self.cache == "fp8" else 1.0,
            cache_room=max(0.0, memory * self.accelerators - weights),
        )

    @cached_property
    def group(self) -> str:
        """The group of its errors."""
        return group_of(self.row, self.instance.accelerator)

    @cached_property
    def observed(self) -> dict[Figure, float]:
        """The measured figures, in seconds and requests per second."""
        first, between, tokens = (
            self.time_to_first_token_ms,
            self.inter_token_latency_ms,
            self.output_tokens_per_second,
        )
        found: dict[Figure, float | None] = {
            "time_to_first_token": first / 1000 if first else None,
            "inter_token_latency": between / 1000 if between else None,
            "requests_per_second": tokens / (self.output_tokens or 1) if tokens else None,
        }
        return {figure: value for figure, value in found.items() if value is not None}

    @property
    def rate(self) -> float | None:
        """Requests per second, as measured or derived from users and latencies."""
        found = self.observed.get("requests_per_second")
        first, between = (self.observed.get(name) for name in ("time_to_first_token", "inter_token_latency"))
        if self.load != "users" or self.at is None or first is None or between is None:
            return found
        return max(found or 0.0, self.at / (first + ((self.output_tokens or 1.0) - 1) * between))

    @property
    def most_possible(self) -> float:
        """The maximum requests per second that physics allows."""
        limit = engine_limit(self.engine, self.instance) if self.load in ("limit", "rate") else self.at or 1.0
        return Server(self.copy_, PHYSICS, self.input_tokens or 1.0, self.output_tokens or 1.0, limit).most_possible

    def efficiency(self, calibration: Calibration) -> Efficiency:
        """Return a calibration's efficiency for this measurement."""
        bits = operand_bits(self.precision, self.instance)
        return calibration.efficiency(self.copy_, self.instance.accelerator, self.engine, bits)

    def forecast(self, efficiency: Efficiency) -> dict[Figure, float]:
        """Return the forecast figures for an efficiency."""
        given, expected = self.input_tokens or 1.0, self.output_tokens or 1.0
        if self.load == "batch":
            return self._static_batch(ForwardPass(self.copy_, efficiency), given, expected)
        limit = engine_limit(self.engine, self.instance)
        server = Server(self.copy_, efficiency, given, expected, limit)
        if self.load == "limit" or self.at is None:
            state = server.at_limit()
        else:
            state = server.with_users(self.at) if self.load == "users" else server.at_rate(self.at)
        rate = state.requests_per_second
        if self.load == "users" and self.at is not None:
            rate = self.at / (state.time_to_first_token + (expected - 1) * state.inter_token_latency)
        return dict(zip(FIGURES, (state.time_to_first_token, state.inter_token_latency, rate), strict=True))

    def _static_batch(self, passes: ForwardPass, given: float, expected: float) -> dict[Figure, float]:
        """Return the figures of a batch whose requests begin and end together."""
        batch = self.at or 1.0
        first = passes.prompt(given) + (batch - 1) * passes.further_prompt(given)
        token = passes.token(batch, given + expected / 2)
        return dict(zip(FIGURES, (first, token, batch / (first + (expected - 1) * token)), strict=True))


@cache
def models() -> dict[str, ModelRow]:
    """Return the measured models."""
    data = json.loads((HERE / "models.json").read_text(encoding="utf-8"))["models"]
    return {name: ModelRow(name, **columns) for name, columns in data.items()}


@cache
def measurements() -> tuple[Measurement, ...]:
    """Return the measurements that are not left out."""
    lines = (HERE / "measurements.jsonl").read_text(encoding="utf-8").splitlines()
    return tuple(each for each in map(Measurement.model_validate_json, lines) if each.left_out is None)


def split(measured: Sequence[Measurement]) -> tuple[list[Measurement], list[Measurement]]:
    """Return the part to fit and the part to test."""
    shuffled = random.Random(SEED).sample(measured, len(measured))
    cut = round(len(shuffled) * FIT_SHARE)
    return shuffled[:cut], shuffled[cut:]
