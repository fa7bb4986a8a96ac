"""Declarations and traffic that the tests replay."""

from __future__ import annotations

import random
from typing import Any

from constructs_optim.recipe import Model, Quantization, Recipe
from constructs_optim.recipe.forecast import forecaster
from constructs_optim.recipe.objectives import Objectives
from constructs_optim.replay.declaration import Declared, Pool
from constructs_optim.replay.scaling import Policy, Scaling
from constructs_optim.replay.traffic import Traffic

from ..support.cloud_scaling import tracking_policy

MODEL = Model.huggingface("Qwen/Qwen3-32B", revision="0" * 40)
INSTANCE = "ml.g6e.12xlarge"


def append(traffic: Traffic, more: Traffic, at: float) -> None:
    """Let more requests come, from so many seconds on."""
    traffic.seconds.extend(at + each for each in more.seconds)
    traffic.input_tokens.extend(more.input_tokens)
    traffic.output_tokens.extend(more.output_tokens)


def poisson(
    rate: float, seconds: float, *, seed: int = 1, input_tokens: int = 800, output_tokens: int = 300
) -> Traffic:
    """Requests that come at random."""
    chance, at, traffic = random.Random(seed), 0.0, Traffic()
    while (at := at + chance.expovariate(rate)) < seconds:
        traffic.seconds.append(at)
        traffic.input_tokens.append(input_tokens)
        traffic.output_tokens.append(output_tokens)
    return traffic


def scaling(traffic: Traffic, *, least: int = 1, most: int = 6, target: float = 20.0, **more: Any) -> Scaling:
    """Target tracking of the requests in flight."""
    return Scaling(least, most, traffic.start, [Policy.tracking(tracking_policy(target))], **more)


def pool(traffic: Traffic, instance_type: str = INSTANCE, *, on_each: int = 1, price: float = 10.0) -> Pool:
    """Qwen3 32B in FP8, on four L40S by default."""
    forecasts = forecaster(Recipe(MODEL, [Quantization.fp8_dynamic()], instance_type, "us-west-2"), traffic.lengths)
    assert forecasts is not None
    return Pool(instance_type, on_each, forecasts, 180.0, price)


def declared(traffic: Traffic, scaled: Scaling | None = None, *, copies: int = 1, on_each: int = 1) -> Declared:
    """An endpoint of one pool."""
    objectives = Objectives(input_tokens=800, output_tokens=300, time_to_first_token=1000, inter_token_latency=100)
    return Declared("Chat/Model", (pool(traffic, on_each=on_each),), copies, scaled, objectives, ())
