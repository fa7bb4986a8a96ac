"""Endpoints with model servers: processes that are started, checked, asked, replaced and ended."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError, EventStreamError

from constructs_optim_local.cloud import LocalCloud

from ..support.inference_components import create, needing
from ..support.local_cloud import ROLE
from ..support.processes import listening_addresses, marked, none_left
from ..support.waiting import until

pytestmark = [pytest.mark.e2e, pytest.mark.skipif(not Path("/proc").exists(), reason="reads /proc")]

PROGRAM = f"{sys.executable} {Path(__file__).parents[1]}/support/served_program.py {{model}} {{port}} {{arguments}}"
IMAGE = "763104351884.dkr.ecr.us-west-2.amazonaws.com/vllm:0.30.0-gpu-py312-cu130-ubuntu24.04-sagemaker"
# The driver of the type's default is too old for it.
ON = {"InstanceType": "ml.g6.xlarge", "InferenceAmiVersion": "al2023-ami-sagemaker-inference-gpu-4-1"}
BUCKET = "models"
MARK = uuid.uuid4().hex


@pytest.fixture(scope="module")
def cloud() -> Iterator[LocalCloud]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("SERVING_TEST", MARK)
        with LocalCloud(serve=PROGRAM, endpoint_seconds=0.1, time_scale=0.001, otel_enrichment=True) as running:
            s3 = running.client("s3")
            s3.create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": running.region})
            for name in ("model.safetensors", "sub/tokenizer.json"):
                s3.put_object(Bucket=BUCKET, Key=f"tiny/{name}", Body=b"content")
            yield running
    assert none_left(MARK)


@pytest.fixture(scope="module")
def sagemaker(cloud: LocalCloud) -> Any:
    return cloud.client("sagemaker")


@pytest.fixture(scope="module")
def runtime(cloud: LocalCloud) -> Any:
    return cloud.client("sagemaker-runtime", retries={"max_attempts": 1})


def model(sagemaker: Any, uri: str = f"s3://{BUCKET}/tiny/", **environment: str) -> str:
    name = f"model-{uuid.uuid4().hex[:8]}"
    source = {"S3DataSource": {"S3Uri": uri, "S3DataType": "S3Prefix", "CompressionType": "None"}}
    container = {"Image": IMAGE, "Environment": environment, "ModelDataSource": source}
    sagemaker.create_model(ModelName=name, ExecutionRoleArn=ROLE, PrimaryContainer=container)
    return name


def config(sagemaker: Any, model: str, count: int = 1, **variant: Any) -> str:
    name = f"config-{uuid.uuid4().hex[:8]}"
    own = {"VariantName": "AllTraffic", **ON, "InitialInstanceCount": count}
    given = {"ProductionVariants": [{**own, "ModelName": model, **variant}]}
    sagemaker.create_endpoint_config(EndpointConfigName=name, **given)
    return name


def endpoint(sagemaker: Any, config: str) -> str:
    name = f"endpoint-{uuid.uuid4().hex[:8]}"
    sagemaker.create_endpoint(EndpointName=name, EndpointConfigName=config)
    return name


def settled(sagemaker: Any, name: str) -> dict[str, Any]:
    return until(
        lambda: sagemaker.describe_endpoint(EndpointName=name),
        lambda found: found["EndpointStatus"] in ("InService", "Failed"),
        seconds=60,
    )


def served(sagemaker: Any, count: int = 1, **environment: str) -> str:
    """An endpoint in service."""
    name = endpoint(sagemaker, config(sagemaker, model(sagemaker, **environment), count))
    assert settled(sagemaker, name)["EndpointStatus"] == "InService"
    return name


def ask(runtime: Any, name: str, component: str | None = None, **request: Any) -> dict[str, Any]:
    more = {"InferenceComponentName": component} if component else {}
    found = runtime.invoke_endpoint(EndpointName=name, Body=json.dumps(request), ContentType="application/json", **more)
    return json.loads(found["Body"].read())


def ports(runtime: Any, name: str, component: str | None = None, count: int = 8) -> Counter[int]:
    """The servers that respond, with how often each does."""
    return Counter(ask(runtime, name, component)["port"] for _ in range(count))


def test_each_instance_has_a_server_and_requests_go_to_them_in_turn(sagemaker: Any, runtime: Any) -> None:
    assert sorted(ports(runtime, served(sagemaker, count=2)).values()) == [4, 4]


def test_a_server_gets_the_plans_arguments_variables_and_files(sagemaker: Any, runtime: Any) -> None:
    name = served(sagemaker, SM_VLLM_MODEL="/opt/ml/model", SM_VLLM_ENABLE_LORA="true", SM_VLLM_EAGER="false", A="1")
    said = ask(runtime, name)
    folder = said["environment"]["SM_VLLM_MODEL"]
    assert said["arguments"] == ["--model", folder, "--enable-lora"]
    assert folder.endswith("/ml/model")
    assert said["files"] == ["model.safetensors", "sub/tokenizer.json"]
    assert said["environment"]["A"] == "1"
    assert said["environment"]["AWS_ACCESS_KEY_ID"]
    assert said["content_type"] == "application/json"
    assert said["path"] == "/invocations"


def test_a_server_that_is_never_healthy_fails_the_endpoint_when_its_time_is_up(
    cloud: LocalCloud, sagemaker: Any
) -> None:
    settings = {"ContainerStartupHealthCheckTimeoutInSeconds": 300}
    name = endpoint(sagemaker, config(sagemaker, model(sagemaker, BEHAVIOR="never"), **settings))
    until(lambda: logged(cloud, name), lambda lines: "served_program" in lines)
    cloud.advance(290)
    assert sagemaker.describe_endpoint(EndpointName=name)["EndpointStatus"] == "Creating"
    cloud.advance(20)
    found = settled(sagemaker, name)
    assert found["EndpointStatus"] == "Failed"
    assert found["FailureReason"] == (
        "The primary container for production variant AllTraffic did not pass the ping health check. Please check "
        "CloudWatch logs for this endpoint."
    )


def test_a_server_that_ends_at_once_fails_the_endpoint_and_logs_the_reason(cloud: LocalCloud, sagemaker: Any) -> None:
    name = endpoint(sagemaker, config(sagemaker, model(sagemaker, BEHAVIOR="ends")))
    assert "did not pass the ping health check" in settled(sagemaker, name)["FailureReason"]
    assert "no such model" in until(lambda: logged(cloud, name), lambda lines: "no such model" in lines)


def logged(cloud: LocalCloud, name: str) -> str:
    logs = cloud.client("logs")
    try:
        events = logs.filter_log_events(logGroupName=f"/aws/sagemaker/Endpoints/{name}")["events"]
    except ClientError:
        return ""
    return "\n".join(event["message"] for event in events)


def test_model_data_that_are_missing_fail_the_endpoint(sagemaker: Any) -> None:
    name = endpoint(sagemaker, config(sagemaker, model(sagemaker, uri=f"s3://{BUCKET}/nothing/")))
    assert f'from URL: "s3://{BUCKET}/nothing/"' in settled(sagemaker, name)["FailureReason"]


def test_scaling_out_and_in_starts_and_ends_servers(sagemaker: Any, runtime: Any) -> None:
    others = set(running())
    name = served(sagemaker)
    before = pids(runtime, name)
    for count in (3, 1):
        sagemaker.update_endpoint_weights_and_capacities(
            EndpointName=name,
            DesiredWeightsAndCapacities=[{"VariantName": "AllTraffic", "DesiredInstanceCount": count}],
        )
        assert settled(sagemaker, name)["ProductionVariants"][0]["CurrentInstanceCount"] == count
        assert len(ports(runtime, name)) == count
    until(lambda: set(running()) - others, lambda left: left == before, seconds=90)


def pids(runtime: Any, name: str) -> set[int]:
    return {ask(runtime, name)["pid"] for _ in range(4)}


def running() -> list[int]:
    """The processes of servers of this file that are there."""
    return [pid for pid in marked(MARK) if b"served_program.py" in command(pid) and b"supervisor" not in command(pid)]


def command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def test_an_update_moves_to_new_servers_without_losing_a_request(sagemaker: Any, runtime: Any) -> None:
    name = served(sagemaker, count=2, RELEASE="1")
    old = pids(runtime, name)
    errors, releases, done = list[Exception](), list[str](), threading.Event()

    def keep_asking() -> None:
        while not done.is_set():
            try:
                releases.append(ask(runtime, name)["environment"]["RELEASE"])
            except Exception as error:
                errors.append(error)

    asking = threading.Thread(target=keep_asking)
    asking.start()
    sagemaker.update_endpoint(
        EndpointName=name, EndpointConfigName=config(sagemaker, model(sagemaker, RELEASE="2"), count=2)
    )
    until(lambda: releases[-1:], lambda last: last == ["2"])
    assert settled(sagemaker, name)["EndpointStatus"] == "InService"
    done.set()
    asking.join()
    assert errors == []
    assert releases == sorted(releases)
    until(lambda: old & set(running()), lambda left: not left)


def test_an_update_whose_servers_fail_leaves_the_old_ones_in_service(sagemaker: Any, runtime: Any) -> None:
    name = served(sagemaker, RELEASE="1")
    old = pids(runtime, name)
    broken = config(sagemaker, model(sagemaker, BEHAVIOR="ends"))
    sagemaker.update_endpoint(EndpointName=name, EndpointConfigName=broken)
    found = until(
        lambda: sagemaker.describe_endpoint(EndpointName=name),
        lambda found: found["EndpointStatus"] == "InService" and "FailureReason" in found,
    )
    assert "did not pass the ping health check" in found["FailureReason"]
    assert pids(runtime, name) == old


def test_a_canary_takes_its_share_of_the_requests_while_it_bakes(sagemaker: Any, runtime: Any) -> None:
    name = served(sagemaker, count=4, RELEASE="1")
    size = {"Type": "INSTANCE_COUNT", "Value": 1}
    routing = {"Type": "CANARY", "CanarySize": size, "WaitIntervalInSeconds": 3600}
    sagemaker.update_endpoint(
        EndpointName=name,
        EndpointConfigName=config(sagemaker, model(sagemaker, RELEASE="2"), count=4),
        DeploymentConfig={"BlueGreenUpdatePolicy": {"TrafficRoutingConfiguration": routing}},
    )

    def releases() -> Counter[str]:
        return Counter(ask(runtime, name)["environment"]["RELEASE"] for _ in range(8))

    # The first requests may come before the canary does.
    until(releases, lambda found: len(found) == 2)
    assert releases() == {"1": 6, "2": 2}
    until(releases, lambda found: found == {"2": 8})


def test_components_share_an_instance_and_each_copy_has_a_server(sagemaker: Any, runtime: Any) -> None:
    name = f"config-{uuid.uuid4().hex[:8]}"
    variant = {"VariantName": "AllTraffic", **ON, "InstanceType": "ml.g6.12xlarge", "InitialInstanceCount": 1}
    sagemaker.create_endpoint_config(EndpointConfigName=name, ExecutionRoleArn=ROLE, ProductionVariants=[variant])
    shared = endpoint(sagemaker, name)
    settled(sagemaker, shared)
    for component, copies in (("first", 2), ("second", 1)):
        specification = {**needing(1), "ModelName": model(sagemaker, WHO=component)}
        create(sagemaker, component, shared, specification, copies=copies)
    for component, copies in (("first", 2), ("second", 1)):
        in_service(sagemaker, component)
        assert len(ports(runtime, shared, component)) == copies
        assert ask(runtime, shared, component)["environment"]["WHO"] == component
    sagemaker.update_inference_component_runtime_config(
        InferenceComponentName="second", DesiredRuntimeConfig={"CopyCount": 2}
    )
    in_service(sagemaker, "second")
    assert len(ports(runtime, shared, "second")) == 2
    specification = {**needing(1), "ModelName": model(sagemaker, BEHAVIOR="ends")}
    sagemaker.delete_inference_component(InferenceComponentName="second")
    create(sagemaker, "third", shared, specification)
    found = until(
        lambda: sagemaker.describe_inference_component(InferenceComponentName="third"),
        lambda found: found["InferenceComponentStatus"] == "Failed",
    )
    assert "did not pass the ping health check" in found["FailureReason"]


def in_service(sagemaker: Any, component: str) -> None:
    until(
        lambda: sagemaker.describe_inference_component(InferenceComponentName=component)["InferenceComponentStatus"],
        lambda status: status == "InService",
    )


def test_a_server_that_dies_is_started_again(sagemaker: Any, runtime: Any) -> None:
    name = served(sagemaker)
    (before,) = pids(runtime, name)
    with pytest.raises(ClientError) as broken:
        ask(runtime, name, ends=True)
    assert broken.value.response["Error"]["Code"] == "ModelError"

    def again() -> int:
        try:
            return ask(runtime, name)["pid"]
        except ClientError:
            return before

    until(again, lambda pid: pid != before)


def test_a_models_error_is_a_model_error_with_its_status_and_words(sagemaker: Any, runtime: Any) -> None:
    name = served(sagemaker)
    with pytest.raises(ClientError) as refused:
        ask(runtime, name, status=422)
    response = refused.value.response
    assert (response["ResponseMetadata"]["HTTPStatusCode"], response["OriginalStatusCode"]) == (424, 422)
    assert json.loads(response["OriginalMessage"])["path"] == "/invocations"


def test_a_stream_that_breaks_off_ends_in_a_model_stream_error(sagemaker: Any, runtime: Any) -> None:
    name = served(sagemaker)
    found = runtime.invoke_endpoint_with_response_stream(EndpointName=name, Body=json.dumps({"breaks": True}))
    parts = list[bytes]()
    with pytest.raises(EventStreamError, match="ModelStreamError"):
        parts.extend(event["PayloadPart"]["Bytes"] for event in found["Body"])


def test_a_program_without_sagemakers_path_is_asked_by_openais(sagemaker: Any, runtime: Any) -> None:
    name = served(sagemaker, BEHAVIOR="openai alone")
    assert ask(runtime, name, messages=[])["path"] == "/v1/chat/completions"
    assert ask(runtime, name, prompt="Why?")["path"] == "/v1/completions"


def test_what_a_server_exposes_of_its_engine_is_published(cloud: LocalCloud, sagemaker: Any) -> None:
    name = served(sagemaker, count=2)
    query = f'vllm:num_requests_waiting{{"aws.sagemaker.endpoint.name"="{name}"}}'
    found = until(lambda: cloud.engine_metrics(query), lambda found: len(found) == 2)
    assert {each["value"] for each in found} == {7.0}
    assert len({each["labels"]["@resource.host.id"] for each in found}) == 2


def test_requests_and_responses_are_captured(cloud: LocalCloud, sagemaker: Any, runtime: Any) -> None:
    name = model(sagemaker)
    variant = {"VariantName": "AllTraffic", **ON, "InitialInstanceCount": 1}
    sagemaker.create_endpoint_config(
        EndpointConfigName=name,
        ProductionVariants=[{**variant, "ModelName": name}],
        DataCaptureConfig={
            "EnableCapture": True,
            "InitialSamplingPercentage": 100,
            "DestinationS3Uri": f"s3://{BUCKET}/captured",
            "CaptureOptions": [{"CaptureMode": "InputAndOutput"}],
            "CaptureContentTypeHeader": {"JsonContentTypes": ["application/json"]},
        },
    )
    captured = endpoint(sagemaker, name)
    settled(sagemaker, captured)
    said = ask(runtime, captured, one=1)
    s3 = cloud.client("s3")
    (found,) = s3.list_objects_v2(Bucket=BUCKET, Prefix=f"captured/{captured}/")["Contents"]
    record = json.loads(s3.get_object(Bucket=BUCKET, Key=found["Key"])["Body"].read())["captureData"]
    assert json.loads(record["endpointInput"]["data"]) == {"one": 1}
    assert json.loads(record["endpointOutput"]["data"]) == said


def test_a_shadow_gets_what_production_gets(sagemaker: Any, runtime: Any, tmp_path: Path) -> None:
    production, shadow = model(sagemaker), model(sagemaker)
    own = {**ON, "InitialInstanceCount": 1, "InitialVariantWeight": 1}
    sagemaker.create_endpoint_config(
        EndpointConfigName=production,
        ProductionVariants=[{"VariantName": "AllTraffic", "ModelName": production, **own}],
        ShadowProductionVariants=[{"VariantName": "Shadow", "ModelName": shadow, **own}],
    )
    before = set(running())
    name = endpoint(sagemaker, production)
    settled(sagemaker, name)
    (first,) = pids(runtime, name)
    (second,) = set(running()) - before - {first}
    with pytest.raises(ClientError):
        ask(runtime, name, ends=True)
    until(running, lambda found: first not in found and second not in found)


def test_deleting_an_endpoint_ends_its_servers(sagemaker: Any, runtime: Any) -> None:
    name = served(sagemaker, count=2)
    there = pids(runtime, name)
    sagemaker.delete_endpoint(EndpointName=name)
    until(lambda: there & set(running()), lambda left: not left)


@pytest.mark.parametrize("is_killed", [False, True], ids=["stopped", "killed"])
def test_servers_end_with_the_local_cloud(is_killed: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    mark = uuid.uuid4().hex
    monkeypatch.setenv("LOCAL_CLOUD_TEST", mark)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with LocalCloud(serve=True, endpoint_seconds=0.1) as cloud:
        sagemaker = cloud.client("sagemaker")
        uri = "s3://jumpstart-private-cache-prod-us-west-2/llama/"
        name = endpoint(sagemaker, config(sagemaker, model(sagemaker, uri=uri)))
        assert settled(sagemaker, name)["EndpointStatus"] == "InService"
        servers = [pid for pid in marked(mark) if b"light_server" in command(pid)]
        addresses = [each for pid in servers for each in listening_addresses(pid)]
        assert addresses, "the light server listens"
        assert all(address.startswith("127.0.0.1:") for address in addresses)
        if is_killed:
            assert cloud.pid is not None
            os.kill(cloud.pid, signal.SIGKILL)
    assert none_left(mark)
