"""The apps that bench/synth.py times: an endpoint as raw L1 constructs, as ours, as templates, and as the peer's.

Each takes the number of endpoints, distributes them over stacks, and prints times and memory as JSON.
"""

from __future__ import annotations

# CloudFormation accepts 1 MB and 500 resources a template (tests/docs/test_performance_figures.py), so every kind of
# app distributes its endpoints over stacks in the same way.
ENDPOINTS_A_STACK = 9

# A version that all three support; the peer has no container image for later ones.
_MODEL, _VERSION, _INSTANCE_TYPE = "meta-textgeneration-llama-3-70b-instruct", "2.2.0", "ml.g5.48xlarge"

_FRAME = """
import json
import os
import resource
import sys
import time

started = time.perf_counter()
from aws_cdk import App, Environment, Stack
{imports}

def megabytes(pid):
    try:
        status = open(f"/proc/{{pid}}/status").read()
    except OSError:
        return 0.0
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024

def cpu_seconds(pid):
    try:
        fields = open(f"/proc/{{pid}}/stat").read().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(int(field) for field in fields[11:13]) / os.sysconf("SC_CLK_TCK")

def descendants(pid):
    try:
        children = open(f"/proc/{{pid}}/task/{{pid}}/children").read().split()
    except OSError:
        return []
    return [found for child in children for found in (child, *descendants(child))]

app = App()
imported = time.perf_counter()
for i in range(int(sys.argv[1])):
    if i % {endpoints_a_stack} == 0:
        stack = Stack(app, f"Bench{{i // {endpoints_a_stack}}}",
                      env=Environment(account="111122223333", region="us-west-2"))
{shared}
{body}
constructed = time.perf_counter()
app.synth()
print(json.dumps({{
    "imported": imported - started,
    "constructed": constructed - imported,
    "synthesized": time.perf_counter() - constructed,
    "cpu": time.process_time() + sum(cpu_seconds(child) for child in descendants(os.getpid())),
    "python_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024 if sys.platform == "linux" else 1024**2),
    "node_mb": sum(megabytes(child) for child in descendants(os.getpid())),
}}))
"""


def _app(imports: str, body: str, shared: str = "") -> str:
    return _FRAME.format(endpoints_a_stack=ENDPOINTS_A_STACK, imports=imports, body=body, shared=shared)


RAW = _app(
    imports="from aws_cdk import aws_iam as iam, aws_sagemaker as sagemaker",
    body=f"""
    role = iam.CfnRole(stack, f"Role{{i}}", assume_role_policy_document={{
        "Version": "2012-10-17",
        "Statement": [{{
            "Effect": "Allow",
            "Principal": {{"Service": "sagemaker.amazonaws.com"}},
            "Action": "sts:AssumeRole"}}]}})
    model = sagemaker.CfnModel(stack, f"Model{{i}}", execution_role_arn=role.attr_arn,
        primary_container=sagemaker.CfnModel.ContainerDefinitionProperty(
            image="111122223333.dkr.ecr.us-west-2.amazonaws.com/llm:1",
            environment={{"OPTION_QUANTIZE": "awq"}}))
    config = sagemaker.CfnEndpointConfig(stack, f"Config{{i}}", production_variants=[
        sagemaker.CfnEndpointConfig.ProductionVariantProperty(
            variant_name="AllTraffic", initial_variant_weight=1, initial_instance_count=1,
            instance_type="{_INSTANCE_TYPE}", model_name=model.attr_model_name)])
    sagemaker.CfnEndpoint(stack, f"Endpoint{{i}}", endpoint_config_name=config.attr_endpoint_config_name)
""",
)


def _ours(*added: str) -> str:
    """Return an app of endpoints with further statements."""
    endpoint = f"""
    endpoint = OptimizedEndpoint(stack, f"E{{i}}",
        model=Model.jumpstart("{_MODEL}", version="{_VERSION}", accept_eula=True),
        techniques=[Quantization.awq()], instance_type="{_INSTANCE_TYPE}")
"""
    imports = "from constructs_optim import Model, OptimizedEndpoint, Quantization"
    return _app(imports, endpoint + "".join(f"    {statement}\n" for statement in added))


