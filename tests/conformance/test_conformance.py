"""Our requests against those of the SageMaker SDK, as ``record.py`` recorded them: equal, but for what is intended.

``make conformance`` records again in environments of their own and fails where a recording has changed.
"""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pytest
from botocore.credentials import Credentials

from constructs_optim.evaluator.bearer_token import bearer_token
from constructs_optim.recipe import (
    Compilation,
    Model,
    Plan,
    Quantization,
    Recipe,
    RecipeError,
    Sharding,
    SpeculativeDecoding,
    Technique,
    plan,
)
from constructs_optim.recipe.catalog import models
from constructs_optim.recipe.servers import Server, ServerSettings
from constructs_optim.runtime.jobs.source import ResolvedSource

RECORDED = {path.stem: json.loads(path.read_text()) for path in Path(__file__).parent.glob("recorded/sagemaker-*.json")}

# What differs on purpose: path in the request, and why. Everything else must be equal.
INTENDED: dict[str, str] = {
    "OptimizationJobName": "the deployment derives it from the artifact key",
    "OutputConfig.S3OutputLocation": "below the artifact store; the deployment derives it from the artifact key",
    "OptimizationEnvironment": "the SDK copies the model's serving environment into the job; here a job has only the "
    "settings of its techniques, because a changed serving variable must not change the artifact",
    "Image": "the SDK uses the oldest image that JumpStart supports (LMI 13), or the model's own; the catalog prefers "
    "LMI 14, the newest that supports every technique",
    "OverrideEnvironment.OPTION_TENSOR_PARALLEL_DEGREE": "the SDK sets it only in the serving environment; here it is "
    "part of the job, because the job writes it into the artifact's serving.properties",
}
INTENDED_OF_MODELS: dict[str, str] = {
    "ModelName": "the deployment generates it",
    "PrimaryContainer.Image": "the SDK uses the oldest image that JumpStart supports (LMI 13), or the model's own; the "
    "catalog uses the newest that serves the artifact, and LMI 14 for a draft model",
    "PrimaryContainer.Environment": "vLLM's container has its own variables (`SM_VLLM_...`); the SDK adds "
    "JumpStart's variables of other containers (such as SAGEMAKER_PROGRAM and MODEL_CACHE_ROOT), which LMI does not "
    "read",
}
# JumpStart's variables that only other containers read, or that JumpStart chose for this model.
NOT_READ_BY_LMI = {
    "ENDPOINT_SERVER_TIMEOUT",
    "MODEL_CACHE_ROOT",
    "OPTION_ENFORCE_EAGER",
    "SAGEMAKER_ENV",
    "SAGEMAKER_MODEL_SERVER_TIMEOUT",
    "SAGEMAKER_MODEL_SERVER_WORKERS",
    "SAGEMAKER_PROGRAM",
    "SAGEMAKER_SUBMIT_DIRECTORY",
}
INTENDED_OF_STACKS: dict[str, str] = {
    "sharding and quantization": "the SDK refuses them in one call; here they are two jobs, and the second uses the "
    "first one's artifact, as the SDK's documentation recommends",
}
DRAFT = SpeculativeDecoding.custom_draft(uri="s3://drafts/one/")
TECHNIQUES: dict[str, tuple[list[Technique], str]] = {
    "awq": ([Quantization.awq()], "ml.g5.48xlarge"),
    "fp8": ([Quantization.fp8()], "ml.p5.48xlarge"),
    "sharding": ([Sharding.fast_load(tensor_parallel_degree=8)], "ml.p4d.24xlarge"),
    "custom_draft": ([DRAFT], "ml.p4d.24xlarge"),
    "awq_and_custom_draft": ([Quantization.awq(), DRAFT], "ml.p4d.24xlarge"),
    "tensorrt_llm": ([Compilation.tensorrt_llm()], "ml.g5.12xlarge"),
    "smoothquant_and_tensorrt_llm": ([Quantization.smoothquant(), Compilation.tensorrt_llm()], "ml.g5.12xlarge"),
    "smoothquant_alone": ([Quantization.smoothquant()], "ml.p4d.24xlarge"),
    "tensorrt_llm_of_llama_3_1": ([Compilation.tensorrt_llm()], "ml.p4d.24xlarge"),
    "sharding_and_awq": ([Quantization.awq(), Sharding.fast_load()], "ml.p4d.24xlarge"),
}
LLAMA_31, LLAMA_2 = "meta-textgeneration-llama-3-1-70b", "meta-textgeneration-llama-2-7b"
OF_LLAMA_2 = {"tensorrt_llm", "smoothquant_and_tensorrt_llm"}
DRAFT_CASES = {"custom_draft", "awq_and_custom_draft"}
REFUSED = {"smoothquant_alone": "OPT043"}
# What only the SDK's own list of models refuses.
ADVISED = {"tensorrt_llm_of_llama_3_1": "OPT026"}

