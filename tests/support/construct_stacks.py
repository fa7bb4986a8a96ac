"""Stacks that cover the options of the constructs, and readers of their templates."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from typing import Any

from aws_cdk import Acknowledgment, App, CfnParameter, Duration, Environment, RemovalPolicy, Size, Stack, Validations
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sagemaker as sagemaker
from aws_cdk import aws_sns as sns
from aws_cdk.assertions import Template
from aws_cdk.aws_cloudwatch_actions import SnsAction

from constructs_optim import (
    Adapters,
    Alarms,
    AlarmSettings,
    AnswerCheck,
    ArtifactStore,
    AsyncInference,
    CapacityReservation,
    ComponentOptions,
    CoreDumps,
    DataCapture,
    EndpointMonitoring,
    FineTune,
    FleetDashboard,
    FleetEndpoint,
    IArtifactStore,
    JobOptions,
    Medusa,
    Model,
    ModelRecommendation,
    MonitoringOptions,
    NetworkOptions,
    Observability,
    OptimizationJob,
    OptimizedEndpoint,
    Placement,
    Pool,
    PreOptimized,
    QualityRequirement,
    Quantization,
    RecommendedEndpoint,
    Routing,
    ScaleIn,
    ScalingStep,
    Server,
    ShadowCandidate,
    Sharding,
    SpeculationCure,
    SpeculativeDecoding,
    TrainingCompute,
    UpdatePolicy,
    VariantOptions,
    Workload,
)
from constructs_optim.constructs.monitoring.served_model import ServedModel
from constructs_optim.constructs.scaling.endpoint_scaling import EndpointScaling
from constructs_optim.constructs.scaling.policies import ScalingTarget
from constructs_optim.recipe.hosting.scaling import ScalingDefaults
from constructs_optim.recipe.metrics.engines import Engine

from .recommendation_files import recommendation

ENVIRONMENT = Environment(account="111122223333", region="us-west-2")
LLAMA_70B = "meta-textgeneration-llama-3-70b-instruct"
KEY_OF_THE_HEADLINE = "048a185ba32c1b50c1909396738b8ac08e62540224eecfc392e3d1079a77f336"


def llama() -> Model:
    return Model.jumpstart(LLAMA_70B, version="2.25.0", accept_eula=True)


def stack(name: str = "Chat", env: Environment | None = ENVIRONMENT) -> Stack:
    return Stack(App(), name, env=env)


def endpoint(scope: Stack, id: str = "Llama70B", **overrides: Any) -> OptimizedEndpoint:
    """The headline endpoint with overridden arguments."""
    return OptimizedEndpoint(
        scope,
        id,
        **{
            "model": llama(),
            "techniques": [Quantization.awq()],
            "instance_type": "ml.g5.12xlarge",
            **overrides,
        },
    )


def scaling_of_vllm(scope: Stack) -> EndpointScaling:
    """The scaling of an endpoint of vLLM that the stack does not declare."""
    return EndpointScaling(
        scope,
        "Scaling",
        target=ScalingTarget.variant("chat", "AllTraffic"),
        min_capacity=1,
        max_capacity=4,
        defaults=ScalingDefaults(8, 5.6),
        served=ServedModel("chat", "AllTraffic", engine=Engine("vllm", "vLLM")),
    )


def template_of(scope: Stack) -> dict[str, Any]:
    return Template.from_stack(scope).to_json()


def digests_of(template: dict[str, Any]) -> dict[str, Any]:
    """The types of a template's resources, and digests of all else that they are, by logical id."""
    return {
        name: {"Type": resource["Type"], "Digest": hashlib.sha256(json.dumps(resource).encode()).hexdigest()[:16]}
        for name, resource in masked(template)["Resources"].items()
    }


def resources(template: dict[str, Any], type_name: str) -> list[dict[str, Any]]:
    """The properties of all resources of a type."""
    return [found.get("Properties", {}) for found in template["Resources"].values() if found["Type"] == type_name]


def resource(template: dict[str, Any], type_name: str) -> dict[str, Any]:
    (found,) = resources(template, type_name)
    return found


def _asset(found: re.Match[str]) -> str:
    return "<asset>.zip" if found[1] == ".zip" else "<asset>"


