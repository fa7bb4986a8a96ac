"""``Custom::ModelRecommendation`` against the local cloud: retried and overtaking requests, and polls of a job.

The tests send the requests of CloudFormation themselves, in orders that CloudFormation rarely produces.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any
from unittest.mock import Mock

import boto3
import pytest
from botocore.stub import Stubber

from constructs_optim.runtime import custom_resource
from constructs_optim.runtime.errors import DeploymentError
from constructs_optim.runtime.handlers import recommendation_handler, recommendation_watcher
from constructs_optim.runtime.jobs import runs
from constructs_optim.runtime.jobs.runs import recommendation_data
from constructs_optim.runtime.store.run_records import RESULT, RUN, BegunRun, RunRecords
from constructs_optim_local.cloud import LocalCloud

from ..support.custom_resource_events import custom_resource_event
from ..support.handler_clients import Clients, Died
from ..support.lambda_context import LambdaContext
from ..support.local_cloud import BUCKET, ROLE, Responses, idle_state_machine
from ..support.run_files import content
from ..support.sampling import one_in

numbers = count()
CALLS_OF_A_CREATE = 8


class Recommendation:
    """CloudFormation's side of one resource."""

    def __init__(self, cloud: LocalCloud, responses: Responses, machine: str, config: str) -> None:
        self.cloud, self.responses, self.machine, self.config = cloud, responses, machine, config
        self.number = next(numbers)
        self._sent: list[str] = []
        self.further: dict[str, Any] = {}
        self.prefix = f"recommended/{self.number}/"
        cloud.client("s3").put_object(Bucket=BUCKET, Key=f"{self.prefix}model.safetensors", Body=b"weights")

    @property
    def request(self) -> dict[str, Any]:
        return {
            "ModelUri": f"s3://{BUCKET}/{self.prefix}",
            "WorkloadConfigName": self.config,
            "Workload": {"benchmark": {"type": "aiperf"}},
            "Metric": "cost",
            "InstanceTypes": ["ml.g5.12xlarge"],
            "OptimizeModel": "true",
            "RoleArn": ROLE,
            "Bucket": BUCKET,
            **self.further,
        }

    def event(self, kind: str, request: str, physical_id: str | None = None) -> dict[str, Any]:
        if request not in self._sent:
            self._sent.append(request)
        # A repeated event is the same event: it was sent when it was sent.
        date = f"20261121T1200{self._sent.index(request):02}Z"
        return custom_resource_event(
            kind,
            f"{self.responses.url}?X-Amz-Date={date}&X-Amz-Expires=7200",
            stack_id=f"arn:aws:cloudformation:us-west-2:000000000000:stack/Chat/{self.number}",
            request_id=f"{self.number}-{request}",
            logical_id="Recommendation",
            properties={"StateMachineArn": self.machine, "Request": self.request},
            physical_id=physical_id,
        )

    def send(self, kind: str, request: str, physical_id: str | None = None) -> dict[str, Any]:
        """Invoke the function; returns its response."""
        recommendation_handler.handler(self.event(kind, request, physical_id), LambdaContext(0.5))
        return self.responses.received[-1]

    def jobs(self, *statuses: str) -> list[str]:
        """The jobs for this resource's model with one of the statuses."""
        sagemaker, found = self.cloud.client("sagemaker"), []
        for listed in sagemaker.list_ai_recommendation_jobs(MaxResults=100)["AIRecommendationJobs"]:
            name = listed["AIRecommendationJobName"]
            job = sagemaker.describe_ai_recommendation_job(AIRecommendationJobName=name)
            about = job["ModelSource"]["S3"]["S3Uri"].endswith(self.prefix)
            if about and (not statuses or job["AIRecommendationJobStatus"] in statuses):
                found.append(name)
        return found

    def poll(self, **changed: Any) -> dict[str, Any]:
        """Poll the only job; returns the watcher's output."""
        (name,) = self.jobs()
        event = {"Request": self.request, "Run": name.rpartition("-")[2], "Fingerprint": "s3:...", **changed}
        return recommendation_watcher.handler(event, LambdaContext())


@pytest.fixture(scope="module")
def machine(cloud: LocalCloud) -> str:
    return idle_state_machine(cloud, "recommendation-watcher")


