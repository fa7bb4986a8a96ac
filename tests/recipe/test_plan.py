"""The plan of a recipe, validated against the service's API model."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import Any

import botocore.session
import pytest
from botocore.validate import ParamValidator
from hypothesis import given
from hypothesis import strategies as st

from constructs_optim.recipe import (
    Model,
    Plan,
    Quantization,
    Recipe,
    SpeculativeDecoding,
    plan,
)
from constructs_optim.recipe.catalog import instances, models
from constructs_optim.recipe.plan_data import S3Source, TokenSecret

from .recipes import LLAMA_70B, broken_rules, planned, recipe


def test_the_headline_recipe_needs_one_quantization_job() -> None:
    (job,) = planned().jobs
    (config,) = job.request["OptimizationConfigs"]
    assert job.request["DeploymentInstanceType"] == "ml.g5.12xlarge"
    assert config["ModelQuantizationConfig"]["OverrideEnvironment"] == {
        "OPTION_QUANTIZE": "awq",
        "OPTION_TENSOR_PARALLEL_DEGREE": "4",
    }
    assert config["ModelQuantizationConfig"]["Image"].startswith("763104351884.dkr.ecr.us-west-2.amazonaws.com/djl-")
    assert job.request["StoppingCondition"] == {"MaxRuntimeInSeconds": 36_000}


def test_technique_settings_reach_the_jobs_environment() -> None:
    (job,) = planned(techniques=[Quantization.awq(group_size=64, ignored_layers=["lm_head", "gate"])]).jobs
    environment = job.request["OptimizationConfigs"][0]["ModelQuantizationConfig"]["OverrideEnvironment"]
    assert environment["OPTION_AWQ_BLOCK_SIZE"] == "64"
    assert environment["OPTION_AWQ_IGNORE_LAYERS"] == "lm_head,gate"


def test_the_default_tensor_parallel_degree_uses_all_accelerators() -> None:
    assert planned(instance_type="ml.p5.48xlarge").tensor_parallel_degree == 8
    half = planned(techniques=[Quantization.awq(tensor_parallel_degree=2)])
    assert half.tensor_parallel_degree == 2
    assert half.container.environment["SM_VLLM_TENSOR_PARALLEL_SIZE"] == "2"


def test_the_container_loads_the_artifact_from_disk_with_network_isolation() -> None:
    container = planned().container
    assert container.environment["SM_VLLM_MODEL"] == "/opt/ml/model"
    assert container.environment["SM_VLLM_SERVED_MODEL_NAME"] == "meta-textgeneration-llama-3-70b-instruct"
    assert container.network_isolation


def test_explicit_environment_variables_override_the_plans_own() -> None:
    container = planned(environment={"SM_VLLM_MODEL": "/elsewhere", "SM_VLLM_MAX_MODEL_LEN": "4096"}).container
    assert container.environment["SM_VLLM_MODEL"] == "/elsewhere"
    assert container.environment["SM_VLLM_MAX_MODEL_LEN"] == "4096"


def test_images_come_from_the_regions_own_registry() -> None:
    assert planned(region="eu-south-1").container.image.startswith("692866216735.dkr.ecr.eu-south-1.amazonaws.com/")
    china = planned(region="cn-north-1").container.image
    assert china.startswith("727897471807.dkr.ecr.cn-north-1.amazonaws.com.cn/")


def test_an_explicit_registry_replaces_the_registry_of_the_region() -> None:
    assert planned(region=None, registry="registry.example.com").container.image.startswith(
        "registry.example.com/vllm:"
    )


def test_a_plan_round_trips_through_json() -> None:
    assert Plan.model_validate_json(planned().model_dump_json()) == planned()


def test_a_plan_can_be_hashed_and_compared() -> None:
    assert hash(planned()) == hash(planned())
    assert planned() == planned()
    assert planned() != planned(region="us-east-1")


def test_the_description_names_model_techniques_and_instance_type() -> None:
    assert planned().description == {
        "Model": f"{LLAMA_70B} 2.25.0",
        "Techniques": ["AWQ INT4 (group size 128)"],
        "InstanceType": "ml.g5.12xlarge",
    }


def test_the_summary_is_the_recipe_in_one_line_without_tokens() -> None:
    assert planned().summary == (
        "meta-textgeneration-llama-3-70b-instruct 2.25.0: AWQ INT4 (group size 128), ml.g5.12xlarge, "
        "tensor parallel degree 4"
    )
    techniques = [Quantization.awq(), SpeculativeDecoding.sagemaker_draft()]
    assert "128) + SageMaker draft model, ml.g5" in planned(techniques=techniques).summary
    of_a_token = planned(model=Model.s3("s3://${Token[B.1]}/m/"), identity=lambda uri: "b").summary
    assert of_a_token.startswith("a model in S3: AWQ INT4")


def test_the_description_contains_no_cdk_tokens() -> None:
    assert "Token" not in json.dumps(
        planned(model=Model.s3("s3://${Token[B.1]}/m/"), identity=lambda uri: "b").description
    )


def test_planning_loads_neither_the_cdk_nor_boto3() -> None:
    script = (
        "import sys; from constructs_optim.recipe import Model, Quantization, Recipe, plan;"
        "model = Model.jumpstart('huggingface-llm-mistral-7b');"
        "plan(Recipe(model, [Quantization.awq()], 'ml.g5.2xlarge', 'us-west-2'));"
        "print(sorted({'aws_cdk', 'jsii', 'boto3', 'botocore'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.fixture(scope="module")
def create_optimization_job() -> Any:
    return botocore.session.get_session().get_service_model("sagemaker").operation_model("CreateOptimizationJob")


QUANTIZABLE = sorted(row.model_id for row in models.by_id().values() if "quantization" in row.supports)
AWQ_TYPES = sorted(
    row.name
    for row in instances.by_name().values()
    if row.runs_optimization and 7.5 <= (row.compute_capability or 0) <= 9.0
)


@given(
    instance_type=st.sampled_from(AWQ_TYPES),
    group_size=st.sampled_from([32, 64, 128]),
    ignored_layers=st.lists(st.from_regex(r"[a-z_.]{1,20}", fullmatch=True), max_size=5),
)
def test_arbitrary_valid_settings_give_a_request_that_the_api_accepts(
    create_optimization_job: Any, instance_type: str, group_size: Any, ignored_layers: list[str]
) -> None:
    result = plan(
        Recipe(
            **recipe(
                model=Model.jumpstart("huggingface-textgeneration-bloom-560m", version="1.0.0"),
                instance_type=instance_type,
                techniques=[Quantization.awq(group_size=group_size, ignored_layers=ignored_layers)],
            )
        )
    )
    request = {
        "OptimizationJobName": "job",
        "RoleArn": "arn:aws:iam::111122223333:role/execution",
        "ModelSource": {"S3": {"S3Uri": "s3://models/m/"}},
        "OutputConfig": {"S3OutputLocation": "s3://artifacts/a/"},
        **result.jobs[0].request,
    }
    report = ParamValidator().validate(request, create_optimization_job.input_shape)
    assert not report.has_errors(), report.generate_report()
    types = create_optimization_job.input_shape.members["DeploymentInstanceType"].enum
    assert request["DeploymentInstanceType"] in types


@pytest.mark.parametrize("model_id", QUANTIZABLE)
def test_every_model_that_supports_quantization_can_be_planned(model_id: str) -> None:
    arguments = {
        "model": Model.jumpstart(model_id, version="1.0.0", accept_eula=True),
        "instance_type": "ml.p5.48xlarge",
    }
    # Few models split evenly over 8 accelerators, in groups of 128.
    choices = (
        Quantization.awq(tensor_parallel_degree=degree, group_size=group)
        for group in (128, 64)
        for degree in (8, 4, 2, 1)
    )
    awq = next(each for each in choices if "OPT054" not in broken_rules(**arguments, techniques=[each]))
    assert planned(**arguments, techniques=[awq]).jobs


@pytest.mark.parametrize("instance_type", AWQ_TYPES)
def test_every_instance_type_with_int4_kernels_can_be_planned(instance_type: str) -> None:
    small = Model.jumpstart("huggingface-textgeneration-bloom-560m", version="1.0.0")
    assert planned(model=small, instance_type=instance_type).accelerator_count >= 1


def test_token_numbering_does_not_affect_the_container_key() -> None:
    def key(number: int) -> tuple[str, str]:
        registry = f"763104351884.dkr.ecr.${{Token[AWS.Region.{number}]}}.amazonaws.com"
        draft = SpeculativeDecoding.sagemaker_draft()
        result = planned(techniques=[draft], instance_type="ml.p4d.24xlarge", region=None, registry=registry)
        return result.container_key, result.deployment_hash

    assert key(4) == key(17)


@pytest.mark.parametrize(
    ("variables", "hosts"),
    [
        ({}, ("huggingface.co", "pypi.org")),
        ({"HF_ENDPOINT": "https://hub.example"}, ("pypi.org",)),
        ({"PIP_INDEX_URL": "https://index.example"}, ("huggingface.co",)),
        ({"PIP_CONFIG_FILE": "/pip.conf"}, ("huggingface.co",)),
        ({"PIP_FIND_LINKS": "/wheels"}, ("huggingface.co",)),
        ({"PIP_NO_INDEX": "1"}, ("huggingface.co",)),
        ({"HTTPS_PROXY": "http://proxy.example"}, ()),
        ({"https_proxy": "http://proxy.example"}, ()),
        ({"ALL_PROXY": "http://proxy.example"}, ()),
        ({"PIP_PROXY": "http://proxy.example"}, ()),
        ({"HTTP_PROXY": "http://proxy.example"}, ("huggingface.co", "pypi.org")),
    ],
    ids=str,
)
def test_a_copy_reads_from_the_public_servers_that_no_variable_replaces(
    variables: dict[str, str], hosts: tuple[str, ...]
) -> None:
    model = Model.huggingface("Qwen/Qwen3-8B", revision="a" * 40)
    copying, *_ = plan(Recipe(model, [], "ml.g5.12xlarge", "us-west-2")).jobs
    request = {**copying.request, "Environment": {**copying.request.get("Environment", {}), **variables}}
    assert copying.model_copy(update={"request": request}).hosts == hosts


def test_a_job_of_sagemaker_reads_from_no_public_server() -> None:
    (job,) = planned().jobs
    assert job.hosts == ()


_KEY = "arn:aws:kms:us-west-2:111122223333:key/01234567-89ab-cdef-0123-456789abcdef"
_TOKEN = "arn:aws:secretsmanager:us-west-2:111122223333:secret:hub-AbCdEf"


def test_a_job_reads_the_models_files_as_the_model_says() -> None:
    mine = Model.s3("s3://models/mine/", accept_eula=True, encryption_key_arn=_KEY)
    (job,) = planned(model=mine).jobs
    assert job.source == S3Source(uri="s3://models/mine/", accept_eula=True, encryption_key_arn=_KEY)


def test_a_copy_reads_its_token_with_the_key_of_the_secret() -> None:
    model = Model.huggingface("acme/mine", revision="a" * 40, token_secret_arn=_TOKEN, encryption_key_arn=_KEY)
    (copy,) = planned(model=model, techniques=[]).jobs
    assert copy.token == TokenSecret(arn=_TOKEN, encryption_key_arn=_KEY)


def test_a_deployment_of_an_artifact_has_eight_digits() -> None:
    model = Model.huggingface("Qwen/Qwen3-32B", revision="a" * 40)
    jobs = planned(model=model, techniques=[Quantization.fp8_block()]).jobs
    assert [re.fullmatch("[0-9a-f]{8}", job.deployment_hash) is not None for job in jobs] == [True, True]
