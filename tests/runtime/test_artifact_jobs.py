"""What differs between jobs that make artifacts: requests, outputs, and why one came to nothing."""

from __future__ import annotations

import datetime as dt
from typing import Any
from unittest.mock import Mock

import boto3
import botocore.session
import pytest
from botocore.exceptions import ClientError
from botocore.validate import ParamValidator

from constructs_optim.runtime.errors import DeploymentError, InvalidEvent
from constructs_optim.runtime.jobs import sagemaker_jobs
from constructs_optim.runtime.jobs.sagemaker_jobs import (
    ARTIFACT_JOBS,
    RUNNING,
    SageMakerJobs,
    is_not_found,
    job_name,
    typed,
)
from constructs_optim.runtime.jobs.source import ResolvedSource, is_of, resolve, with_reads
from constructs_optim.runtime.requests.properties import (
    ArtifactSource,
    HuggingFaceSource,
    JobProperties,
    S3Source,
    as_delivered,
    validate,
)
from constructs_optim.runtime.store.artifact_store import ArtifactStore
from tests.support.properties import OPTIMIZATION, training_properties, training_requests

from ..support.s3_clients import BUCKET

KEY = "a" * 64
OUTPUT = f"s3://store/artifacts/{KEY}/model/1/"
SOURCE = ResolvedSource("hub:SageMakerPublicHub/some-model@1.2.3", "s3://jumpstart/model/", accept_eula=True)
KMS = "arn:aws:kms:us-west-2:123456789012:key/1234"


def request(given: dict[str, Any], kind: str) -> dict[str, Any]:
    wanted = validate(JobProperties, given)
    made = ARTIFACT_JOBS[kind].request("optim-1", KEY, OUTPUT, wanted, SOURCE, ArtifactStore(None, "store"))
    shape: Any = botocore.session.get_session().get_service_model("sagemaker").operation_model(f"Create{kind}")
    sent = typed(made, shape.input_shape)
    report = ParamValidator().validate(sent, shape.input_shape)
    assert not report.has_errors(), report.generate_report()
    return sent


def test_a_training_job_reads_the_model_as_its_first_channel_with_the_license_accepted() -> None:
    first, *others = request(training_properties(ModelChannel="finetuned"), "TrainingJob")["InputDataConfig"]
    assert first["ChannelName"] == "finetuned"
    assert first["DataSource"]["S3DataSource"] == {
        "S3DataDistributionType": "FullyReplicated",
        "S3DataType": "S3Prefix",
        "S3Uri": "s3://jumpstart/model/",
        "ModelAccessConfig": {"AcceptEula": True},
    }
    assert [channel["ChannelName"] for channel in others] == ["training"]


def test_a_training_job_writes_uncompressed_and_encrypted_and_keeps_checkpoints_for_every_attempt() -> None:
    made = request(training_properties(KmsKeyArn=KMS), "TrainingJob")
    assert made["OutputDataConfig"] == {"CompressionType": "NONE", "KmsKeyId": KMS, "S3OutputPath": OUTPUT}
    assert made["CheckpointConfig"] == {"S3Uri": f"s3://store/checkpoints/{KEY}/"}
    assert made["TensorBoardOutputConfig"] == {
        "LocalPath": "/opt/ml/output/tensorboard",
        "S3OutputPath": f"s3://store/artifacts/{KEY}/tensorboard/",
    }


def test_an_optimization_job_request_has_the_model_source_and_output_location() -> None:
    made = request(OPTIMIZATION, "OptimizationJob")
    assert made["ModelSource"]["S3"]["S3Uri"] == "s3://jumpstart/model/"
    assert made["OutputConfig"] == {"S3OutputLocation": OUTPUT}


@pytest.mark.parametrize("kind", ["OptimizationJob", "TrainingJob"])
def test_a_job_has_the_role_and_the_tags_of_its_resource(kind: str) -> None:
    tags = [{"Key": "team", "Value": "search"}]
    given = OPTIMIZATION if kind == "OptimizationJob" else training_properties()
    made = request({**given, "Tags": tags}, kind)
    assert (made["RoleArn"], made["Tags"]) == (given["RoleArn"], tags)


