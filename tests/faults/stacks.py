"""The stacks that faults are tried on: real templates of the constructs, deployed with CloudFormation's own API.

Only times are shortened: how long a function may run, how long CloudFormation waits for its answer, how long a
deployment waits for a job.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import io
import json
import re
import tempfile
import threading
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aws_cdk import App, DefaultStackSynthesizer, Duration, Environment, Stack
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_s3 as s3
from aws_cdk.assertions import Template
from aws_cdk.aws_applicationautoscaling import ScalingInterval
from botocore.exceptions import ClientError

from constructs_optim import (
    AnswerCheck,
    ArtifactStore,
    ComponentOptions,
    DataCapture,
    JobOptions,
    Model,
    OptimizationJob,
    OptimizedArtifact,
    OptimizedEndpoint,
    Quantization,
    Routing,
    ShadowCandidate,
    SpeculativeDecoding,
    TrainingCompute,
    UpdatePolicy,
    VariantOptions,
    Workload,
)
from constructs_optim.constructs.artifacts.preflight import PREFLIGHT_CONTEXT
from constructs_optim.templates.resource_types import JOBS
from constructs_optim_local.cloud import LocalCloud
from constructs_optim_local.ministack.application import ACCOUNT

from ..support.model_hub import HubModel, ModelHub, serving
from ..support.uploaded_models import upload_model
from ..support.waiting import settled, until

STORE, MODELS = "faults-artifacts", "faults-models"
FUNCTION_SECONDS, ANSWER_SECONDS, WAIT_SECONDS = 60, 130, 90
_PACKAGE = Path(__file__).parent.parent.parent / "constructs_optim"
_ENDED = ("COMPLETE", "FAILED")
LONGEST_SECONDS = 240
"""How long the machine's clock runs before a state counts as never reached. Only what is broken waits that long."""
_TRAINING_CODE = re.compile(r"cdk-hnb659fds-assets-[\w-]+/[0-9a-f]{64}\.zip")
_SCALED_TYPES = {128: "ml.g5.12xlarge", 64: "ml.g6.12xlarge"}
_ANY_MODEL, _ANY_STORE, _ANY_KEY = "any-model", "any-store", "0" * 64
# At least as long as every stack's name, so that the names which contain it are never too long.
_ANY_STACK = "any-stack-of-a-trial"


@dataclass(frozen=True)
class Kind:
    """What a stack declares, and how long its parts are given."""

    waits: bool = True
    wait_seconds: int = WAIT_SECONDS
    longest_runtime: int | None = None
    endpoint: bool = False
    component: bool = False
    partition: bool = False
    shadow: bool = False
    refers: bool = False
    copies: bool = False
    looks_first: bool = False
    scaled: bool = False
    evaluated: bool = False
    function_seconds: int = FUNCTION_SECONDS
    answer_seconds: int = ANSWER_SECONDS


# The limits of impatient and brisk stacks are to be exceeded; a slow machine must do everything else within them.
KINDS = {
    "job": Kind(),
    "unwaited": Kind(waits=False),
    "impatient": Kind(wait_seconds=30),
    "limited": Kind(longest_runtime=1),
    "brisk": Kind(function_seconds=20, answer_seconds=60),
    "unhurried": Kind(function_seconds=130, answer_seconds=150),
    "endpoint": Kind(endpoint=True),
    "component": Kind(component=True),
    "partition": Kind(partition=True),
    "shadow": Kind(shadow=True),
    "reference": Kind(refers=True),
    "copy": Kind(copies=True),
    "preflight": Kind(looks_first=True),
    "scaled": Kind(scaled=True),
    "evaluated": Kind(evaluated=True),
}


_UNTIL_THE_END = contextlib.ExitStack()
atexit.register(_UNTIL_THE_END.close)

# jsii's process answers one thread at a time.
_SYNTH = threading.Lock()


def template(name: str, group_size: int) -> str:
    """The JSON of a template of a kind."""
    with _SYNTH:
        return _template(name, group_size)