every_recording = pytest.mark.parametrize("sdk", sorted(RECORDED))


@pytest.fixture(autouse=True)
def sharding_is_known_for_the_model() -> None:
    """The guide does not say that Llama 3.1 can be sharded; the SDK does not ask."""
    model_id = "meta-textgeneration-llama-3-1-70b"
    models.override(model_id, supports=models.by_id()[model_id].supports | {"fast_load"})


def planned(case: str, server: ServerSettings | None = None) -> Plan:
    techniques, instance_type = TECHNIQUES[case]
    model_id, version = (LLAMA_2, "3.0.0") if case in OF_LLAMA_2 else (LLAMA_31, "2.16.2")
    return plan(
        Recipe(
            model=Model.jumpstart(model_id, version=version, accept_eula=True),
            techniques=techniques,
            instance_type=instance_type,
            region="us-west-2",
            server=server,
        )
    )


def theirs(sdk: str, case: str, operation: str) -> dict[str, Any]:
    (call,) = RECORDED[sdk]["cases"][case]
    assert call["operation"] == operation
    return call["request"]


def test_both_generations_of_the_sdk_are_recorded() -> None:
    assert {recording["sagemaker"].split(".")[0] for recording in RECORDED.values()} == {"2", "3"}


@every_recording
@pytest.mark.parametrize("case", ["awq", "fp8", "sharding", *sorted(OF_LLAMA_2)])
def test_a_job_request_equals_the_sdks_except_for_intended_differences(sdk: str, case: str) -> None:
    expected = theirs(sdk, case, "CreateOptimizationJob")
    (job,) = planned(case).jobs
    uri = expected["ModelSource"]["S3"]["S3Uri"]
    ours = {
        **job.request,
        "ModelSource": ResolvedSource("", uri, accept_eula=True).model_source,
        "RoleArn": expected["RoleArn"],
    }
    assert comparable(ours) == comparable(expected)


@every_recording
@pytest.mark.parametrize("case", ["awq", "fp8", "sharding"])
def test_the_override_environment_is_the_sdks_plus_the_tensor_parallel_degree(sdk: str, case: str) -> None:
    (part,) = theirs(sdk, case, "CreateOptimizationJob")["OptimizationConfigs"]
    ((member, expected),) = part.items()
    (job,) = planned(case).jobs
    ours = job.request["OptimizationConfigs"][0][member]["OverrideEnvironment"]
    assert ours == {**expected["OverrideEnvironment"], "OPTION_TENSOR_PARALLEL_DEGREE": "8"}


def test_recorded_sdks_fail_only_for_refused_recipes_and_drafts() -> None:
    failed = {(sdk, case) for sdk, r in RECORDED.items() for case, calls in r["cases"].items() if "error" in calls[0]}
    refused = {(sdk, case) for sdk in RECORDED for case in (*REFUSED, *ADVISED, "sharding_and_awq")}
    assert refused <= failed
    assert failed - refused <= {("sagemaker-3", case) for case in DRAFT_CASES}


@every_recording
@pytest.mark.parametrize("case", sorted(REFUSED))
def test_a_recipe_the_sdk_refuses_is_refused(sdk: str, case: str) -> None:
    assert RECORDED[sdk]["cases"][case][0]["error"].startswith("ValueError")
    with pytest.raises(RecipeError, match=REFUSED[case]):
        planned(case)


@every_recording
@pytest.mark.parametrize("case", sorted(ADVISED))
def test_a_model_that_the_sdk_does_not_list_is_warned_of(sdk: str, case: str) -> None:
    assert RECORDED[sdk]["cases"][case][0]["error"].startswith("ValueError")
    assert f"constructs-optim:{ADVISED[case]}" in {advice.id for advice in planned(case).warnings}


def test_sharding_quantized_weights_takes_two_jobs() -> None:
    assert [job.name for job in planned("sharding_and_awq").jobs] == [
        "awq",
        "fast-load",
    ]


