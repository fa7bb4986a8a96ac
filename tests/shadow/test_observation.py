"""What a shadow run reads and records: each capture once, each prompt as one outcome, in a record that stays small."""

from __future__ import annotations

import datetime as dt
import hashlib
import io
import json
import re
from bisect import bisect_right
from collections.abc import Iterator
from random import Random
from types import SimpleNamespace
from typing import Any, get_args

import pytest
from botocore.exceptions import ClientError

from constructs_optim.runtime.errors import DeploymentError
from constructs_optim.runtime.requests.properties import validate
from constructs_optim.runtime.requests.shadow_properties import CheckKind, CheckRequest, ShadowRequest
from constructs_optim.runtime.shadow import observation
from constructs_optim.runtime.shadow.captures import Capture, CaptureFile
from constructs_optim.runtime.shadow.checks import Check
from constructs_optim.runtime.shadow.observation import Observer, RunState, criteria_of
from constructs_optim.runtime.shadow.report import document, markdown
from constructs_optim.runtime.shadow.sequential_test import Counts
from constructs_optim.runtime.shadow.verdict import (
    Criteria,
    Observed,
    add_minute,
    add_pair,
    add_requests,
    verdict,
)
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


def test_a_request_has_the_key_under_which_earlier_releases_stored_its_verdict() -> None:
    assert REQUEST.key("111122223333", "us-west-2") == (
        "c9af754ac2675088c4a2bdf9fedef26865266fbfe1e7b92e520ebf1b0b84fc1d"
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
            digest = hashlib.sha256(minute.encode()).hexdigest()[:24]
            return CaptureFile([Capture(digest, {"prompt": f"Question {digest}"}, {})], 0)

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


class Written:
    """Files of captures: each has a line for a request and an answer, at a minute of the run."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.modified = BEGAN + dt.timedelta(hours=9)

    def add(self, variant: str, minute: int, request: dict[str, Any], text: str) -> None:
        at = BEGAN + dt.timedelta(minutes=minute)
        sides = {"endpointInput": request, "endpointOutput": {"choices": [{"message": {"content": text}}]}}
        data = {name: {"data": json.dumps(side), "encoding": "JSON"} for name, side in sides.items()}
        line = {"captureData": data, "eventMetadata": {"eventId": "1", "inferenceTime": f"{at:%Y-%m-%dT%H:%M:%SZ}"}}
        name = f"chat/chat/{variant}/{at:%Y/%m/%d/%H}/{at:%M}-00-000-{variant}.jsonl"
        self.files[name] = self.files.get(name, b"") + json.dumps(line).encode() + b"\n"

    def ask(self, minute: int, request: dict[str, Any], production: str, candidate: str) -> None:
        """A request of which both variants' answers were captured."""
        self.add("AllTraffic", minute, request, production)
        self.add("Shadow", minute, request, candidate)

    def get_paginator(self, _: str) -> Any:
        def paginate(*, Prefix: str, StartAfter: str, **__: Any) -> list[dict[str, Any]]:  # noqa: N803 - boto3's
            names = sorted(name for name in self.files if name.startswith(Prefix) and name > StartAfter)
            return [{"Contents": [{"Key": name, "LastModified": self.modified} for name in names]}]

        return SimpleNamespace(paginate=paginate)

    def get_object(self, *, Bucket: str, Key: str) -> dict[str, Any]:  # noqa: N803 - boto3's
        return {"Body": io.BytesIO(self.files[Key])}


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> Written:
    files = Written()
    monkeypatch.setattr(observation, "client", lambda name, *_: files)
    monkeypatch.setattr(Observer, "_read_metrics", lambda self, now: None)
    return files


def observed(polls: int = 1) -> RunState:
    """The state after these polls, each of which reads the record of the one before."""
    state = RunState(began=BEGAN.timestamp(), minute=BEGAN.timestamp())
    for poll in range(polls):
        Observer(REQUEST, state).observe(BEGAN.timestamp() + 36_000 + poll)
        state = RunState.model_validate_json(json.dumps(state.model_dump()))
    return state


def user(*texts: str, **more: Any) -> dict[str, Any]:
    roles = ("user", "assistant")
    return {"messages": [{"role": roles[at % 2], "content": text} for at, text in enumerate(texts)], **more}


def test_a_repeated_prompt_is_one_outcome_and_each_turn_of_a_conversation_another(written: Written) -> None:
    for minute in range(60):
        # The candidate never answers a probe.
        written.ask(minute, user("Are you there?", max_tokens=1 + minute % 3), "yes", "")
        written.ask(minute, user(*(f"turn {turn}" for turn in range(2 * (minute % 10) + 1))), "well", "good")
        written.ask(minute, user(f"Question {minute}"), "yes", "yes")
    state = observed(polls=2)
    [tally] = state.observed.answers
    assert (state.observed.pairs, tally.worse, tally.equal) == (180, 1, 70)
    report = document(REQUEST, state, verdict(state.observed, criteria_of(REQUEST)), "Too early", 0.0)
    [finding] = [finding for finding in report["findings"] if finding["measure"] == "answered"]
    # The ten turns may show no more than one outcome, because too few outcomes differ to tell.
    assert 31 < report["effective_pairs"] < 62
    effective = report["effective_pairs"]
    assert (finding["observations"], finding["effective"], finding["outcome"]) == (71, effective, "not decided")
    assert "180 pairs of answers" in markdown(report)
    assert f"as much as {effective} independent ones" in markdown(report)


def test_answers_that_fail_together_show_less_than_their_number(written: Written) -> None:
    for minute in range(500):
        written.ask(minute, user(f"Question {minute}"), "yes", "" if 100 <= minute < 140 else "yes")
    state = observed(polls=3)
    [tally] = state.observed.answers
    assert (tally.worse, tally.number, tally.called) == (40, 500, None)
    assert state.observed.effective_pairs < 50


def test_each_turn_of_a_conversation_counts_whichever_poll_reads_it(written: Written) -> None:
    state = RunState(began=BEGAN.timestamp(), minute=BEGAN.timestamp())
    for turn in range(4):
        for conversation in range(50):
            texts = [f"conversation {conversation}", *(f"turn {number}" for number in range(2 * turn))]
            written.ask(turn, user(*texts), "yes", "yes" if turn < 2 else "")
        Observer(REQUEST, state).observe(BEGAN.timestamp() + 60 * (turn + 1))
    [tally] = state.observed.answers
    assert (tally.worse, tally.equal) == (100, 100)


@pytest.mark.parametrize("at", ["", "yesterday", "9999-12-31T23:59:59-14:00", "0001-01-01T00:00:00Z", "2020-01-01"])
def test_a_capture_without_a_usable_time_is_compared(written: Written, at: str) -> None:
    written.ask(3, user("hi"), "yes", "yes")
    written.files = {
        name: re.sub(rb'"inferenceTime": "[^"]*"', f'"inferenceTime": "{at}"'.encode(), content)
        for name, content in written.files.items()
    }
    assert observed().observed.answers[0].equal == 1


@pytest.mark.parametrize("variant", ["AllTraffic", "Shadow"])
def test_a_pair_of_which_a_file_was_emptied_meanwhile_is_left_out(written: Written, variant: str) -> None:
    """A lifecycle rule may delete a file while its captures wait for their pair."""
    other = {"AllTraffic": "Shadow", "Shadow": "AllTraffic"}[variant]
    state, now = RunState(began=BEGAN.timestamp(), minute=BEGAN.timestamp()), BEGAN.timestamp() + 600
    written.add(variant, 1, user("gone"), "yes")
    written.add(variant, 2, user("kept"), "yes")
    Observer(REQUEST, state).observe(now)
    assert sum(len(reading.waiting) for reading in (state.production, state.candidate)) == 2
    for name in (name for name in written.files if "/01-" in name):
        written.files[name] = b""
    written.add(other, 3, user("gone"), "yes")
    written.add(other, 4, user("kept"), "yes")
    assert not Observer(REQUEST, state).observe(now)
    assert (state.observed.pairs, state.observed.answers[0].equal) == (1, 1)
    assert (state.production.waiting, state.candidate.waiting, state.files) == ([], [], [])


def test_files_beyond_the_most_that_the_record_can_hold_are_not_read(
    written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(observation, "_MOST_READ", 3)
    for minute in range(5):
        written.ask(minute, user(f"Question {minute}"), "yes", "yes")
    state = RunState(began=BEGAN.timestamp(), minute=BEGAN.timestamp())
    assert not Observer(REQUEST, state).observe(BEGAN.timestamp() + 600), (
        "there is nothing that another look would read"
    )
    assert (state.observed.pairs, len(state.production.read), len(state.candidate.read)) == (3, 3, 3)


def test_a_poll_reads_only_so_many_files_and_the_next_one_reads_on(
    written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(observation, "_FILES_A_POLL", 2)
    for minute in (1, 2, 3, 4, 65):
        written.ask(minute, user(f"Question {minute}"), "yes", "yes")
    state = RunState(began=BEGAN.timestamp(), minute=BEGAN.timestamp())
    found: list[tuple[bool, int, str]] = []
    for poll in range(3):
        more = Observer(REQUEST, state).observe(BEGAN.timestamp() + 86_400 + poll)
        found.append((more, state.observed.pairs, state.candidate.hour))
    assert found == [(True, 2, "2026/01/01/00"), (True, 4, "2026/01/01/01"), (False, 5, "2026/01/01/22")]


def test_hours_that_ended_long_ago_are_read_no_more(written: Written) -> None:
    state = RunState(began=BEGAN.timestamp(), minute=BEGAN.timestamp())
    for minute in (1, 8 * 60 + 1):
        written.ask(minute, user(f"Question {minute}"), "yes", "yes")
    Observer(REQUEST, state).observe(BEGAN.timestamp() + 36_000)
    assert (state.observed.pairs, state.production.hour) == (2, "2026/01/01/08")
    assert [mark[:13] for mark in state.production.read] == ["2026/01/01/08"]
    for minute in (7 * 60 + 59, 8 * 60 + 2):
        written.ask(minute, user(f"Question {minute}"), "yes", "yes")
    Observer(REQUEST, state).observe(BEGAN.timestamp() + 36_001)
    assert state.observed.pairs == 3


def test_captures_from_before_the_run_are_not_compared(written: Written) -> None:
    written.ask(1, user("hi"), "yes", "yes")
    written.modified = BEGAN - dt.timedelta(seconds=1)
    assert observed().observed.pairs == 0
    written.modified = BEGAN
    assert observed().observed.pairs == 1


def test_lines_that_are_no_captures_are_counted(written: Written) -> None:
    written.ask(1, user("hi"), "yes", "yes")
    written.files = {name: content + b"{\n" for name, content in written.files.items()}
    assert (observed().unusable, observed().observed.pairs) == (2, 1)


@pytest.mark.parametrize(("limit", "most"), [("_MOST_WAITING", 3), ("_MOST_FILES", 2)])
def test_the_latest_captures_without_a_pair_wait(
    written: Written, monkeypatch: pytest.MonkeyPatch, limit: str, most: int
) -> None:
    monkeypatch.setattr(observation, limit, most)
    for minute in range(1, 6):
        written.add("Shadow", minute, user(f"Question {minute}"), "yes")
    written.ask(6, user("Question 6"), "yes", "yes")
    state = RunState(began=BEGAN.timestamp(), minute=BEGAN.timestamp())
    Observer(REQUEST, state).observe(BEGAN.timestamp() + 600)
    # The third of the latest three has its pair.
    assert state.observed.pairs == 1
    assert [name.rpartition("/")[2][:2] for name in state.files] == ["04", "05"]
    assert [(place.file, len(place.digest)) for place in state.candidate.waiting] == [(0, 24), (1, 24)]
    written.add("AllTraffic", 7, user("Question 5"), "yes")
    Observer(REQUEST, state).observe(BEGAN.timestamp() + 660)
    assert state.observed.pairs == 2


def test_the_report_has_the_run_its_criteria_and_each_finding(written: Written) -> None:
    for minute in range(3):
        written.ask(minute, user(f"Question {minute}"), "yes", "" if minute else "yes")
    state = observed()
    found = verdict(state.observed, criteria_of(REQUEST))
    report = document(REQUEST, state, found, "Too early", BEGAN.timestamp() + 3600.5)
    members = ("production", "candidate")
    sides = {name: {**report[name]} for name in members}
    assert {name: value for name, value in report.items() if name not in {*members, "findings"}} == {
        "outcome": "not decided",
        "reason": "Too early",
        "endpoint_name": "chat",
        "label": "Chat",
        "sample_percent": 100,
        "began": "2026-01-01T00:00:00+00:00",
        "ended": "2026-01-01T01:00:00+00:00",
        "pairs": 3,
        "effective_pairs": state.observed.effective_pairs,
        "unusable_captures": 0,
        "unjudged_pairs": 0,
        "announced_pairs": criteria_of(REQUEST).announced_pairs,
        "needed_pairs": report["needed_pairs"],
        "margin": 0.1,
        "latency_tolerance": 0.1,
        "error_rates": {"worse_though_equal": 0.05, "pass_though_worse_by_the_margin": 0.05, "power": 0.8},
    }
    assert {name: side["artifact_key"][0] for name, side in sides.items()} == {"production": "a", "candidate": "b"}
    assert [finding["measure"] for finding in report["findings"]] == ["answered", "latency", "errors"]
    lines = markdown(report).splitlines()
    (answered, *_) = rows = [line for line in lines if line.startswith("| ")][2:]
    assert answered.startswith("| answered | not decided | 3 ")
    assert len(rows) == 3
    assert lines[0].endswith(": Chat")


GIVEN = b'{"prompt": "2 + 2", "answer": 4}\n\n {"answer": "Ulm", "prompt": "Where?", "more": 1}\n'


def referring(monkeypatch: pytest.MonkeyPatch, content: bytes | None, *, asks: bool = True) -> dict[str, str]:
    """The reference answers of a run whose file has this content; None if there is no such file."""

    class Store:
        def get_object(self, *, Bucket: str, Key: str) -> dict[str, Any]:  # noqa: N803 - boto3's
            assert (Bucket, Key) == ("answers-of-mine", "of/All.jsonl")
            if content is None:
                raise ClientError({"Error": {"Code": "NoSuchKey", "Message": "no"}}, "GetObject")
            return {"Body": io.BytesIO(content)}

    monkeypatch.setattr(observation, "client", lambda name, *_: Store())
    reference = CheckRequest(kind="reference", reference="s3://answers-of-mine/of/All.jsonl" if asks else None)
    request = REQUEST.model_copy(update={"checks": (CheckRequest(kind="answered"), reference)})
    return Observer(request, RunState(began=0, minute=0))._references()


def test_reference_answers_are_read_by_their_prompts(monkeypatch: pytest.MonkeyPatch) -> None:
    assert referring(monkeypatch, GIVEN) == {"2 + 2": "4", "Where?": "Ulm"}
    assert referring(monkeypatch, None, asks=False) == {}


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (None, "the object s3://answers-of-mine/of/All.jsonl with the reference answers does not exist"),
        (b"{", "line 1 of s3://answers-of-mine/of/All.jsonl is not of the form"),
        (GIVEN + b"[]", "line 4 of s3://answers-of-mine/of/All.jsonl is not of the form"),
        (b'\n{"prompt": "2 + 2"}', "line 2 of s3://answers-of-mine/of/All.jsonl is not of the form"),
        (b'{"answer": "4"}', "line 1 of s3://answers-of-mine/of/All.jsonl is not of the form"),
    ],
)
def test_reference_answers_that_cannot_be_read_are_told_with_their_line(
    monkeypatch: pytest.MonkeyPatch, content: bytes | None, told: str
) -> None:
    with pytest.raises(DeploymentError, match=told):
        referring(monkeypatch, content)


def test_a_run_of_another_version_counts_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    monkeypatch.setattr(observation, "log", lambda event, **fields: told.append(event))
    tally = {"worse": 3, "equal": 1, "better": 0, "unjudged": 0, "spent": 0.0, "called": 4}
    errors = {
        "production": 9,
        "production_failed": 0,
        "candidate": 9,
        "candidate_failed": 0,
        "spent": 0,
        "called": None,
    }
    earlier = {"pairs": 4, "answers": [tally], "ratios": {"1.1": tally}, "errors": errors}
    state = RunState.model_validate({"began": 1.0, "minute": 60.0, "files": ["a"], "updates": 1, "observed": earlier})
    assert (state.observed, state.files, state.updates) == (Observed(), ["a"], 1)
    assert told == ["comparison restarted"]
    state.observed.pairs = 5
    assert RunState.model_validate(state.model_dump()).observed.pairs == 5
    assert told == ["comparison restarted"]


@pytest.mark.exhaustive
@pytest.mark.parametrize("hours", [24, DAYS * 24])
def test_all_captures_of_the_longest_run_are_compared_once(run: Any, hours: int) -> None:
    minutes = DAYS * 1440
    state, largest = run(Captures(minutes), paired=True, hours=hours)
    assert state.observed.pairs == minutes
    # The filter of prompts takes some new ones for known.
    assert 0.97 * minutes < state.observed.answers[0].number <= minutes
    assert state.files == []
    assert largest < 1_000_000


@pytest.mark.exhaustive
def test_the_outcomes_of_the_longest_run_and_of_all_checks_fit_into_the_record() -> None:
    checks, found, chance = [Check(kind) for kind in get_args(CheckKind)], Observed(), Random(1)
    criteria = Criteria(checks, margin=0.1, latency_tolerance=0.1)
    for minute in range(DAYS * 1440):
        judged = Counts(worse=chance.random() < 0.1)
        add_pair(found, criteria, {"prompt": f"Question {minute}"}, minute, lambda _, judged=judged: judged)
        add_minute(found, criteria, 1.0, chance.uniform(0.5, 2.0))
        add_requests(found, minute, (1_000, 5), (1_000, 5))
    assert len(json.dumps(found.model_dump(), indent=1)) < 2_500_000
    assert verdict(found, criteria).outcome == "worse"


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
