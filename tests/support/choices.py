"""A recorded choice for objectives, as small as one can be."""

from __future__ import annotations

import datetime as dt

from constructs_optim.recipe.catalog.lock import RecordedChoice, RecordedForecast, RecordedPool
from constructs_optim.recipe.objectives import Objectives, choice_name

OBJECTIVES = Objectives(input_tokens=1000, output_tokens=300, requests_per_second=12)
CHOICE = RecordedChoice(
    model="Qwen/Qwen3-32B",
    objectives=OBJECTIVES.model_dump(mode="json", exclude_defaults=True),
    pools=(RecordedPool(instance_type="ml.p5.48xlarge", techniques=("quantization=fp8",)),),
    copies=2,
    instances=2,
    concurrency=44.8,
    forecast=RecordedForecast(
        rate=12,
        time_to_first_token_ms=(100, 50, 200),
        inter_token_latency_ms=(20, 15, 30),
        requests_per_second=(30, 20, 40),
        probability=0.93,
        measurements=0,
    ),
    date=dt.date(2026, 11, 26),
)
NAME = choice_name(CHOICE.model, OBJECTIVES)
