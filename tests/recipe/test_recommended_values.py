"""The numbers, places and reasons of recommendations for some models and objectives: a change shows in a file.

``pytest tests/recipe/test_recommended_values.py --snapshot-update`` writes it. Whether the numbers are right is told by
test_forecast.py, test_recommendation.py and ``bench/forecast``.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.json import JSONSnapshotExtension

from constructs_optim.recipe import Model
from constructs_optim.recipe.recommendation import Candidate

from ..support.rounding import rounded
from .test_recommendation import LLAMA, QWEN, objectives, recommended

NVIDIA = ("ml.g5.48xlarge", "ml.g6e.12xlarge", "ml.p4d.24xlarge", "ml.p5.4xlarge", "ml.p5.48xlarge")
PRICES = {"ml.g5.48xlarge": 20.0, "ml.g6e.12xlarge": 13.0, "ml.p4d.24xlarge": 30.0, "ml.p5.48xlarge": 90.0}
EXPERTS = Model.huggingface("Qwen/Qwen3-30B-A3B", revision="a" * 40)
SMALL = Model.huggingface("Qwen/Qwen3-8B", revision="a" * 40)
ASKED: dict[str, tuple[Model, dict[str, Any]]] = {
    "Llama 70B, chat": (LLAMA, {"time_to_first_token": "2s", "inter_token_latency": "60ms"}),
    "Llama 70B, no rate": (LLAMA, {"requests_per_second": None, "inter_token_latency": "60ms"}),
    "Llama 70B, lossless, cheap": (LLAMA, {"quality": "lossless", "max_price_per_hour": 60.0}),
    "Qwen 32B, long prompts": (QWEN, {"input_tokens": 20_000, "output_tokens": 800, "requests_per_second": 0.5}),
    "Qwen 32B, fast tokens": (QWEN, {"inter_token_latency": "12ms", "requests_per_second": 20.0}),
    "experts": (EXPERTS, {"time_to_first_token": "500ms", "inter_token_latency": "30ms"}),
    "small, many requests": (SMALL, {"requests_per_second": 200.0, "inter_token_latency": "40ms"}),
    "Llama 70B, faster than any": (
        LLAMA,
        {"time_to_first_token": "200ms", "inter_token_latency": "10ms", "max_price_per_hour": 70.0, "quality": "any"},
    ),
    "Qwen 32B, lossless": (QWEN, {"quality": "lossless"}),
    "of unknown size": (Model.huggingface("acme/mine", revision="a" * 40), {}),
}
_SHOWN = 4


def described(candidate: Candidate) -> list[str]:
    """A line for the candidate, and one for each forecast."""
    left_out = ("plan", "forecast", "with_users", "record")
    found = {name: value for name, value in vars(candidate).items() if name not in left_out}
    record = {figure: [*asdict(of).values()] for figure, of in candidate.record.items()}
    forecasts = {"all": candidate.forecast, **candidate.with_users}
    return [
        json.dumps(rounded({"on": candidate.plan.instance_type, **found, "record": record})),
        *(
            f"{users} users: {json.dumps(rounded([*asdict(forecast).values()]))}"
            for users, forecast in forecasts.items()
            if forecast is not None
        ),
    ]


def placed(candidate: Candidate) -> str:
    """A line for a candidate that is not among the best."""
    where = f"{candidate.instances} of {candidate.plan.instance_type}"
    return "; ".join([where, *candidate.techniques, *candidate.missed])


def test_each_recommendation_has_the_candidates_that_it_had(snapshot: SnapshotAssertion) -> None:
    found: dict[str, Any] = {}
    for name, (model, asked) in ASKED.items():
        result = recommended(objectives(**asked), model=model, types=NVIDIA, prices=PRICES)
        found[name] = {
            "candidates": [described(each) for each in result.candidates[:_SHOWN]],
            "pools": [f"{each.plan.instance_type}, {each.techniques}" for each in result.pools(3)],
            "excluded": sorted(f"{each.rule} {each.techniques}: {each.reason}" for each in result.excluded),
            "others": [placed(each) for each in result.candidates[_SHOWN:]],
        }
    assert found == snapshot.use_extension(JSONSnapshotExtension)