@pytest.fixture(scope="module")
def config(cloud: LocalCloud, request: pytest.FixtureRequest) -> str:
    # Another module that has this fixture may use the same local cloud.
    name = request.module.__name__.rpartition(".")[2].replace("_", "-")
    inline = {"benchmark": {"type": "aiperf"}, "parameters": {"concurrency": 1, "request_count": 1}}
    cloud.client("sagemaker").create_ai_workload_config(
        AIWorkloadConfigName=name, AIWorkloadConfigs={"WorkloadSpec": {"Inline": json.dumps(inline)}}
    )
    return name


@pytest.fixture(scope="module")
def clients(cloud: LocalCloud) -> Clients:
    return Clients(cloud)


@pytest.fixture
def recommendation(
    cloud: LocalCloud,
    responses: Responses,
    machine: str,
    config: str,
    clients: Clients,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Recommendation]:
    # The pauses are for permissions on their way, and for a job that another process is about to create: none here.
    monkeypatch.setattr(custom_resource, "_may_be_too_early", lambda error: False)
    monkeypatch.setattr(runs, "_COMING_SECONDS", 0)
    for module in (recommendation_handler, custom_resource, runs):
        monkeypatch.setattr(module, "client", clients.get)
    cloud.inject("recommendation_never_finishes")
    clients.arm({})
    yield Recommendation(cloud, responses, machine, config)
    clients.arm({})


def fires(clients: Clients, step: int, act: Callable[[], None]) -> Callable[[], bool]:
    """Run ``act`` right before a call; the returned function tells whether it ran."""
    done: list[int] = []

    def once() -> None:
        done.append(step)
        act()

    clients.arm({step: once})
    return lambda: bool(done)


@pytest.mark.parametrize("step", one_in(2, range(CALLS_OF_A_CREATE)))
def test_a_delete_that_overtakes_a_create_leaves_no_job_running(
    recommendation: Recommendation, clients: Clients, step: int
) -> None:
    overtaken = fires(clients, step, lambda: recommendation.send("Delete", "delete", "not-created-x") and None)
    create = recommendation.event("Create", "create")
    recommendation_handler.handler(create, LambdaContext(0.5))
    assert overtaken()
    assert recommendation.jobs("InProgress") == []


def test_a_create_that_is_handled_after_its_deletion_makes_no_job(recommendation: Recommendation) -> None:
    create = recommendation.event("Create", "create")
    recommendation.send("Delete", "delete", "not-created-x")
    recommendation_handler.handler(create, LambdaContext(0.5))
    response = recommendation.responses.received[-1]
    assert response["Status"] == "FAILED"
    assert "the recommendation was deleted before this request was handled" in response["Reason"]
    assert recommendation.jobs() == []


@pytest.mark.parametrize("step", one_in(3, range(CALLS_OF_A_CREATE)))
def test_an_interrupted_create_is_retried_with_one_job(
    recommendation: Recommendation, clients: Clients, step: int
) -> None:
    def die() -> None:
        raise Died

    died = fires(clients, step, die)
    with pytest.raises(Died):
        recommendation.send("Create", "create")
    assert died()
    assert recommendation.send("Create", "create")["Status"] == "SUCCESS"
    assert len(recommendation.jobs("InProgress")) == 1


def test_a_create_makes_no_calls_beyond_the_interrupted_ones(recommendation: Recommendation, clients: Clients) -> None:
    beyond = fires(clients, CALLS_OF_A_CREATE, lambda: None)
    assert recommendation.send("Create", "create")["Status"] == "SUCCESS"
    assert not beyond()


