"""Fine-tuning and Medusa heads: the training jobs they need and how the result is served."""

from __future__ import annotations

from typing import Any

import botocore.session
import pytest
from botocore.validate import ParamValidator
from hypothesis import given
from hypothesis import strategies as st

from constructs_optim.recipe import (
    FineTune,
    Medusa,
    Model,
    Quantization,
    Recipe,
    RecipeError,
    SpeculativeDecoding,
    TrainingCompute,
    plan,
)
from constructs_optim.recipe.catalog.models import ModelRow
from constructs_optim.recipe.memory import estimate
from constructs_optim.recipe.plan_data import (
    ArtifactSource,
    HubSource,
    JobPlan,
    Plan,
    S3Source,
)
from constructs_optim.recipe.recipe import JobSettings
from constructs_optim.recipe.rules import check
from constructs_optim.training import job_log as training_metrics
from constructs_optim.training.settings import FineTuningSettings, HeadTrainingSettings

MISTRAL = Model.jumpstart("huggingface-llm-mistral-7b", version="2.0.0")
DATA = "s3://data/text-to-sql/train/"


def planned(**changed: Any) -> Plan:
    arguments = {"model": MISTRAL, "instance_type": "ml.g5.4xlarge", "region": "us-west-2", **changed}
    identity = arguments.pop("identity", str)
    return plan(Recipe(**arguments), identity=identity)


def medusa(**changed: Any) -> Plan:
    return planned(techniques=[Medusa(**{"training_data": DATA, **changed})])


def tuned(**changed: Any) -> JobPlan:
    return planned(techniques=[FineTune(**{"training_data": DATA, **changed})]).jobs[0]


def test_medusa_heads_on_a_fine_tuned_model_are_two_training_jobs() -> None:
    result = medusa(base=FineTune(training_data=DATA, method="lora"))
    first, second = result.jobs
    assert [job.kind for job in result.jobs] == ["TrainingJob", "TrainingJob"]
    assert first.source == HubSource(model_id="huggingface-llm-mistral-7b", version="2.0.0")
    assert second.source == ArtifactSource(job=0)
    assert (first.model_channel, second.model_channel) == ("model", "finetuned")
    assert first.request["AlgorithmSpecification"]["ContainerArguments"][0] == "training/fine_tune.py"
    assert second.request["AlgorithmSpecification"]["ContainerArguments"][0] == "training/train_heads.py"
    assert [technique.label for technique in result.techniques] == ["fine-tuning (lora)", "5 Medusa heads"]
    assert result.container.model == ArtifactSource(job=1), "the heads' artifact holds the model as well"
    assert result.container.is_native
    assert not result.lossless, "a fine-tuned model has different outputs"


def test_medusa_heads_without_fine_tuning_are_lossless() -> None:
    assert medusa().lossless
    assert len(medusa().jobs) == 1


def test_a_base_argument_is_equivalent_to_fine_tuning_before_the_heads() -> None:
    heads, base = Medusa(training_data=DATA), FineTune(training_data=DATA)
    assert planned(techniques=[base, heads]).jobs == medusa(base=base).jobs


def test_medusa_heads_are_served_by_text_generation_inference() -> None:
    container = medusa().container
    assert container.image is not None
    assert "huggingface-pytorch-tgi-inference:" in container.image
    assert container.environment == {"HF_MODEL_ID": "/opt/ml/model", "SM_NUM_GPUS": "1", "DTYPE": "bfloat16"}
    assert container.network_isolation


def test_a_fine_tuned_model_is_served_by_the_newest_engine() -> None:
    container = planned(techniques=[FineTune(training_data=DATA)]).container
    assert container.model == ArtifactSource(job=0)
    assert container.image is not None
    assert "/vllm:" in container.image


def test_a_fine_tuned_model_is_quantized_by_a_second_job() -> None:
    result = planned(techniques=[Quantization.awq(), FineTune(training_data=DATA)], instance_type="ml.g5.12xlarge")
    assert [(job.kind, job.name) for job in result.jobs] == [("TrainingJob", "fine-tune"), ("OptimizationJob", "awq")]
    assert result.jobs[1].source == ArtifactSource(job=0)
    assert result.container.model == ArtifactSource(job=1)


