"""The forecast: physics as its bound, steady states against a simulation, and what measurements teach it."""

from __future__ import annotations

import importlib.util
import itertools
import json
import math
import random
import statistics
import sys
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from types import ModuleType
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from constructs_optim.recipe import Compilation, Medusa, Model, Quantization, Recipe, SpeculativeDecoding, Technique
from constructs_optim.recipe.catalog import instances, models
from constructs_optim.recipe.forecast import (
    FIGURES,
    PHYSICS,
    Calibration,
    Copy,
    Draft,
    Efficiency,
    Errors,
    Estimate,
    Figure,
    Forecaster,
    ForwardPass,
    Measured,
    Server,
    Steady,
    copy_of,
    engine_limit,
    forecaster,
    group_of,
    operand_bits,
    published,
)
from constructs_optim.recipe.memory import estimate
from constructs_optim.recipe.objectives import Objectives
from constructs_optim.recipe.servers import Server as Server_
from constructs_optim.recipe.servers import ServerSettings
from tests.support.calibration import CALIBRATION, ERRORS, PLAUSIBLE
from tests.support.documents import CHECKOUT
from tests.support.sampling import one_in

# Llama 3.1 8B in half precision on one H100.
LLAMA = Copy(
    parameters=8.03e9,
    active_parameters=7.5e9,
    prompt_parameters=7e9,
    weight_bytes=15e9,
    layers=32,
    hidden_size=4096,
    cache_bytes=131_072,
    flops=989e12,
    bandwidth=3.35e12,
    link=450e9,
    cache_room=55e9,
)
# A twentieth of the weights for each token.
EXPERTS = replace(LLAMA, parameters=60e9, active_parameters=3e9, prompt_parameters=2.8e9, weight_bytes=60e9)
ENGINE_ALONE = replace(PLAUSIBLE, server_seconds=0.0, awaited_passes=0.0, together=0.0)
GIVEN, EXPECTED, MOST = 1000, 300, 256
SLIGHTLY = 1e-9
"""What rounding may amount to."""


@st.composite
def copies(draw: st.DrawFn) -> Copy:
    parameters = draw(st.floats(1e8, 1e12))
    active = parameters * draw(st.floats(0.02, 1))
    units = draw(st.sampled_from([1, 2, 4, 8, 16]))
    drafts = st.builds(Draft, st.integers(1, 8), st.floats(0, 1), st.floats(0, 1e10))
    return Copy(
        parameters=parameters,
        active_parameters=active,
        prompt_parameters=active * draw(st.floats(0.5, 1)),
        weight_bytes=parameters * draw(st.floats(0.5, 2)),
        layers=draw(st.integers(1, 128)),
        hidden_size=draw(st.integers(64, 16_384)),
        cache_bytes=draw(st.floats(1e3, 1e6)),
        flops=draw(st.floats(1e13, 1e16)),
        bandwidth=draw(st.floats(1e11, 1e13)),
        link=draw(st.floats(1e9, 1e12)),
        accelerators=units,
        tensor_parallel=units,
        pipeline=draw(st.integers(1, 4)),
        window_bytes=draw(st.floats(0, 1e6)),
        window=draw(st.integers(0, 8192)),
        cache_room=draw(st.just(math.inf) | st.floats(1e8, 1e12)),
        draft=draw(st.none() | drafts),
    )


shares, seconds = st.floats(0.01, 1), st.floats(0, 0.1)
efficiencies = st.builds(
    Efficiency,
    **dict.fromkeys(("bandwidth", "cache_bandwidth", "expert_bandwidth", "compute", "link", "together"), shares),
    **dict.fromkeys(("layer_seconds", "step_seconds", "request_seconds"), seconds),
    **dict.fromkeys(("reduction_seconds", "server_seconds"), seconds),
    awaited_passes=st.floats(0, 2),
    overlap=st.floats(1, 20) | st.just(math.inf),
)
lengths = st.tuples(st.integers(1, 20_000), st.integers(2, 5_000))


@given(copies(), efficiencies, st.floats(1, 1024), st.integers(1, 20_000))
def test_no_efficiency_makes_a_pass_faster_than_physics(
    copy: Copy, efficiency: Efficiency, batch: float, tokens: int
) -> None:
    real, ideal = ForwardPass(copy, efficiency), ForwardPass(copy, PHYSICS)
    assert real.token(batch, tokens) >= ideal.token(batch, tokens) * (1 - SLIGHTLY)
    assert real.prompt(tokens) >= ideal.prompt(tokens) * (1 - SLIGHTLY)
    assert real.further_prompt(tokens) >= ideal.further_prompt(tokens) * (1 - SLIGHTLY)


@given(copies(), efficiencies, st.floats(1, 512), st.floats(1, 512), st.integers(1, 20_000), st.integers(1, 20_000))
def test_larger_batches_longer_contexts_and_longer_prompts_take_longer(
    copy: Copy, efficiency: Efficiency, batch: float, more: float, tokens: int, further: int
) -> None:
    passes = ForwardPass(copy, efficiency)
    at_least = passes.token(batch, tokens) * (1 - SLIGHTLY)
    assert passes.token(batch + more, tokens) >= at_least
    assert passes.token(batch, tokens + further) >= at_least
    assert passes.prompt(tokens + further) >= passes.prompt(tokens) * (1 - SLIGHTLY)


@given(copies(), efficiencies, st.integers(1, 20_000))
def test_a_prompt_alone_takes_no_less_than_one_beside_a_batch(copy: Copy, efficiency: Efficiency, tokens: int) -> None:
    passes = ForwardPass(copy, efficiency)
    assert passes.prompt(tokens) >= passes.further_prompt(tokens) * (1 - SLIGHTLY)


def test_one_token_takes_as_long_as_reading_the_weights_and_its_cache() -> None:
    expected = LLAMA.weight_bytes / LLAMA.bandwidth + 1000 * LLAMA.cache_bytes / LLAMA.bandwidth
    assert ForwardPass(LLAMA, PHYSICS).token(1, 1000) == pytest.approx(expected)


def test_a_long_prompt_takes_as_long_as_computing_it() -> None:
    multiplied = 2 * LLAMA.prompt_parameters * 4000 + 2 * 4000**2 * LLAMA.hidden_size * LLAMA.layers
    assert ForwardPass(LLAMA, PHYSICS).prompt(4000) == pytest.approx(multiplied / LLAMA.flops)