def masked(template: dict[str, Any]) -> dict[str, Any]:
    """The template without asset hashes, which change with the handlers' code."""

    def mask(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: mask(item) for key, item in value.items()}
        if isinstance(value, list):
            return [mask(item) for item in value]
        # A pipeline publishes an asset by its hash and its destination, as <hash>:111122223333-us-west-2-<hash>.
        return re.sub(r"\b[0-9a-f]{64}(\.zip|:[\w-]+)", _asset, value) if isinstance(value, str) else value

    kept = {key: value for key, value in template.items() if key not in ("Parameters", "Rules")}
    return mask(kept)


def _headline(scope: Stack) -> None:
    created = endpoint(scope)
    created.auto_scale(min_capacity=1, max_capacity=4).on_concurrency(target=8)
    role = iam.Role(scope, "Caller", assumed_by=iam.ServicePrincipal("ecs-tasks.amazonaws.com"))
    created.grant_invoke(role)
    Validations.of(role).acknowledge(
        Acknowledgment(id="AwsSolutions-IAM5[Resource::*]", reason="CallWithBearerToken takes no resource.")
    )


def _two_endpoints(scope: Stack) -> None:
    endpoint(scope, "One").auto_scale(max_capacity=2).on_invocations(target=100)
    endpoint(scope, "Two", techniques=[Quantization.awq(group_size=64)])


def _source_in_s3(scope: Stack) -> None:
    endpoint(scope, model=Model.s3("s3://models/llama/70b"))


def _source_in_a_bucket_of_the_stack(scope: Stack) -> None:
    bucket = s3.Bucket.from_bucket_name(scope, "Models", CfnParameter(scope, "ModelBucket").value_as_string)
    endpoint(scope, model=Model.s3(bucket.s3_url_for_object("llama/70b/")))


def _encrypted_store(scope: Stack) -> None:
    key = kms.Key(scope, "Key", enable_key_rotation=True, removal_policy=RemovalPolicy.RETAIN)
    endpoint(scope, artifact_store=ArtifactStore(scope, "Artifacts", encryption_key=key))


def _imported_store(scope: Stack) -> None:
    endpoint(scope, artifact_store=ArtifactStore.from_bucket(s3.Bucket.from_bucket_name(scope, "Bucket", "artifacts")))


def _shared_store(scope: Stack) -> None:
    key = kms.Key(scope, "Key", enable_key_rotation=True, removal_policy=RemovalPolicy.RETAIN)
    store = ArtifactStore(scope, "Artifacts", encryption_key=key)
    store.share_with_account("444455556666")
    store.share_with_account("777788889999", read_only=False)
    store.share_with_organization("o-a1b2c3d4e5")
    OptimizationJob(
        scope,
        "Job",
        model=llama(),
        techniques=[Quantization.awq()],
        instance_type="ml.g5.12xlarge",
        artifact_store=store,
        wait=False,
    )


def _shared_with_an_account(scope: Stack) -> None:
    store = ArtifactStore(scope, "Artifacts")
    store.share_with_account(CfnParameter(scope, "Consumer").value_as_string)
    endpoint(scope, artifact_store=store)


def _by_key(scope: Stack) -> None:
    store = _store_of_others(scope)
    endpoint(scope, artifact_store=store, artifact_key=KEY_OF_THE_HEADLINE).auto_scale(max_capacity=2)
    endpoint(
        scope,
        "Sharded",
        artifact_store=store,
        techniques=[Quantization.awq(), Sharding.fast_load()],
        artifact_key=CfnParameter(scope, "KeyOfTheShards").value_as_string,
    )


def _heads_by_key(scope: Stack) -> None:
    endpoint(
        scope,
        model=Model.s3("s3://models/llama/8b"),
        techniques=[SpeculativeDecoding.eagle()],
        artifact_store=_store_of_others(scope),
        artifact_key="a" * 64,
    )


def _store_of_others(scope: Stack) -> IArtifactStore:
    bucket = s3.Bucket.from_bucket_name(scope, "Shared", "artifacts-of-others")
    key = kms.Key.from_key_arn(scope, "SharedKey", "arn:aws:kms:us-west-2:999988887777:key/1234")
    return ArtifactStore.from_bucket(bucket, encryption_key=key, read_only=True)