def test_the_types_of_a_request_are_those_of_the_api_where_its_texts_can_be() -> None:
    model: Any = botocore.session.get_session().get_service_model("sagemaker")
    sent = {"VariantName": "2", "InitialInstanceCount": "2", "InitialVariantWeight": "0.5", "EnableSSMAccess": "True"}
    shape = model.operation_model("CreateEndpointConfig").input_shape
    (found,) = typed({"ProductionVariants": [sent], "Other": "1"}, shape)["ProductionVariants"]
    expected = {"VariantName": "2", "InitialInstanceCount": 2, "InitialVariantWeight": 0.5, "EnableSSMAccess": True}
    assert found == expected
    assert [type(value) for value in found.values()] == [str, int, float, bool]
    wrong = dict.fromkeys(expected, "many")
    assert typed({"ProductionVariants": [wrong]}, shape) == {"ProductionVariants": [wrong]}
    assert typed({"ProductionVariants": [{"EnableSSMAccess": "false"}]}, shape) == {
        "ProductionVariants": [{"EnableSSMAccess": False}]
    }


@pytest.mark.parametrize(
    ("kind", "member", "value"),
    [
        ("OptimizationJob", "MaxInstanceCount", "many"),
        ("OptimizationJob", "OptimizationConfigs", [{"ModelQuantizationConfig": {}, "ModelShardingConfig": {}}]),
        ("OptimizationJob", "OptimizationConfigs", [{"ModelDestructionConfig": {}}]),
        ("OptimizationJob", "OptimizationConfigs", [{"ModelQuantizationConfig": {"OverrideEnvironment": ["A"]}}]),
        ("OptimizationJob", "StoppingCondition", {"MaxRuntimeInSeconds": "-1"}),
        ("OptimizationJob", "VpcConfig", {"SecurityGroupIds": ["sg-1"]}),
        ("OptimizationJob", "HyperParameters", {"heads": "4"}),
        ("OptimizationJob", "RoleArn", "arn:aws:iam::111122223333:role/Admin"),
        ("OptimizationJob", "OutputConfig", {"S3OutputLocation": "s3://elsewhere/"}),
        ("TrainingJob", "AlgorithmSpecification", {"TrainingInputMode": "File", "ContainerEntrypoint": []}),
        ("TrainingJob", "AlgorithmSpecification", {"TrainingInputMode": "File", "ContainerArguments": "train.py"}),
        ("TrainingJob", "EnableManagedSpotTraining", "yes"),
        ("TrainingJob", "HyperParameters", {"a": ["b"]}),
        ("TrainingJob", "InputDataConfig", [{"ChannelName": "training"}]),
        ("TrainingJob", "ResourceConfig", {"InstanceCount": "many", "VolumeSizeInGB": "1"}),
        ("TrainingJob", "OptimizationConfigs", []),
        ("TrainingJob", "CheckpointConfig", {"S3Uri": "s3://elsewhere/"}),
    ],
)
def test_a_request_that_violates_the_api_model_is_refused_before_it_is_sent(kind: str, member: str, value: Any) -> None:
    given = OPTIMIZATION if kind == "OptimizationJob" else training_properties()
    wanted = validate(JobProperties, {**given, "Request": {**given["Request"], member: value}})
    sagemaker = boto3.client("sagemaker", region_name="us-west-2")
    jobs = ARTIFACT_JOBS[kind]

    def check() -> None:
        made = jobs.request("optim-1", KEY, OUTPUT, wanted, SOURCE, ArtifactStore(None, "store"))
        SageMakerJobs(sagemaker, jobs).check(made)

    with pytest.raises(InvalidEvent, match="Request"):
        check()


@pytest.mark.parametrize("planned", training_requests())
def test_a_planned_training_request_is_valid_for_the_api(planned: dict[str, Any]) -> None:
    request(training_properties(Request=as_delivered(planned)), "TrainingJob")


def test_a_training_job_s_artifact_is_under_the_job_name_prefix() -> None:
    assert ARTIFACT_JOBS["TrainingJob"].artifact_uri(OUTPUT, "optim-1") == f"{OUTPUT}optim-1/output/model/"
    assert ARTIFACT_JOBS["OptimizationJob"].artifact_uri(OUTPUT, "optim-1") == OUTPUT


