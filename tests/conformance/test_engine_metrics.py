"""vLLM itself, on the CPU and under load: its own metrics answer every query, and scale an inference component."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from openai import OpenAI

from constructs_optim.recipe import SpeculativeDecoding
from constructs_optim.recipe.metrics import engines

from ..support.engine_load import EngineFleet, scaled_fleet
from ..support.in_process import ACCOUNT
from .test_vllm_serves import fetched, folder, served

__all__ = ["folder"]

pytestmark = [pytest.mark.engine, pytest.mark.timeout(900)]

SLOTS, USERS = 2, 12
SELECTOR = '{"aws.sagemaker.inference_component.name"="chat-llama"}'


@contextmanager
def users(url: str) -> Iterator[None]:
    """Users who ask again as soon as they have their answer."""
    stop = threading.Event()
    client = OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)

    def ask(number: int) -> None:
        while not stop.is_set():
            content = f"Which tables have a column that is named city, and number {number}?"
            messages = [{"role": "user", "content": content}]
            # Without sampling the small model soon repeats itself, and there is something to draft.
            client.chat.completions.create(
                model="small",
                messages=messages,  # type: ignore[arg-type]
                max_tokens=96,
                temperature=0,
            )

    with ThreadPoolExecutor(USERS) as pool:
        asked = [pool.submit(ask, number) for number in range(USERS)]
        try:
            yield
        finally:
            stop.set()
    for each in asked:
        each.result()


def observe(fleet: EngineFleet, url: str, seconds: float) -> dict[str, str]:
    """Collect every five seconds, and let the alarms see it; their last states."""
    states: dict[str, str] = {}
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        now = time.time()
        fleet.collect(fetched(f"{url}/metrics"), "container-1", now)
        states = fleet.evaluate(now)
        time.sleep(5)
    return states


def test_the_metrics_of_a_loaded_engine_answer_every_query_and_scale_out(folder: Path) -> None:
    fleet = scaled_fleet(
        lambda scaling: scaling.on_queue(target=2).on_time_to_first_token(target=0.2),
        slots=SLOTS,
        request_seconds=1,
        publishing_seconds=10,
    )
    with served(folder, "fp8_dynamic", SpeculativeDecoding.ngram(), "--max-num-seqs", f"{SLOTS}") as url:
        with users(url):
            states = observe(fleet, url, 90)
        loaded = {
            name: list(
                fleet.telemetry.query(
                    metric.query("vllm", SELECTOR, window_seconds=60), time.time(), account=ACCOUNT, region="us-west-2"
                ).values()
            )
            for name, metric in engines.by_name().items()
        }
        print(states, loaded)  # noqa: T201 - for those who run it with -s
        assert all(len(values) == 1 and math.isfinite(values[0]) for values in loaded.values()), loaded
        values = {name: found[0] for name, found in loaded.items()}
        # One may have ended since the last step.
        assert 1 <= values["running_requests"] <= SLOTS
        assert values["waiting_requests"] >= USERS - SLOTS - 2
        assert values["publishing_copies"] == 1
        assert 0 < values["engine_inter_token_latency"] < values["engine_time_to_first_token"]
        # Nearly all of it is waiting; the two histograms have other buckets, which quantiles are as wide as.
        assert values["queue_time"] == pytest.approx(values["engine_time_to_first_token"], rel=0.5)
        assert 0 < values["kv_cache_usage"] <= 100
        assert values["engine_output_tokens_per_second"] > 1
        assert values["acceptance_length"] >= 1
        assert states["OnQueue"] == states["OnTimeToFirstToken"] == states["Surge"] == "ALARM"
        assert states["Idle"] == "OK"
        assert fleet.desired_copies == 2
        calm = observe(fleet, url, 75)
        assert set(calm.values()) == {"OK"}
