"""A deployment's life with IAM enforced: all it does is allowed, and all it is allowed it does."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import Stack

from constructs_optim_local.cloud import LocalCloud

from ..support.custom_resource_events import custom_resource_event
from ..support.deployed_stack import DeployedStack
from ..support.deployments import wait_for_job
from ..support.hub_documents import write_document
from ..support.local_cloud import Responses
from ..support.recorded_requests import problems, recorded
from ..support.security_document import permissions_under
from ..support.template_stack import ASSETS, TemplateStack, allowed, part_of, synthesized, upload_assets
from ..support.uploaded_models import upload_model
from ..support.waiting import until
from .guarded_stacks import G5, LLAMA_3, LLAMA_31, MODELS, STORE, bounded, every_kind, one_job, one_model, one_reference

Make = Callable[..., TemplateStack]
EXCEPTIONS = "What no test sees"
# tests/e2e/test_hosting.py watches an update.
SEEN_IN_UPDATES = {("Execution", "cloudwatch:DescribeAlarms")}

# What becomes of a stack whose function lacks an action, by when the function needs it.
CREATED, REUSED, STOPPED, DELETED, REPEATED = "created", "reused", "stopped", "deleted", "repeated"
REFERRED, ABSENT = "referred", "absent"
# The functions of resources that are created anew and never changed.
IMMUTABLE = ("Models", "EndpointConfigs")
# Undoing a creation that failed may need the action as well.
UNDONE = ("ROLLBACK_COMPLETE", "ROLLBACK_FAILED")
# Looked up where it may be: a stack that cannot be looked up counts as there, and a preflight advises.
TOLERATED = "tolerated"
NEEDED: dict[tuple[str, str], str] = {
    ("Artifacts", "kms:Decrypt"): REFERRED,
    ("Artifacts", "kms:GenerateDataKey"): REFERRED,
    ("Artifacts", "s3:GetBucketLocation"): REFERRED,
    ("Artifacts", "s3:GetObject"): REFERRED,
    ("Artifacts", "s3:ListBucket"): REFERRED,
    ("Artifacts", "s3:PutObject"): REFERRED,
    ("Artifacts", "sagemaker:DescribeOptimizationJob"): ABSENT,
    ("EndpointConfigs", "iam:PassRole"): CREATED,
    ("EndpointConfigs", "sagemaker:AddTags"): CREATED,
    ("EndpointConfigs", "sagemaker:CreateEndpointConfig"): CREATED,
    ("EndpointConfigs", "sagemaker:DeleteEndpointConfig"): DELETED,
    ("EndpointConfigs", "sagemaker:DeleteTags"): REPEATED,
    ("EndpointConfigs", "sagemaker:DescribeEndpointConfig"): REPEATED,
    ("EndpointConfigs", "sagemaker:ListTags"): REPEATED,
    ("Handler", "cloudformation:DescribeStacks"): TOLERATED,
    ("Handler", "iam:PassRole"): CREATED,
    ("Handler", "kms:Decrypt"): REUSED,
    ("Handler", "kms:GenerateDataKey"): CREATED,
    ("Handler", "s3:GetBucketLocation"): CREATED,
    ("Handler", "s3:GetObject"): CREATED,
    ("Handler", "s3:ListBucket"): CREATED,
    ("Handler", "s3:PutObject"): CREATED,
    ("Handler", "sagemaker:AddTags"): CREATED,
    ("Handler", "sagemaker:CreateOptimizationJob"): CREATED,
    ("Handler", "sagemaker:DescribeHubContent"): CREATED,
    ("Handler", "sagemaker:DescribeOptimizationJob"): CREATED,
    ("Handler", "sagemaker:StopOptimizationJob"): STOPPED,
    ("Handler", "states:StartExecution"): CREATED,
    ("Models", "iam:PassRole"): CREATED,
    ("Models", "s3:ListBucket"): CREATED,
    ("Models", "sagemaker:AddTags"): CREATED,
    ("Models", "sagemaker:CreateModel"): CREATED,
    ("Models", "sagemaker:DeleteModel"): DELETED,
    ("Models", "sagemaker:DeleteTags"): REPEATED,
    ("Models", "sagemaker:DescribeHubContent"): CREATED,
    ("Models", "sagemaker:DescribeModel"): REPEATED,
    ("Models", "sagemaker:ListTags"): REPEATED,
    **{
        ("PreflightHandler", action): TOLERATED
        for action in (
            "cloudformation:DescribeStacks",
            "cloudformation:ListStackResources",
            "cloudwatch:GetOTelEnrichment",
            "ec2:DescribeRouteTables",
            "ec2:DescribeSubnets",
            "ec2:DescribeVpcEndpoints",
            "ecr:DescribeImages",
            "iam:SimulatePrincipalPolicy",
            "kms:DescribeKey",
            "s3:GetBucketLocation",
            "s3:ListBucket",
            "sagemaker:DescribeEndpoint",
            "sagemaker:DescribeEndpointConfig",
            "sagemaker:DescribeHubContent",
            "sagemaker:ListEndpoints",
            "servicequotas:ListServiceQuotas",
        )
    },
    ("Watcher", "kms:Decrypt"): CREATED,
    ("Watcher", "kms:GenerateDataKey"): CREATED,
    ("Watcher", "s3:GetObject"): CREATED,
    ("Watcher", "s3:ListBucket"): CREATED,
    ("Watcher", "s3:PutObject"): CREATED,
    ("Watcher", "sagemaker:DescribeOptimizationJob"): CREATED,
}


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCloud]:
    """A local cloud that enforces IAM, in which everything is over soon; with a bucket of models."""
    documents = tmp_path_factory.mktemp("hub")
    for model_id in (LLAMA_3, LLAMA_31):
        write_document(documents / model_id, ("9.0.0",))
    with LocalCloud(
        job_seconds=(0.3, 0.3), endpoint_seconds=0.2, time_scale=0.01, hub_folders=[documents], enforce_iam=True
    ) as running:
        s3 = running.client("s3")
        for bucket in (ASSETS, MODELS, STORE):
            s3.create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": running.region})
        for model in ("mine", "draft"):
            upload_model(s3, MODELS, model, model.encode())
        s3.put_object(Bucket=MODELS, Key="prompts/prompts.jsonl", Body=b"prompts")
        ec2 = running.client("ec2")
        (gateway,) = ec2.describe_internet_gateways()["InternetGateways"]
        # As in AWS's default VPC.
        route = {"DestinationCidrBlock": "0.0.0.0/0", "GatewayId": gateway["InternetGatewayId"]}
        ec2.create_route(RouteTableId="rtb-00000001", **route)
        yield running


@pytest.fixture(scope="module")
def key_arn(cloud: LocalCloud) -> str:
    """The key of the shared store."""
    return cloud.client("kms").create_key()["KeyMetadata"]["Arn"]


@pytest.fixture(scope="module")
def make(cloud: LocalCloud, tmp_path_factory: pytest.TempPathFactory) -> Make:
    """Synthesizes a stack, ready to be deployed."""

    def made(name: str, build: Callable[[Stack], None]) -> TemplateStack:
        output = tmp_path_factory.mktemp(name)
        template = synthesized(build, output)
        upload_assets(cloud, output)
        return TemplateStack(cloud, name, template)

    return made


@pytest.fixture(scope="module")
def every(make: Make) -> TemplateStack:
    return deployed(make("Every", every_kind))


@pytest.fixture(scope="module")
def job(make: Make, key_arn: str) -> TemplateStack:
    """A stack with a job, whose artifact others reuse."""
    return deployed(make("Job", one_job(key_arn)))


@pytest.fixture(scope="module")
def model(make: Make) -> TemplateStack:
    """A stack with a model that needs no job."""
    return deployed(make("Model", one_model))


@pytest.fixture(scope="module")
def referring(job: TemplateStack, make: Make, key_arn: str) -> TemplateStack:
    """A stack that refers to the job's artifact by its key."""
    return deployed(make("Referring", one_reference(key_arn, key_of(job))))


