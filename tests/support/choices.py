"""Objectives as hypothesis draws them, and a recorded choice, as small as one can be."""

from __future__ import annotations

import datetime as dt

from hypothesis import strategies as st

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
_latencies = st.none() | st.integers(1, 99_999).map(lambda tenths: tenths / 10)
# As people write them: names of choices have six significant digits, and whole percentages.
SETTINGS = st.fixed_dictionaries(
    {
        "input_tokens": st.integers(1, 10**6),
        "output_tokens": st.integers(1, 10**6),
        "requests_per_second": st.none() | st.integers(1, 999_999).map(lambda hundredths: hundredths / 100),
        "time_to_first_token": _latencies,
        "inter_token_latency": _latencies,
        "max_price_per_hour": st.none() | st.integers(1, 999_999).map(lambda cents: cents / 100),
        "quality": st.sampled_from(["lossless", "near-lossless", "any"]),
        "confidence": st.integers(50, 99).map(lambda percent: percent / 100),
    }
)