_SCALED = "endpoint.auto_scale(max_capacity=4).on_concurrency(target=8)"
_REQUIRED = 'endpoint.evaluate(schedule="cron(0 4 * * ? *)").require(max_regression=0.05)'

BARE = _ours()
OURS = _ours(_SCALED, "endpoint.dashboard")
EVALUATED = _ours(_SCALED, _REQUIRED)

FULL = _app(
    imports="""
from aws_cdk import Duration, Tags, aws_ec2 as ec2, aws_kms as kms, aws_s3 as s3, aws_sns as sns
from aws_cdk.aws_cloudwatch_actions import SnsAction
from constructs_optim import (
    Alarms, AlarmSettings, DataCapture, Model, MonitoringOptions, NetworkOptions, OptimizedEndpoint, Quantization,
    UpdatePolicy, VariantOptions, Workload)
""",
    shared="""
        vpc = ec2.Vpc.from_vpc_attributes(stack, "Vpc", vpc_id="vpc-0123456789abcdef0",
            availability_zones=["us-west-2a", "us-west-2b"],
            private_subnet_ids=["subnet-0123456789abcdef0", "subnet-0123456789abcdef1"])
        key = kms.Key.from_key_arn(
            stack, "Key", "arn:aws:kms:us-west-2:111122223333:key/01234567-89ab-cdef-0123-456789abcdef")
        captures = s3.Bucket.from_bucket_name(stack, "Captures", "chat-captures")
        pages = SnsAction(sns.Topic.from_topic_arn(stack, "Pages", "arn:aws:sns:us-west-2:111122223333:pages"))
""",
    body=f"""
    endpoint = OptimizedEndpoint(stack, f"E{{i}}",
        model=Model.jumpstart("{_MODEL}", version="{_VERSION}", accept_eula=True),
        techniques=[Quantization.awq()], instance_type="{_INSTANCE_TYPE}",
        variant=VariantOptions(initial_instance_count=2), network=NetworkOptions(vpc=vpc),
        data_capture=DataCapture(bucket=captures, sampling_percentage=5, encryption_key=key),
        monitoring=MonitoringOptions(alarms=Alarms(latency=AlarmSettings(threshold=20)), alarm_actions=[pages],
            ok_actions=[pages], instance_price_per_hour=20.36),
        update_policy=UpdatePolicy.canary(percent=50, bake_time=Duration.minutes(15)))
    scaling = endpoint.auto_scale(min_capacity=2, max_capacity=8).on_concurrency(target=8)
    scaling.on_invocations(target=100)
    scaling.on_schedule("Day", schedule="cron(0 7 ? * MON-FRI *)", min_capacity=4)
    scaling.on_schedule("Night", schedule="cron(0 20 ? * MON-FRI *)", min_capacity=1)
    evaluation = endpoint.evaluate(
        workload=Workload(concurrency=[1, 8, 64], input_tokens=622, output_tokens=250, tokenizer="org/model"),
        schedule="cron(0 4 * * ? *)")
    evaluation.require(p99_ttft_ms=2000, min_output_tokens_per_second=100, max_regression=0.05)
    Tags.of(endpoint).add("team", "chat")
""",
)

# FULL's templates, a stack in one call: a lower bound for declaring their resources.
INCLUDED = _app(
    imports="from aws_cdk.cloudformation_include import CfnInclude",
    shared="""
        CfnInclude(stack, "Templates", template_file=f"templates-{sys.argv[1]}/{stack.stack_name}.json")
""",
    body="    pass",
)

PEER = _app(
    imports="""
from cdklabs.generative_ai_cdk_constructs.sagemaker_deployment import (
    JumpStartModel, JumpStartSageMakerEndpoint, SageMakerInstanceType)
""",
    body=f"""
    JumpStartSageMakerEndpoint(stack, f"E{{i}}", endpoint_name=f"e{{i}}", accept_eula=True,
        model=JumpStartModel.META_TEXTGENERATION_LLAMA_3_70_B_INSTRUCT_{_VERSION.replace(".", "_")},
        instance_type=SageMakerInstanceType.of("{_INSTANCE_TYPE}"))
""",
)