def test_the_job_has_all_that_the_resource_asks_for(recommendation: Recommendation, cloud: LocalCloud) -> None:
    plan = "arn:aws:sagemaker:us-west-2:111122223333:training-plan/llama"
    recommendation.further = {"Framework": "VLLM", "OptimizeModel": "false", "ReservationArns": [plan]}
    key = recommendation.send("Create", "create")["PhysicalResourceId"]
    (name,) = recommendation.jobs()
    job = cloud.client("sagemaker").describe_ai_recommendation_job(AIRecommendationJobName=name)
    reserved = {"CapacityReservationPreference": "capacity-reservations-only", "MlReservationArns": [plan]}
    asked = {
        "ModelSource": {"S3": {"S3Uri": f"s3://{BUCKET}/{recommendation.prefix}"}},
        "AIWorkloadConfigIdentifier": recommendation.config,
        "PerformanceTarget": {"Constraints": [{"Metric": "cost"}]},
        "RoleArn": ROLE,
        "OptimizeModel": False,
        "InferenceSpecification": {"Framework": "VLLM"},
        "ComputeSpec": {"InstanceTypes": ["ml.g5.12xlarge"], "CapacityReservationConfig": reserved},
    }
    assert {name: job[name] for name in asked} == asked
    output = job["OutputConfig"]["S3OutputLocation"]
    assert re.fullmatch(rf"s3://{BUCKET}/\w+/{key}/runs/\w+/output/", output), output


def test_the_job_of_a_recommendation_is_watched_once(recommendation: Recommendation, cloud: LocalCloud) -> None:
    for _ in range(2):
        key = recommendation.send("Create", "create")["PhysicalResourceId"]
    states = cloud.client("stepfunctions")
    listed = states.list_executions(stateMachineArn=recommendation.machine)["executions"]
    (started,) = [each["executionArn"] for each in listed if each["name"].startswith(key[:32])]
    watched = json.loads(states.describe_execution(executionArn=started)["input"])
    assert watched["Request"] == recommendation.request
    (name,) = recommendation.jobs()
    assert name.endswith(watched["Run"])


def test_deleting_a_resource_with_an_unknown_physical_id_stops_its_job(recommendation: Recommendation) -> None:
    recommendation.send("Create", "create")
    assert recommendation.send("Delete", "delete", "Chat-Recommendation-MADEUP")["Status"] == "SUCCESS"
    assert recommendation.jobs("InProgress") == []


def test_an_account_without_access_to_recommendation_jobs_gets_the_next_step(
    recommendation: Recommendation, clients: Clients
) -> None:
    sagemaker = boto3.client("sagemaker", region_name="us-west-2", aws_access_key_id="x", aws_secret_access_key="x")
    stubbed = Stubber(sagemaker)
    stubbed.add_client_error("create_ai_recommendation_job", "ResourceLimitExceeded", "the limit is 0")
    with stubbed, pytest.MonkeyPatch.context() as patched:
        patched.setattr(
            recommendation_handler, "client", lambda name: sagemaker if name == "sagemaker" else clients.get(name)
        )
        response = recommendation.send("Create", "create")
    assert response["Status"] == "FAILED"
    assert "ResourceLimitExceeded: the limit is 0" in response["Reason"]
    assert "Next: ask your account team or AWS Support" in response["Reason"]


def test_a_stack_past_its_deadline_is_signaled_and_the_job_is_polled_further(
    recommendation: Recommendation, responses: Responses
) -> None:
    recommendation.send("Create", "create")
    seen = recommendation.poll(WaitHandle=f"{responses.url}handle", Deadline=0)
    assert seen["Done"] is False
    assert responses.received[-1]["Status"] == "FAILURE"
    assert "is still InProgress after 0 h 0 min" in responses.received[-1]["Reason"]
    assert "wait=False" in responses.received[-1]["Reason"]


def test_a_job_stopped_outside_the_stack_fails_the_stack(
    recommendation: Recommendation, responses: Responses, cloud: LocalCloud
) -> None:
    recommendation.send("Create", "create")
    (name,) = recommendation.jobs()
    cloud.client("sagemaker").stop_ai_recommendation_job(AIRecommendationJobName=name)
    while not recommendation.poll(WaitHandle=f"{responses.url}handle")["Done"]:
        pass
    assert responses.received[-1]["Status"] == "FAILURE"
    assert "it was stopped from outside this deployment" in responses.received[-1]["Reason"]