@functools.cache
def _template(name: str, group_size: int) -> str:
    kind = KINDS[name]
    stack = Stack(
        App(
            outdir=_UNTIL_THE_END.enter_context(tempfile.TemporaryDirectory(prefix="faults-")),
            post_cli_context={PREFLIGHT_CONTEXT: kind.looks_first, "aws:cdk:disable-asset-staging": False},
        ),
        _ANY_STACK,
        env=Environment(account=ACCOUNT, region="us-west-2"),
        synthesizer=DefaultStackSynthesizer(generate_bootstrap_version_rule=False),
    )
    given: dict[str, Any] = {
        "model": _copied(group_size) if kind.copies else Model.s3(f"s3://{MODELS}/{_ANY_MODEL}/"),
        "instance_type": "ml.g5.12xlarge",
        "artifact_store": ArtifactStore.from_bucket(s3.Bucket.from_bucket_name(stack, "Store", _ANY_STORE)),
    }
    if kind.longest_runtime is not None:
        given["jobs"] = JobOptions(max_runtime=Duration.seconds(kind.longest_runtime))
    quantization = Quantization.awq(group_size=group_size)
    if kind.refers:
        OptimizedArtifact(stack, "Llama", techniques=[quantization], artifact_key=_ANY_KEY, **given)
    elif kind.scaled:
        _scaled(stack, [quantization], **{**given, "instance_type": _SCALED_TYPES[group_size]})
    elif kind.partition:
        _on_a_partition(stack, [quantization], **given)
    elif kind.shadow:
        _with_a_shadow(stack, quantization, **given)
    elif kind.evaluated:
        _evaluated(stack, quantization, **given)
    elif kind.endpoint or kind.component:
        # A file beside the model, and a value of the configuration, that CloudFormation has no property for.
        drafts = [SpeculativeDecoding.custom_draft(uri=f"s3://{MODELS}/draft/")] if kind.endpoint else []
        routing = Routing.kv_aware() if kind.endpoint else None
        at_once = UpdatePolicy.all_at_once(bake_time=Duration.seconds(0))
        made = OptimizedEndpoint(
            stack,
            "Llama",
            techniques=[quantization, *drafts],
            inference_component=kind.component,
            update_policy=at_once,
            variant=VariantOptions(routing=routing),
            **given,
        )
        made.auto_scale(max_capacity=2)
    else:
        if kind.waits:
            jobs = given.pop("jobs", JobOptions())
            given["jobs"] = jobs.model_copy(update={"timeout": Duration.seconds(kind.wait_seconds)})
        techniques = [] if kind.copies else [quantization]
        OptimizationJob(stack, "Llama", techniques=techniques, wait=kind.waits, **given)
    resources = Template.from_stack(stack).to_json()["Resources"]
    for resource in resources.values():
        properties = resource.get("Properties", {})
        if resource["Type"] == "AWS::Lambda::Function":
            properties |= {"Timeout": kind.function_seconds, "Code": {"S3Bucket": STORE, "S3Key": "code/runtime.zip"}}
        if "ServiceTimeout" in properties:
            properties["ServiceTimeout"] = kind.answer_seconds
    return _TRAINING_CODE.sub(f"{STORE}/code/training.zip", json.dumps({"Resources": resources}))


def _scaled(stack: Stack, techniques: list[Any], **given: Any) -> None:
    """A variant with policies of both kinds, an alarm of its own, and a schedule; its type changes with the recipe."""
    at_once = UpdatePolicy.all_at_once(bake_time=Duration.seconds(0))
    made = OptimizedEndpoint(stack, "Llama", techniques=techniques, update_policy=at_once, **given)
    scaling = made.auto_scale(max_capacity=2).on_concurrency(target=8)
    scaling.on_steps(
        "OnErrors",
        metric=cloudwatch.Metric(namespace="Tests", metric_name="Errors"),
        steps=[ScalingInterval(lower=10, change=1), ScalingInterval(upper=5, change=-1)],
    )
    scaling.on_schedule("Mornings", schedule="cron(0 7 ? * MON-FRI *)", min_capacity=2)


def _on_a_partition(stack: Stack, techniques: list[Any], **given: Any) -> None:
    """A component that a handler makes, on one of two partitions of a GPU."""
    OptimizedEndpoint(
        stack,
        "Llama",
        **{**given, "instance_type": "ml.p5.48xlarge"},
        techniques=techniques,
        inference_component=ComponentOptions(),
        update_policy=UpdatePolicy.all_at_once(bake_time=Duration.seconds(0)),
        variant=VariantOptions(accelerator_partitions=["mig-3g.40gb", "mig-3g.40gb"]),
    )


