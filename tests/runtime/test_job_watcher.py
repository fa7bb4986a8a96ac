from __future__ import annotations

import datetime as dt
import logging
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn
from unittest.mock import Mock

import pytest
from botocore.exceptions import ClientError
from hypothesis import given
from hypothesis import strategies as st

from constructs_optim.constructs.stack import handler as stack_handler
from constructs_optim.runtime import custom_resource
from constructs_optim.runtime.custom_resource import wait_seconds
from constructs_optim.runtime.errors import DeploymentError
from constructs_optim.runtime.handlers import job_watcher, restart_watcher, scaling_watcher, shadow_watcher
from constructs_optim.runtime.jobs.sagemaker_jobs import REPEATS, TRAINING
from constructs_optim.runtime.requests.properties import ArtifactWatch, Watch
from constructs_optim.runtime.shadow.verdict import Verdict
from constructs_optim.runtime.store.artifact_store import Claim

from ..support.lambda_context import LambdaContext
from ..support.sampling import one_in

_MOST_EVENTS = 25_000
_DAY, _YEAR = 86_400, 365 * 86_400
# The most that a job may run, and the most that it may wait for spot capacity before.
_LONGEST = 56 * _DAY
_PATIENCE = 12 * 3600


def events_of_one_look() -> int:
    """What AWS Step Functions writes down of a look that does not end the execution.

    A state is entered and exited; a task that is a function is scheduled and started, and succeeds.
    """
    states = stack_handler._STATES["States"]
    return sum(5 if states[name]["Type"] == "Task" else 2 for name in ("Look", "HasEnded", "Sleep"))


@given(st.integers(min_value=0, max_value=_LONGEST), st.booleans())
def test_polls_are_between_5_seconds_and_an_hour_apart(age: int, is_awaited: bool) -> None:
    assert 5 <= wait_seconds(dt.timedelta(seconds=age), is_awaited=is_awaited) <= (60 if is_awaited else 3600)


def test_an_old_job_is_polled_every_minute_while_a_stack_waits() -> None:
    began = dt.datetime.now(dt.UTC) - dt.timedelta(days=20)
    job = {"TrainingJobStatus": "InProgress", "CreationTime": began}
    awaited = Watch(wait_handle="https://handle", deadline=int(began.timestamp()) + 21 * _DAY)
    for watch, seconds in ((awaited, 60), (Watch(), 3600)):
        assert custom_resource.poll(watch, TRAINING, "it", job, advice="") == custom_resource.again(seconds)


def test_a_recently_started_job_is_polled_every_5_seconds() -> None:
    assert wait_seconds(dt.timedelta(seconds=20)) == 5


@given(
    begins=st.one_of(st.just(0), st.integers(0, _LONGEST)),
    lasts=st.one_of(st.just(_LONGEST), st.integers(0, _LONGEST)),
    awaited=st.one_of(st.just(_PATIENCE), st.integers(0, _PATIENCE)),
)
def test_polling_a_job_of_any_length_stays_within_the_execution_history_limit(
    begins: int, lasts: int, awaited: int
) -> None:
    age, looks = begins, 0
    while age < lasts:
        age += wait_seconds(dt.timedelta(seconds=age), is_awaited=age - begins < awaited)
        looks += 1
    # The rest is for looks that fail and are repeated: a failure has three events.
    assert looks * events_of_one_look() + 20 < _MOST_EVENTS - 3 * 1000


def attempts_within(retrier: dict[str, Any], seconds: float) -> int:
    """How often a task is tried in that time, if every attempt fails; with jitter, the pauses are half as long."""
    pause, spent, attempts = retrier["IntervalSeconds"], 0.0, 1
    longest, share = retrier["MaxDelaySeconds"], 0.5 if "JitterStrategy" in retrier else 1
    while spent < seconds and attempts <= retrier["MaxAttempts"]:
        spent += share * min(pause, longest)
        pause *= retrier["BackoffRate"]
        attempts += 1
    return attempts


def failed(state: str, seconds: float) -> int:
    """The events of a task whose attempts all fail: entered and exited, and three of each attempt."""
    (retrier,) = stack_handler._STATES["States"][state]["Retry"]
    return 2 + 3 * attempts_within(retrier, seconds)


def test_an_execution_whose_polls_fail_lasts_its_year() -> None:
    (retrier,) = stack_handler._STATES["States"]["KeepTrying"]["Retry"]
    assert attempts_within(retrier, _YEAR) <= retrier["MaxAttempts"], "it is tried until the year ends"
    # Before it, the polls of the longest shadow run.
    polls = shadow_watcher._MOST_POLLS * events_of_one_look()
    assert polls + failed("Look", _YEAR) + failed("GiveUp", _YEAR) + failed("KeepTrying", _YEAR) < _MOST_EVENTS