TRAINED: dict[str, Any] = {
    "TrainingJobName": "optim-1",
    "TrainingJobStatus": "Stopped",
    "CreationTime": dt.datetime(2026, 1, 1, tzinfo=dt.UTC),
    "LastModifiedTime": dt.datetime(2026, 1, 1, 3, tzinfo=dt.UTC),
    "StoppingCondition": {"MaxRuntimeInSeconds": 3600, "MaxWaitTimeInSeconds": 7200},
}


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"FailureReason": "AlgorithmError: line 3"}, "AlgorithmError: line 3"),
        (
            {"FailureReason": "AlgorithmError: line 3", "SecondaryStatus": "MaxRuntimeExceeded"},
            "AlgorithmError: line 3",
        ),
        ({"SecondaryStatus": "MaxRuntimeExceeded"}, "3600 s of its max_runtime"),
        ({"SecondaryStatus": "MaxWaitTimeExceeded"}, "spot capacity"),
        ({"SecondaryStatus": "Stopped"}, "from outside"),
    ],
)
def test_the_reason_of_a_failed_training_job_is_reported(more: dict[str, Any], told: str) -> None:
    assert told in ARTIFACT_JOBS["TrainingJob"].failure_reason({**TRAINED, **more})


QUANTIZED: dict[str, Any] = {
    "OptimizationConfigs": [{"ModelCompilationConfig": {}}, {"ModelQuantizationConfig": {"Image": "used:1"}}],
    "OutputConfig": {"S3OutputLocation": OUTPUT},
    "CreationTime": TRAINED["CreationTime"],
    "LastModifiedTime": TRAINED["LastModifiedTime"],
}


@pytest.mark.parametrize(
    ("job", "image"),
    [
        ({}, "used:1"),
        ({"OptimizationOutput": {}}, "used:1"),
        ({"OptimizationOutput": {"RecommendedInferenceImage": "recommended:1"}}, "recommended:1"),
        ({"OptimizationConfigs": [{"ModelQuantizationConfig": {}}]}, ""),
    ],
)
def test_an_optimized_model_is_served_by_the_recommended_image_or_one_of_the_job(job: Any, image: str) -> None:
    assert ARTIFACT_JOBS["OptimizationJob"].image({**QUANTIZED, **job}) == image


def test_a_trained_model_is_served_by_the_image_of_its_job() -> None:
    kind = ARTIFACT_JOBS["TrainingJob"]
    assert kind.image({"AlgorithmSpecification": {"TrainingImage": "training:1"}}) == "training:1"
    assert kind.image({"AlgorithmSpecification": {"AlgorithmName": "mine"}}) == ""


def test_each_kind_of_job_has_its_output_and_what_its_manifest_keeps() -> None:
    optimization, training = ARTIFACT_JOBS["OptimizationJob"], ARTIFACT_JOBS["TrainingJob"]
    assert optimization.output(QUANTIZED) == OUTPUT
    assert training.output({"OutputDataConfig": {"S3OutputPath": OUTPUT}}) == OUTPUT
    assert optimization.recorded(QUANTIZED) == {"request": {"OptimizationConfigs": QUANTIZED["OptimizationConfigs"]}}
    given = {
        **{name: name for name in ("ModelSource", "DeploymentInstanceType", "OptimizationConfigs")},
        "OptimizationEnvironment": {"A": "b"},
    }
    assert optimization.recorded({**given, "OptimizationJobName": "optim-1"}) == {"request": given}
    names = (
        *("AlgorithmSpecification", "Environment", "HyperParameters", "InputDataConfig", "ResourceConfig"),
        *("StoppingCondition", "EnableManagedSpotTraining"),
    )
    given = dict.fromkeys(names, "x")
    assert training.recorded({**given, "TrainingJobName": "optim-1"})["request"] == given
    kept = training.recorded(TRAINED)
    assert kept == {"request": {"StoppingCondition": TRAINED["StoppingCondition"]}, "metrics": {}}
    assert training.superfluous_settings(TRAINED) == ()
    assert optimization.superfluous_settings(QUANTIZED) == ()
    alone = {"OptimizationConfigs": [{"ModelQuantizationConfig": {}}]}
    assert optimization.superfluous_settings(alone) == ("option.quantize",)


@pytest.mark.parametrize("kind", ["OptimizationJob", "TrainingJob"])
def test_a_job_s_span_is_that_of_its_work_or_of_the_job(kind: str) -> None:
    work = kind.removesuffix("Job")
    job = {name: TRAINED[name] for name in ("CreationTime", "LastModifiedTime")}
    assert ARTIFACT_JOBS[kind].span(job) == (TRAINED["CreationTime"], TRAINED["LastModifiedTime"])
    hour, two = (dt.datetime(2026, 1, 1, hours, tzinfo=dt.UTC) for hours in (1, 2))
    worked = {**job, f"{work}StartTime": hour, f"{work}EndTime": two}
    assert ARTIFACT_JOBS[kind].span(worked) == (hour, two)


