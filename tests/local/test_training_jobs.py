"""Training jobs: real processes with inputs and outputs in S3, and SageMaker's statuses."""

from __future__ import annotations

import datetime as dt
import io
import itertools
import json
import tarfile
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from constructs_optim_local.cloud import LocalCloud

from ..support.waiting import until
from .training import BUCKET, REPORT, Training, channel, request, started

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def cloud() -> Iterator[LocalCloud]:
    running = started()
    yield running
    running.stop()


@pytest.fixture(scope="module")
def sagemaker(cloud: LocalCloud) -> Any:
    return cloud.client("sagemaker")


@pytest.fixture(scope="module")
def s3(cloud: LocalCloud) -> Any:
    return cloud.client("s3")


def test_a_training_job_runs_its_code_and_passes_through_all_statuses(cloud: LocalCloud) -> None:
    training = Training(cloud, "open('model/answer', 'w').write(str(6 * 7))")
    job = training.completed()
    assert training.model("answer") == "42"
    assert training.statuses() == ["Starting", "Downloading", "Training", "Uploading", "Completed"]
    assert job["ModelArtifacts"] == {"S3ModelArtifacts": f"s3://{BUCKET}/out/{training.name}/output/model"}
    assert job["CreationTime"] < job["TrainingStartTime"] < job["TrainingEndTime"]
    assert job["TrainingTimeInSeconds"] == job["BillableTimeInSeconds"] > 0
    transitions = job["SecondaryStatusTransitions"]
    assert all(one["EndTime"] == next_["StartTime"] for one, next_ in itertools.pairwise(transitions))


def test_training_code_finds_its_inputs_at_the_paths_of_sagemaker(cloud: LocalCloud, s3: Any) -> None:
    for key in ("data/many/a.txt", "data/many/deep/b.txt", "data/one.txt", "data/many/"):
        s3.put_object(Bucket=BUCKET, Key=key, Body=key.encode())
    training = Training(
        cloud,
        REPORT,
        HyperParameters={"epochs": "3"},
        Environment={"COLOR": "blue", "WHERE": "/opt/ml/model"},
        AlgorithmSpecification={
            "ContainerArguments": ["/opt/ml/input/data/code/main.py", "--out=/opt/ml/model", "/opt/mlx"]
        },
        channels={"many": f"s3://{BUCKET}/data/many", "one": f"s3://{BUCKET}/data/one.txt"},
    )
    training.completed()
    report = json.loads(training.model("report.json"))
    files, environment = report["files"], report["environment"]
    root = environment["SAGEMAKER_BASE_DIR"]
    data = {name: text for name, text in files.items() if name.startswith("input/data") and "code" not in name}
    assert data == {
        "input/data/many/a.txt": "data/many/a.txt",
        "input/data/many/deep/b.txt": "data/many/deep/b.txt",
        "input/data/one/one.txt": "data/one.txt",
    }
    assert json.loads(files["input/config/hyperparameters.json"]) == {"epochs": "3"}
    resources = json.loads(files["input/config/resourceconfig.json"])
    assert (resources["hosts"], resources["current_host"]) == (["algo-1"], "algo-1")
    assert resources["current_instance_type"] == "ml.m5.large"
    assert set(json.loads(files["input/config/inputdataconfig.json"])) == {"code", "many", "one"}
    assert report["arguments"] == [f"--out={root}/model", "/opt/mlx"]
    assert (environment["COLOR"], environment["WHERE"]) == ("blue", f"{root}/model")
    assert environment["TRAINING_JOB_NAME"] == training.name
    assert report["cwd"] == root


def test_a_model_with_gzip_compression_is_uploaded_as_an_archive(cloud: LocalCloud, s3: Any) -> None:
    code = "import os; os.makedirs('model/deep'); open('model/deep/w', 'w').write('weights')"
    training = Training(cloud, code, OutputDataConfig={"CompressionType": "GZIP"})
    job = training.completed()
    assert job["ModelArtifacts"]["S3ModelArtifacts"] == f"s3://{BUCKET}/out/{training.name}/output/model.tar.gz"
    archive = s3.get_object(Bucket=BUCKET, Key=f"out/{training.name}/output/model.tar.gz")["Body"].read()
    with tarfile.open(fileobj=io.BytesIO(archive)) as packed:
        assert packed.getnames() == ["deep/w"]