def _my_vpc(scope: Stack) -> ec2.IVpc:
    return ec2.Vpc.from_vpc_attributes(
        scope,
        "Vpc",
        vpc_id=CfnParameter(scope, "VpcId").value_as_string,
        availability_zones=["us-west-2a", "us-west-2b"],
        private_subnet_ids=["subnet-11111111", "subnet-22222222"],
    )


def _in_a_vpc(scope: Stack) -> None:
    endpoint(scope, network=NetworkOptions(vpc=_my_vpc(scope)))


def _own_role(scope: Stack) -> None:
    endpoint(scope, role=iam.Role(scope, "Role", assumed_by=iam.ServicePrincipal("sagemaker.amazonaws.com")))


def _imported_role(scope: Stack) -> None:
    arn = CfnParameter(scope, "RoleArn").value_as_string
    endpoint(scope, role=iam.Role.from_role_arn(scope, "Role", arn, mutable=False))


def _job_alone(scope: Stack) -> None:
    OptimizationJob(
        scope, "Job", model=llama(), techniques=[Quantization.awq()], instance_type="ml.g5.12xlarge",
        jobs=JobOptions(timeout=Duration.hours(2)),
    )  # fmt: skip


def _job_without_waiting(scope: Stack) -> None:
    OptimizationJob(
        scope, "Job", model=llama(), techniques=[Quantization.awq()], instance_type="ml.g5.12xlarge", wait=False
    )


def _draft(scope: Stack) -> None:
    endpoint(scope, techniques=[Quantization.awq(), SpeculativeDecoding.sagemaker_draft()]).auto_scale(max_capacity=2)


def _shards(scope: Stack) -> None:
    created = endpoint(scope, techniques=[Quantization.awq(), Sharding.fast_load()])
    created.auto_scale(max_capacity=2).on_concurrency(target=4)


def _heads(scope: Stack) -> None:
    endpoint(
        scope,
        model=Model.jumpstart("meta-textgeneration-llama-3-1-8b", version="2.6.0", accept_eula=True),
        techniques=[SpeculativeDecoding.eagle(training_data="s3://prompts/mine/")],
    )


def _medusa(scope: Stack) -> None:
    key = kms.Key(scope, "Key", enable_key_rotation=True, removal_policy=RemovalPolicy.RETAIN)
    data = s3.Bucket.from_bucket_name(scope, "Data", CfnParameter(scope, "DataBucket").value_as_string)
    endpoint(
        scope,
        "Sql",
        model=Model.jumpstart("huggingface-llm-mistral-7b", version="2.0.0"),
        techniques=[
            Medusa(
                training_data=data.s3_url_for_object("sql/train/"),
                validation_data="s3://prompts/sql/validation/",
                base=FineTune(training_data="s3://prompts/sql/train"),
                compute=TrainingCompute(instance_type="ml.p4d.24xlarge", instance_count=2, spot=True),
            )
        ],
        artifact_store=ArtifactStore(scope, "Artifacts", encryption_key=key),
        instance_type="ml.g5.4xlarge",
        network=NetworkOptions(vpc=_my_vpc(scope)),
    )


def _fine_tuned_and_quantized(scope: Stack) -> None:
    endpoint(
        scope,
        model=Model.s3("s3://models/mistral/7b"),
        techniques=[FineTune(training_data="s3://prompts/sql/train", method="lora"), Quantization.awq()],
    )


def _medusa_by_key(scope: Stack) -> None:
    endpoint(
        scope,
        model=Model.s3("s3://models/mistral/7b"),
        techniques=[Medusa(training_data="s3://prompts/sql/train")],
        artifact_store=_store_of_others(scope),
        artifact_key="b" * 64,
    )


def _pre_optimized(scope: Stack) -> None:
    endpoint(scope, techniques=[PreOptimized()], instance_type="ml.p4d.24xlarge")


def _pools(scope: Stack) -> None:
    created = endpoint(
        scope,
        techniques=None,
        instance_type=None,
        instance_pools=[
            Pool("ml.p5.48xlarge", techniques=[Quantization.fp8()]),
            Pool("ml.g5.12xlarge", techniques=[Quantization.awq()]),
        ],
    )
    created.auto_scale(max_capacity=4).on_concurrency()


