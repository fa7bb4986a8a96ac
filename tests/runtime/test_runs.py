"""Jobs of runs: created once, stopped and waited for with their resource, and what a recommendation tells a stack."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import pytest
from botocore.exceptions import ClientError

from constructs_optim.runtime.errors import DeploymentError
from constructs_optim.runtime.jobs import runs
from constructs_optim.runtime.jobs.runs import create_run, give_up_runs, recommendation_data
from constructs_optim.runtime.jobs.sagemaker_jobs import RECOMMENDATION
from constructs_optim.runtime.store.run_records import RUN, RunRecords, run_job_name

from ..support.s3_clients import BUCKET

KEY = "a" * 64
PACKAGE = "arn:aws:sagemaker:us-west-2:111122223333:model-package/chat/1"


def refused(code: str, message: str = "no") -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": message}}, "CreateAIRecommendationJob")


@pytest.mark.parametrize(
    ("recommendation", "data"),
    [
        ({}, "|||||"),
        ({"ModelDetails": {}, "DeploymentConfiguration": {}}, "|||||"),
        ({"DeploymentConfiguration": {"InstanceType": "ml.g6.xlarge", "InstanceCount": 2}}, "|ml.g6.xlarge|2|||"),
        (
            {"ModelDetails": {"InstanceDetails": [{"InstanceType": "ml.g5.xlarge", "InstanceCount": 1}, {}]}},
            "|ml.g5.xlarge|1|||",
        ),
        (
            {
                "ModelDetails": {
                    "InstanceDetails": [{"InstanceType": "ml.g5.xlarge", "InstanceCount": 1}],
                    "ModelPackageArn": PACKAGE,
                    "InferenceSpecificationName": "fast",
                },
                "DeploymentConfiguration": {"InstanceType": "ml.g6.xlarge"},
            },
            f"|ml.g6.xlarge|1|{PACKAGE}|fast|",
        ),
    ],
)
def test_a_recommendation_is_told_as_parts_between_bars(recommendation: dict[str, Any], data: str) -> None:
    assert recommendation_data(recommendation) == data


@pytest.mark.parametrize(
    ("code", "message", "is_retried", "explained"),
    [
        ("AccessDeniedException", "no", False, True),
        ("ResourceLimitExceeded", "the limit is 0", True, True),
        ("ValidationException", "no such workload", True, True),
        ("ValidationException", "SageMaker cannot assume the role", False, True),
        # Permissions may be on their way.
        ("AccessDeniedException", "no", True, False),
        ("ValidationException", "SageMaker cannot Assume the role", True, False),
        ("ThrottlingException", "Rate exceeded", False, False),
    ],
)
def test_a_job_that_is_refused_for_good_is_explained(
    code: str, message: str, *, is_retried: bool, explained: bool
) -> None:
    jobs, records = Mock(kind=RECOMMENDATION), Mock()
    jobs.create.side_effect = refused(code, message)
    request = {"AIRecommendationJobName": "job"}
    told = f"CreateAIRecommendationJob failed with {code}: {message}. Recommendation jobs are not available to every"
    expected = pytest.raises(DeploymentError, match=told) if explained else pytest.raises(ClientError, match=message)
    with expected as raised:
        create_run(jobs, records, request, 1000, advice="ask for less", is_retried=is_retried)
    assert str(raised.value).endswith("; ask for less") is explained


@pytest.mark.parametrize("is_new", [True, False])
@pytest.mark.parametrize("is_given_up", [True, False])
def test_a_job_of_a_run_that_was_given_up_meanwhile_is_stopped(*, is_new: bool, is_given_up: bool) -> None:
    jobs, records = Mock(kind=RECOMMENDATION), Mock()
    jobs.create.return_value, records.is_given_up.return_value = is_new, is_given_up
    create_run(jobs, records, {"AIRecommendationJobName": "job"}, 1000, advice="", is_retried=False)
    records.is_given_up.assert_called_once_with(1000)
    assert [call.args for call in jobs.stop.call_args_list] == [("job",)] * is_given_up


class Deletion:
    """A resource's deletion, and its runs' jobs by the second: a status; None for a job that does not exist."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *statuses: list[str | None]) -> None:
        self.now, self.stopped = 0.0, list[str]()
        self.records, self._statuses = Mock(key=KEY), statuses
        self.records.runs.return_value = [f"run{number}" for number in range(len(statuses[0]))]
        jobs = Mock()
        jobs.stop.side_effect = self.stopped.append
        jobs.describe.side_effect = self._describe
        monkeypatch.setattr(runs, "client", lambda name: None)
        monkeypatch.setattr(runs, "SageMakerJobs", lambda sagemaker, kind: jobs)
        monkeypatch.setattr(runs, "time", Mock(monotonic=lambda: self.now, sleep=self._sleep))

    def _sleep(self, seconds: float) -> None:
        self.now += seconds

    def _describe(self, name: str) -> dict[str, Any] | None:
        names = [run_job_name(KEY, run) for run in self.records.runs()]
        status = self._statuses[min(int(self.now), len(self._statuses) - 1)][names.index(name)]
        return None if status is None else {"AIRecommendationJobStatus": status}

    def wait(self) -> float:
        """Delete the resource; return the seconds until it is answered."""
        give_up_runs(RECOMMENDATION, self.records, 1000)
        self.records.give_up.assert_called_once_with(1000)
        return self.now