def test_a_manifest_file_selects_the_objects_of_a_channel(cloud: LocalCloud, s3: Any) -> None:
    for name in ("a.txt", "deep/b.txt", "c.txt"):
        s3.put_object(Bucket=BUCKET, Key=f"listed/{name}", Body=name.encode())
    manifest = json.dumps([{"prefix": f"s3://{BUCKET}/listed/"}, "a.txt", "deep/b.txt"])
    s3.put_object(Bucket=BUCKET, Key="manifests/some.manifest", Body=manifest.encode())
    inputs = [channel("listed", f"s3://{BUCKET}/manifests/some.manifest", S3DataType="ManifestFile")]
    training = Training(cloud, REPORT, more_inputs=inputs)
    training.completed()
    files = json.loads(training.model("report.json"))["files"]
    assert {name for name in files if "listed" in name} == {"input/data/listed/a.txt", "input/data/listed/deep/b.txt"}


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        (
            {"StoppingCondition": {"MaxRuntimeInSeconds": 432_001}},
            "'Longest run time for a training job' is 432000 Seconds, .* delta of 432001 Seconds",
        ),
        (
            {"ResourceConfig": {"VolumeSizeInGB": 1_025}},
            "'Size of EBS volume for a training job instance' is 1024 Gigabytes",
        ),
    ],
)
def test_a_training_job_has_awss_default_quotas(
    cloud: LocalCloud, sagemaker: Any, changed: dict[str, Any], expected: str
) -> None:
    name = f"job-{uuid.uuid4().hex[:8]}"
    cloud.client("s3").put_object(Bucket=BUCKET, Key=f"code/{name}/main.py", Body=b"")
    with pytest.raises(ClientError, match=expected) as refused:
        sagemaker.create_training_job(**request(name, **changed))
    assert refused.value.response["Error"]["Code"] == "ResourceLimitExceeded"


def test_a_missing_input_prefix_is_refused_with_sagemakers_error_message(cloud: LocalCloud, sagemaker: Any) -> None:
    uri = f"s3://{BUCKET}/nothing/here/"
    with pytest.raises(ClientError) as caught:
        Training(cloud, "", channels={"data": uri})
    error = caught.value.response["Error"]
    assert error["Code"] == "ValidationException"
    assert error["Message"].startswith(f'No S3 objects found under S3 URL "{uri}" given in input data source.')


def test_an_input_that_cannot_be_downloaded_fails_the_job(cloud: LocalCloud, s3: Any) -> None:
    manifest = json.dumps([{"prefix": f"s3://{BUCKET}/gone/"}, "a.txt"]).encode()
    s3.put_object(Bucket=BUCKET, Key="manifests/gone.manifest", Body=manifest)
    s3.put_object(Bucket=BUCKET, Key="manifests/no.manifest", Body=b"not JSON")
    s3.put_object(Bucket=BUCKET, Key="doubled//a.txt", Body=b"")
    for uri, kind, said in (
        ("manifests/gone.manifest", "ManifestFile", f"Unable to download object s3://{BUCKET}/gone/a.txt"),
        ("manifests/no.manifest", "ManifestFile", "is not a manifest"),
        ("doubled/", "S3Prefix", "has an illegal char sub-sequence '//' in it"),
    ):
        inputs = [channel("data", f"s3://{BUCKET}/{uri}", S3DataType=kind)]
        training = Training(cloud, "open('model/answer', 'w').write('42')", more_inputs=inputs)
        job = training.ended()
        assert job["TrainingJobStatus"] == "Failed"
        assert job["FailureReason"].startswith("ClientError: Data download failed:")
        assert said in job["FailureReason"]
        assert training.statuses() == ["Starting", "Downloading", "Failed"]