def key_of(job: TemplateStack) -> str:
    """The key of a stack's one artifact."""
    found = job.cloud.client("cloudformation").describe_stack_resources(StackName=job.name)["StackResources"]
    (key,) = [item["PhysicalResourceId"] for item in found if item["ResourceType"] == "Custom::OptimizationJob"]
    return key


@contextmanager
def without_a_manifest(job: TemplateStack) -> Iterator[None]:
    """While nobody knows yet that the job's artifact is there."""
    s3, name = job.cloud.client("s3"), f"artifacts/{key_of(job)}/manifest.json"
    manifest = s3.get_object(Bucket=STORE, Key=name)["Body"].read()
    s3.delete_object(Bucket=STORE, Key=name)
    yield
    s3.put_object(Bucket=STORE, Key=name, Body=manifest)


def deployed(stack: TemplateStack) -> TemplateStack:
    assert stack.deploy() in ("CREATE_COMPLETE", "UPDATE_COMPLETE"), stack.reasons
    return stack


@pytest.fixture(scope="module")
def reused(job: TemplateStack, cloud: LocalCloud) -> TemplateStack:
    jobs = len(cloud.jobs())
    stack = deployed(replace(job, name="Reused"))
    assert len(cloud.jobs()) == jobs, "the first stack's artifact is there"
    return stack


