"""A CDK app with endpoints of other constructs, as DECLARED_APP says, and this library's parts beside them."""

import json
import os
from importlib import import_module
from typing import Any

from aws_cdk import App, CfnOutput, Duration, Environment, RemovalPolicy, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sagemaker as sagemaker

from constructs_optim import (
    AnswerCheck,
    ArtifactStore,
    DataCapture,
    EndpointMonitoring,
    Model,
    MonitoringOptions,
    Quantization,
    ShadowCandidate,
    Workload,
)

given = json.loads(os.environ["DECLARED_APP"])
app = App()
stack = Stack(
    app,
    given["stack"],
    env=Environment(account=os.environ["CDK_DEFAULT_ACCOUNT"], region=os.environ["CDK_DEFAULT_REGION"]),
)
store = ArtifactStore(stack, "Artifacts", removal_policy=RemovalPolicy.DESTROY)
models = s3.Bucket.from_bucket_name(stack, "Models", given["models"])
# Inline: endpoints of other libraries do not wait for a policy beside their role.
readable = iam.PolicyStatement(
    actions=["s3:GetObject", "s3:ListBucket"],
    resources=[models.bucket_arn, models.arn_for_objects("*"), "arn:aws:s3:::jumpstart-private-cache-prod-*"],
)
pulled = iam.PolicyStatement(
    actions=[
        "ecr:BatchCheckLayerAvailability",
        "ecr:BatchGetImage",
        "ecr:GetAuthorizationToken",
        "ecr:GetDownloadUrlForLayer",
    ],
    resources=["*"],
)
role = iam.Role(
    stack,
    "Role",
    assumed_by=iam.ServicePrincipal("sagemaker.amazonaws.com"),
    inline_policies={"Serve": iam.PolicyDocument(statements=[readable, pulled])},
)


def monitored(endpoint: Any, target: float | None = None, *, scales: bool = True) -> EndpointMonitoring:
    """All that goes with any endpoint."""
    monitoring = EndpointMonitoring.of(
        endpoint, artifact_store=store, monitoring=MonitoringOptions(instance_price_per_hour=7.09)
    )
    if scales:
        monitoring.auto_scale(max_capacity=3).on_concurrency(target=target)
    monitoring.evaluate(workload=Workload(concurrency=[1], requests=20)).require(p99_ttft_ms=given["p99_ttft_ms"])
    return monitoring


model = sagemaker.CfnModel(
    stack,
    "Model",
    execution_role_arn=role.role_arn,
    primary_container=sagemaker.CfnModel.ContainerDefinitionProperty(
        image=given["image"],
        environment={"SM_VLLM_MAX_NUM_SEQS": given["batch"]},
        model_data_source={
            "s3DataSource": {
                "compressionType": "None",
                "s3DataType": "S3Prefix",
                "s3Uri": f"s3://{given['models']}/llama/",
            }
        },
    ),
)
config = sagemaker.CfnEndpointConfig(
    stack,
    "Config",
    production_variants=[
        sagemaker.CfnEndpointConfig.ProductionVariantProperty(
            variant_name="AllTraffic",
            inference_ami_version=given["ami"],
            initial_instance_count=1,
            initial_variant_weight=1,
            instance_type="ml.g5.12xlarge",
            model_name=model.attr_model_name,
        )
    ],
)
endpoint = sagemaker.CfnEndpoint(stack, "Endpoint", endpoint_config_name=config.attr_endpoint_config_name)
if given.get("shadow"):
    captures = s3.Bucket(stack, "Captures", enforce_ssl=True, removal_policy=RemovalPolicy.DESTROY)
    captures.grant_put(role)
    shadow = EndpointMonitoring.of(endpoint, artifact_store=store).shadow(
        candidate=ShadowCandidate(model=Model.s3(f"s3://{given['models']}/llama/"), techniques=[Quantization.awq()]),
        checks=[AnswerCheck.answered()],
        data_capture=DataCapture(bucket=captures),
        sample_percent=100,
        duration=Duration.hours(3),
        margin=0.2,
        promote=True,
    )
    CfnOutput(stack, "Shadow", value=shadow.shadow_key)
else:
    monitored(endpoint)
if given.get("others"):
    # Of another environment: `make peer`.
    alpha: Any = import_module("aws_cdk.aws_sagemaker_alpha")
    generative: Any = import_module("cdklabs.generative_ai_cdk_constructs.sagemaker_deployment")
    repository, tag = "huggingface-pytorch-tgi-inference", "2.6.0-tgi3.2.3-gpu-py311-cu124-ubuntu22.04"
    container = alpha.ContainerDefinition(
        image=alpha.ContainerImage.from_dlc(repository, tag),
        model_data=alpha.ModelData.from_bucket(models, "llama.tar.gz"),
    )
    variant = alpha.InstanceProductionVariantProps(
        model=alpha.Model(stack, "AlphaModel", containers=[container], role=role),
        variant_name="main",
        instance_type=alpha.InstanceType.of("ml.g5.2xlarge"),
    )
    configured = alpha.EndpointConfig(stack, "AlphaConfig", instance_production_variants=[variant])
    monitored(alpha.Endpoint(stack, "Alpha", endpoint_config=configured), target=4)
    options = {"instance_type": generative.SageMakerInstanceType.ML_G5_2_XLARGE, "role": role}
    image = generative.DeepLearningContainerImage.from_deep_learning_container_image(repository, tag)
    own = {"container": image, "environment": {}, "model_id": "Qwen/Qwen3-8B", **options}
    data = f"s3://{given['models']}/llama/"
    large = generative.SageMakerInstanceType.ML_G5_48_XLARGE
    llama = generative.JumpStartModel.META_TEXTGENERATION_LLAMA_3_70_B_INSTRUCT_2_2_0
    for kind, arguments in {
        "HuggingFace": own,
        "Custom": {**own, "model_data_url": data},
        "JumpStart": {**options, "model": llama, "accept_eula": True, "instance_type": large},
    }.items():
        declares = getattr(generative, f"{kind}SageMakerEndpoint")
        # A CustomSageMakerEndpoint scales by itself.
        monitored(declares(stack, kind, endpoint_name=kind.lower(), **arguments), target=4, scales=kind != "Custom")
app.synth()