def test_the_failure_file_of_the_code_becomes_the_failure_reason(cloud: LocalCloud) -> None:
    training = Training(
        cloud,
        """
        import sys
        open("model/half", "w").write("half a model")
        open("output/data/note", "w").write("what helps to see why")
        open("output/failure", "w").write("the loss became nan " * 100)
        sys.exit(3)
        """,
    )
    job = training.ended()
    assert job["TrainingJobStatus"] == "Failed"
    assert job["FailureReason"].startswith("AlgorithmError: the loss became nan the loss")
    assert job["FailureReason"].endswith(", exit code: 3")
    assert len(job["FailureReason"]) == 1024
    assert "ModelArtifacts" not in job
    assert training.keys(f"out/{training.name}/") == ["output/data/note"]


@pytest.mark.parametrize(
    ("changed", "code", "reason"),
    [
        ({}, "raise SystemExit(1)", "AlgorithmError: , exit code: 1"),
        ({}, "import os; os.kill(os.getpid(), 9)", "AlgorithmError: , exit code: 137"),
        ({"AlgorithmSpecification": {"ContainerEntrypoint": ["no-such-program"]}}, "", "exit code: 127"),
    ],
)
def test_code_that_exits_with_an_error_fails_the_job(
    cloud: LocalCloud, changed: dict[str, Any], code: str, reason: str
) -> None:
    job = Training(cloud, code, **changed).ended()
    assert job["TrainingJobStatus"] == "Failed"
    assert job["FailureReason"].endswith(reason)


METERED = """
    import sys
    for step in range(3):
        print(f"step {step} loss={1 / (step + 1)}; accuracy={step / 4};", flush=True)
    print("nothing to see", file=sys.stderr)
"""


def test_metrics_in_the_output_and_its_log_lines_reach_cloudwatch(cloud: LocalCloud) -> None:
    definitions = [
        {"Name": "train:loss", "Regex": "loss=([0-9.e-]+);"},
        {"Name": "train:accuracy", "Regex": "accuracy=([0-9.]+);"},
        {"Name": "train:never", "Regex": "never=(.*)"},
    ]
    training = Training(cloud, METERED, AlgorithmSpecification={"MetricDefinitions": definitions})
    final = {found["MetricName"]: found["Value"] for found in training.completed()["FinalMetricDataList"]}
    assert final == {"train:loss": pytest.approx(1 / 3), "train:accuracy": 0.5}
    log = training.log()
    assert log[0] == "step 0 loss=1.0; accuracy=0.0;"
    assert "nothing to see" in log
    cloudwatch = cloud.client("cloudwatch")
    metrics = cloudwatch.list_metrics(Namespace="/aws/sagemaker/TrainingJobs")["Metrics"]
    mine = {
        m["MetricName"] for m in metrics if m["Dimensions"] == [{"Name": "TrainingJobName", "Value": training.name}]
    }
    assert mine == {"train:loss", "train:accuracy"}


def test_tensorboard_events_and_output_data_are_uploaded_beside_the_model(cloud: LocalCloud) -> None:
    code = """
    import os
    os.makedirs("output/tensorboard")
    for path in ("output/tensorboard/events", "output/data/table", "model/weights"):
        open(path, "w").write(path)
    """
    training = Training(cloud, code, TensorBoardOutputConfig={"S3OutputPath": f"s3://{BUCKET}/boards/"})
    training.completed()
    assert training.keys(f"boards/{training.name}/") == ["tensorboard-output/events"]
    assert training.keys(f"out/{training.name}/") == ["output/data/table", "output/model/weights"]


COUNTING = """
    import os, pathlib, signal, sys, time
    folder = pathlib.Path("checkpoints")
    done = sorted(int(path.name) for path in folder.glob("*"))
    print("going on from", done[-1] if done else 0, flush=True)
    def save(number):
        (folder / f"{number:03}").write_text("a checkpoint")
    signal.signal(signal.SIGTERM, lambda *_: (save(100), sys.exit(143)))
    save((done[-1] if done else 0) + 1)
    while not done:
        time.sleep(0.05)
    (pathlib.Path("model") / "steps").write_text(str(done[-1]))
"""