def _components(scope: Stack) -> None:
    shared = OptimizedEndpoint(scope, "Shared", instance_type="ml.g5.48xlarge")
    shared.add_component(
        "Llama",
        model=llama(),
        techniques=[Quantization.awq(tensor_parallel_degree=4)],
        server=Server.vllm(adapters=Adapters()),
    ).add_adapter("Sql", artifact_uri="s3://adapters/sql.tar.gz")
    small = shared.add_component(
        "Gemma",
        model=Model.jumpstart("huggingface-llm-gemma-7b-instruct", version="1.1.0", accept_eula=True),
        techniques=[Quantization.awq(tensor_parallel_degree=1)],
        copies=2,
        memory=Size.gibibytes(24),
    )
    small.auto_scale(min_capacity=0, max_capacity=4).on_concurrency()


def _to_zero_and_back(scope: Stack) -> None:
    scaling = endpoint(scope, inference_component=True).auto_scale(min_capacity=0, max_capacity=2)
    scaling.on_concurrency(target=4)
    scaling.on_schedule("Night", schedule="cron(0 20 * * ? *)", min_capacity=0, max_capacity=0)


def _captured_and_reserved(scope: Stack) -> None:
    bucket = s3.Bucket.from_bucket_name(scope, "Captures", "captures-of-mine")
    topic = sns.Topic.from_topic_arn(scope, "Pages", "arn:aws:sns:us-west-2:111122223333:pages")
    endpoint(
        scope,
        monitoring=MonitoringOptions(
            alarm_actions=[SnsAction(topic)],
            instance_price_per_hour=7.09,
            observability=Observability(frequency_seconds=10, enhanced=True, detailed=True),
        ),
        variant=VariantOptions(
            capacity_reservation=CapacityReservation(
                arn="arn:aws:sagemaker:us-west-2:111122223333:training-plan/llama"
            ),
            container_startup_timeout=Duration.minutes(20),
            inference_ami_version="al2023-ami-sagemaker-inference-gpu-4-1",
            initial_instance_count=2,
            instance_provision_timeout=Duration.minutes(30),
            model_data_download_timeout=Duration.minutes(30),
            routing=Routing.prefix_aware(),
        ),
        data_capture=DataCapture(bucket=bucket, sampling_percentage=10),
        endpoint_name="chat-llama-70b",
        network=NetworkOptions(isolation=False),
        removal_policy=RemovalPolicy.RETAIN,
        update_policy=UpdatePolicy.canary(percent=50, bake_time=Duration.minutes(5)),
    )


def _queued(scope: Stack) -> None:
    bucket = s3.Bucket.from_bucket_name(scope, "Answers", "answers-of-mine")
    topic = sns.Topic.from_topic_arn(scope, "Failures", "arn:aws:sns:us-west-2:111122223333:failures")
    key = kms.Key.from_key_arn(
        scope, "AnswersKey", "arn:aws:kms:us-west-2:111122223333:key/0a1b2c3d-1111-2222-3333-444455556666"
    )
    endpoint(
        scope,
        async_inference=AsyncInference(
            bucket=bucket, max_concurrent_invocations_per_instance=4, error_topic=topic, encryption_key=key
        ),
        update_policy=UpdatePolicy.rolling(instances=1),
        variant=VariantOptions(initial_instance_count=2),
    )


def _routed_by_cache(scope: Stack) -> None:
    variant = VariantOptions(routing=Routing.kv_aware())
    endpoint(scope, inference_component=True, variant=variant).auto_scale(max_capacity=2).on_concurrency(target=8)


def _partitioned(scope: Stack) -> None:
    variant = VariantOptions(accelerator_partitions=["mig-3g.40gb", "mig-3g.40gb"])
    shared = OptimizedEndpoint(scope, "Shared", instance_type="ml.p5.48xlarge", variant=variant)
    shared.add_component("Chat", model=Model.s3("s3://models/chat/")).auto_scale(max_capacity=2).on_concurrency(
        target=8
    )


def _evaluated(scope: Stack) -> None:
    secret = "arn:aws:secretsmanager:us-west-2:111122223333:secret:hub-token"
    workload = Workload(
        concurrency=[1, 8],
        prompts="s3://prompts/chat.jsonl",
        tokenizer="meta-llama/Meta-Llama-3-70B-Instruct",
        token_secret_arn=secret,
    )
    store = ArtifactStore(scope, "Artifacts", encryption_key=kms.Key(scope, "Key", enable_key_rotation=True))
    endpoint(scope, network=NetworkOptions(vpc=_my_vpc(scope)), artifact_store=store).evaluate(
        workload=workload, schedule="rate(1 day)", discount=0.3
    ).require(p99_ttft_ms=500, max_regression=0.05, quality=QualityRequirement(prompts="s3://prompts/gate.jsonl"))
    component = endpoint(scope, "AsComponent", inference_component=True)
    component.evaluate(instance_price_per_hour=37.7)