@pytest.mark.parametrize(
    "compute",
    [
        TrainingCompute(),
        TrainingCompute(instance_type="ml.p4d.24xlarge", instance_count=4, keep_alive_seconds=3600),
        TrainingCompute(spot=True, volume_size_gb=500, environment={"PIP_INDEX_URL": "https://pip.example/simple"}),
    ],
    ids=["one instance", "several in a warm pool", "spot"],
)
def test_training_job_requests_pass_the_api_validation(compute: TrainingCompute) -> None:
    shape: Any = botocore.session.get_session().get_service_model("sagemaker").operation_model("CreateTrainingJob")
    result = medusa(validation_data="s3://data/validation", compute=compute, base=FineTune(training_data=DATA))
    for job in result.jobs:
        filled_in = {
            "TrainingJobName": "optim-1",
            "RoleArn": "arn:aws:iam::111122223333:role/r",
            "OutputDataConfig": {"S3OutputPath": "s3://store/artifacts/", "CompressionType": "NONE"},
        }
        report = ParamValidator().validate({**filled_in, **job.request}, shape.input_shape)
        assert not report.has_errors(), report.generate_report()
        entrypoint = job.request["AlgorithmSpecification"]["ContainerEntrypoint"]
        assert all(len(part) <= 256 for part in entrypoint), "the API's limit, which the validator does not check"
        assert len(job.request["AlgorithmSpecification"]["MetricDefinitions"]) <= training_metrics.MOST_DEFINITIONS


def test_the_spot_wait_time_is_added_to_the_maximum_runtime() -> None:
    result = planned(
        techniques=[Medusa(training_data=DATA, compute=TrainingCompute(spot=True, spot_wait_seconds=600))],
        jobs=JobSettings(3600),
    )
    request = result.jobs[0].request
    assert request["StoppingCondition"] == {"MaxRuntimeInSeconds": 3600, "MaxWaitTimeInSeconds": 4200}
    assert request["EnableManagedSpotTraining"] is True


def test_traffic_between_training_instances_is_encrypted() -> None:
    assert tuned(compute=TrainingCompute(instance_count=2)).request["EnableInterContainerTrafficEncryption"] is True
    assert "EnableInterContainerTrafficEncryption" not in tuned().request


def test_the_training_request_contains_only_changed_hyperparameters() -> None:
    assert medusa(heads=3, hyperparameters={"epochs": 2, "train_on_prompts": True}).jobs[0].request[
        "HyperParameters"
    ] == {"epochs": "2", "heads": "3", "train_on_prompts": "true"}
    assert medusa(heads=5, layers=1).jobs[0].request["HyperParameters"] == {}, "the defaults are the training code's"
    assert tuned(method="qlora").request["HyperParameters"] == {}


@pytest.mark.parametrize("heads", [1, 5, 16])
def test_a_metric_is_published_for_each_head(heads: int) -> None:
    definitions = (
        medusa(heads=heads, compute=TrainingCompute(instance_type="ml.p5.48xlarge"))
        .jobs[0]
        .request["AlgorithmSpecification"]["MetricDefinitions"]
    )
    names = {definition["Name"] for definition in definitions}
    assert {f"medusa:validation_head_{head}_top1_accuracy" for head in range(1, heads + 1)} <= names


def test_argument_defaults_match_those_of_the_training_code() -> None:
    heads, tuning = HeadTrainingSettings(), FineTuningSettings()
    assert (heads.heads, heads.layers, heads.learning_rate, heads.learning_rate_schedule) == (5, 1, 1e-4, "constant")
    assert tuning.method == "qlora"


def key(**changed: Any) -> str:
    return medusa(**changed).jobs[0].recipe_key


@pytest.mark.parametrize(
    "changed",
    [
        {"heads": 4},
        {"hyperparameters": {"epochs": 2}},
        {"compute": TrainingCompute(instance_count=2)},
        {"compute": TrainingCompute(instance_type="ml.g5.12xlarge")},
    ],
)
def test_settings_that_affect_the_weights_change_the_recipe_key(changed: dict[str, Any]) -> None:
    assert key(**changed) != key()


@pytest.mark.parametrize(
    "compute",
    [
        TrainingCompute(spot=True),
        TrainingCompute(keep_alive_seconds=60),
        TrainingCompute(volume_size_gb=500),
        TrainingCompute(instance_type="ml.g5.8xlarge"),
        TrainingCompute(environment={"PIP_INDEX_URL": "https://pip.example/simple"}),
    ],
)
def test_settings_of_the_job_run_do_not_change_the_recipe_key(compute: TrainingCompute) -> None:
    assert key(compute=compute) == key()


def test_the_heads_key_does_not_depend_on_how_its_base_is_declared() -> None:
    assert key() == medusa(base=FineTune(training_data=DATA)).jobs[1].recipe_key