def test_an_interrupted_spot_job_resumes_from_its_checkpoints(cloud: LocalCloud) -> None:
    training = spot(cloud, COUNTING)
    until(lambda: training.keys(training.checkpoints), lambda found: found == ["001"])
    cloud.inject("training_interrupted", path=training.name, count=1)
    training.completed()
    anew = ["Starting", "Downloading", "Training"]
    assert training.statuses() == [*anew, "Interrupted", *anew, "Uploading", "Completed"]
    assert training.model("steps") == "100"
    assert training.keys(training.checkpoints) == ["001", "100", "101"]
    assert [line for line in training.log() if "going" in line] == ["going on from 0", "going on from 100"]


def spot(cloud: LocalCloud, code: str, **changed: Any) -> Training:
    """A managed spot training job with a prefix for its checkpoints."""
    place = f"checkpoints/{uuid.uuid4().hex[:8]}/"
    stopping = {"MaxRuntimeInSeconds": 60, "MaxWaitTimeInSeconds": 60, **changed.pop("StoppingCondition", {})}
    training = Training(
        cloud,
        code,
        EnableManagedSpotTraining=True,
        CheckpointConfig={"S3Uri": f"s3://{BUCKET}/{place}"},
        StoppingCondition=stopping,
        **changed,
    )
    training.checkpoints = place
    return training


def test_the_time_a_spot_job_waits_for_instances_is_not_billed(cloud: LocalCloud) -> None:
    training = spot(cloud, COUNTING)
    until(lambda: training.keys(training.checkpoints), bool)
    cloud.inject("training_never_starts")
    cloud.inject("training_interrupted", path=training.name, count=1)
    since = until(training.described, lambda job: job["SecondaryStatusTransitions"][-2]["Status"] == "Interrupted")
    began = since["SecondaryStatusTransitions"][-1]["StartTime"]
    until(lambda: dt.datetime.now(dt.UTC) - began, lambda waited: waited > dt.timedelta(seconds=1.5))
    cloud.clear_faults()
    job = training.completed()
    assert job["BillableTimeInSeconds"] < job["TrainingTimeInSeconds"]


def test_an_on_demand_training_job_is_not_interrupted(cloud: LocalCloud) -> None:
    cloud.inject("training_interrupted")
    training = Training(cloud, "import time; time.sleep(0.3)")
    training.completed()
    assert "Interrupted" not in training.statuses()


LASTING = """
    import signal, sys, time
    def end(*_):
        open("model/half", "w").write("half a model")
        sys.exit(143)
    {signals}
    print("it has begun", flush=True)
    time.sleep(60)
"""


def lasting(cloud: LocalCloud, signals: str = "", **changed: Any) -> Training:
    """A job whose code has started, and would run for a minute."""
    training = Training(cloud, LASTING.format(signals=signals), **changed)
    until(training.log, bool)
    return training


def test_a_stopped_job_uploads_the_model_its_code_saves_on_sigterm(cloud: LocalCloud) -> None:
    training = lasting(cloud, "signal.signal(signal.SIGTERM, end)")
    training.stop()
    assert training.described()["TrainingJobStatus"] == "Stopping"
    job = training.ended()
    assert training.statuses() == ["Starting", "Downloading", "Training", "Stopping", "Uploading", "Stopped"]
    assert job["ModelArtifacts"]["S3ModelArtifacts"] == f"s3://{BUCKET}/out/{training.name}/output/model"
    assert training.model("half") == "half a model"
    with pytest.raises(ClientError, match=r"rejected because the training job is in status Stopped\."):
        training.stop()