@pytest.mark.parametrize("units", [2, 4, 8])
def test_more_accelerators_read_faster_and_exchange_more(units: int) -> None:
    def on(count: int, efficiency: Efficiency, link: float = LLAMA.link) -> ForwardPass:
        return ForwardPass(replace(LLAMA, accelerators=count, tensor_parallel=count, link=link), efficiency)

    fewer, endless = units // 2, 1e30
    read = [on(count, PHYSICS, endless).token(8, 1000) for count in (fewer, units)]
    assert read[1] == pytest.approx(read[0] / 2)
    one_by_one = replace(PHYSICS, overlap=2.0)
    exchanged = [
        on(count, one_by_one).further_prompt(8000) - on(count, one_by_one, endless).further_prompt(8000)
        for count in (fewer, units)
    ]
    assert exchanged[1] > exchanged[0]
    # At best, hidden states are exchanged while others are computed.
    assert on(units, PHYSICS).further_prompt(8000) < on(units, one_by_one).further_prompt(8000)
    # Where each of the reductions takes a millisecond, more accelerators are no help.
    slow = replace(PHYSICS, reduction_seconds=1e-3)
    assert on(units, slow).token(1, 0) > on(1, slow).token(1, 0)


def test_weights_of_8_bits_are_read_and_computed_in_half_the_time() -> None:
    fp8 = replace(LLAMA, weight_bytes=LLAMA.weight_bytes / 2, flops=LLAMA.flops * 2)
    for tokens in (1, 64, 4096):
        half, full = (ForwardPass(copy, PHYSICS) for copy in (fp8, LLAMA))
        assert half.prompt(tokens) == pytest.approx(full.prompt(tokens) / 2)
        # The KV cache keeps its size.
        cached = tokens * 1000 * LLAMA.cache_bytes / LLAMA.bandwidth
        assert half.token(tokens, 1000) - cached == pytest.approx((full.token(tokens, 1000) - cached) / 2)


@given(copies(), st.floats(1, 512), st.floats(1, 512))
def test_experts_that_are_read_grow_with_the_batch_and_are_never_more_than_all(
    copy: Copy, tokens: float, more: float
) -> None:
    few, many = copy.read_share(tokens), copy.read_share(tokens + more)
    assert 0 < few <= many <= 1
    assert copy.read_share(1) == pytest.approx(1.0 if copy.is_dense else copy.active_parameters / copy.parameters)


def test_a_mixture_of_experts_reads_its_active_weights_for_one_token_and_nearly_all_for_many() -> None:
    passes, whole = ForwardPass(EXPERTS, PHYSICS), EXPERTS.weight_bytes / EXPERTS.bandwidth
    assert passes.token(1, 0) == pytest.approx(whole / 20)
    assert passes.token(4, 0) == pytest.approx(whole * (1 - 0.95**4))
    assert whole * 0.99 < passes.token(128, 0) <= whole
    slower = ForwardPass(EXPERTS, replace(PHYSICS, expert_bandwidth=0.5))
    assert slower.token(1, 0) == pytest.approx(whole / 10)


@given(copies(), st.floats(1, 100_000))
def test_layers_with_a_window_keep_no_more_than_it(copy: Copy, tokens: float) -> None:
    kept = copy.request_bytes(tokens)
    assert kept <= copy.cache_bytes * tokens + copy.window_bytes * copy.window * (1 + SLIGHTLY)
    assert kept <= (copy.cache_bytes + copy.window_bytes) * tokens * (1 + SLIGHTLY)
    if tokens <= copy.window:
        assert kept == pytest.approx((copy.cache_bytes + copy.window_bytes) * tokens)


@given(st.integers(1, 16), st.floats(0, 1))
def test_a_draft_yields_its_accepted_tokens_and_one_of_the_models_own(tokens: int, acceptance: float) -> None:
    # The i-th drafted token counts if it and all before it are accepted.
    expected = 1 + sum(acceptance**i for i in range(1, tokens + 1))
    assert Draft(tokens, acceptance).tokens_per_pass == pytest.approx(expected)
    assert Draft(tokens, 1.0).tokens_per_pass == tokens + 1


def test_a_free_draft_that_is_always_accepted_divides_the_time_between_tokens() -> None:
    drafted = ForwardPass(replace(LLAMA, draft=Draft(3, 1.0)), PHYSICS)
    assert drafted.token(1, 1000) == pytest.approx(ForwardPass(LLAMA, PHYSICS).token(1, 1000) / 4)
    # One that is never accepted costs what it reads.
    useless = ForwardPass(replace(LLAMA, draft=Draft(3, 0.0, weight_bytes=1e9)), PHYSICS)
    added = 3 * 1e9 / LLAMA.bandwidth
    assert useless.token(1, 1000) == pytest.approx(ForwardPass(LLAMA, PHYSICS).token(1, 1000) + added)


def test_each_stage_of_a_pipeline_reads_its_layers_for_its_part_of_the_batch() -> None:
    staged = replace(LLAMA, accelerators=4, pipeline=4)
    read = ForwardPass(staged, PHYSICS).token(4, 0)
    assert read == pytest.approx(LLAMA.weight_bytes / LLAMA.bandwidth)


@dataclass(frozen=True)
class Simulated:
    """Means of what a simulated server did: seconds, and requests a second."""

    time_to_first_token: float
    inter_token_latency: float
    requests_per_second: float


class Request:
    def __init__(self, arrived: float, expected: int = EXPECTED) -> None:
        self.arrived, self.expected = arrived, expected
        self.first, self.ended, self.generated = 0.0, 0.0, 0


class Engine:
    """An engine, pass by pass: ``mixed`` ones compute prompts in the passes that generate tokens, as vLLM does by
    default, up to ``prompts`` in each; others compute prompts one by one before the next such pass.
    """

    def __init__(self, passes: ForwardPass, *, mixed: bool = False, prompts: int = 8, most: int = MOST) -> None:
        self._passes, self._mixed, self._prompts, self._most = passes, mixed, prompts, most
        self.now = 0.0
        self.waiting: deque[Request] = deque()
        self.running: list[Request] = []

    def step(self) -> list[Request]:
        """Run one pass; returns the requests that it has ended."""
        room = self._most - len(self.running)
        begun = [
            self.waiting.popleft() for _ in range(min(len(self.waiting), room, self._prompts if self._mixed else 1))
        ]
        batch = self.running if self._mixed or not begun else []
        if batch:
            context = GIVEN + sum(each.generated for each in batch) / len(batch)
            self.now += self._passes.token(len(batch), context) + len(begun) * self._passes.further_prompt(GIVEN)
        else:
            self.now += self._passes.prompt(GIVEN) + (len(begun) - 1) * self._passes.further_prompt(GIVEN)
        for each in [*batch, *begun]:
            each.generated += 1
            each.first = each.first or self.now
        ended = [each for each in [*batch, *begun] if each.generated == each.expected]
        self.running = [each for each in [*self.running, *begun] if each.generated < each.expected]
        for each in ended:
            each.ended = self.now
        return ended