@pytest.mark.parametrize(
    ("statuses", "seconds"),
    [
        ([[]], 0),
        ([["Completed", "Failed"]], 0),
        ([["Stopping", "Completed"], ["Stopping", "Completed"], ["Stopped", "Completed"]], 2),
        # A request whose job is about to be created finds that it was given up.
        ([["Stopped", None]], 10),
        ([[None], [None], ["Stopping"], ["Stopped"]], 3),
        ([["Stopping"]], 120),
    ],
)
def test_a_deletion_waits_for_the_jobs_that_it_stops(
    monkeypatch: pytest.MonkeyPatch, statuses: list[list[str | None]], seconds: int
) -> None:
    deletion = Deletion(monkeypatch, *statuses)
    assert deletion.wait() == seconds
    assert set(deletion.stopped) == {run_job_name(KEY, run) for run in deletion.records.runs()}


@pytest.mark.parametrize(("code", "is_answered"), [("NoSuchBucket", True), ("AccessDenied", False)])
def test_a_deletion_without_the_store_has_nothing_to_stop(
    monkeypatch: pytest.MonkeyPatch, code: str, *, is_answered: bool
) -> None:
    deletion = Deletion(monkeypatch, ["Stopping"])
    deletion.records.give_up.side_effect = refused(code)
    if is_answered:
        assert deletion.wait() == 0
    else:
        with pytest.raises(ClientError, match=code):
            deletion.wait()
    assert deletion.stopped == []


def test_what_was_given_up_stays_given_up_whatever_deletion_comes_later(s3: Any) -> None:
    records, of_another = (RunRecords(s3, "recommendations", BUCKET, None, KEY, owner) for owner in ("0" * 8, "1" * 8))
    assert not records.is_given_up(0)
    for issued in (1000, 500):
        records.give_up(issued)
        assert [records.is_given_up(at) for at in (500, 1000, 1001)] == [True, True, False]
    records.give_up(1001)
    assert records.is_given_up(1001)
    assert not of_another.is_given_up(0)


def test_a_resource_stops_its_own_runs_alone(s3: Any) -> None:
    for owner in ("0" * 8, "1" * 8):
        RunRecords(s3, "recommendations", BUCKET, None, KEY, owner).write(RUN, {"job_name": "job"}, f"{owner}{owner}")
    assert RunRecords(s3, "recommendations", BUCKET, None, KEY, "1" * 8).runs() == ["1" * 16]
    assert RunRecords(s3, "recommendations", BUCKET, None, KEY).runs() == ["0" * 16, "1" * 16]
    assert RunRecords(s3, "evaluations", BUCKET, None, KEY).runs() == []