@pytest.mark.parametrize("seconds", [shadow_watcher._UPDATE_SECONDS, shadow_watcher._REFUSED_SECONDS])
def test_an_execution_that_gives_up_again_and_again_lasts_its_year(seconds: int) -> None:
    """Nine attempts at each poll fail, and then the watcher can only say that it has to wait."""
    states = stack_handler._STATES["States"]
    answered = sum(5 if states[name]["Type"] == "Task" else 2 for name in ("GiveUp", "Recovered", "HasEnded", "Sleep"))
    age, events, watch = 0.0, shadow_watcher._MOST_POLLS * events_of_one_look(), Watch()
    while age < _YEAR:
        output = custom_resource.later(watch, seconds)
        watch = Watch(look=output)
        pause = output["WaitSeconds"]
        assert isinstance(pause, int)
        assert pause <= seconds + min(_DAY, age / 8), "what works again is soon seen"
        age += pause
        events += failed("Look", _YEAR) + answered
    assert events < _MOST_EVENTS


@given(st.integers(min_value=60, max_value=30 * _DAY))
def test_the_polls_of_a_shadow_run_of_any_length_leave_room_for_the_year_after_it(duration: int) -> None:
    polls = duration / shadow_watcher._seconds_between_polls(duration)
    assert polls < shadow_watcher._MOST_POLLS - 90, "and for polls that read on at once"


_STACK = "arn:aws:cloudformation:us-west-2:000000000000:stack/Chat/1234"
_SCALED = {"StackId": _STACK, "EndpointName": "chat", "Bucket": "store"}
_RESTARTED = {
    "Request": {
        "EndpointName": "chat",
        "ConfigNames": ["chat", "chat-2"],
        "AlarmName": "decay",
        "AtMostEverySeconds": 3600,
        "StackId": _STACK,
        "Bucket": "store",
    },
    "Run": "a",
}


class Suspended:
    """The record of an endpoint whose scaling is suspended."""

    def __init__(self, *_: object) -> None: ...

    def get(self) -> object:
        return self


class DamagedRecord(Suspended):
    def get(self) -> object:
        raise DeploymentError("it is damaged")


def stays(monkeypatch: pytest.MonkeyPatch, what: str) -> tuple[Callable[[Any, Any], Any], dict[str, Any]]:
    """A watcher's handler and its input; what it waits for never comes."""
    in_service = {"EndpointStatus": "InService", "EndpointConfigName": "chat"}
    monkeypatch.setattr(scaling_watcher, "SuspendedScalingRecord", DamagedRecord if "damaged" in what else Suspended)
    monkeypatch.setattr(scaling_watcher, "stack_status", lambda stack_id: "UPDATE_IN_PROGRESS")
    monkeypatch.setattr(restart_watcher, "JsonRecords", lambda *_: SimpleNamespace(get=lambda *_: None))
    monkeypatch.setattr(restart_watcher, "client", lambda name: None)
    monkeypatch.setattr(restart_watcher, "_endpoint", lambda request: in_service)
    monkeypatch.setattr(restart_watcher, "_is_alarming", lambda request: True)
    monkeypatch.setattr(restart_watcher, "_is_deployed", lambda request: "deployed" in what)

    def too_soon(watch: Any, records: Any, name: str, *_: object) -> Any:
        return restart_watcher._wait(watch, records, name, "", time.time())

    monkeypatch.setattr(restart_watcher, "_restart", too_soon)
    return (scaling_watcher.handler, _SCALED) if "scaling" in what else (restart_watcher.handler, _RESTARTED)


@pytest.mark.parametrize(
    "what", ["scaling is suspended", "a damaged record of scaling", "the stack is deployed", "the alarm stays"]
)
@pytest.mark.parametrize("failures", one_in(2, [9, 0]))
def test_a_watcher_waits_for_a_year(monkeypatch: pytest.MonkeyPatch, what: str, failures: int) -> None:
    """Its polls answer "not yet", at once or after nine attempts that fail."""
    handler, document = stays(monkeypatch, what)
    events_of_failures = failed("Look", _YEAR) + events_of_one_look() if failures else 0
    age, events, output = 0, 0, {}
    caught = {"Error": {"Error": "ClientError"}} if failures else {}
    while age < _YEAR:
        output = handler({**document, **caught, "Look": output}, LambdaContext(120))
        assert output["Done"] is False
        assert output["WaitSeconds"] <= _DAY
        age += output["WaitSeconds"]
        events += events_of_one_look() + events_of_failures
    assert events < _MOST_EVENTS