def test_a_job_without_recommendations_fails_the_stack_and_writes_no_result(
    recommendation: Recommendation, responses: Responses, cloud: LocalCloud
) -> None:
    key = recommendation.send("Create", "create")["PhysicalResourceId"]
    (name,) = recommendation.jobs()
    job = cloud.client("sagemaker").describe_ai_recommendation_job(AIRecommendationJobName=name)
    job.pop("ResponseMetadata")
    ended = {**job, "AIRecommendationJobStatus": "Completed", "EndTime": dt.datetime.now(dt.UTC), "Recommendations": []}
    sagemaker = boto3.client("sagemaker", region_name="us-west-2", aws_access_key_id="x", aws_secret_access_key="x")
    stubbed = Stubber(sagemaker)
    stubbed.add_response("describe_ai_recommendation_job", ended)
    with stubbed, pytest.MonkeyPatch.context() as patched:
        s3 = cloud.client("s3")
        patched.setattr(recommendation_watcher, "client", lambda made: sagemaker if made == "sagemaker" else s3)
        assert recommendation.poll(WaitHandle=f"{responses.url}handle")["Done"] is True
    assert "completed but recommends nothing" in responses.received[-1]["Reason"]
    found = s3.list_objects_v2(Bucket=BUCKET, Prefix=f"recommendations/{key}/")["Contents"]
    assert not [each["Key"] for each in found if each["Key"].endswith("result.json")]


def test_an_error_caught_by_the_state_machine_fails_the_stack(
    recommendation: Recommendation, responses: Responses
) -> None:
    recommendation.send("Create", "create")
    seen = recommendation.poll(WaitHandle=f"{responses.url}handle", Error={"Error": "Lambda.Unknown"})
    assert seen["Done"] is True
    assert "Lambda.Unknown" in responses.received[-1]["Reason"]


RECOMMENDED = {
    "ModelDetails": {"ModelPackageArn": "arn:aws:sagemaker:us-west-2:000000000000:model-package/chat/1"},
    "DeploymentConfiguration": {"InstanceType": "ml.g6.12xlarge", "InstanceCount": 2},
}


def recommended(recommendation: Recommendation, fingerprint: str | None = None) -> str:
    """The key of the recommendation, whose result is written as the watcher does; by default, of the same files."""
    key = recommendation.send("Create", "create")["PhysicalResourceId"]
    (run,) = [name.rpartition("-")[2] for name in recommendation.jobs()]
    records = RunRecords(recommendation.cloud.client("s3"), "recommendations", BUCKET, None, key)
    begun = records.get(RUN, BegunRun, run)
    assert begun is not None
    records.write(
        RESULT,
        {
            "asked": {"fingerprint": fingerprint or begun.fingerprint},
            "job": {"name": "the-first-job"},
            "recommendations": [RECOMMENDED],
        },
    )
    return key


@pytest.mark.parametrize("waits", [True, False])
def test_a_result_is_given_to_every_resource_that_asks_the_same(
    recommendation: Recommendation, responses: Responses, *, waits: bool
) -> None:
    key = recommended(recommendation)
    jobs, received = recommendation.jobs(), len(responses.received)
    event = recommendation.event("Create", "another")
    event["LogicalResourceId"] = "Other"
    if waits:
        event["ResourceProperties"] |= {"WaitHandle": f"{responses.url}handle"}
    recommendation_handler.handler(event, LambdaContext(0.5))
    *signals, response = responses.received[received:]
    assert (response["Status"], response["PhysicalResourceId"]) == ("SUCCESS", key)
    assert response["Data"]["JobName"] == "the-first-job"
    package = RECOMMENDED["ModelDetails"]["ModelPackageArn"]
    assert [signal["Data"] for signal in signals] == [f"|ml.g6.12xlarge|2|{package}||"] * waits
    assert recommendation.jobs() == jobs


def test_a_result_of_other_files_is_kept_by_its_resource_alone(recommendation: Recommendation) -> None:
    key = recommended(recommendation, "s3:of-other-files")
    kept = recommendation.send("Update", "update", key)
    assert kept["Data"]["JobName"] == "the-first-job"
    event = recommendation.event("Create", "another")
    event["LogicalResourceId"] = "Other"
    recommendation_handler.handler(event, LambdaContext(0.5))
    response = recommendation.responses.received[-1]
    assert (response["Status"], response["PhysicalResourceId"]) == ("SUCCESS", key)
    assert response["Data"]["JobName"] in recommendation.jobs("InProgress")


RUNNING_JOB = {"AIRecommendationJobStatus": "InProgress"}
ENDED_JOB = {"AIRecommendationJobStatus": "Completed"}
BEGUN = BegunRun(job_name="job", fingerprint="files")


