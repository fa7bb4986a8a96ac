from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from constructs_optim.recipe import Compilation, Model, Plan, Quantization, Sharding
from constructs_optim.recipe.hosting.scaling import (
    HEADROOM,
    ScalingStep,
    StepRequest,
    invocations_target,
    requests_in_flight,
    scaling_defaults,
    step_adjustments,
)
from constructs_optim.recipe.plan_data import MemoryEstimate
from constructs_optim.recipe.tokens import is_known

from .recipes import planned

HEADLINE = planned()
SHARDED = planned(techniques=[Quantization.awq(tensor_parallel_degree=2), Sharding.fast_load(tensor_parallel_degree=2)])


def with_memory(**changed: Any) -> Plan:
    assert HEADLINE.memory is not None
    return HEADLINE.model_copy(update={"memory": HEADLINE.memory.model_copy(update=changed)})


def test_a_copy_is_sized_for_the_planned_batch_size() -> None:
    plan = planned(environment={"SM_VLLM_MAX_NUM_SEQS": "4"})
    assert requests_in_flight(plan) == 4


def test_a_compiled_model_is_sized_for_its_compiled_batch_size() -> None:
    plan = planned(
        model=Model.jumpstart("meta-textgeneration-llama-3-8b", version="2.24.0", accept_eula=True),
        techniques=[Compilation.neuron(maximum_batch_size=6)],
        instance_type="ml.trn1.32xlarge",
    )
    assert requests_in_flight(plan) == 6


def test_requests_beyond_the_kv_cache_memory_do_not_count() -> None:
    plan = with_memory(kv_cache_gb=40.0, batch_size=8, weights_gb=60.0, draft_gb=0.0, available_gb=80.0)
    assert requests_in_flight(plan) == 4


@pytest.mark.parametrize("cache", [None, 0.0])
def test_a_cache_of_unknown_size_holds_a_whole_batch(cache: float | None) -> None:
    assert requests_in_flight(with_memory(kv_cache_gb=cache, batch_size=8)) == 8


@pytest.mark.parametrize(("environment", "expected"), [({}, 8), ({"SM_VLLM_MAX_NUM_SEQS": "32"}, 32)])
def test_a_model_of_unknown_size_uses_the_configured_or_default_batch_size(
    environment: dict[str, str], expected: int
) -> None:
    plan = planned(model=Model.s3("s3://models/mine/"), environment=environment)
    assert plan.memory is None
    assert requests_in_flight(plan) == expected


def test_an_instance_with_room_for_two_copies_is_sized_for_both() -> None:
    one, two = (
        scaling_defaults(HEADLINE),
        scaling_defaults(planned(techniques=[Quantization.awq(tensor_parallel_degree=2)])),
    )
    # Half the memory for each copy leaves its cache room for 2 of the 8 requests.
    assert (one.capacity, two.capacity) == (8, 2 * 2)


def test_a_copy_of_a_component_is_sized_for_its_own_accelerators() -> None:
    assert SHARDED.container.component is not None
    assert scaling_defaults(SHARDED).capacity == 2
    assert scaling_defaults(SHARDED, accelerators=4).capacity == 4


def test_the_default_concurrency_target_is_seventy_percent_of_capacity() -> None:
    assert scaling_defaults(HEADLINE).concurrency == 5.6


def test_the_target_of_a_choice_is_seventy_percent_of_the_capacity() -> None:
    defaults = scaling_defaults(HEADLINE, concurrency=14.0)
    assert (defaults.concurrency, defaults.capacity) == (14.0, 20)
    assert scaling_defaults(HEADLINE, concurrency=0.1).capacity == 1


@given(
    batch=st.integers(1, 512),
    cache=st.floats(0.01, 1000),
    fixed=st.floats(0, 700),
    available=st.floats(1, 800),
)
def test_the_default_target_never_exceeds_the_capacity_of_a_copy(
    batch: int, cache: float, fixed: float, available: float
) -> None:
    memory = MemoryEstimate(
        weights_gb=fixed, draft_gb=0, kv_cache_gb=cache, batch_size=batch, sequence_length=4096, available_gb=available
    )
    defaults = scaling_defaults(HEADLINE.model_copy(update={"memory": memory}))
    assert 1 <= defaults.capacity <= batch
    assert 1 <= defaults.concurrency <= max(1, defaults.capacity * HEADROOM + 0.05)
    if fixed < available:
        assert defaults.capacity == 1 or defaults.capacity * cache / batch <= available - fixed + 1e-6


def test_the_invocations_target_follows_from_concurrency_and_request_duration() -> None:
    assert invocations_target(5.6, request_seconds=20) == 16.8


bounds = st.lists(st.integers(-1000, 1000), min_size=1, max_size=6, unique=True)


@given(bounds=bounds, value=st.integers(-2000, 2000), rising=st.booleans())
def test_each_value_beyond_the_threshold_triggers_the_requested_step(
    bounds: list[int], value: int, rising: bool
) -> None:
    request = StepRequest(
        "steps",
        [
            ScalingStep(change=index + 1, lower=bound) if rising else ScalingStep(change=-index - 1, upper=bound)
            for index, bound in enumerate(bounds)
        ],
    )
    steps = request.rising() if rising else request.falling()
    threshold, adjustments = step_adjustments(steps, rising=rising)
    assert threshold == (min(bounds) if rising else max(bounds))
    # API reference, StepAdjustment: above the threshold the lower bound is inclusive, below it the upper bound.
    matching = [
        adjustment["scalingAdjustment"]
        for adjustment in adjustments
        for low in [threshold + adjustment.get("metricIntervalLowerBound", -math.inf)]
        for high in [threshold + adjustment.get("metricIntervalUpperBound", math.inf)]
        if (low <= value < high if rising else low < value <= high)
    ]
    reached = [step for step in steps if (step.lower <= value if rising else value <= step.upper)]
    assert matching == [step.change for step in reached[-1:]]


@pytest.mark.parametrize(
    ("value", "known"), [(0, True), (4, True), (-1.5, True), (None, False), (-1.8881545897087626e289, False)]
)
def test_a_number_token_is_not_known(value: Any, known: bool) -> None:
    assert is_known(value) == known
