"""The record of a shadow run at the longest duration: everything is read once, and the record stays small."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import re
from bisect import bisect_right
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from constructs_optim.runtime.requests.properties import validate
from constructs_optim.runtime.requests.shadow_properties import ShadowRequest
from constructs_optim.runtime.shadow import observation
from constructs_optim.runtime.shadow.captures import Capture, CaptureFile
from constructs_optim.runtime.shadow.observation import Observer, RunState
from constructs_optim.runtime.store import json_records

BEGAN = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
DAYS = 30
REQUEST: ShadowRequest = validate(
    ShadowRequest,
    {
        "Label": "Chat",
        "EndpointName": "chat",
        "ShadowConfigName": "shadow",
        "EndedConfigName": "ended",
        "Production": {"VariantName": "AllTraffic", "ArtifactKey": "a" * 64, "InstanceType": "ml.g5.12xlarge"},
        "Candidate": {"VariantName": "Shadow", "ArtifactKey": "b" * 64, "InstanceType": "ml.g5.12xlarge"},
        "Captures": "s3://captures/chat",
        "SamplePercent": 100,
        "DurationSeconds": DAYS * 86_400,
        "Margin": 0.1,
        "LatencyTolerance": 0.1,
        "Checks": [{"Kind": "answered"}],
        "Bucket": "store-of-mine",
    },
)


class Captures:
    """A file of each variant for every minute, each with one request; ``ending`` lengthens the names."""

    def __init__(self, minutes: int, ending: str = "") -> None:
        self.now = BEGAN.timestamp()
        self._times: dict[str, list[dt.datetime]] = {}
        self._names: dict[str, list[str]] = {}
        for name in ("AllTraffic", "Shadow"):
            times = [BEGAN + dt.timedelta(minutes=minute, seconds=30) for minute in range(minutes)]
            folder = f"chat/chat/{name}/"
            named = sorted((f"{folder}{at:%Y/%m/%d/%H}/{at:%M}{'0' * 34}{ending}.jsonl", at) for at in times)
            self._names[name], self._times[name] = [each for each, _ in named], [at for _, at in named]

    def get_paginator(self, _: str) -> Any:
        def paginate(*, Prefix: str, StartAfter: str, **__: Any) -> Iterator[dict[str, Any]]:  # noqa: N803 - boto3's
            name = Prefix.split("/")[2]
            names, times = self._names[name], self._times[name]
            for start in range(bisect_right(names, StartAfter), len(names), 1000):
                of_page = zip(names[start : start + 1000], times[start : start + 1000], strict=True)
                yield {"Contents": [{"Key": n, "LastModified": at} for n, at in of_page if at.timestamp() < self.now]}

        return SimpleNamespace(paginate=paginate)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Polls a run to its end; returns the state and the record's greatest size in bytes."""

    def polled(captures: Captures, *, paired: bool, hours: int) -> tuple[RunState, int]:
        monkeypatch.setattr(observation, "_FILES_A_POLL", 10_000)
        monkeypatch.setattr(observation, "client", lambda name, *_: captures)
        monkeypatch.setattr(Observer, "_read_metrics", lambda self, now: None)

        def read(self: Observer, number: int) -> CaptureFile:
            name = self._state.files[number]
            minute = re.sub(r"^chat/chat/\w+/", "", name) if paired else name
            return CaptureFile([Capture(hashlib.sha256(minute.encode()).hexdigest()[:24], {}, {})], 0)

        monkeypatch.setattr(Observer, "_captures", read)
        state, largest, at = RunState(began=BEGAN.timestamp(), minute=BEGAN.timestamp()), 0, 0
        while at < DAYS * 24:
            at += hours
            captures.now = BEGAN.timestamp() + 3600 * at
            while True:
                more = Observer(REQUEST, state).observe(captures.now)
                text = json.dumps(state.model_dump(), sort_keys=True, indent=1)
                largest = max(largest, len(text))
                state = RunState.model_validate_json(text)
                if not more:
                    break
        return state, largest

    return polled


@pytest.mark.exhaustive
@pytest.mark.parametrize("hours", [24, DAYS * 24])
def test_all_captures_of_the_longest_run_are_compared_once(run: Any, hours: int) -> None:
    minutes = DAYS * 1440
    state, largest = run(Captures(minutes), paired=True, hours=hours)
    assert state.observed.pairs == minutes
    assert state.files == []
    assert largest < 1_000_000


@pytest.mark.exhaustive
def test_captures_without_a_pair_and_with_the_longest_names_fit_into_the_record(
    run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    longest = "x" * (1024 - len("chat/chat/AllTraffic/2026/01/01/00/") - 42)
    state, largest = run(Captures(DAYS * 1440, longest), paired=False, hours=DAYS * 24)
    assert len(state.files) <= observation._MOST_FILES
    for reading in (state.production, state.candidate):
        assert len(reading.waiting) <= observation._MOST_WAITING
        assert len(reading.read) <= observation._MOST_READ
        assert all(place.file < len(state.files) for place in reading.waiting)
    assert largest < json_records._LARGEST