def test_adding_a_draft_to_quantized_weights_does_not_change_the_job() -> None:
    expected = theirs("sagemaker-2", "awq_and_custom_draft", "CreateOptimizationJob")
    (job,) = planned("awq_and_custom_draft").jobs
    source = ResolvedSource("", expected["ModelSource"]["S3"]["S3Uri"], accept_eula=True).model_source
    ours = {**job.request, "ModelSource": source, "RoleArn": expected["RoleArn"]}
    assert comparable(ours) == comparable(expected)


@pytest.mark.parametrize("sdk", sorted(s for s, r in RECORDED.items() if "error" not in r["cases"]["custom_draft"][0]))
def test_a_model_with_a_draft_equals_the_sdks_except_for_intended_differences(sdk: str) -> None:
    expected = theirs(sdk, "custom_draft", "CreateModel")["PrimaryContainer"]
    container = planned("custom_draft", Server.lmi()).container
    ours = [
        {
            "ChannelName": channel.name,
            "S3DataSource": ResolvedSource("", "s3://drafts/one/", accept_eula=False).data_source,
        }
        for channel in container.channels
    ]
    assert ours == expected["AdditionalModelDataSources"]
    wanted = {name: value for name, value in expected["Environment"].items() if name not in NOT_READ_BY_LMI}
    # The plan sets the length that its memory check assumed.
    assert container.environment == {**wanted, "OPTION_MAX_MODEL_LEN": "131072"}
    model_uri = expected["ModelDataSource"]["S3DataSource"]["S3Uri"]
    assert ResolvedSource("", model_uri, accept_eula=True).data_source == expected["ModelDataSource"]["S3DataSource"]
    assert container.network_isolation == theirs(sdk, "custom_draft", "CreateModel")["EnableNetworkIsolation"]


def comparable(request: dict[str, Any]) -> dict[str, Any]:
    """A request without what differs on purpose."""
    kept = {
        name: value
        for name, value in request.items()
        if name not in ("OptimizationJobName", "OutputConfig", "OptimizationEnvironment", "OptimizationConfigs")
    }
    configs: list[dict[str, Any]] = []
    for config in request["OptimizationConfigs"]:
        for member, body in config.items():
            variables = dict(body["OverrideEnvironment"])
            variables.pop("OPTION_TENSOR_PARALLEL_DEGREE", None)
            configs.append(
                {member: {**{k: v for k, v in body.items() if k != "Image"}, "OverrideEnvironment": variables}}
            )
    return {**kept, "OptimizationConfigs": configs}


def test_a_bearer_token_is_the_one_that_the_sdk_makes(monkeypatch: pytest.MonkeyPatch) -> None:
    moment = dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC).replace(tzinfo=None)
    monkeypatch.setattr("botocore.auth.get_current_datetime", lambda: moment)
    credentials = Credentials("nobody", "nothing")
    assert bearer_token(credentials, "eu-central-1", 300) == RECORDED["sagemaker-3"]["bearer_token"]


def test_every_intended_difference_has_its_reason_in_the_docs() -> None:
    page = (Path(__file__).parent.parent.parent / "docs" / "conformance.md").read_text()
    for path, reason in {**INTENDED, **INTENDED_OF_MODELS, **INTENDED_OF_STACKS}.items():
        assert f"| `{path}` | {reason} |" in page, path


def test_a_neuron_compilation_job_has_the_environment_of_the_sdks_test() -> None:
    # tests/unit/sagemaker/serve/builder/test_js_builder.py of the SDK: Llama 3 8B on ml.inf2.48xlarge.
    technique = Compilation.neuron(
        tensor_parallel_degree=2, maximum_sequence_length=2048, maximum_batch_size=4, dtype="fp16", optimize_level=2
    )
    made = plan(
        Recipe(
            model=Model.jumpstart("meta-textgeneration-llama-3-8b-instruct", version="2.0.0", accept_eula=True),
            techniques=[technique],
            instance_type="ml.inf2.48xlarge",
            region="us-west-2",
        )
    )
    (config,) = made.jobs[0].request["OptimizationConfigs"]
    assert config["ModelCompilationConfig"]["OverrideEnvironment"] == {
        "OPTION_DTYPE": "fp16",
        "OPTION_MAX_ROLLING_BATCH_SIZE": "4",
        "OPTION_NEURON_OPTIMIZE_LEVEL": "2",
        "OPTION_N_POSITIONS": "2048",
        "OPTION_ROLLING_BATCH": "auto",
        "OPTION_TENSOR_PARALLEL_DEGREE": "2",
    }
