from __future__ import annotations

import json
from typing import Any

import pytest
from aws_cdk import App, CfnOutput, Duration, Environment, Stack

from constructs_optim import (
    ArtifactStore,
    CapacityReservation,
    JobOptions,
    Medusa,
    Model,
    NetworkOptions,
    OptimizationJob,
    OptimizedArtifact,
    Quantization,
    RecipeError,
)

from ..support.construct_stacks import llama, resource, resources, stack, template_of


def job(scope: Any, **overrides: Any) -> OptimizationJob:
    return OptimizationJob(
        scope,
        "Job",
        **{"model": llama(), "techniques": [Quantization.awq()], "instance_type": "ml.g5.12xlarge", **overrides},
    )


def test_a_standalone_job_produces_an_artifact_without_a_model() -> None:
    scope = stack()
    created = job(scope)
    CfnOutput(scope, "Uri", value=created.model_data_uri)
    template = template_of(scope)
    assert len(resources(template, "AWS::CloudFormation::WaitCondition")) == 1
    assert not resources(template, "AWS::SageMaker::Model")
    assert "Fn::Select" in template["Outputs"]["Uri"]["Value"]


@pytest.mark.parametrize("techniques", [[Quantization.awq()], [Medusa(training_data="s3://prompts/chat/")]])
def test_a_job_waits_for_the_instances_of_its_reservation_only_so_long(techniques: list[Any]) -> None:
    arn = "arn:aws:sagemaker:us-west-2:111122223333:training-plan/llama"
    options = JobOptions(capacity_reservation=CapacityReservation(arn=arn), max_pending=Duration.hours(6))
    scope, plain = stack(), stack()
    model = Model.jumpstart("huggingface-llm-mistral-7b", version="2.0.0")
    job(scope, model=model, techniques=techniques, jobs=options)
    job(plain, model=model, techniques=techniques)
    template, other = template_of(scope), template_of(plain)
    (kind,) = {r["Type"] for r in template["Resources"].values()} & {"Custom::OptimizationJob", "Custom::TrainingJob"}
    request = resource(template, kind)["Request"]
    assert request["StoppingCondition"]["MaxPendingTimeInSeconds"] == 21_600
    assert arn in (request.get("TrainingPlanArns") or [request["ResourceConfig"]["TrainingPlanArn"]])
    assert json.dumps(template).count("UseReservation") == 1
    # What is made, and the ids of its resources, stay the same.
    assert resource(template, kind)["RecipeKey"] == resource(other, kind)["RecipeKey"]
    assert list(template["Resources"]) == list(other["Resources"])


def test_a_reservation_that_is_no_training_plan_is_refused() -> None:
    with pytest.raises(RecipeError, match="OPT048"):
        job(stack(), jobs=JobOptions(capacity_reservation=CapacityReservation(arn="llama")))


def test_network_isolation_of_a_job_or_artifact_is_refused() -> None:
    with pytest.raises(ValueError, match=r"OptimizationJob has no model container.*the endpoint that serves"):
        job(stack(), network=NetworkOptions(isolation=True))
    store = ArtifactStore(scope := stack(), "Store")
    with pytest.raises(ValueError, match="OptimizedArtifact has no model container"):
        OptimizedArtifact(
            scope,
            "Artifact",
            model=llama(),
            techniques=[Quantization.awq()],
            instance_type="ml.g5.12xlarge",
            artifact_key="0" * 64,
            artifact_store=store,
            network=NetworkOptions(isolation=False),
        )


def test_another_stack_may_import_the_uri_of_an_awaited_artifact() -> None:
    scope = stack()
    other = Stack(App.of(scope), "Other", env=Environment(account=scope.account, region=scope.region))
    CfnOutput(other, "Uri", value=job(scope).model_data_uri)
    (exported,) = [output for output in template_of(scope)["Outputs"].values() if "Export" in output]
    assert exported["Value"]["Fn::GetAtt"][1] == "Data"
    name = exported["Export"]["Name"]
    assert template_of(other)["Outputs"]["Uri"]["Value"] == {
        "Fn::Select": [2, {"Fn::Split": ["|", {"Fn::ImportValue": name}]}]
    }


def test_the_wait_condition_depends_on_the_resource_that_starts_the_job() -> None:
    scope = stack()
    job(scope)
    template = template_of(scope)
    (condition,) = [r for r in template["Resources"].values() if r["Type"] == "AWS::CloudFormation::WaitCondition"]
    (started,) = [name for name, r in template["Resources"].items() if r["Type"] == "Custom::OptimizationJob"]
    assert condition["DependsOn"] == [started]
    assert condition["Properties"]["Timeout"] == "43200"