def _with_a_shadow(stack: Stack, technique: Any, **given: Any) -> None:
    """An endpoint whose shadow is over as soon as its watcher looks: there is no object with the reference answers."""
    OptimizedEndpoint(
        stack,
        "Llama",
        **given,
        update_policy=UpdatePolicy.all_at_once(bake_time=Duration.seconds(0)),
        data_capture=DataCapture(bucket=s3.Bucket.from_bucket_name(stack, "Captures", MODELS)),
    ).shadow(
        candidate=ShadowCandidate(techniques=[technique]),
        checks=[AnswerCheck.reference(f"s3://{MODELS}/absent.jsonl")],
    )


def _evaluated(stack: Stack, technique: Any, **given: Any) -> None:
    """An endpoint that a deployment evaluates, and that meets its requirement."""
    at_once = UpdatePolicy.all_at_once(bake_time=Duration.seconds(0))
    made = OptimizedEndpoint(stack, "Llama", **given, techniques=[technique], update_policy=at_once)
    # With a price, no call to the price list.
    measured = made.evaluate(workload=Workload(concurrency=[1], requests=20), instance_price_per_hour=7.0)
    measured.require(p99_ttft_ms=60_000)


@functools.cache
def _hub() -> ModelHub:
    """A hub on loopback with the models that stacks copy, until the process ends."""
    return _UNTIL_THE_END.enter_context(serving({}))


def _copied(revision: int) -> Model:
    compute = TrainingCompute(environment={"HF_ENDPOINT": _hub().url})
    return Model.huggingface(f"tests/{_ANY_MODEL}", revision=f"{revision:040x}", compute=compute)


def local_cloud() -> LocalCloud:
    """A local cloud in which jobs and deployments take a fraction of a second, with the resources the stacks need.

    A job takes longer than the SDK's retries in one trial, so that a watcher polls it as often as in a clean run.
    """
    cloud = LocalCloud(job_seconds=(1.0, 1.0), endpoint_seconds=0.2, time_scale=0.02).start()
    prepare(cloud)
    return cloud


def running_executions(cloud: LocalCloud) -> list[str]:
    """The ARNs of the watchers that have not ended."""
    states = cloud.client("stepfunctions")
    machines = [each["stateMachineArn"] for each in states.list_state_machines()["stateMachines"]]
    running = [states.list_executions(stateMachineArn=arn, statusFilter="RUNNING")["executions"] for arn in machines]
    return [execution["executionArn"] for of_machine in running for execution in of_machine]


def runtime_zip() -> bytes:
    """The functions' code."""
    return _zip("runtime/**/*")


def _zip(*patterns: str) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for file in sorted(path for pattern in patterns for path in _PACKAGE.glob(pattern)):
            if file.is_file() and file.suffix != ".pyc":
                archive.write(file, file.relative_to(_PACKAGE))
    return content.getvalue()


def prepare(cloud: LocalCloud) -> None:
    """The buckets, the draft's files, and the code of functions and training jobs."""
    client = cloud.client("s3")
    for bucket in (STORE, MODELS):
        client.create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": cloud.region})
    upload_model(client, MODELS, "draft")
    client.put_object(Bucket=STORE, Key="code/runtime.zip", Body=runtime_zip())
    client.put_object(Bucket=STORE, Key="code/training.zip", Body=_zip("training/**/*", "runtime/model_files.py"))