@pytest.mark.parametrize(
    ("waited", "seconds", "pause"),
    [(0, 5, 5), (5, 5, 30), (240, 5, 30), (248, 5, 31), (8 * _DAY, 5, _DAY), (9, 45, 45)],
)
def test_a_wait_that_follows_others_takes_an_eighth_of_them_from_half_a_minute_to_a_day(
    waited: int, seconds: int, pause: int
) -> None:
    output = custom_resource.later(Watch(look={"Waited": waited}), seconds)
    assert output == {"Done": False, "WaitSeconds": pause, "Waited": waited + pause}


def paused(fails: Callable[[int], bool]) -> tuple[list[tuple[int, int]], int]:
    """The ages and pauses of an urgent watch of a year, whose failing polls have nine attempts each; its events."""
    more = failed("Look", _YEAR) + events_of_one_look()
    age, events, look, pauses = 0, 0, dict[str, Any](), list[tuple[int, int]]()
    while age < _YEAR:
        failing = fails(len(pauses))
        error = {"Error": "ClientError"} if failing else None
        look = dict(custom_resource.later(Watch(look=look, error=error), 5, is_urgent=True))
        pauses.append((age, look["WaitSeconds"]))
        age += look["WaitSeconds"]
        events += events_of_one_look() + (more if failing else 0)
    return pauses, events


def test_suspended_scaling_is_restored_a_minute_after_an_operation_of_hours() -> None:
    pauses, _ = paused(lambda number: False)
    assert max(pause for age, pause in pauses if age < 6 * 3600) <= 60
    assert max(pause for age, pause in pauses if age < 2 * _DAY) <= 3600


@given(st.integers(min_value=1, max_value=12), st.integers(min_value=0, max_value=600))
def test_urgent_polls_that_fail_now_and_then_last_their_year(every: int, after: int) -> None:
    assert paused(lambda number: number >= after and number % every == 0)[1] < _MOST_EVENTS


def transitions(seconds: int) -> int:
    """State transitions until a job of that length is over: Look, HasEnded and Sleep, and at last Ended."""
    age, count = 0, 3
    while age < seconds:
        count += 3
        age += wait_seconds(dt.timedelta(seconds=age))
    return count


def test_the_documented_state_transitions_of_polling_match_the_schedule() -> None:
    hour = 3600
    guide = (Path(__file__).parent.parent.parent / "docs" / "sharing.md").read_text()
    said = {row[0]: row[1:] for line in guide.splitlines() if len(row := line.strip("| ").split(" | ")) == 3}
    for what, count in (
        ("the first hour", transitions(hour)),
        ("each hour up to the twelfth", transitions(11 * hour) - transitions(10 * hour)),
        ("each hour after it, in the second day", transitions(21 * hour) - transitions(20 * hour)),
        ("a job of 10 hours", transitions(10 * hour)),
        ("the longest EAGLE job, 120 hours", transitions(432_000)),
    ):
        assert said[what][0] == f"{count:,}", what
        assert float(said[what][1].removeprefix("$")) == pytest.approx(count * 0.025 / 1000, rel=0.07), what


class Gone(Suspended):
    """A record of a store whose bucket is deleted."""

    def get(self, *_: object) -> NoReturn:
        raise ClientError({"Error": {"Code": "NoSuchBucket", "Message": "it does not exist"}}, "GetObject")