def test_the_artifact_key_of_a_training_job_is_known_only_at_deployment() -> None:
    result = medusa(validation_data="s3://data/validation/")
    assert result.jobs[0].reads == (S3Source(uri=DATA), S3Source(uri="s3://data/validation/"))
    assert result.artifact_key is None
    assert result.jobs[0].recipe_key == key(), "the location of the data does not identify its content"
    assert result.jobs[0].deployment_hash != medusa().jobs[0].deployment_hash


def test_the_eagle_job_declares_the_training_data_that_it_reads() -> None:
    eagle = SpeculativeDecoding.eagle(training_data="s3://prompts/mine/")
    result = planned(
        model=Model.jumpstart("meta-textgeneration-llama-3-1-8b", version="2.6.0", accept_eula=True),
        techniques=[eagle],
        instance_type="ml.g5.12xlarge",
    )
    assert result.artifact_key is None
    assert result.jobs[0].reads == (S3Source(uri="s3://prompts/mine/"),)


def test_token_numbering_in_training_data_does_not_affect_the_deployment_hash() -> None:
    first = planned(techniques=[Medusa(training_data="s3://${Token[B.1]}/t/")], identity=lambda uri: "bucket")
    again = planned(techniques=[Medusa(training_data="s3://${Token[B.7]}/t/")], identity=lambda uri: "bucket")
    assert first.deployment_hash == again.deployment_hash


def test_five_heads_of_a_7b_mistral_model_add_about_750_million_parameters() -> None:
    heads = Medusa(training_data=DATA)
    row = ModelRow("mistral", "mistral", hidden_size=4096, vocabulary_size=32_000)
    assert heads.added_parameters(row) == pytest.approx(750e6, rel=0.02)
    found = estimate(Recipe(MISTRAL, [heads], "ml.g5.4xlarge"))
    assert found is not None
    assert found.draft_gb == pytest.approx(1.5, rel=0.02)
    assert found.fixed_gb < found.available_gb, "the published example runs on an ml.g5.4xlarge"


def test_medusa_advises_to_evaluate_at_the_expected_concurrency() -> None:
    assert any(warning.id == "constructs-optim:OPT166" for warning in medusa().warnings)


@given(
    hyperparameters=st.dictionaries(
        st.sampled_from(["epochs", "heads", "layers", "learning_rate", "precision", "batch_size", "nonsense"]),
        st.one_of(st.integers(-3, 20), st.floats(allow_nan=True), st.booleans(), st.text(max_size=5)),
    )
)
def test_arbitrary_hyperparameters_are_planned_or_refused_by_name(hyperparameters: dict[str, Any]) -> None:
    try:
        heads = Medusa(training_data=DATA, hyperparameters=hyperparameters)
    except RecipeError as error:
        (violation,) = error.violations
        assert violation.location == "Medusa.hyperparameters"
        assert any(violation.reason.startswith(f"{name} = ") for name in hyperparameters)
        return
    recipe: dict[str, Any] = {"model": MISTRAL, "techniques": [heads], "instance_type": "ml.p5.48xlarge"}
    # Many heads with many layers are valid values but may exceed the memory of the training instance.
    broken = {violation.rule for violation in check(Recipe(**recipe))}
    assert broken <= {"OPT163"}
    if not broken:
        assert HeadTrainingSettings.from_strings(
            plan(Recipe(**recipe, region="us-west-2")).jobs[0].request["HyperParameters"]
        )


def test_the_command_of_a_job_has_room_and_does_not_depend_on_its_files_names() -> None:
    # API reference, AlgorithmSpecification: a string of ContainerEntrypoint or ContainerArguments has 256 characters.
    copying = Model.huggingface("Qwen/Qwen3-8B", revision="0123456789abcdef0123456789abcdef01234567")
    quantized = Quantization.w4a16(calibration_data="s3://data/calibration/")
    recipe = Recipe(model=copying, techniques=[quantized], instance_type="ml.g5.12xlarge", region="us-west-2")
    started = [job.request["AlgorithmSpecification"] for job in plan(recipe).jobs]
    assert [each["ContainerArguments"] for each in started] == [
        ["training/copy_model.py", "training/copying.txt"],
        ["training/quantize.py", "training/quantizing.txt"],
    ]
    (command,) = {each["ContainerEntrypoint"][-1] for each in started}
    assert len(command) <= 256 - 20


@pytest.mark.parametrize(("method", "gb"), [("full", 0), ("lora", 32), ("qlora", 32)])
def test_adapters_are_merged_in_the_memory_of_the_host(method: str, gb: float) -> None:
    technique = FineTune.model_validate({"training_data": "s3://prompts/sql/train/", "method": method})
    assert technique.host_gb(8) == gb