@pytest.mark.parametrize(("status", "ended_badly"), [("Failed", True), ("Stopped", True), ("Stopping", False)])
def test_training_job_statuses_map_to_failed_or_running(status: str, ended_badly: bool) -> None:
    kind = ARTIFACT_JOBS["TrainingJob"]
    assert kind.has_status({"TrainingJobStatus": status}, "FAILED", "STOPPED") is ended_badly
    assert not kind.has_status({"TrainingJobStatus": status}, "COMPLETED")
    assert kind.has_status({"TrainingJobStatus": "InProgress"}, *RUNNING)


def test_a_manifest_keeps_the_final_metrics_and_billable_seconds() -> None:
    job = {
        **TRAINED,
        "FinalMetricDataList": [{"MetricName": "medusa:loss", "Value": 0.25}],
        "BillableTimeInSeconds": 90,
    }
    kept = ARTIFACT_JOBS["TrainingJob"].recorded(job)
    assert kept["metrics"] == {"medusa:loss": 0.25}
    assert kept["billable_seconds"] == 90


def test_additional_input_data_is_part_of_the_artifact_identity(s3: Any) -> None:
    s3.put_object(Bucket=BUCKET, Key="train/train.jsonl", Body=b"{}")
    wanted = validate(JobProperties, training_properties(Reads=[{"Kind": "s3", "S3Uri": f"s3://{BUCKET}/train"}]))
    first = with_reads(SOURCE, wanted.reads, s3)
    s3.put_object(Bucket=BUCKET, Key="train/train.jsonl", Body=b"{ }")
    second = with_reads(SOURCE, wanted.reads, s3)
    assert first.identity.startswith(f"{SOURCE.identity}\ns3://{BUCKET}/train/#".replace("\ns3://", "\ns3:s3://"))
    assert first.identity != second.identity
    assert with_reads(SOURCE, (), s3) == SOURCE


def test_missing_training_data_is_reported_with_its_s3_uri(s3: Any) -> None:
    wanted = validate(JobProperties, training_properties(Reads=[{"Kind": "s3", "S3Uri": f"s3://{BUCKET}/none/"}]))
    with pytest.raises(DeploymentError, match=f"no data files under s3://{BUCKET}/none/"):
        with_reads(SOURCE, wanted.reads, s3)


def test_an_artifact_is_matched_by_its_model_regardless_of_other_inputs() -> None:
    given = validate(JobProperties, OPTIMIZATION)
    assert is_of(given.source, f"hub:SageMakerPublicHub/some-model@1.2.3\ns3:s3://data/train/#{KEY}")
    in_s3 = S3Source(uri="s3://models/mine/")
    assert is_of(in_s3, f"s3:s3://models/mine/#{KEY}\ns3:s3://data/train/#{KEY}")
    assert not is_of(in_s3, f"s3:s3://models/mine/more/#{KEY}")
    assert not is_of(in_s3, f"hub:SageMakerPublicHub/some-model@1.2.3\ns3:s3://models/mine/#{KEY}")
    # Its key is all of its identity.
    assert is_of(ArtifactSource(artifact_key=KEY, s3_uri="s3://store/a"), f"artifact:{KEY}")


def test_a_model_to_copy_and_an_artifact_have_no_license_to_accept() -> None:
    copied = HuggingFaceSource(model_id="owner/model", revision="c" * 40)
    found = resolve(copied, sagemaker=Mock(), s3=Mock())
    assert found == ResolvedSource(f"huggingface:owner/model@{'c' * 40}", "", accept_eula=False)
    made = ArtifactSource(artifact_key=KEY, s3_uri=OUTPUT)
    found = resolve(made, sagemaker=Mock(), s3=Mock())
    assert found == ResolvedSource(f"artifact:{KEY}", OUTPUT, accept_eula=False)
    assert found.timeout_attributes == {"ModelDataDownloadTimeout": "3600", "ContainerStartupTimeout": "3600"}


def refused(code: str, message: str = "no") -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": message}}, "StopTrainingJob")


@pytest.mark.parametrize(
    ("code", "message", "is_unknown"),
    [
        ("ResourceNotFound", "", True),
        ("ResourceNotFoundException", "", True),
        ("ValidationException", "Requested resource not found.", True),
        ("ValidationException", "Could not find the job", True),
        ("ValidationException", "The job does not exist", True),
        ("ValidationException", "1 validation error detected", False),
        ("AccessDeniedException", "Could not find the policy", False),
        ("", "", False),
    ],
)
def test_only_a_name_that_sagemaker_does_not_know_is_not_found(code: str, message: str, *, is_unknown: bool) -> None:
    assert is_not_found(refused(code, message)) is is_unknown


