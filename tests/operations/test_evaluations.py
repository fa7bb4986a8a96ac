"""The evaluations of a store, with what is known of the endpoints they were of."""

from __future__ import annotations

import datetime as dt
import json
import uuid
from typing import Any

import pytest

from constructs_optim.operations.evaluations import artifact_keys, evaluations

from ..support.hosting import IMAGE, make_config, settled
from ..support.local_cloud import ROLE
from .stores import Store, artifact_key


def result(store: Store, endpoint: str, started: dt.datetime, **subject: Any) -> dict[str, Any]:
    """Put an evaluation's result into the store."""
    document = {
        "schema": 1,
        "subject": {"label": "Chat", "endpoint_name": endpoint, "artifact_key": artifact_key("a"), **subject},
        "workload": {"prompts": 1},
        "started": started.isoformat(),
        "levels": [{"concurrency": 1, "seconds": 9.0, "metrics": {"total_throughput": 40.0}}],
    }
    store.put(f"evaluations/{artifact_key(uuid.uuid4())}/result.json", json.dumps(document).encode())
    return document


def serve(store: Store, *, draft: bool) -> str:
    """An endpoint in service, with a draft beside its model or without; its name."""
    name = f"e-{uuid.uuid4().hex[:8]}"
    source = {"S3DataType": "S3Prefix", "CompressionType": "None", "S3Uri": "s3://models/x/"}
    more = {"AdditionalModelDataSources": [{"ChannelName": "draft_model", "S3DataSource": source}]}
    store.sagemaker.create_model(
        ModelName=name, ExecutionRoleArn=ROLE, PrimaryContainer={"Image": IMAGE, **(more if draft else {})}
    )
    make_config(store.sagemaker, name, name)
    store.sagemaker.create_endpoint(EndpointName=name, EndpointConfigName=name)
    assert settled(store.sagemaker, name)["EndpointStatus"] == "InService"
    return name


def now() -> dt.datetime:
    return dt.datetime.now(dt.UTC) + dt.timedelta(seconds=1)


@pytest.mark.parametrize("draft", [True, False])
def test_an_endpoint_that_still_serves_what_was_evaluated_tells_whether_with_a_draft(store: Store, draft: bool) -> None:
    document = result(store, serve(store, draft=draft), now(), variant_name="AllTraffic")
    (found,) = evaluations(store.s3, store.sagemaker, store.bucket)
    assert (found.document, found.with_channels) == (document, draft)


def test_an_endpoint_that_is_gone_or_was_changed_since_tells_nothing(store: Store) -> None:
    result(store, "gone", now())
    result(store, serve(store, draft=True), dt.datetime(2026, 1, 1, tzinfo=dt.UTC))
    found = evaluations(store.s3, store.sagemaker, store.bucket)
    assert [each.with_channels for each in found] == [None, None]


def test_a_component_tells_by_its_own_model(store: Store) -> None:
    name = serve(store, draft=True)
    host = f"{name}-host"
    make_config(store.sagemaker, host, None)
    store.sagemaker.create_endpoint(EndpointName=host, EndpointConfigName=host)
    settled(store.sagemaker, host)
    store.sagemaker.create_inference_component(
        InferenceComponentName=name,
        EndpointName=host,
        VariantName="AllTraffic",
        Specification={"ModelName": name, "ComputeResourceRequirements": {"MinMemoryRequiredInMb": 1024}},
        RuntimeConfig={"CopyCount": 1},
    )
    result(store, host, now() + dt.timedelta(minutes=5), inference_component_name=name)
    (found,) = evaluations(store.s3, store.sagemaker, store.bucket)
    assert found.with_channels is True


def test_runs_and_damage_are_passed_over(store: Store) -> None:
    key = artifact_key("evaluated")
    for name in (f"evaluations/{key}/runs/1/result.json", f"evaluations/{key}/current.json"):
        store.put(name, b"{}")
    store.put(f"evaluations/{key}/result.json", b"{")
    store.put(f"evaluations/{artifact_key('list')}/result.json", b"[]")
    store.put(f"evaluations/{artifact_key('bare')}/result.json", b'{"started": "yesterday"}')
    (found,) = evaluations(store.s3, store.sagemaker, store.bucket)
    assert (found.document, found.with_channels) == ({"started": "yesterday"}, None)


def test_artifacts_are_those_with_a_manifest(store: Store) -> None:
    made = store.made(artifact_key("made"))
    store.running(artifact_key("running"))
    assert artifact_keys(store.s3, store.bucket) == {made}