@dataclass
class FaultStack:
    """One stack, driven through CloudFormation's API."""

    cloud: LocalCloud
    name: str
    kind: str = "job"
    group_size: int = 128
    model: str = "llama"
    """A model of one's own makes artifacts of one's own; stacks with the same model share theirs."""
    store: str = STORE
    key: str = ""
    """The artifact that a ``reference`` refers to."""
    max_runtime: int | None = None
    """The job's, in seconds, which the artifact has nothing to do with; None for the library's default."""

    def __post_init__(self) -> None:
        self.cloudformation = self.cloud.client("cloudformation")
        self.use(self.model)

    def use(self, model: str) -> None:
        """Optimize this model from the next deployment on."""
        self.model = model
        self.upload(b"weights")

    def upload(self, weights: bytes) -> None:
        """Write the model's files, over those that are there."""
        upload_model(self.cloud.client("s3"), MODELS, self.model, weights)
        files = {"config.json": b'{"model_type": "llama"}', "model.safetensors": weights}
        for revision in (64, 128):
            commit = f"{revision:040x}"
            _hub().models[f"tests/{self.model}@{commit}"] = HubModel(commit, files)

    @property
    def body(self) -> str:
        body = template(self.kind, self.group_size)
        own = {_ANY_STACK: self.name, _ANY_MODEL: self.model, _ANY_STORE: self.store, _ANY_KEY: self.key}
        for placeholder, value in own.items():
            body = body.replace(placeholder, value)
        if self.max_runtime is None:
            return body
        declared = json.loads(body)
        for resource in declared["Resources"].values():
            if resource["Type"] == "Custom::OptimizationJob":
                resource["Properties"]["Request"]["StoppingCondition"]["MaxRuntimeInSeconds"] = self.max_runtime
        return json.dumps(declared)

    def start(self) -> None:
        """Create the stack, or update it."""
        act = self.cloudformation.update_stack if self.exists else self.cloudformation.create_stack
        # Some are longer than a request may carry.
        key = f"templates/{self.name}.json"
        self.cloud.client("s3").put_object(Bucket=MODELS, Key=key, Body=self.body.encode())
        url = f"{self.cloud.endpoint_url}/{MODELS}/{key}"
        try:
            act(StackName=self.name, TemplateURL=url, Capabilities=["CAPABILITY_IAM"])
        except ClientError as error:
            if "No updates are to be performed" not in str(error):
                raise

    def deploy(self) -> str:
        """Create or update, and wait for the end; the stack's status."""
        if self.exists and self.status in ("ROLLBACK_COMPLETE", "CREATE_FAILED", "ROLLBACK_FAILED"):
            # All that CloudFormation allows for such a stack; the CDK CLI does the same.
            self.destroy()
        self.start()
        return self.ended()

    def deploy_without_end(self) -> None:
        """Create it, with a job that never finishes: until the job runs, and the stack if it does not wait for it."""
        kind = KINDS[self.kind]
        job = "training" if kind.copies else "benchmark" if kind.evaluated else "job"
        self.cloud.inject(f"{job}_never_finishes")
        self.start()
        if not kind.waits:
            self.ended()
        until(lambda: any(fault["struck"] for fault in self.cloud.faults()), bool, LONGEST_SECONDS)

    def destroy(self) -> str:
        self.cloudformation.delete_stack(StackName=self.name)
        return self.ended()

    def ended(self) -> str:
        """Wait for the end of what is under way."""
        status = settled(lambda: self.status, lambda status: not status.endswith("_IN_PROGRESS"), LONGEST_SECONDS)
        assert not status.endswith("_IN_PROGRESS"), f"{self.name} hangs in {status}: {self.reasons}"
        return status

    @property
    def served(self) -> list[str]:
        """Where the stack's models have their files."""
        found = self.cloudformation.describe_stack_resources(StackName=self.name)["StackResources"]
        sagemaker = self.cloud.client("sagemaker")
        return [
            sagemaker.describe_model(ModelName=resource["PhysicalResourceId"].split("/")[-1])["PrimaryContainer"][
                "ModelDataSource"
            ]["S3DataSource"]["S3Uri"]
            for resource in found
            if resource["ResourceType"] in ("AWS::SageMaker::Model", "Custom::OptimizedModel")
        ]

    @property
    def busy(self) -> bool:
        """Whether something is under way."""
        return self.status.endswith("_IN_PROGRESS")

    @property
    def exists(self) -> bool:
        return self.status != "DELETE_COMPLETE"

    @property
    def status(self) -> str:
        try:
            return self.cloudformation.describe_stacks(StackName=self.name)["Stacks"][0]["StackStatus"]
        except ClientError:
            return "DELETE_COMPLETE"

    @property
    def stack_id(self) -> str:
        return self.cloudformation.describe_stacks(StackName=self.name)["Stacks"][0]["StackId"]

    @property
    def reasons(self) -> list[str]:
        """What the stack's events give as reasons, the latest first."""
        events = self.cloudformation.describe_stack_events(StackName=self.name)["StackEvents"]
        return [event["ResourceStatusReason"] for event in events if event.get("ResourceStatusReason")]

    @property
    def artifact_key(self) -> str:
        found = self.cloudformation.describe_stack_resources(StackName=self.name)["StackResources"]
        (key,) = [item["PhysicalResourceId"] for item in found if item["ResourceType"] in JOBS]
        return key