@pytest.fixture(scope="module")
def updated(reused: TemplateStack, make: Make, key_arn: str, cloud: LocalCloud) -> TemplateStack:
    """The stack with another recipe, after a first attempt whose job failed and which was rolled back."""
    changed = make(reused.name, one_job(key_arn, ignored_layers=["updated"]))
    cloud.inject("job_fails", reason="ClientError: uneven weights")
    assert changed.deploy() == "UPDATE_ROLLBACK_COMPLETE"
    assert "uneven weights" in changed.reasons
    cloud.clear_faults()
    return deployed(changed)


@pytest.fixture(scope="module")
def stopped(job: TemplateStack, cloud: LocalCloud) -> TemplateStack:
    """A stack that was deleted while its job ran."""
    known = [job["name"] for job in cloud.jobs()]
    cloud.inject("job_never_finishes")
    stack = job.another("Stopped")
    stack.start()
    name = wait_for_job(cloud, known, "INPROGRESS")
    assert stack.delete() == "DELETE_COMPLETE"
    assert wait_for_job(cloud, known, "STOPPED") == name
    cloud.clear_faults()
    return stack


@pytest.fixture(autouse=True)
def no_faults(cloud: LocalCloud) -> Iterator[None]:
    yield
    cloud.clear_faults()


@pytest.fixture
def responses() -> Iterator[Responses]:
    made = Responses()
    yield made
    made.stop()


def properties_of(stack: TemplateStack, part: str) -> dict[str, Any]:
    """What the handlers of models and of endpoint configurations take."""
    role_arn = f"arn:aws:iam::000000000000:role/{stack.resource('ExecutionRole')}"
    if part == "Models":
        return {
            "Image": "763104351884.dkr.ecr.us-west-2.amazonaws.com/djl-inference:0.32.0-lmi14.0.0-cu126",
            "InstanceType": G5,
            "Source": {"Kind": "s3", "S3Uri": f"s3://{MODELS}/draft/"},
            "RoleArn": role_arn,
        }
    variant = {"VariantName": "AllTraffic", "InstanceType": G5, "InitialInstanceCount": "1"}
    return {"ProductionVariants": [variant], "ExecutionRoleArn": role_arn}


def repeat(stack: TemplateStack, responses: Responses, part: str) -> list[dict[str, Any]]:
    """Have a resource created twice, as after an answer that was lost, the second time with another tag."""
    event = custom_resource_event(
        "Create",
        responses.url,
        stack_id=f"arn:aws:cloudformation:us-west-2:000000000000:stack/{stack.name}/1",
        request_id="1",
        logical_id="Repeated",
        properties=properties_of(stack, part),
    )
    function = stack.resource(f"OptimizationService{part}Function")
    for expected, tag in enumerate(("team", "stage"), 1):
        event["ResourceProperties"]["Tags"] = [{"Key": tag, "Value": "chat"}]
        stack.cloud.client("lambda").invoke(FunctionName=function, Payload=json.dumps(event))
        # Events of CloudFormation are carried out asynchronously.
        until(lambda: len(responses.received), lambda received, expected=expected: received == expected, seconds=60)
    made, sagemaker = responses.received[0]["PhysicalResourceId"], stack.cloud.client("sagemaker")
    if part == "Models":
        sagemaker.delete_model(ModelName=made)
    else:
        sagemaker.delete_endpoint_config(EndpointConfigName=made)
    repeated = responses.received[:]
    responses.received.clear()
    return repeated