def errors_in(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    """The errors that handlers logged; asyncio logs what an earlier test of this process left open."""
    return [each for each in caplog.records if each.levelname == "ERROR" and each.name.startswith("service_")]


def test_watchers_end_with_the_store_that_they_read(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    stays(monkeypatch, "the alarm stays")
    monkeypatch.setattr(scaling_watcher, "SuspendedScalingRecord", Gone)
    monkeypatch.setattr(restart_watcher, "JsonRecords", Gone)
    for handler, document in ((scaling_watcher.handler, _SCALED), (restart_watcher.handler, _RESTARTED)):
        assert handler(document, LambdaContext(120)) == custom_resource.DONE
    said = {record.message: vars(record)["reason"] for record in errors_in(caplog)}
    assert said == {
        "scaling suspended": "it does not exist, and with it what was registered. Next: register the variants yourself",
        "restart failed": "it does not exist",
    }


_FAILED = {"Error": "ClientError", "Cause": "throttled"}


def polled(watch: Watch, code: str = "ThrottlingException") -> tuple[custom_resource.Output, list[str | None]]:
    """A poll of a run that fails: the output, and what the stack is told."""
    told: list[str | None] = []

    def fails() -> NoReturn:
        raise ClientError({"Error": {"Code": code, "Message": "no"}}, "GetObject")

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(custom_resource, "signal", lambda handle, *, failure=None, data="": told.append(failure))
        return custom_resource.poll_run(watch, fails, failed="watching it failed", advice="Deploy again"), told


def test_a_stack_that_waits_is_told_when_polls_keep_failing() -> None:
    watch = Watch(wait_handle="https://handle", deadline=int(time.time()) + 60, error=_FAILED)
    output, (reason,) = polled(watch)
    assert output == custom_resource.DONE
    assert str(reason).startswith("watching it failed: ClientError: An error occurred (ThrottlingException)")
    assert str(reason).endswith(". Deploy again")


@pytest.mark.parametrize(
    "watch",
    [
        Watch(error=_FAILED),
        Watch(error={"Error": "Lambda.Unknown"}),
        Watch(wait_handle="https://handle", deadline=1, error=_FAILED),
    ],
    ids=["no stack waits", "it crashes", "the stack waits no longer"],
)
def test_a_run_for_which_no_stack_waits_is_polled_later_when_polls_keep_failing(watch: Watch) -> None:
    output, told = polled(watch)
    assert (output["Done"], output["WaitSeconds"], told) == (False, 1800, [])


@pytest.mark.parametrize("error", [_FAILED, {"Error": "Lambda.Unknown"}], ids=["polls fail", "they crash"])
def test_a_run_for_which_no_stack_waits_is_counted_as_failed_and_ends_after_the_longest_job(
    error: object, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    began = now = int(time.time())
    counted: list[str] = []
    monkeypatch.setattr("constructs_optim.runtime.telemetry.count", counted.append)
    monkeypatch.setattr(custom_resource.time, "time", lambda: now)
    output, _ = polled(Watch(error=error))
    assert counted == ["JobFailed"]
    while not output["Done"]:
        assert isinstance(output["WaitSeconds"], int)
        now += output["WaitSeconds"]
        output, _ = polled(Watch(error=error, look=output))
    assert _LONGEST < now - began <= _LONGEST + _DAY
    assert counted == ["JobFailed", "JobFailed"], "when polls begin to fail, and when the execution ends"
    errors = [record.message for record in errors_in(caplog)]
    assert errors == ["watches on", "ended"]


def test_a_poll_that_works_in_between_begins_the_failures_anew() -> None:
    long_ago = {"FailingSince": int(time.time()) - 2 * _LONGEST}
    assert polled(Watch(error=_FAILED, look=long_ago))[0] == custom_resource.DONE
    assert polled(Watch(error=_FAILED, look=custom_resource.again(3600)))[0]["Done"] is False


@pytest.mark.parametrize("error", [None, _FAILED])
def test_a_run_whose_store_is_gone_ends(error: object) -> None:
    output, (reason,) = polled(Watch(wait_handle="https://handle", error=error), "NoSuchBucket")
    assert output == custom_resource.DONE
    assert str(reason).startswith("watching it failed: An error occurred (NoSuchBucket) when calling")
    assert "Next: the artifact store's bucket does not exist; create it again" in str(reason)


FOLLOWED = "the optimization job of account 444455556666 for the artifact " + "a" * 64
MINE = {"Bucket": "store", "ArtifactKey": "a" * 64, "Attempt": 1, "Account": "000000000000"}


def followed(**of_claim: Any) -> tuple[custom_resource.Output, list[str | None]]:
    """A poll of another account's job: the output, and what the stack is told."""
    deadline = of_claim.pop("deadline", None)
    told: list[str | None] = []
    watch = ArtifactWatch.model_validate(MINE | {"WaitHandle": "https://handle", "Deadline": deadline})
    claim = Claim(artifact_key="a" * 64, maker="444455556666", **of_claim)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(custom_resource, "signal", lambda handle, *, failure=None, data="": told.append(failure))
        output = job_watcher._follow(watch, Mock(manifest=lambda key, attempt: None), claim, "optimization job")
    return output, told


@pytest.mark.parametrize(
    ("of_claim", "reason"),
    [
        ({"failure": "no memory"}, "failed: no memory. Deploy again to run it here"),
        # Here, it would fail in the same way.
        ({"failure": f"no heads; {REPEATS}"}, f"failed: no heads; {REPEATS}"),
        ({"released": True}, "was canceled there. Deploy again to run it here"),
        ({"released": True, "failure": "no memory"}, "failed: no memory. Deploy again to run it here"),
        ({"deadline": 1}, "has not ended in the time that this deployment waits. Deploy again later"),
    ],
)
def test_a_stack_that_follows_another_accounts_job_is_told_how_it_ended(of_claim: dict[str, Any], reason: str) -> None:
    assert followed(**of_claim) == (custom_resource.DONE, [f"{FOLLOWED} {reason}"])


def test_a_stack_follows_another_accounts_job_until_its_deadline() -> None:
    assert followed(deadline=int(time.time()) + 600) == (custom_resource.again(60), [])
    assert followed() == (custom_resource.again(60), [])


@pytest.mark.parametrize(("attempt", "is_written"), [(None, True), (1, True), (2, False)])
def test_a_job_that_ends_late_replaces_no_manifest_of_a_later_attempt(
    monkeypatch: pytest.MonkeyPatch, attempt: int | None, *, is_written: bool
) -> None:
    store, kind, told = Mock(bucket="store"), Mock(), list[str]()
    began = dt.datetime(2026, 11, 21, 12, tzinfo=dt.UTC)
    store.with_checksums.return_value = [{"name": "model.safetensors", "size": 7, "etag": "e"}]
    kind.name, kind.name_member, kind.title = "OptimizationJob", "OptimizationJobName", "optimization job"
    kind.output.return_value, kind.span.return_value = "s3://store/model/1", (began, began + dt.timedelta(hours=1))
    kind.artifact_uri.side_effect = lambda output, name: output
    kind.recorded.return_value, kind.superfluous_settings.return_value = {}, []
    claim = None
    if attempt is not None:
        claim = Claim(artifact_key="a" * 64, attempt=attempt, source={"identity": "hub:x"}, description={"of": "mine"})
    job = {"OptimizationJobName": "optim-1", "OptimizationJobArn": "arn:of-the-job"}
    monkeypatch.setattr(custom_resource, "signal", lambda handle, *, failure=None, data="": told.append(data))
    watch = ArtifactWatch.model_validate(MINE | {"WaitHandle": "https://handle"})
    assert job_watcher._complete(watch, store, claim, kind, job) == custom_resource.DONE
    assert len(told) == 1
    written = [call.args[1] for call in store.write_manifest.call_args_list]
    assert len(written) == is_written
    for manifest in written:
        expected = ({"identity": "hub:x"}, {"of": "mine"}) if claim is not None else ({}, {})
        assert (manifest["source"], manifest["description"]) == expected
        assert (manifest["model_data_uri"], manifest["attempt"]) == ("s3://store/model/1/", 1)
        assert (manifest["duration_seconds"], manifest["size_bytes"]) == (3600, 7)


@pytest.mark.parametrize(
    ("duration", "seconds"), [(60, 5), (100, 5), (2_400, 120), (6_000, 300), (86_400, 300), (2_592_000, 3_702)]
)
def test_a_shadow_run_is_polled_twenty_times_every_five_minutes_or_seldom_enough(duration: int, seconds: int) -> None:
    assert shadow_watcher._seconds_between_polls(duration) == seconds


@pytest.mark.parametrize(
    ("outcome", "reason"),
    [
        ("worse", "The candidate is worse by latency and answered"),
        ("pass", "No measure is worse by its margin"),
        (
            "not decided",
            "12 pairs in 1.5 hours, which show as much as 5 independent ones, do not decide errors",
        ),
    ],
)
def test_the_reason_of_a_verdict_names_the_measures_that_decide_it(outcome: Any, reason: str) -> None:
    measures = {"latency": "worse", "errors": "not decided", "answered": "worse"}
    findings = [Mock(measure=measure, outcome=of_measure) for measure, of_measure in measures.items()]
    state: Any = SimpleNamespace(began=1000.0, observed=SimpleNamespace(pairs=12, effective_pairs=5))
    assert shadow_watcher._reason(Verdict(outcome, findings), state, 6400.0) == reason


def test_an_update_that_sagemaker_rolled_back_without_a_reason_has_one() -> None:
    assert shadow_watcher._rolled_back({"FailureReason": "an alarm"}) == "an alarm"
    for without in ({}, {"FailureReason": ""}):
        assert shadow_watcher._rolled_back(without) == "SageMaker rolled back the endpoint's update"