def jobs_of(*statuses: str | None) -> tuple[SageMakerJobs, Any]:
    """Training jobs whose one job has a status at each look, and the client; None without a job."""
    sagemaker = Mock()
    looks = [{"TrainingJobStatus": each} if each else refused("ResourceNotFound") for each in statuses]
    sagemaker.describe_training_job.side_effect = looks
    return SageMakerJobs(sagemaker, ARTIFACT_JOBS["TrainingJob"]), sagemaker


@pytest.mark.parametrize(
    ("status", "is_stopped"),
    [
        ("InProgress", True),
        ("Starting", True),
        ("Stopping", False),
        ("Stopped", False),
        ("Completed", False),
        ("Failed", False),
        (None, False),
    ],
)
def test_a_job_is_stopped_while_it_runs(status: str | None, *, is_stopped: bool) -> None:
    jobs, sagemaker = jobs_of(status)
    jobs.stop("optim-1")
    calls = [call.kwargs for call in sagemaker.stop_training_job.call_args_list]
    assert calls == [{"TrainingJobName": "optim-1"}] * is_stopped


def test_the_jobs_of_all_attempts_are_stopped() -> None:
    jobs, sagemaker = jobs_of(*("Failed", "Failed", "InProgress", "InProgress"), None)
    jobs.stop_all("store", KEY)
    names = [call.kwargs["TrainingJobName"] for call in sagemaker.describe_training_job.call_args_list]
    first, second, third = (job_name("store", KEY, attempt) for attempt in (1, 2, 3))
    assert names == [first, first, second, second, third]
    assert [call.kwargs for call in sagemaker.stop_training_job.call_args_list] == [{"TrainingJobName": second}]


def test_a_job_that_may_not_be_described_is_not_taken_for_none() -> None:
    jobs, sagemaker = jobs_of()
    sagemaker.describe_training_job.side_effect = refused("AccessDeniedException")
    with pytest.raises(ClientError):
        jobs.describe("optim-1")


@pytest.mark.parametrize(
    ("code", "has_ended"),
    [("ValidationException", True), ("ResourceNotFound", True), ("AccessDeniedException", False)],
)
def test_a_job_that_ends_before_it_can_be_stopped_is_no_failure(code: str, *, has_ended: bool) -> None:
    jobs, sagemaker = jobs_of("InProgress")
    sagemaker.stop_training_job.side_effect = refused(code)
    if has_ended:
        jobs.stop("optim-1")
    else:
        with pytest.raises(ClientError, match=code):
            jobs.stop("optim-1")


@pytest.mark.parametrize(
    ("statuses", "until", "slept"),
    [
        (["Stopped"], 100, 0),
        ([None], 100, 0),
        # Nothing stops it.
        (["InProgress"], 100, 0),
        (["Stopping", "Stopping", "Stopped"], 100, 2),
        (["Stopping", None], 100, 1),
        (["Stopping"] * 4, 3, 3),
        (["Stopping"], 0.5, 0),
    ],
)
def test_a_job_that_is_being_stopped_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, statuses: list[str | None], until: float, slept: int
) -> None:
    pauses: list[float] = []
    clock = Mock(monotonic=lambda: sum(pauses), sleep=pauses.append)
    monkeypatch.setattr(sagemaker_jobs, "time", clock)
    jobs, _ = jobs_of(*statuses)
    jobs.wait_while_stopping("optim-1", until)
    assert pauses == [1] * slept


@pytest.mark.parametrize(
    ("code", "exists"),
    [("ResourceInUse", True), ("ConflictException", True), ("ResourceLimitExceeded", False)],
)
def test_a_job_that_another_call_created_is_not_created_again(
    monkeypatch: pytest.MonkeyPatch, code: str, *, exists: bool
) -> None:
    jobs, sagemaker = jobs_of()
    monkeypatch.setattr(SageMakerJobs, "_input_shape", Mock(type_name="structure", members={}))
    assert jobs.create({"TrainingJobName": "optim-1"})
    sagemaker.create_training_job.side_effect = refused(code)
    if exists:
        assert not jobs.create({"TrainingJobName": "optim-1"})
    else:
        with pytest.raises(ClientError, match=code):
            jobs.create({"TrainingJobName": "optim-1"})