@pytest.mark.parametrize(
    ("record", "job", "asked", "joined"),
    [
        (BEGUN, RUNNING_JOB, "files", "files"),
        (BEGUN, {"AIRecommendationJobStatus": "Starting"}, "files", "files"),
        (BEGUN, {**ENDED_JOB, "Recommendations": [RECOMMENDED]}, "files", "files"),
        # The resource's result must be of the files that it began with.
        (BEGUN, RUNNING_JOB, None, "files"),
        (BEGUN, RUNNING_JOB, "other files", None),
        (BEGUN, None, "files", None),
        (BEGUN, {**ENDED_JOB, "Recommendations": []}, "files", None),
        (BEGUN, {"AIRecommendationJobStatus": "Failed"}, "files", None),
        (BEGUN, {"AIRecommendationJobStatus": "Stopping"}, "files", None),
        (BegunRun(job_name="job"), RUNNING_JOB, None, None),
        (None, RUNNING_JOB, None, None),
        (DeploymentError("it is damaged"), RUNNING_JOB, "files", None),
    ],
)
def test_a_run_is_joined_if_it_is_of_the_same_files_and_may_have_a_result(
    record: Any, job: dict[str, Any] | None, asked: str | None, joined: str | None
) -> None:
    later = BegunRun(job_name="job", fingerprint=asked or "files")
    records, jobs = Mock(key="a" * 64), Mock()
    records.runs.return_value = ["first"]
    records.get.side_effect = lambda file, model, run: _raised(record) if run == "first" else later
    jobs.describe.side_effect = lambda name: job if name.endswith("-first") else RUNNING_JOB
    usable = recommendation_handler._usable_run(records, jobs, asked)
    assert usable == (("first", joined) if joined is not None else None)
    records.runs.return_value = ["first", "later"]
    usable = recommendation_handler._usable_run(records, jobs, asked)
    assert usable == (("first", joined) if joined is not None else ("later", later.fingerprint))


def _raised(value: Any) -> Any:
    if isinstance(value, Exception):
        raise value
    return value


def test_a_job_that_no_longer_exists_fails_the_stack(recommendation: Recommendation, responses: Responses) -> None:
    recommendation.send("Create", "create")
    seen = recommendation.poll(Run="0" * 16, WaitHandle=f"{responses.url}handle")
    assert seen == {"Done": True}
    assert responses.received[-1]["Status"] == "FAILURE"
    assert f"-{'0' * 16} no longer exists. Deploy again to start a new job" in responses.received[-1]["Reason"]


STARTED, CREATED, ENDED = (dt.datetime(2026, 11, 21, hour, tzinfo=dt.UTC) for hour in (12, 11, 14))


@pytest.mark.parametrize(
    ("times", "recorded"),
    [
        ({"StartTime": STARTED, "EndTime": ENDED}, {"started": STARTED.isoformat(), "ended": ENDED.isoformat()}),
        ({"EndTime": ENDED}, {"started": CREATED.isoformat(), "ended": ENDED.isoformat()}),
        ({}, {"started": CREATED.isoformat()}),
    ],
)
def test_a_result_says_when_its_job_ran(
    recommendation: Recommendation,
    responses: Responses,
    monkeypatch: pytest.MonkeyPatch,
    times: dict[str, dt.datetime],
    recorded: dict[str, str],
) -> None:
    key = recommendation.send("Create", "create")["PhysicalResourceId"]
    (name,) = recommendation.jobs()
    job = {"CreationTime": CREATED, "AIRecommendationJobStatus": "Completed", "Recommendations": [RECOMMENDED], **times}
    monkeypatch.setattr(recommendation_watcher, "SageMakerJobs", lambda *_: Mock(describe=lambda name: job))
    assert recommendation.poll(WaitHandle=f"{responses.url}handle") == {"Done": True}
    assert responses.received[-1]["Data"] == recommendation_data(RECOMMENDED)
    records = RunRecords(recommendation.cloud.client("s3"), "recommendations", BUCKET, None, key)
    for run in ("", name.rpartition("-")[2]):
        result = content(records, RESULT, run) or {}
        assert (result["job"], result["asked"]["fingerprint"]) == ({"name": name, **recorded}, "s3:...")