def _recommended(scope: Stack) -> None:
    role = iam.Role(scope, "Role", assumed_by=iam.ServicePrincipal("sagemaker.amazonaws.com"))
    imported = iam.Role.from_role_arn(scope, "Imported", "arn:aws:iam::111122223333:role/mine", mutable=False)
    model = Model.s3("s3://models/llama/70b")
    store = ArtifactStore(scope, "Artifacts", encryption_key=kms.Key(scope, "Key", enable_key_rotation=True))
    ModelRecommendation(
        scope,
        "Cheapest",
        model=model,
        role=role,
        workload=Workload(
            concurrency=[8],
            prompts="s3://prompts/chat.jsonl",
            token_secret_arn="arn:aws:secretsmanager:us-west-2:111122223333:secret:hub-token",
        ),
        instance_types=["ml.g6e.12xlarge", "ml.p5.48xlarge"],
        framework="VLLM",
        artifact_store=store,
        capacity_reservations=[CapacityReservation(arn="arn:aws:sagemaker:us-west-2:111122223333:training-plan/llama")],
        timeout=Duration.hours(6),
    )
    ModelRecommendation(
        scope,
        "Fastest",
        model=model,
        role=imported,
        optimize_for="latency",
        optimize_model=False,
        artifact_store=store,
        wait=False,
    )


def _served_as_recommended(scope: Stack) -> None:
    image = "763104351884.dkr.ecr.us-west-2.amazonaws.com/vllm:0.30.0-gpu-py312-cu130-ubuntu24.04-sagemaker"
    expected = [{"metric": "ttft-ms", "value": "120", "statistic": "p50", "unit": "Milliseconds"}]
    package = {"image": image, "model_uris": ["s3://packages-of-mine/chat/"]}
    chosen = recommendation(**package, expected_performance=expected)
    RecommendedEndpoint(scope, "Chat", recommendation=chosen).auto_scale(max_capacity=4).on_invocations(target=600)
    shared = RecommendedEndpoint(
        scope,
        "Copies",
        recommendation=recommendation(**package, copies_per_instance=2, instance_count=2),
        monitoring=MonitoringOptions(instance_price_per_hour=7.09),
    )
    shared.evaluate(workload=Workload(concurrency=[4])).require(max_error_rate=0.01)


def _captured(scope: Stack, **more: Any) -> OptimizedEndpoint:
    of_bucket, of_captures = (
        kms.Key.from_key_arn(
            scope, name, f"arn:aws:kms:us-west-2:111122223333:key/{name * 2}-1111-2222-3333-444455556666"
        )
        for name in ("Abcd", "Efab")
    )
    captures = s3.Bucket.from_bucket_attributes(
        scope, "Captures", bucket_name="captures-of-mine", encryption_key=of_bucket
    )
    return endpoint(
        scope,
        **{"model": Model.s3("s3://models/llama/8b/"), "techniques": [], "server": Server.vllm(), **more},
        data_capture=DataCapture(bucket=captures, sampling_percentage=100, encryption_key=of_captures),
    )


def _shadowed(scope: Stack) -> None:
    topic = sns.Topic.from_topic_arn(scope, "Verdicts", "arn:aws:sns:us-west-2:111122223333:verdicts")
    checks = [AnswerCheck.answered(), AnswerCheck.json_valid(), AnswerCheck.reference("s3://answers/chat.jsonl")]
    _captured(scope).shadow(
        candidate=ShadowCandidate(techniques=[Quantization.awq()], server=Server.vllm(max_concurrent_requests=64)),
        checks=checks,
        duration=Duration.days(2),
        promote=True,
        topic=topic,
    )


def _restarted(scope: Stack) -> None:
    cure = SpeculationCure.restart(at_most_every_hours=6)
    _captured(
        scope,
        techniques=[SpeculativeDecoding.ngram(speculative_tokens=5)],
        monitoring=MonitoringOptions(speculation_cure=cure),
    )