def at_rate(engine: Engine, rate: float, count: int = 2000) -> Simulated:
    """Requests arrive at random; the first fifth fills the server."""
    chance = random.Random(7)
    arrivals = [*itertools.accumulate(chance.expovariate(rate) for _ in range(count))]
    exactly = count / rate / arrivals[-1]
    coming = deque(Request(arrives * exactly) for arrives in arrivals)
    begins, ends, ended = coming[count // 5].arrived, coming[-1].arrived, list[Request]()
    while coming or engine.waiting or engine.running:
        if not engine.waiting and not engine.running:
            engine.now = max(engine.now, coming[0].arrived)
        while coming and coming[0].arrived <= engine.now:
            engine.waiting.append(coming.popleft())
        ended += engine.step()
    return means(ended, begins, ends)


def with_users(engine: Engine, users: int, count: int = 1500) -> Simulated:
    """Each user sends a request when the last one has ended; users of equal lengths would all do so at once."""
    chance, ended = random.Random(7), list[Request]()

    def sent(now: float) -> Request:
        return Request(now, chance.randint(EXPECTED // 2, EXPECTED * 3 // 2))

    coming = deque(sent(0.05 * user) for user in range(users))
    while len(ended) < count:
        if not engine.waiting and not engine.running:
            engine.now = max(engine.now, coming[0].arrived)
        while coming and coming[0].arrived <= engine.now:
            engine.waiting.append(coming.popleft())
        just = engine.step()
        ended += just
        coming.extend(sent(engine.now) for _ in just)
    return means(ended, ended[count // 4].ended, ended[-1].ended)


def means(ended: Sequence[Request], begins: float, ends: float) -> Simulated:
    counted = [each for each in ended if each.arrived >= begins]
    return Simulated(
        statistics.fmean(each.first - each.arrived for each in counted),
        sum(each.ended - each.first for each in counted) / sum(each.expected - 1 for each in counted),
        sum(begins < each.ended <= ends for each in ended) / (ends - begins),
    )


def assert_agree(simulated: Simulated, forecast: Steady, within: float, figures: Sequence[Figure] = FIGURES) -> None:
    for figure in figures:
        ratio = getattr(simulated, figure) / getattr(forecast, figure)
        assert 1 - within < ratio < 1 + within, f"{figure} is {ratio:.2f} of the forecast"


LOADS = [0.2, 0.5, 0.75]
LATENCIES: tuple[Figure, ...] = ("time_to_first_token", "inter_token_latency")


def server(efficiency: Efficiency = PLAUSIBLE, copy: Copy = LLAMA, expected: int = EXPECTED) -> Server:
    return Server(copy, efficiency, GIVEN, expected, MOST)


@given(copies(), efficiencies, lengths, st.integers(1, 1024))
def test_no_efficiency_takes_more_requests_than_physics(
    copy: Copy, efficiency: Efficiency, lengths: tuple[int, int], most: int
) -> None:
    real, ideal = (Server(copy, each, *lengths, most).at_limit() for each in (efficiency, PHYSICS))
    assert real.requests_per_second <= ideal.requests_per_second * (1 + SLIGHTLY)
    assert real.inter_token_latency >= ideal.inter_token_latency * (1 - SLIGHTLY)


@given(copies(), efficiencies, lengths, st.floats(0.01, 0.95))
def test_littles_law_holds_of_batches(
    copy: Copy, efficiency: Efficiency, lengths: tuple[int, int], share: float
) -> None:
    server = Server(copy, efficiency, *lengths, MOST)
    limit = server.at_limit().requests_per_second
    for state in (server.at_rate(share * limit), server.at_limit(), server.with_users(8)):
        generating = state.requests_per_second * (lengths[1] - 1) * state.inter_token_latency
        assert state.batch == pytest.approx(generating)


@given(copies(), efficiencies, lengths, st.integers(1, 1024))
def test_littles_law_holds_of_users(copy: Copy, efficiency: Efficiency, lengths: tuple[int, int], users: int) -> None:
    state = Server(copy, efficiency, *lengths, MOST).with_users(users)
    response = state.time_to_first_token + (lengths[1] - 1) * state.inter_token_latency
    # Where a second request has a batch to wait for, and a first one none, there are more users than both have.
    assume(not 0.999 < state.batch < 1.001)
    assert state.requests_per_second * response == pytest.approx(users, rel=0.01)


@given(copies(), efficiencies, lengths, st.integers(1, 512), st.integers(1, 512))
def test_with_more_users_neither_rate_nor_latencies_fall(
    copy: Copy, efficiency: Efficiency, lengths: tuple[int, int], users: int, more: int
) -> None:
    server = Server(copy, efficiency, *lengths, MOST)
    few, many = server.with_users(users), server.with_users(users + more)
    for figure in FIGURES:
        assert getattr(many, figure) >= getattr(few, figure) * (1 - 1e-6), figure


@given(copies(), efficiencies, lengths, st.floats(0.01, 0.99), st.floats(0.01, 0.99))
def test_at_higher_rates_no_latency_falls(
    copy: Copy, efficiency: Efficiency, lengths: tuple[int, int], share: float, other: float
) -> None:
    server = Server(copy, efficiency, *lengths, MOST)
    limit = server.at_limit().requests_per_second
    low, high = (server.at_rate(each * limit) for each in sorted([share, other]))
    assert high.time_to_first_token >= low.time_to_first_token * (1 - 1e-6)
    assert high.inter_token_latency >= low.inter_token_latency * (1 - 1e-6)


@pytest.mark.parametrize("share", LOADS)
def test_below_its_limit_a_server_takes_the_rate_that_is_asked_for(share: float) -> None:
    rate = share * server().at_limit().requests_per_second
    state = server().at_rate(rate)
    assert state.requests_per_second == pytest.approx(rate)


def test_above_its_limit_a_server_takes_its_limit() -> None:
    limit = server().at_limit()
    state = server().at_rate(1.5 * limit.requests_per_second)
    assert state.requests_per_second == limit.requests_per_second
    assert state.batch == MOST


def test_users_beyond_the_batch_wait_for_others_to_end() -> None:
    limit, state = server().at_limit(), server().with_users(4 * MOST)
    assert state.requests_per_second == pytest.approx(limit.requests_per_second)
    # Three of four requests wait, each as long as a batch takes to pass.
    assert state.time_to_first_token > 2.5 * (EXPECTED - 1) * state.inter_token_latency


def test_a_small_cache_limits_the_batch() -> None:
    request = LLAMA.request_bytes(GIVEN + EXPECTED)
    small = server(copy=replace(LLAMA, cache_room=10 * request))
    assert small.at_limit().batch == pytest.approx(10)
    assert small.at_limit().requests_per_second < server().at_limit().requests_per_second
    # A server takes one request at a time, whatever its estimate says.
    assert server(copy=replace(LLAMA, cache_room=0.0)).at_limit().batch == 1


def test_a_request_alone_waits_for_nobody() -> None:
    alone, passes = server().with_users(1), ForwardPass(LLAMA, PLAUSIBLE)
    assert alone.time_to_first_token == pytest.approx(passes.prompt(GIVEN) + PLAUSIBLE.server_seconds)
    between = passes.token(1, GIVEN + EXPECTED / 2)
    assert alone.inter_token_latency == pytest.approx(between, rel=0.15)


@pytest.mark.parametrize("load", LOADS)
def test_a_simulated_engine_that_computes_prompts_first_behaves_as_forecast(load: float) -> None:
    """Within 20%: a prompt with a pass of its own takes a tenth longer than the forecast says that it adds, which is
    more than that of the time between tokens where the server is busy; seeds differ by 8% there.
    """
    # A prompt waits for the rest of the pass that is under way: half a pass on average.
    efficiency = replace(ENGINE_ALONE, awaited_passes=0.5)
    forecasting = server(efficiency)
    rate = load * forecasting.at_limit().requests_per_second
    simulated = at_rate(Engine(ForwardPass(LLAMA, efficiency)), rate)
    assert_agree(simulated, forecasting.at_rate(rate), within=0.2)


@pytest.mark.parametrize("load", LOADS)
def test_a_simulated_engine_that_mixes_prompts_into_its_passes_behaves_as_forecast(load: float) -> None:
    """Within 15%: here a prompt takes what the forecast says that it adds, and only seeds differ."""
    # Beside the rest of a pass, a prompt waits for those that its own pass generates tokens for.
    efficiency = replace(ENGINE_ALONE, awaited_passes=1.0)
    forecasting = server(efficiency)
    rate = load * forecasting.at_limit().requests_per_second
    simulated, forecast = at_rate(Engine(ForwardPass(LLAMA, efficiency), mixed=True), rate), forecasting.at_rate(rate)
    assert_agree(simulated, forecast, 0.15, ("inter_token_latency", "requests_per_second"))
    assert_agree(simulated, forecast, 0.2, ("time_to_first_token",))


@pytest.mark.parametrize("users", one_in(3, [16, 1, 128]))
def test_simulated_users_that_send_one_request_after_another_are_served_as_forecast(users: int) -> None:
    efficiency = replace(ENGINE_ALONE, awaited_passes=1.0)
    simulated = with_users(Engine(ForwardPass(LLAMA, efficiency), mixed=True), users)
    forecast = server(efficiency).with_users(users)
    assert_agree(simulated, forecast, 0.15, ("inter_token_latency", "requests_per_second"))
    # Users who wait for their responses come in less of a queue than requests at random do.
    assert_agree(simulated, forecast, 0.25, ("time_to_first_token",))


def test_a_simulated_engine_with_more_users_than_it_takes_reaches_the_limit() -> None:
    simulated = with_users(Engine(ForwardPass(LLAMA, ENGINE_ALONE), mixed=True, most=64), 96)
    server = Server(LLAMA, ENGINE_ALONE, GIVEN, EXPECTED, 64)
    assert_agree(simulated, server.with_users(96), within=0.1)
    assert simulated.requests_per_second == pytest.approx(server.at_limit().requests_per_second, rel=0.1)


WITH_FACTORS = CALIBRATION.model_copy(
    update={
        "accelerators": {"h100": {"bandwidth": 1.1, "compute": 0.5}, "l4": {"bandwidth": 2.0}},
        "engines": {"vllm": {"bandwidth": 0.5, "layer_seconds": 2.0}},
        "operands": {"8": {"compute": 0.5}},
        "experts": {"compute": 0.25},
        "unswitched": {"reduction_seconds": 3.0},
    }
)


def test_factors_of_accelerator_engine_and_operands_multiply() -> None:
    found = WITH_FACTORS.efficiency(LLAMA, "h100", "vllm", "8")
    assert found.bandwidth == pytest.approx(0.8 * 1.1 * 0.5)
    assert found.compute == pytest.approx(0.5 * 0.5 * 0.5)
    assert found.layer_seconds == pytest.approx(80e-6)
    assert found.cache_bandwidth == PLAUSIBLE.cache_bandwidth


def test_no_share_of_a_makers_figure_is_above_one() -> None:
    assert WITH_FACTORS.efficiency(LLAMA, "l4", "sglang", "16").bandwidth == 1.0


def test_seconds_may_be_more_than_one() -> None:
    slow = WITH_FACTORS.model_copy(update={"base": {**CALIBRATION.base, "server_seconds": 3.0}})
    assert slow.efficiency(LLAMA, "h100", "vllm", "16").server_seconds == 3.0


def test_an_accelerator_and_an_engine_that_were_never_measured_have_the_base() -> None:
    assert WITH_FACTORS.efficiency(LLAMA, "h900", "llm-server", "16") == PLAUSIBLE


def test_experts_and_accelerators_without_a_switch_have_factors_of_their_own() -> None:
    experts = WITH_FACTORS.efficiency(EXPERTS, "h900", "llm-server", "16")
    assert experts == replace(PLAUSIBLE, compute=PLAUSIBLE.compute * 0.25)
    unswitched = WITH_FACTORS.efficiency(replace(LLAMA, link=32e9), "h900", "llm-server", "16")
    assert unswitched == replace(PLAUSIBLE, reduction_seconds=PLAUSIBLE.reduction_seconds * 3)


def test_nothing_is_expected_of_a_group_without_measurements_and_its_interval_is_wide() -> None:
    assert ERRORS.of("Meta@h100") == (0.0, pytest.approx(math.hypot(ERRORS.between, ERRORS.within)))


def test_many_measurements_of_a_group_tell_its_median_and_leave_what_differs_within_it() -> None:
    errors = ERRORS.model_copy(update={"groups": {"Meta@h100": [0.4, 0.5, 9.0] * 100}})
    shared, deviation = errors.of("Meta@h100")
    assert shared == pytest.approx(0.5, rel=0.01)
    assert deviation == pytest.approx(ERRORS.within, rel=0.01)


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=20), st.floats(0.05, 1), st.floats(0.05, 1))
def test_a_group_shrinks_towards_no_error_and_each_measurement_narrows_it(
    found: list[float], between: float, within: float
) -> None:
    def of(measured: list[float]) -> tuple[float, float]:
        return Errors(between=between, within=within, quantile=1.7, groups={"g": measured}).of("g")

    shared, deviation = of(found)
    assert abs(shared) <= abs(statistics.median(found))
    assert within <= deviation <= of(found[1:])[1]


def own(count: int, figure: Figure = "inter_token_latency", group: str = "Meta@h100", off: float = 1.5) -> Calibration:
    """What is learned of so many measurements of a recipe, each ``off`` by that factor."""
    return CALIBRATION.learning([Measured(figure, group, "Llama on 8", measured=0.02 * off, forecast=0.02)] * count)


def test_own_measurements_move_their_group_and_leave_others_alone() -> None:
    learned = own(5)
    of_group = learned.errors["inter_token_latency"]
    assert 0 < of_group.of("Meta@h100")[0] < math.log(1.5)
    assert of_group.of("Qwen@h100") == ERRORS.of("Qwen@h100")
    assert learned.errors["time_to_first_token"] == learned.errors["requests_per_second"] == ERRORS
    assert CALIBRATION.errors["inter_token_latency"] == ERRORS, "the calibration itself stays"


def test_more_own_measurements_move_their_group_further_and_narrow_it() -> None:
    found = [own(count).errors["inter_token_latency"].of("Meta@h100") for count in (1, 5, 50)]
    assert [shared for shared, _ in found] == sorted(shared for shared, _ in found)
    assert [deviation for _, deviation in found] == sorted((deviation for _, deviation in found), reverse=True)
    assert found[-1] == (pytest.approx(math.log(1.5), rel=0.02), pytest.approx(ERRORS.within, rel=0.02))


def test_a_recipe_that_was_measured_itself_is_known_best() -> None:
    errors = own(1).errors["inter_token_latency"]
    (other, wide), (measured, narrow) = errors.of("Meta@h100", "Llama on 4"), errors.of("Meta@h100", "Llama on 8")
    assert 0 < other < measured < math.log(1.5)
    assert narrow < wide
    assert narrow < ERRORS.of("Meta@h100")[1]


def test_what_is_learned_at_once_or_one_after_another_is_the_same() -> None:
    each = Measured("inter_token_latency", "Meta@h100", "Llama on 8", measured=0.03, forecast=0.02)
    assert own(2) == CALIBRATION.learning([each]).learning([each])


def test_nothing_is_learned_of_nothing() -> None:
    assert CALIBRATION.learning([]) == CALIBRATION


estimates = st.builds(
    lambda bound, above, spread: Estimate(
        bound * above, bound * above / math.exp(spread), bound * above * math.exp(spread), spread, bound
    ),
    st.floats(1e-3, 10),
    st.floats(1, 20),
    st.floats(0.05, 1),
)


@given(estimates, st.floats(0.01, 0.99))
def test_a_quantile_is_not_exceeded_with_its_probability(estimate: Estimate, probability: float) -> None:
    limit = estimate.quantile(probability)
    assume(limit > estimate.bound * (1 + SLIGHTLY))
    assert estimate.probability(at_most=limit) == pytest.approx(probability)


@given(estimates, st.floats(0.01, 0.99))
def test_a_rate_is_reached_where_its_quantile_is_not_exceeded(estimate: Estimate, probability: float) -> None:
    rate = replace(estimate, bound=estimate.value * 100)
    assert rate.probability(at_least=rate.quantile(probability)) == pytest.approx(1 - probability)


@given(estimates, st.floats(0.1, 0.99))
def test_nothing_is_probable_beyond_what_physics_allows(estimate: Estimate, share: float) -> None:
    assert estimate.probability(at_most=estimate.bound * share) == 0
    assert replace(estimate, bound=estimate.value).probability(at_least=estimate.value / share) == 0


def test_a_figure_without_a_limit_is_always_within_it() -> None:
    assert Estimate(1, 0.5, 2, 0.4, 0.1).probability() == 1


def test_the_value_is_the_median() -> None:
    estimate = Estimate(1.0, 0.5, 2.0, 0.4, 0.1)
    assert estimate.quantile(0.5) == 1.0
    assert estimate.probability(at_most=1.0) == 0.5


P5, SMALL = "ml.p5.48xlarge", "ml.g6e.xlarge"
LLAMA_8B = Model.jumpstart("meta-textgeneration-llama-3-1-8b", version="1.0.0", accept_eula=True)
MIXTRAL = Model.jumpstart("huggingface-llm-mixtral-8x7b", version="1.0.0", accept_eula=True)


def forecasts(
    *techniques: Technique,
    instance_type: str = P5,
    model: Model = LLAMA_8B,
    calibration: Calibration = CALIBRATION,
    given: int = GIVEN,
) -> Forecaster:
    recipe = Recipe(model, list(techniques), instance_type, "us-west-2")
    found = forecaster(recipe, (given, EXPECTED), calibration)
    assert found is not None
    return found


def objectives(**changed: Any) -> Objectives:
    return Objectives(**{"input_tokens": GIVEN, "output_tokens": EXPECTED, **changed})


RECIPES: list[dict[str, Any]] = [
    {},
    {"instance_type": SMALL},
    {"instance_type": "ml.inf2.48xlarge"},
    {"model": MIXTRAL},
    {"techniques": [Quantization.fp8()]},
    {"techniques": [Quantization.awq(tensor_parallel_degree=2), SpeculativeDecoding.sagemaker_draft()]},
    {"techniques": [SpeculativeDecoding.ngram()]},
    {"model": Model.huggingface("openai/gpt-oss-20b", revision="a" * 40)},
]


def of_recipe(changed: dict[str, Any], calibration: Calibration = CALIBRATION) -> Forecaster:
    given = {name: value for name, value in changed.items() if name != "techniques"}
    return forecasts(*changed.get("techniques", ()), calibration=calibration, **given)


@pytest.mark.parametrize("calibration", [CALIBRATION, published()], ids=["of this test", "published"])
@pytest.mark.parametrize("changed", RECIPES, ids=str)
def test_intervals_hold_their_values_and_end_where_physics_does(
    changed: dict[str, Any], calibration: Calibration
) -> None:
    found = of_recipe(changed, calibration)
    rates = [share * found.capacity.value for share in (0.1, 0.9, 2.0)]
    each_forecast = [*(found.at_rate(rate) for rate in rates), *(found.with_users(users) for users in (1, 32))]
    for forecast in each_forecast:
        for figure in FIGURES:
            estimate: Estimate = getattr(forecast, figure)
            assert estimate.low <= estimate.value <= estimate.high
            assert estimate.spread > 0
        assert forecast.time_to_first_token.low >= forecast.time_to_first_token.bound
        assert forecast.inter_token_latency.low >= forecast.inter_token_latency.bound
        assert forecast.requests_per_second.high <= forecast.requests_per_second.bound


@pytest.mark.parametrize("changed", RECIPES, ids=str)
@pytest.mark.parametrize("confidence", [0.5, 0.8, 0.95])
def test_the_highest_rate_within_objectives_is_as_probable_as_asked_for(
    changed: dict[str, Any], confidence: float
) -> None:
    found = of_recipe(changed)
    middle = found.at_rate(found.capacity.value / 2)
    limits = (middle.time_to_first_token.quantile(0.95), middle.inter_token_latency.quantile(0.95))
    asked = objectives(
        time_to_first_token=limits[0] * 1000, inter_token_latency=limits[1] * 1000, confidence=confidence
    )
    within = found.within(asked)
    assert within is not None
    assert within.probability(asked) >= confidence
    assert found.at_rate(within.rate * 1.02).probability(asked) < confidence
    assert within.in_flight <= found.most_requests


def test_without_latencies_the_highest_rate_is_below_the_capacity_by_the_confidence() -> None:
    found = forecasts()
    rates = [
        within.rate for confidence in (0.5, 0.8, 0.95) if (within := found.within(objectives(confidence=confidence)))
    ]
    assert len(rates) == 3
    assert rates == sorted(rates, reverse=True)
    assert rates[0] == pytest.approx(found.capacity.value, rel=0.01)
    assert rates[1] == pytest.approx(found.capacity.quantile(0.2), rel=0.01)


@pytest.mark.parametrize("limit", [{"time_to_first_token": 0.1}, {"inter_token_latency": 0.1}])
def test_no_rate_is_within_an_impossible_latency(limit: dict[str, float]) -> None:
    found = forecasts()
    assert found.within(objectives(**limit)) is None
    assert found.at_rate(1e-3).probability(objectives(**limit)) == 0


def test_what_physics_allows_alone_is_not_probable() -> None:
    found = forecasts()
    limit = found.best.inter_token_latency * 1000
    assert found.within(objectives(inter_token_latency=limit)) is None
    assert found.within(objectives(inter_token_latency=limit * 20)) is not None


def test_several_copies_take_as_many_times_the_requests_at_the_same_latencies() -> None:
    found = forecasts()
    rate = found.capacity.value / 2
    one, four = found.at_rate(rate), found.at_rate(4 * rate, copies=4)
    assert four.inter_token_latency == one.inter_token_latency
    assert four.in_flight == one.in_flight
    assert four.rate == pytest.approx(4 * one.rate)
    assert four.requests_per_second.value == pytest.approx(4 * one.requests_per_second.value)
    assert four.probability(objectives()) == pytest.approx(one.probability(objectives()))


def test_requests_in_flight_follow_from_rate_and_latencies() -> None:
    found = forecasts()
    for users in (1, 16, 64):
        assert found.with_users(users).in_flight == pytest.approx(users, rel=0.01)


def test_the_largest_batch_that_keeps_a_latency_grows_with_it_and_shrinks_with_the_confidence() -> None:
    found = forecasts()
    slow = found.at_rate(found.capacity.value / 2).inter_token_latency.value
    by_latency = [found.batch_limit(slow * factor, 0.8) for factor in (0.7, 1.0, 1.5)]
    by_confidence = [found.batch_limit(slow, confidence) for confidence in (0.95, 0.8, 0.5)]
    for limits in (by_latency, by_confidence):
        known = [limit for limit in limits if limit is not None]
        assert len(known) == 3
        assert known == sorted(set(known))
    assert found.batch_limit(slow * 1000, 0.8) is None, "any batch does"
    assert found.batch_limit(slow / 1000, 0.8) == 1, "no batch does"


def test_a_batch_has_the_latencies_that_measurements_correct() -> None:
    found = forecasts()
    alone = found.with_users(1)
    assert found.at_batch(1.0) == pytest.approx(
        (alone.time_to_first_token.value, alone.inter_token_latency.value), rel=0.1
    )
    for corrected in LATENCIES:
        slower = [Measured(corrected, found.group, found.recipe, 3.0, 1.0)] * 50
        after = forecasts(calibration=CALIBRATION.learning(slower))
        for figure, was, is_ in zip(LATENCIES, found.at_batch(8.0), after.at_batch(8.0), strict=True):
            assert is_ == pytest.approx(was * (3 if figure == corrected else 1), rel=0.1)


def test_a_prompt_takes_what_measurements_tell_and_no_less_than_physics_allows() -> None:
    found = forecasts()
    assert found.prompt(2000, 2.0) == pytest.approx(2 * found.prompt(2000))
    assert 0 < found.prompt(2000, 0.0) < found.prompt(2000)
    assert found.prompt(2000, 0.0) == Server(found.copy, PHYSICS, GIVEN, EXPECTED, 1).prompt(2000)
    slower = [Measured("time_to_first_token", found.group, found.recipe, 3.0, 1.0)] * 50
    after = forecasts(calibration=CALIBRATION.learning(slower))
    assert after.prompt(2000) == pytest.approx(3 * found.prompt(2000), rel=0.1)


def test_own_measurements_of_a_recipe_correct_its_forecast() -> None:
    found = forecasts()
    slower = [Measured("inter_token_latency", found.group, found.recipe, 2.0, 1.0)] * 50
    before, after = (
        forecasts(calibration=each).at_rate(1.0).inter_token_latency
        for each in (CALIBRATION, CALIBRATION.learning(slower))
    )
    assert after.value == pytest.approx(2 * before.value, rel=0.05)
    assert after.high / after.low < before.high / before.low


def test_an_evaluation_is_compared_with_the_uncorrected_forecast_of_as_many_users() -> None:
    found = forecasts()
    expected = found.with_users(16)
    figures: dict[Figure, float] = {figure: 2 * getattr(expected, figure).value for figure in LATENCIES}
    measured = [*found.measured(16, 1, figures)]
    assert {each.figure: each.measured for each in measured} == figures
    assert [each.measured / each.forecast for each in measured] == [pytest.approx(2)] * 2
    # What was learned of it leaves the next comparison as it is, and makes the forecast right in the end.
    learned = forecasts(calibration=CALIBRATION.learning(measured * 50))
    assert [*learned.measured(16, 1, figures)] == measured
    assert learned.with_users(16).inter_token_latency.value == pytest.approx(figures["inter_token_latency"], rel=0.05)


def test_a_track_record_counts_measurements_of_such_models_on_such_accelerators() -> None:
    found = forecasts()
    unknown = found.track_record("inter_token_latency")
    assert (unknown.measurements, unknown.own, unknown.error) == (0, 0, None)
    groups = {found.group: [math.log(1.1), -math.log(2), math.log(1.2)]}
    errors = {figure: ERRORS.model_copy(update={"groups": groups}) for figure in FIGURES}
    known = forecasts(calibration=CALIBRATION.model_copy(update={"errors": errors}))
    record = known.track_record("inter_token_latency")
    assert (record.measurements, record.own, record.error) == (3, 0, pytest.approx(0.2))


def test_a_track_record_compares_the_forecast_with_own_measurements_if_there_are_some() -> None:
    found = forecasts()
    mine = [Measured("inter_token_latency", found.group, found.recipe, 1.3, 1.0)]
    before, after = (
        forecasts(calibration=each).track_record("inter_token_latency")
        for each in (published(), published().learning(mine))
    )
    assert (after.own, after.error) == (1, pytest.approx(0.3))
    assert after.measurements == before.measurements + 1


def test_a_draft_makes_tokens_faster_and_less_certain() -> None:
    plain, drafted = (
        found.at_rate(1.0).inter_token_latency
        for found in (forecasts(), forecasts(SpeculativeDecoding.sagemaker_draft()))
    )
    assert drafted.value < plain.value
    assert drafted.spread > plain.spread


_QWEN = Model.huggingface("Qwen/Qwen3.5-27B", revision="a" * 40)


def _of_method(method: Any) -> Technique:
    heads = Model.huggingface("acme/heads", revision="a" * 40)
    return SpeculativeDecoding.speculator(model=heads, method=method, speculative_tokens=4)


@pytest.mark.parametrize(
    ("technique", "model", "tokens", "acceptance"),
    [
        (SpeculativeDecoding.sagemaker_draft(), LLAMA_8B, 4, 0.7),
        (SpeculativeDecoding.ngram(speculative_tokens=5), LLAMA_8B, 5, 0.3),
        (_of_method("eagle3"), LLAMA_8B, 4, 0.6),
        (SpeculativeDecoding.eagle(), LLAMA_8B, 5, 0.6),
        (_of_method("dflash"), LLAMA_8B, 4, 0.6),
        (SpeculativeDecoding.mtp(speculative_tokens=2), _QWEN, 2, 0.85),
        (Medusa(training_data="s3://d/", heads=3), LLAMA_8B, 3, 0.6),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_a_draft_token_is_accepted_with_the_probability_of_its_method(
    technique: Technique, model: Model, tokens: int, acceptance: float
) -> None:
    draft = forecasts(technique, model=model).copy.draft
    assert draft is not None
    assert (draft.tokens, draft.acceptance) == (tokens, acceptance)


def test_each_of_the_heads_is_read_once_for_its_token() -> None:
    recipe = Recipe(LLAMA_8B, [Medusa(training_data="s3://d/", heads=3)], "ml.p5.48xlarge", "us-west-2")
    found, memory = forecaster(recipe, (1000, 300)), estimate(recipe)
    assert found is not None
    assert found.copy.draft is not None
    assert memory is not None
    assert found.copy.draft.weight_bytes * 3 == pytest.approx(memory.draft_gb * 1e9)


@pytest.mark.parametrize(
    ("techniques", "server", "engine"),
    [
        ([], Server_.vllm(), "vllm"),
        ([], Server_.lmi(), "vllm"),
        ([], Server_.sglang(), "sglang"),
        ([], Server_.text_generation_inference(), "tgi"),
        ([Compilation.tensorrt_llm()], None, "tensorrt-llm"),
        ([Compilation.neuron()], None, "vllm-neuron"),
    ],
)
def test_each_server_has_the_efficiency_of_its_engine(
    techniques: list[Technique], server: ServerSettings | None, engine: str
) -> None:
    slow = CALIBRATION.model_copy(update={"engines": {engine: {"bandwidth": 0.5}}})
    none = CALIBRATION.model_copy(update={"engines": {}})
    recipe = Recipe(LLAMA_8B, techniques, P5, "us-west-2", server=server)
    of = [forecaster(recipe, (GIVEN, EXPECTED), calibration) for calibration in (slow, none)]
    seconds = [each.at_rate(1.0).inter_token_latency.value for each in of if each is not None]
    assert seconds[0] > seconds[1]


def test_copies_of_fewer_accelerators_leave_room_for_more_copies() -> None:
    for degree in (1, 2, 4, 8):
        found = forecasts(Quantization.fp8(tensor_parallel_degree=degree))
        assert found.copies_per_instance == 8 // degree
        assert found.copy.tensor_parallel == degree


def test_nothing_is_forecast_of_a_model_of_unknown_size_or_without_an_instance() -> None:
    mine = Model.huggingface("acme/mine", revision="a" * 40)
    assert forecaster(Recipe(mine, [], P5, "us-west-2"), (GIVEN, EXPECTED)) is None
    assert forecaster(Recipe(LLAMA_8B, [], "ml.m5.large", "us-west-2"), (GIVEN, EXPECTED)) is None


def copy_on_p5(model_id: str, **changed: Any) -> Copy:
    row, instance = models.find(model_id), instances.find(P5)
    assert row is not None
    assert instance is not None
    return copy_of(row, instance, **{"weight_bytes": 16e9, "precision": "bf16", "units": 1, **changed})


@pytest.mark.parametrize(
    ("precision", "instance_type", "bits"),
    [
        (None, P5, "16"),
        ("bf16", P5, "16"),
        ("fp8", P5, "8"),
        ("int8", P5, "8"),
        ("int4", P5, "16"),
        ("fp8", "ml.g5.xlarge", "16"),
        ("nvfp4", "ml.p6-b200.48xlarge", "4"),
        ("nvfp4", P5, "8"),
        ("mxfp4", "ml.p6-b200.48xlarge", "8"),
        ("mxfp4", P5, "16"),
    ],
)
def test_operands_have_the_fewest_bits_that_accelerator_and_weights_allow(
    precision: str | None, instance_type: str, bits: str
) -> None:
    instance = instances.find(instance_type)
    assert instance is not None
    assert operand_bits(precision, instance) == bits


def test_a_model_whose_layers_are_unknown_has_plausible_ones() -> None:
    copy = copy_on_p5("Qwen/Qwen3-32B")
    assert 40 <= copy.layers <= 100
    assert 4000 <= copy.hidden_size <= 8000


def test_heads_that_are_fewer_than_accelerators_are_replicated() -> None:
    on = {units: copy_on_p5("meta-textgeneration-llama-3-1-8b", units=units).cache_bytes for units in (1, 8, 16)}
    assert on[1] == on[8] == 2 * 2 * 32 * 8 * 128
    assert on[16] == 2 * on[8]


def test_a_cache_of_8_bits_is_half_as_large() -> None:
    half, full = (copy_on_p5("meta-textgeneration-llama-3-1-8b", cache_share=share) for share in (0.5, 1.0))
    assert half.cache_bytes == full.cache_bytes / 2


def test_one_table_of_embeddings_is_looked_up_and_not_read() -> None:
    row, copy = models.find("meta-textgeneration-llama-3-1-8b"), copy_on_p5("meta-textgeneration-llama-3-1-8b")
    assert row is not None
    table = (row.embedding_parameters or 0) / 2
    assert table > 0
    assert copy.weight_bytes == 16e9 - 2 * table
    assert copy.active_parameters == copy.parameters - table
    assert copy.prompt_parameters == copy.parameters - 2 * table


def test_models_of_one_maker_are_one_group_wherever_they_are_from() -> None:
    names = ("meta-textgeneration-llama-3-1-8b", "meta-llama/Llama-3.1-8B-Instruct")
    found = {group_of(row, "h100") for row in map(models.find, names) if row is not None}
    assert found == {"Meta@h100"}
    mixture = models.find("huggingface-llm-mixtral-8x7b")
    assert mixture is not None
    assert group_of(mixture, "a100") == "Mistral (experts)@a100"


@pytest.mark.parametrize(
    ("family", "maker"),
    [
        ("LLaMA", "Meta"),
        ("LLaMA 3.1", "Meta"),
        ("Mixtral", "Mistral"),
        ("Qwen3", "Qwen"),
        ("gpt-oss", "OpenAI"),
        ("Falcon", "Falcon"),
    ],
)
@pytest.mark.parametrize(("active", "kind"), [(None, ""), (9.5, ""), (8.5, " (experts)")])
def test_a_group_has_its_maker_and_whether_its_models_have_experts(
    family: str, maker: str, active: float | None, kind: str
) -> None:
    row = models.ModelRow("acme/mine", family, parameters_billion=10.0, active_parameters_billion=active)
    assert group_of(row, "h100") == f"{maker}{kind}@h100"


def test_the_operands_of_smoothquant_have_8_bits() -> None:
    """The catalog has no name for the precision of its weights."""
    techniques = [Quantization.smoothquant(), Compilation.tensorrt_llm()]
    slow = CALIBRATION.model_copy(update={"operands": {"8": {"compute": 0.5}}})
    of = [forecasts(*techniques, calibration=each).at_rate(1.0) for each in (slow, CALIBRATION)]
    assert of[0].time_to_first_token.value > of[1].time_to_first_token.value


def test_batches_are_limited_as_their_engine_limits_them() -> None:
    limits = {
        (engine, name): engine_limit(engine, row)
        for engine in ("vllm", "tensorrt-llm")
        for name in (P5, "ml.g5.xlarge", "ml.p4de.24xlarge")
        if (row := instances.find(name)) is not None
    }
    assert limits["vllm", P5] == 1024
    assert limits["vllm", "ml.g5.xlarge"] == limits["vllm", "ml.p4de.24xlarge"] == 256
    assert limits["tensorrt-llm", P5] == limits["tensorrt-llm", "ml.g5.xlarge"] == 2048


BENCH = CHECKOUT / "bench" / "forecast"


@cache
def measured() -> ModuleType:
    """The module that the calibration is fitted with."""
    found = importlib.util.spec_from_file_location("bench_forecast_measured", BENCH / "measured.py")
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    # pydantic looks names of types up there.
    sys.modules[found.name] = module
    found.loader.exec_module(module)
    return module


@cache
def rows() -> list[dict[str, Any]]:
    """All measurements, with those that are left out."""
    return [json.loads(line) for line in (BENCH / "measurements.jsonl").read_text(encoding="utf-8").splitlines()]


def test_every_measurement_that_counts_validates_and_has_figures() -> None:
    kept = [row for row in rows() if row.get("left_out") is None]
    assert len(measured().measurements()) == len(kept) > 100
    for each in measured().measurements():
        assert each.observed, each.where
        assert all(value > 0 for value in each.observed.values()), each.where


def test_every_measurement_that_is_left_out_has_a_reason() -> None:
    for row in rows():
        if "left_out" in row:
            assert len(row["left_out"].split()) > 1, row["where"]


def test_every_measurement_names_the_publication_of_its_source() -> None:
    sources = json.loads((BENCH / "sources.json").read_text(encoding="utf-8"))["sources"]
    assert {row["source"] for row in rows()} <= set(sources)
    assert all(source["url"] and source["license"] for source in sources.values())
    assert all(row["where"] for row in rows())


def test_no_forecast_of_a_measurement_is_faster_than_physics() -> None:
    for each in measured().measurements():
        real, ideal = (each.forecast(efficiency) for efficiency in (each.efficiency(published()), PHYSICS))
        for figure in ("time_to_first_token", "inter_token_latency"):
            assert real[figure] >= ideal[figure] * (1 - SLIGHTLY), each.where
        assert real["requests_per_second"] <= ideal["requests_per_second"] * (1 + SLIGHTLY), each.where


def test_forecasts_of_the_measurements_that_it_is_fitted_to_are_about_right() -> None:
    """In-sample: what it was fitted to. ``bench/forecast/fit.py`` has the errors on held-out measurements."""
    errors: dict[Figure, list[float]] = {figure: [] for figure in FIGURES}
    within: list[bool] = []
    for each in measured().measurements():
        forecast = each.forecast(each.efficiency(published()))
        for figure, value in each.observed.items():
            of_figure = published().errors[figure]
            shared, deviation = of_figure.of(each.group)
            off = math.log(value / forecast[figure]) - shared
            errors[figure].append(math.expm1(abs(off)))
            within.append(abs(off) <= of_figure.quantile * deviation)
    for figure in ("requests_per_second", "inter_token_latency"):
        assert statistics.median(errors[figure]) <= 0.2, figure
    assert 0.85 <= statistics.fmean(within) <= 0.97


def test_its_figures_have_errors_and_its_shares_are_shares() -> None:
    assert set(published().errors) == set(FIGURES)
    for accelerator in {row.accelerator for row in instances.by_name().values()}:
        found = published().efficiency(LLAMA, accelerator, "vllm", "16")
        assert 0 < found.bandwidth <= 1
        assert 0 < found.compute <= 1