def test_a_deployment_may_continue_without_waiting_for_the_job() -> None:
    scope = stack()
    created = job(scope, wait=False)
    CfnOutput(scope, "Uri", value=created.model_data_uri)
    template = template_of(scope)
    assert not resources(template, "AWS::CloudFormation::WaitCondition")
    assert "WaitHandle" not in resource(template, "Custom::OptimizationJob")
    assert template["Outputs"]["Uri"]["Value"]["Fn::GetAtt"][1] == "ModelDataUri"
    assert created.image_uri.startswith("763104351884.dkr.ecr.us-west-2.amazonaws.com/")


def test_a_timeout_beyond_twelve_hours_is_refused_with_an_alternative() -> None:
    with pytest.raises(ValueError, match="wait=False"):
        job(stack(), jobs=JobOptions(timeout=Duration.hours(13)))


def test_timeout_and_max_runtime_are_passed_on_in_seconds() -> None:
    scope = stack()
    job(
        scope,
        jobs=JobOptions(timeout=Duration.hours(2), max_runtime=Duration.minutes(90)),
    )
    template = template_of(scope)
    assert resource(template, "AWS::CloudFormation::WaitCondition")["Timeout"] == "7200"
    request = resource(template, "Custom::OptimizationJob")["Request"]
    assert request["StoppingCondition"] == {"MaxRuntimeInSeconds": 5400}


def test_a_changed_timeout_creates_a_new_wait_condition() -> None:
    names = []
    for timeout in (None, Duration.hours(12), Duration.hours(2)):
        scope = stack()
        job(scope, jobs=JobOptions(timeout=timeout))
        found = template_of(scope)["Resources"]
        names.append({name for name in found if found[name]["Type"].startswith("AWS::CloudFormation::Wait")})
    assert names[0] == names[1]
    assert not names[0] & names[2]


def test_the_job_resource_has_a_readable_recipe_description() -> None:
    scope = stack()
    job(scope)
    assert resource(template_of(scope), "Custom::OptimizationJob")["Description"] == {
        "Model": "meta-textgeneration-llama-3-70b-instruct 2.25.0",
        "Techniques": ["AWQ INT4 (group size 128)"],
        "InstanceType": "ml.g5.12xlarge",
    }


def test_the_lambda_asset_contains_only_the_runtime_package() -> None:
    import zipfile
    from pathlib import Path

    from aws_cdk import App, Stack

    app = App(post_cli_context={"aws:cdk:disable-asset-staging": False})
    job(Stack(app, "S"))
    directory = Path(app.synth().directory)
    (asset,) = directory.glob("asset.*")
    names = {str(path.relative_to(asset)) for path in asset.rglob("*") if path.is_file()}
    assert names
    code = names - {
        "runtime/evaluation/evaluation_metrics.json",
        "runtime/shadow/failed_requests.json",
        "runtime/botocore_data/cloudwatch/2010-08-01/service-2.sdk-extras.json",
        "runtime/botocore_data/sagemaker/2017-07-24/service-2.sdk-extras.json",
    }
    assert all(name.startswith("runtime/") and name.endswith(".py") for name in code), names
    assert not zipfile.is_zipfile(asset)


def test_state_machine_logs_exclude_execution_data_with_the_presigned_url() -> None:
    scope = stack()
    job(scope)
    machine = resource(template_of(scope), "AWS::StepFunctions::StateMachine")
    assert machine["LoggingConfiguration"]["IncludeExecutionData"] is False


def test_the_handler_role_may_look_up_the_models_of_its_jobs() -> None:
    scope = stack()
    job(scope)
    OptimizationJob(
        scope,
        "Mine",
        model=Model.s3("s3://models/mine/"),
        techniques=[Quantization.awq()],
        instance_type="ml.g5.12xlarge",
    )
    roles = resources(template_of(scope), "AWS::IAM::Role")
    (handler,) = [role for role in roles if role["Description"].startswith("Starts, shares and stops")]
    text = json.dumps(handler["Policies"])
    assert "hub-content/SageMakerPublicHub/Model/meta-textgeneration-llama-3-70b-instruct/*" in text
    assert '"s3:prefix": "mine/*"' in text


def test_each_role_trusts_only_the_service_that_uses_it() -> None:
    scope = stack()
    job(scope)
    trusted = {
        role["Description"]: role["AssumeRolePolicyDocument"]["Statement"][0]["Principal"]["Service"]
        for role in resources(template_of(scope), "AWS::IAM::Role")
    }
    assert trusted == {
        "What SageMaker may do for optimization and training jobs": "sagemaker.amazonaws.com",
        "Checks a running optimization job": "lambda.amazonaws.com",
        "Starts, shares and stops optimization jobs": "lambda.amazonaws.com",
        "Checks quotas, models, images and permissions before anything starts": "lambda.amazonaws.com",
        "Watches optimization jobs until they end": "states.amazonaws.com",
    }