def _scaled(scope: Stack) -> None:
    """An endpoint with every policy and schedule, and an asynchronous one."""
    scaling = endpoint(scope).auto_scale(min_capacity=1, max_capacity=6)
    kept = {"scale_in_cooldown": Duration.minutes(20), "scale_out_cooldown": Duration.minutes(2)}
    scaling.on_concurrency(target=8, disable_scale_in=True)
    scaling.on_invocations(request_seconds=4, **kept)
    scaling.on_time_to_first_token(target=2, quantile=0.95)
    scaling.on_kv_cache(target=80)
    scaling.on_queue(target=4, policy_name="Waiting")
    scaling.on_tokens_per_second(target=900)
    metric = cloudwatch.Metric(namespace="Chat", metric_name="Sessions", dimensions_map={"Tier": "paid"})
    scaling.on_metric("Sessions", metric=metric, target=40)
    steps = [ScalingStep(change=50, lower=10, upper=20), ScalingStep(change=100, lower=20)]
    scaling.on_steps(
        "Burst",
        metric=metric,
        steps=steps,
        adjustment="PercentChangeInCapacity",
        cooldown=Duration.minutes(5),
        min_adjustment_magnitude=2,
        evaluation_periods=3,
        datapoints_to_alarm=2,
    )
    scaling.on_steps("Calm", metric=metric, steps=[ScalingStep(change=-1, upper=2)])
    scaling.on_schedule("Day", schedule="cron(0 7 ? * MON-FRI *)", min_capacity=2, time_zone="Europe/Berlin")
    queued = endpoint(
        scope, "Queued", async_inference=AsyncInference(bucket=s3.Bucket.from_bucket_name(scope, "Answers", "answers"))
    )
    queued.auto_scale(min_capacity=0, max_capacity=3).on_backlog(target=5)
    shared = OptimizedEndpoint(scope, "Shared", instance_type="ml.g5.48xlarge")
    component = shared.add_component("Small", model=Model.s3("s3://models/small/"))
    stopped = component.auto_scale(min_capacity=0, max_capacity=2).on_concurrency(target=4)
    stopped.stop_on(schedule="cron(0 19 ? * MON-FRI *)").start_on(schedule="cron(0 6 ? * MON-FRI *)", min_capacity=1)


def _watched(scope: Stack) -> None:
    """An endpoint with every alarm, and a component whose alarms have settings."""
    topic = sns.Topic.from_topic_arn(scope, "Pages", "arn:aws:sns:us-west-2:111122223333:pages")
    on = AlarmSettings(threshold=5)
    every = Alarms(
        latency=on,
        time_to_first_token=on,
        queue=True,
        kv_cache=True,
        acceptance_length=AlarmSettings(threshold=1.5),
        acceptance_decay=True,
        saturation=AlarmSettings(threshold=12),
        disk=True,
    )
    watched = endpoint(
        scope,
        techniques=[SpeculativeDecoding.ngram(speculative_tokens=5)],
        model=Model.s3("s3://models/llama/8b/"),
        server=Server.vllm(),
        monitoring=MonitoringOptions(alarms=every, alarm_actions=[SnsAction(topic)], ok_actions=[SnsAction(topic)]),
    )
    watched.evaluate(schedule="rate(1 day)")
    few = AlarmSettings(threshold=2, evaluation_periods=4, datapoints_to_alarm=3, minimum_count=20)
    quiet = AlarmSettings(actions_enabled=False)
    monitoring = MonitoringOptions(
        alarms=Alarms(error_rate=few, hourly_error_rate=False, latency=on, zero_capacity=quiet)
    )
    shared = OptimizedEndpoint(scope, "Shared", instance_type="ml.g5.48xlarge", monitoring=monitoring)
    shared.add_component("Small", model=Model.s3("s3://models/small/"))


def _fleet(scope: Stack) -> None:
    chat = ServedModel("chat", "AllTraffic", instance_type="ml.g5.12xlarge")
    shared = ServedModel("shared", "AllTraffic", "sharded", instance_type="ml.inf2.48xlarge")
    endpoints = [
        endpoint(scope, async_inference=AsyncInference(bucket=s3.Bucket.from_bucket_name(scope, "Answers", "answers"))),
        FleetEndpoint("chat", chat, instance_price_per_hour=7.09),
        FleetEndpoint("neuron", shared),
    ]
    FleetDashboard(scope, "Fleet", endpoints=endpoints, discount=0.1)