def test_everything_a_deployment_does_is_allowed(
    every: TemplateStack,
    job: TemplateStack,
    model: TemplateStack,
    updated: TemplateStack,
    stopped: TemplateStack,
    referring: TemplateStack,
    responses: Responses,
    cloud: LocalCloud,
) -> None:
    for part in IMMUTABLE:
        assert [answer["Status"] for answer in repeat(model, responses, part)] == ["SUCCESS", "SUCCESS"]
    shared = deployed(replace(job, name="Shared"))
    too_early = replace(referring, name="TooEarly")
    with without_a_manifest(job):
        assert too_early.deploy() == "ROLLBACK_COMPLETE"
    assert "its manifest is not written yet" in too_early.reasons
    ended = (every, updated, stopped, shared, too_early, deployed(model.another("Deleted")))
    for stack in ended:
        assert stack.delete() == "DELETE_COMPLETE"
    stacks = (*ended, job, model, referring)
    asked = [
        found
        for found in cloud.authorizations()
        if found["role"].startswith(tuple(f"{stack.name}-OptimizationService" for stack in stacks))
    ]
    assert asked
    assert [found for found in asked if found["decision"] != "Allow"] == []
    used = {(part_of(found["role"]), found["action"]) for found in asked if found["action"] != "sts:AssumeRole"}
    # Seen in tests/e2e/test_changes.py.
    of_updates = "EndpointUpdate"
    may = {each for stack in stacks for each in allowed(stack.template) if not each[0].startswith(of_updates)}
    assert used <= may
    # Seen in tests/e2e/test_hosting.py, test_huggingface.py, test_evaluation.py and test_recommendation.py.
    elsewhere = ("Components", "Copy", of_updates, "Evaluation", "Recommendation", "Shadow")
    unseen = {each for each in permissions_under(EXCEPTIONS) if not each[0].startswith(elsewhere)}
    assert may - used == unseen | SEEN_IN_UPDATES, "see docs/security.md"
    assert {pair for pair in used if pair[0] in {part for part, _ in NEEDED}} == set(NEEDED)


@pytest.mark.exhaustive
@pytest.mark.parametrize(("part", "action"), [pair for pair, when in NEEDED.items() if when == CREATED])
def test_without_an_action_creating_a_stack_fails_and_names_it(
    job: TemplateStack, model: TemplateStack, part: str, action: str
) -> None:
    whole = model if part in IMMUTABLE else job
    stack = whole.another(f"Without-{part}-{action.replace(':', '-')}").without(part, action)
    assert stack.deploy() in UNDONE
    # The model's own prefix is named in place of the action.
    unlisted = f"s3://{MODELS}/draft/ cannot be listed: AccessDenied"
    named = unlisted if (part, action) == ("Models", "s3:ListBucket") else f"not authorized to perform: {action}"
    assert named in stack.reasons


def test_without_decryption_reusing_an_artifact_fails_and_names_it(job: TemplateStack) -> None:
    stack = replace(job, name="Without-decryption").without("Handler", "kms:Decrypt")
    assert stack.deploy() in UNDONE
    assert "not authorized to perform: kms:Decrypt" in stack.reasons


@pytest.mark.exhaustive
@pytest.mark.parametrize("action", [action for (_, action), when in NEEDED.items() if when == REFERRED])
def test_without_an_action_referring_to_an_artifact_fails_and_names_it(referring: TemplateStack, action: str) -> None:
    stack = replace(referring, name=f"Unreferring-{action.replace(':', '-')}").without("Artifacts", action)
    assert stack.deploy() in UNDONE
    assert f"not authorized to perform: {action}" in stack.reasons