def test_code_that_ignores_sigterm_is_killed_and_uploads_nothing(cloud: LocalCloud) -> None:
    training = lasting(cloud, "signal.signal(signal.SIGTERM, signal.SIG_IGN)")
    training.stop()
    job = training.ended()
    assert job["TrainingJobStatus"] == "Stopped"
    assert job["TrainingTimeInSeconds"] >= 2
    assert "ModelArtifacts" not in job
    assert training.keys(f"out/{training.name}/") == []


def test_a_job_stopped_before_its_code_starts_ends_at_once(cloud: LocalCloud) -> None:
    cloud.inject("training_never_starts")
    training = Training(cloud, "open('model/answer', 'w').write('42')")
    training.stop()
    job = training.ended()
    assert training.statuses() == ["Starting", "Stopping", "Stopped"]
    assert "TrainingStartTime" not in job


def test_a_job_beyond_its_maximum_runtime_is_stopped(cloud: LocalCloud) -> None:
    training = lasting(cloud, "signal.signal(signal.SIGTERM, end)", StoppingCondition={"MaxRuntimeInSeconds": 1})
    job = training.ended()
    assert (job["TrainingJobStatus"], job["SecondaryStatus"]) == ("Stopped", "MaxRuntimeExceeded")
    assert training.model("half") == "half a model"


def test_a_spot_job_beyond_its_maximum_wait_time_is_stopped(cloud: LocalCloud) -> None:
    cloud.inject("training_never_starts")
    limits = {"MaxRuntimeInSeconds": 1, "MaxWaitTimeInSeconds": 1}
    job = spot(cloud, "", StoppingCondition=limits).ended()
    assert (job["TrainingJobStatus"], job["SecondaryStatus"]) == ("Stopped", "MaxWaitTimeExceeded")


@pytest.mark.parametrize(
    ("fault", "status"), [("training_never_starts", "Starting"), ("training_never_finishes", "Training")]
)
def test_a_fault_holds_a_job_in_its_status_until_it_is_cleared(cloud: LocalCloud, fault: str, status: str) -> None:
    cloud.inject(fault)
    training = Training(cloud, "open('model/answer', 'w').write('42')")
    until(training.described, lambda job: job["SecondaryStatus"] == status)
    assert training.keys(f"out/{training.name}/") == []
    cloud.clear_faults()
    training.completed()
    assert training.model("answer") == "42"


def test_an_injected_fault_fails_a_training_job_with_its_reason(cloud: LocalCloud) -> None:
    cloud.inject("training_fails", reason="CapacityError: Unable to provision requested ML compute capacity", count=1)
    training = Training(cloud, "open('model/answer', 'w').write('42')")
    assert training.ended()["FailureReason"].startswith("CapacityError:")
    assert training.keys(f"out/{training.name}/") == []
    assert next(job for job in cloud.training_jobs() if job["name"] == training.name)["status"] == "Failed"


def test_a_job_that_fails_with_a_service_error_is_retried_per_its_retry_strategy(cloud: LocalCloud) -> None:
    cloud.inject("training_fails", count=2)
    training = Training(cloud, "open('model/answer', 'w').write('42')", RetryStrategy={"MaximumRetryAttempts": 1})
    assert training.ended()["FailureReason"].startswith("InternalServerError:")
    begun = ["Starting", "Downloading", "Training"]
    assert training.statuses() == [*begun, "Restarting", *begun, "Failed"]


def test_a_training_job_can_complete_without_output(cloud: LocalCloud) -> None:
    cloud.inject("training_writes_nothing", count=1)
    training = Training(cloud, "open('model/answer', 'w').write('42')")
    training.completed()
    assert training.keys(f"out/{training.name}/") == []


def test_a_training_job_whose_image_does_not_exist_in_its_region_fails(cloud: LocalCloud) -> None:
    image = "763104351884.dkr.ecr.us-west-1.amazonaws.com/djl-inference:0.29.0-neuronx-sdk2.19.1"
    job = Training(cloud, "", AlgorithmSpecification={"TrainingImage": image}).ended()
    assert job["FailureReason"] == (
        "ClientError: Cannot pull algorithm container. Either the image does not exist or its permissions are "
        "incorrect."
    )