def _declared_elsewhere(scope: Stack) -> None:
    """An endpoint of raw resources, with all that goes with one."""
    model = sagemaker.CfnModel(
        scope,
        "Model",
        execution_role_arn="arn:aws:iam::111122223333:role/serve",
        primary_container=sagemaker.CfnModel.ContainerDefinitionProperty(
            image="763104351884.dkr.ecr.us-west-2.amazonaws.com/vllm:0.30.0-gpu-py312-cu130-ubuntu24.04-sagemaker",
            environment={"SM_VLLM_MODEL": "Qwen/Qwen3-8B", "SM_VLLM_MAX_NUM_SEQS": "32"},
        ),
    )
    variant = sagemaker.CfnEndpointConfig.ProductionVariantProperty(
        variant_name="AllTraffic",
        initial_instance_count=1,
        initial_variant_weight=1,
        instance_type="ml.g5.12xlarge",
        model_name=model.attr_model_name,
    )
    config = sagemaker.CfnEndpointConfig(scope, "Config", production_variants=[variant])
    declared = sagemaker.CfnEndpoint(scope, "Endpoint", endpoint_config_name=config.attr_endpoint_config_name)
    monitoring = EndpointMonitoring.of(declared)
    monitoring.auto_scale(max_capacity=4).on_concurrency().on_queue(target=4)
    monitoring.evaluate().require(p99_ttft_ms=2000)


def _answers_with_all_settings(scope: Stack) -> None:
    """An asynchronous endpoint with the settings that no other stack has."""

    def key(name: str) -> kms.IKey:
        return kms.Key.from_key_arn(scope, f"{name}Key", f"arn:aws:kms:us-west-2:111122223333:key/{name.lower()}")

    def bucket(name: str) -> s3.IBucket:
        return s3.Bucket.from_bucket_attributes(
            scope, name, bucket_name=f"{name.lower()}-of-mine", encryption_key=key(name)
        )

    succeeded, failed = (
        sns.Topic.from_topic_arn(scope, name, f"arn:aws:sns:us-west-2:111122223333:{name}")
        for name in ("Succeeded", "Failed")
    )
    store = ArtifactStore(
        scope, "Artifacts", server_access_logs_bucket=bucket("Logs"), server_access_logs_prefix="artifacts/"
    )
    endpoint(
        scope,
        model=Model.huggingface(
            "Qwen/Qwen3-8B",
            revision="b968826d9c46dd6066d109eabc6255188de91218",
            token_secret_arn="arn:aws:secretsmanager:us-west-2:111122223333:secret:hub-token",
        ),
        artifact_store=store,
        async_inference=AsyncInference(
            bucket=bucket("Answers"),
            prefix="chat/answers",
            input_bucket=bucket("Requests"),
            success_topic=succeeded,
            error_topic=failed,
            include_responses_in=["SUCCESS_NOTIFICATION_TOPIC", "ERROR_NOTIFICATION_TOPIC"],
        ),
        jobs=JobOptions(max_runtime=Duration.hours(8), max_pending=Duration.hours(20), timeout=Duration.hours(11)),
        monitoring=MonitoringOptions(
            alarms=Alarms(
                failed_job=AlarmSettings(threshold=2), latency=AlarmSettings(threshold=4, period_seconds=300)
            ),
            discount=0.2,
            instance_price_per_hour=7.09,
            runbook="https://wiki.example.com/models",
        ),
        network=NetworkOptions(
            isolation=False,
            vpc=_my_vpc(scope),
            vpc_subnets=ec2.SubnetSelection(availability_zones=["us-west-2a"]),
            security_groups=[ec2.SecurityGroup.from_security_group_id(scope, "Group", "sg-11111111")],
        ),
        update_policy=UpdatePolicy.rolling(percent=40, rollback_percent=50, bake_time=Duration.minutes(7)),
        variant=VariantOptions(
            name="Blue",
            core_dumps=CoreDumps(bucket=bucket("Dumps"), prefix="dumps/chat", encryption_key=key("OfDumps")),
            initial_instance_count=3,
            ssm_access=True,
        ),
    )