def test_without_looking_at_jobs_referring_to_an_absent_artifact_names_it(
    job: TemplateStack, referring: TemplateStack
) -> None:
    action = "sagemaker:DescribeOptimizationJob"
    stack = replace(referring, name="Unlooking").without("Artifacts", action)
    with without_a_manifest(job):
        assert stack.deploy() in UNDONE
    assert f"not authorized to perform: {action}" in stack.reasons


def test_without_stopping_jobs_deleting_a_stack_fails_and_names_it(job: TemplateStack, cloud: LocalCloud) -> None:
    known = [job["name"] for job in cloud.jobs()]
    stack = job.another("Unstopped").without("Handler", "sagemaker:StopOptimizationJob")
    cloud.inject("job_never_finishes")
    stack.start()
    wait_for_job(cloud, known, "INPROGRESS")
    assert stack.delete() == "DELETE_FAILED"
    assert "not authorized to perform: sagemaker:StopOptimizationJob" in stack.reasons


@pytest.mark.parametrize(("part", "action"), [pair for pair, when in NEEDED.items() if when == DELETED])
def test_without_an_action_deleting_a_stack_fails_and_names_it(model: TemplateStack, part: str, action: str) -> None:
    stack = deployed(model.another(f"Undeleted-{part}").without(part, action))
    assert stack.delete() == "DELETE_FAILED"
    assert f"not authorized to perform: {action}" in stack.reasons


@pytest.mark.exhaustive
@pytest.mark.parametrize(("part", "action"), [pair for pair, when in NEEDED.items() if when == REPEATED])
def test_without_an_action_a_repeated_creation_fails_and_names_it(
    model: TemplateStack, responses: Responses, part: str, action: str
) -> None:
    stack = deployed(model.another(f"Un-{part[:5]}-{action.partition(':')[2]}").without(part, action))
    created, repeated = repeat(stack, responses, part)
    assert (created["Status"], repeated["Status"]) == ("SUCCESS", "FAILED")
    assert f"not authorized to perform: {action}" in repeated["Reason"]


def test_requests_of_the_functions_are_valid_against_the_service_models(
    every: TemplateStack,
    model: TemplateStack,
    updated: TemplateStack,
    referring: TemplateStack,
    requests_of_functions: Path,
) -> None:
    requests = recorded(requests_of_functions)
    assert {(given["service"], given["operation"]) for given in requests} >= {
        ("cloudformation", "DescribeStacks"),
        ("s3", "GetObject"),
        ("s3", "ListObjectsV2"),
        ("s3", "PutObject"),
        ("sagemaker", "CreateEndpointConfig"),
        ("sagemaker", "CreateModel"),
        ("sagemaker", "CreateOptimizationJob"),
        ("sagemaker", "DescribeHubContent"),
        ("sagemaker", "DescribeOptimizationJob"),
        ("stepfunctions", "StartExecution"),
    }
    assert problems(requests) == set()


def test_a_stack_that_cannot_be_described_counts_as_existing(job: TemplateStack) -> None:
    stack = deployed(replace(job, name="Unseeing").without("Handler", "cloudformation:DescribeStacks"))
    assert stack.delete() == "DELETE_COMPLETE"


@pytest.mark.parametrize(
    ("denied", "status"), [((), "CREATE_COMPLETE"), (("sagemaker:CreateOptimizationJob",), "ROLLBACK_COMPLETE")]
)
def test_a_permissions_boundary_blocks_the_actions_it_denies(
    make: Make, key_arn: str, denied: tuple[str, ...], status: str
) -> None:
    name = f"Bounded{len(denied)}"
    stack = make(name, bounded(one_job(key_arn), *denied)).another(name).impatient()
    assert stack.deploy() == status
    for action in denied:
        assert f"not authorized to perform: {action}" in stack.reasons


def test_the_unmodified_cdk_cli_deploys_and_destroys(cloud: LocalCloud, tmp_path: Path) -> None:
    stack = DeployedStack(cloud, tmp_path, "Chat", bucket=STORE)
    stack.cdk("bootstrap")
    stack.deploy()
    assert stack.endpoint["EndpointStatus"] == "InService"
    stack.destroy()
    asked = [found for found in cloud.authorizations() if found["role"].startswith("Chat-")]
    assert {found["decision"] for found in asked} == {"Allow"}