def _copies_with_all_settings(scope: Stack) -> None:
    """Components on pools of instances with the settings that no other stack has."""
    bucket = s3.Bucket.from_bucket_name(scope, "Captures", "captures-of-mine")
    pools = [Pool("ml.p5.48xlarge"), Pool("ml.g5.48xlarge")]
    shared = OptimizedEndpoint(
        scope,
        "Shared",
        instance_pools=pools,
        data_capture=DataCapture(
            bucket=bucket, prefix="of/answers", requests=False, json_content_types=["application/x-ndjson"]
        ),
        update_policy=UpdatePolicy.rolling(percent=20, rollback_percent=100),
        variant=VariantOptions(
            initial_instance_count=3,
            min_instance_count=2,
            max_instance_count=9,
            scale_in=ScaleIn.consolidation(max_step_size=2, cooldown_minutes=12),
        ),
    )
    small = shared.add_component(
        "Small",
        model=Model.s3("s3://models/small/"),
        instance_pools=pools,
        accelerators=2,
        component_name="small-of-mine",
        copies=3,
        environment={"LOG_LEVEL": "debug"},
        memory=Size.gibibytes(20),
        server=Server.vllm(adapters=Adapters(max_loaded=3, max_cached=9, max_rank=64)),
        options=ComponentOptions(
            caching=False,
            cpu_cores=3.5,
            max_memory=Size.gibibytes(40),
            placement=Placement.spread(max_zone_imbalance=1),
        ),
    )
    small.add_adapter("Sql", artifact_uri="s3://adapters/sql.tar.gz", adapter_name="sql-of-mine")
    small.auto_scale(min_capacity=2, max_capacity=6).on_concurrency()
    shared.add_component(
        "Tiny",
        model=Model.s3("s3://models/tiny/"),
        instance_pools=pools,
        server=Server.vllm(max_concurrent_requests=24),
        options=ComponentOptions(caching=True, placement=Placement.binpack(max_zone_imbalance=0)),
    )


def _compared_with_all_settings(scope: Stack) -> None:
    """A shadow and an evaluation with the settings that no other stack has."""
    judge = "arn:aws:lambda:us-west-2:111122223333:function:judge"
    served = _captured(scope)
    served.evaluate(
        workload=Workload(
            concurrency=[2, 16],
            input_tokens=900,
            input_tokens_stddev=90,
            output_tokens=120,
            output_tokens_stddev=12,
            request_timeout_seconds=90,
            requests=640,
            seed=3,
            tokenizer="Qwen/Qwen3-8B",
            warmup_requests=16,
        )
    ).require(
        at_concurrency=16,
        max_regression=0.1,
        quality=QualityRequirement(
            prompts="s3://prompts/gate.jsonl", min_identical=0.8, max_difference=0.2, max_tokens=64, most_prompts=40
        ),
        regression_metrics=["time_to_first_token_p99", "goodput"],
    )
    served.shadow(
        candidate=ShadowCandidate(model=Model.s3("s3://models/llama/9b/"), instance_type="ml.p5.48xlarge"),
        checks=[AnswerCheck.exact_match(at_least=0.9), AnswerCheck.judge(judge)],
        duration=Duration.hours(30),
        instance_quota=4,
        latency_tolerance=0.3,
        margin=0.05,
        sample_percent=12,
    )


STACKS: dict[str, Callable[[Stack], None]] = {
    build.__name__.strip("_"): build
    for build in (
        _headline,
        _two_endpoints,
        _source_in_s3,
        _source_in_a_bucket_of_the_stack,
        _encrypted_store,
        _imported_store,
        _shared_store,
        _shared_with_an_account,
        _by_key,
        _heads_by_key,
        _in_a_vpc,
        _own_role,
        _imported_role,
        _job_alone,
        _job_without_waiting,
        _draft,
        _shards,
        _heads,
        _medusa,
        _fine_tuned_and_quantized,
        _medusa_by_key,
        _pre_optimized,
        _pools,
        _components,
        _to_zero_and_back,
        _captured_and_reserved,
        _queued,
        _routed_by_cache,
        _partitioned,
        _evaluated,
        _recommended,
        _served_as_recommended,
        _shadowed,
        _restarted,
        _scaled,
        _watched,
        _fleet,
        _declared_elsewhere,
        _answers_with_all_settings,
        _copies_with_all_settings,
        _compared_with_all_settings,
    )
}
ENVIRONMENTS = {"in_a_region": ENVIRONMENT, "anywhere": None}
