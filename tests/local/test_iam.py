"""The local cloud with IAM enforced: allowed and denied actions, and the error messages of denials."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from constructs_optim_local.cloud import LocalCloud

from ..support.hosting import make_config, settled
from ..support.iam import ACCOUNT, PULL, Role, allow, document, refused
from ..support.optimization_jobs import ended, request
from ..support.sampling import one_in
from ..support.waiting import until

BUCKET = "guarded"
IMAGE = "111122223333.dkr.ecr.us-west-2.amazonaws.com/lmi:1"
REPOSITORY = "arn:aws:ecr:us-west-2:111122223333:repository/lmi"


@pytest.fixture(scope="module")
def guarded() -> Iterator[LocalCloud]:
    """A local cloud that enforces IAM, with one bucket."""
    with LocalCloud(job_seconds=(0.2, 0.2), endpoint_seconds=0.1, enforce_iam=True) as running:
        s3 = running.client("s3")
        s3.create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": running.region})
        s3.put_object(Bucket=BUCKET, Key="models/mine/model.safetensors", Body=b"weights")
        yield running


def test_a_session_is_allowed_only_the_actions_of_its_role(guarded: LocalCloud) -> None:
    jobs = "arn:aws:sagemaker:us-west-2:000000000000:optimization-job/optim-*"
    role = Role(guarded, allow("sagemaker:DescribeOptimizationJob", jobs, Sid="Look"))
    client = role.client("sagemaker")
    assert refused(client.describe_optimization_job, OptimizationJobName="optim-1")[0] == "ResourceNotFound"
    code, message = refused(client.describe_optimization_job, OptimizationJobName="other")
    assert code == "AccessDeniedException"
    assert f"assumed-role/{role.name}/test is not authorized to perform: sagemaker:DescribeOptimizationJob" in message
    assert "on resource: arn:aws:sagemaker:us-west-2:000000000000:optimization-job/other" in message
    assert "no identity-based policy allows the sagemaker:DescribeOptimizationJob action" in message
    allowed, denied = guarded.authorizations(role.name)
    assert (allowed["decision"], allowed["statement"]) == ("Allow", "Look")
    assert (denied["decision"], denied["statement"]) == ("ImplicitDeny", "")
    assert denied["resource"].endswith("optimization-job/other")


def test_watching_a_deployment_alarm_needs_describe_alarms_on_the_models_role(guarded: LocalCloud) -> None:
    put_alarms(guarded)
    watch = allow("cloudwatch:DescribeAlarms", f"arn:aws:cloudwatch:us-west-2:{ACCOUNT}:alarm:guard")
    assert not update_arrives(guarded, "blind", "guard")
    assert update_arrives(guarded, "watchful", "guard", watch)


def test_only_a_permission_for_all_alarms_shows_a_composite_alarm(guarded: LocalCloud) -> None:
    put_alarms(guarded)
    alarms = f"arn:aws:cloudwatch:us-west-2:{ACCOUNT}:alarm"
    narrow = allow("cloudwatch:DescribeAlarms", [f"{alarms}:guard", f"{alarms}:guards"])
    assert not update_arrives(guarded, "narrow", "guards", narrow)
    assert update_arrives(guarded, "wide", "guards", allow("cloudwatch:DescribeAlarms", "*"))
    cloudwatch = Role(guarded, narrow).client("cloudwatch")
    assert cloudwatch.describe_alarms(AlarmNames=["guard"])["MetricAlarms"]
    code, _ = refused(cloudwatch.describe_alarms, AlarmNames=["guards"], AlarmTypes=["CompositeAlarm"])
    assert code == "AccessDeniedException"
    found = guarded.client("cloudwatch").describe_alarms(AlarmNames=["guards"], AlarmTypes=["CompositeAlarm"])
    assert found["CompositeAlarms"]


def put_alarms(guarded: LocalCloud) -> None:
    """An alarm, and a composite one of it."""
    cloudwatch = guarded.client("cloudwatch")
    cloudwatch.put_metric_alarm(
        AlarmName="guard",
        Namespace="N",
        MetricName="M",
        Statistic="Sum",
        Period=60,
        EvaluationPeriods=1,
        Threshold=1,
        ComparisonOperator="GreaterThanThreshold",
    )
    cloudwatch.put_composite_alarm(AlarmName="guards", AlarmRule="ALARM(guard)")


def update_arrives(guarded: LocalCloud, name: str, alarm: str, *statements: dict[str, Any]) -> bool:
    """Whether an update that an alarm watches succeeds, where the model's role has these permissions; or it says why.

    The role may pull images besides.
    """
    sagemaker = guarded.client("sagemaker")
    role = Role(guarded, allow("ecr:GetAuthorizationToken", "*"), allow(PULL, REPOSITORY), *statements)
    policy = {"TrafficRoutingConfiguration": {"Type": "ALL_AT_ONCE", "WaitIntervalInSeconds": 0}}
    deployment = {"BlueGreenUpdatePolicy": policy, "AutoRollbackConfiguration": {"Alarms": [{"AlarmName": alarm}]}}
    sagemaker.create_model(ModelName=name, ExecutionRoleArn=role.arn, PrimaryContainer={"Image": IMAGE})
    for config in (name, f"{name}-2"):
        make_config(sagemaker, config, name)
    sagemaker.create_endpoint(EndpointName=name, EndpointConfigName=name)
    assert settled(sagemaker, name)["EndpointStatus"] == "InService"
    sagemaker.update_endpoint(EndpointName=name, EndpointConfigName=f"{name}-2", DeploymentConfig=deployment)
    endpoint = settled(sagemaker, name)
    arrives = endpoint["EndpointConfigName"] == f"{name}-2"
    assert ("to perform: cloudwatch:DescribeAlarms" in endpoint.get("FailureReason", "")) != arrives
    return arrives


def test_scaling_and_updating_need_permission_on_their_resources(guarded: LocalCloud) -> None:
    arn = f"arn:aws:sagemaker:us-west-2:{ACCOUNT}"
    role = Role(
        guarded,
        allow("sagemaker:UpdateEndpointWeightsAndCapacities", f"{arn}:endpoint/mine"),
        allow("sagemaker:UpdateInferenceComponentRuntimeConfig", f"{arn}:inference-component/mine"),
        allow("sagemaker:UpdateEndpoint", f"{arn}:endpoint/mine"),
        allow("application-autoscaling:DescribeScalingActivities", "*"),
    )
    client = role.client("sagemaker")
    capacities = {"DesiredWeightsAndCapacities": [{"VariantName": "AllTraffic", "DesiredInstanceCount": 2}]}
    copies = {"DesiredRuntimeConfig": {"CopyCount": 2}}
    for call, key, more in (
        (client.update_endpoint_weights_and_capacities, "EndpointName", capacities),
        (client.update_inference_component_runtime_config, "InferenceComponentName", copies),
    ):
        assert "Could not find" in refused(call, **{key: "mine"}, **more)[1]
        assert refused(call, **{key: "yours"}, **more)[0] == "AccessDeniedException"
    code, message = refused(client.update_endpoint, EndpointName="mine", EndpointConfigName="other")
    assert (code, "endpoint-config/other" in message) == ("AccessDeniedException", True)
    role.client("application-autoscaling").describe_scaling_activities(ServiceNamespace="sagemaker")


def test_an_encrypted_volume_needs_a_grant_on_its_kms_key(guarded: LocalCloud) -> None:
    administrator = guarded.client("sagemaker")
    key = guarded.client("kms").create_key()["KeyMetadata"]["Arn"]
    role = Role(guarded, allow("ecr:GetAuthorizationToken", "*"), allow(PULL, REPOSITORY))
    administrator.create_model(ModelName="sealed", ExecutionRoleArn=role.arn, PrimaryContainer={"Image": IMAGE})
    variant = {"VariantName": "AllTraffic", "ModelName": "sealed", "InstanceType": "ml.inf2.8xlarge"}
    for config in ("sealed", "sealed-2"):
        administrator.create_endpoint_config(
            EndpointConfigName=config,
            ProductionVariants=[{**variant, "InitialInstanceCount": 1, "InitialVariantWeight": 1}],
            KmsKeyId=key,
        )
    administrator.create_endpoint(EndpointName="sealed", EndpointConfigName="sealed")
    assert settled(administrator, "sealed")["EndpointStatus"] == "InService"
    arn = f"arn:aws:sagemaker:us-west-2:{ACCOUNT}"
    updates = allow("sagemaker:UpdateEndpoint", [f"{arn}:endpoint/sealed", f"{arn}:endpoint-config/sealed-2"])
    moved = {"EndpointName": "sealed", "EndpointConfigName": "sealed-2"}
    code, message = refused(Role(guarded, updates).client("sagemaker").update_endpoint, **moved)
    assert (code, f"to perform: kms:CreateGrant on resource: {key}" in message) == ("AccessDeniedException", True)
    for_services = {"Bool": {"kms:GrantIsForAWSResource": "true"}}
    granting = allow("kms:CreateGrant", key, Condition=for_services)
    Role(guarded, updates, granting).client("sagemaker").update_endpoint(**moved)
    assert settled(administrator, "sealed")["EndpointConfigName"] == "sealed-2"


def test_calls_of_the_administrator_are_allowed_and_not_recorded(guarded: LocalCloud) -> None:
    before = len(guarded.authorizations())
    guarded.client("sagemaker").list_models()
    guarded.client("s3").list_buckets()
    assert len(guarded.authorizations()) == before


def test_creating_a_job_needs_pass_role_to_sagemaker_and_add_tags(guarded: LocalCloud) -> None:
    execution, jobs = Role(guarded), "arn:aws:sagemaker:*:*:optimization-job/*"
    create = allow("sagemaker:CreateOptimizationJob", jobs)
    passing = allow(
        "iam:PassRole",
        execution.arn,
        Condition={"StringEquals": {"iam:PassedToService": "sagemaker.amazonaws.com"}},
    )
    elsewhere = {**passing, "Condition": {"StringEquals": {"iam:PassedToService": "lambda.amazonaws.com"}}}
    tags = {"Tags": [{"Key": "team", "Value": "chat"}]}
    for statements, given, missing in (
        ([], {}, "sagemaker:CreateOptimizationJob"),
        ([create], {}, "iam:PassRole"),
        ([create, elsewhere], {}, "iam:PassRole"),
        ([create, passing], tags, "sagemaker:AddTags"),
    ):
        client = Role(guarded, *statements).client("sagemaker")
        asked = request(f"refused-{uuid.uuid4().hex[:8]}", RoleArn=execution.arn, **given)
        assert f"to perform: {missing} on" in refused(client.create_optimization_job, **asked)[1]
    client = Role(guarded, create, passing).client("sagemaker")
    client.create_optimization_job(**request("passed", RoleArn=execution.arn))


def test_a_missing_s3_key_is_access_denied_without_list_permission(guarded: LocalCloud) -> None:
    read = allow("s3:GetObject", f"arn:aws:s3:::{BUCKET}/models/*")
    listing = allow("s3:ListBucket", f"arn:aws:s3:::{BUCKET}", Condition={"StringLike": {"s3:prefix": "models/*"}})
    code, message = refused(Role(guarded, read).client("s3").get_object, Bucket=BUCKET, Key="models/none")
    assert code == "AccessDenied"
    assert "s3:ListBucket" in message
    assert refused(Role(guarded, read, listing).client("s3").get_object, Bucket=BUCKET, Key="models/none")[0] == (
        "NoSuchKey"
    )


def test_an_encrypted_object_needs_permission_on_its_kms_key(guarded: LocalCloud) -> None:
    key = guarded.client("kms").create_key()["KeyMetadata"]["Arn"]
    objects = allow(["s3:GetObject", "s3:PutObject"], f"arn:aws:s3:::{BUCKET}/secret/*")
    encrypted = {"Bucket": BUCKET, "Key": "secret/one", "ServerSideEncryption": "aws:kms", "SSEKMSKeyId": key}
    assert "kms:GenerateDataKey" in refused(Role(guarded, objects).client("s3").put_object, Body=b"", **encrypted)[1]
    writer = Role(guarded, objects, allow("kms:GenerateDataKey", key)).client("s3")
    writer.put_object(Body=b"weights", **encrypted)
    assert "kms:Decrypt" in refused(writer.get_object, Bucket=BUCKET, Key="secret/one")[1]
    reader = Role(guarded, objects, allow("kms:Decrypt", key)).client("s3")
    assert reader.get_object(Bucket=BUCKET, Key="secret/one")["Body"].read() == b"weights"


def test_a_permissions_boundary_narrows_the_policies_of_a_role(guarded: LocalCloud) -> None:
    boundary = guarded.client("iam").create_policy(PolicyName="only-s3", PolicyDocument=document(allow("s3:*", "*")))
    role = Role(guarded, allow(["s3:*", "sagemaker:*"], "*"), PermissionsBoundary=boundary["Policy"]["Arn"])
    role.client("s3").list_objects_v2(Bucket=BUCKET)
    assert "sagemaker:ListModels" in refused(role.client("sagemaker").list_models)[1]


def test_assume_role_can_be_allowed_by_the_tags_of_the_role(guarded: LocalCloud) -> None:
    # As the CDK's pipelines do with the roles of `cdk bootstrap`.
    condition = {"ForAnyValue:StringEquals": {"iam:ResourceTag/aws-cdk:bootstrap-role": ["file-publishing", "deploy"]}}
    sts = Role(guarded, allow("sts:AssumeRole", "*", Condition=condition)).client("sts")
    tagged, other = (
        Role(guarded, Tags=[{"Key": "aws-cdk:bootstrap-role", "Value": value}]) for value in ("deploy", "lookup")
    )
    assert sts.assume_role(RoleArn=tagged.arn, RoleSessionName="deploys")["Credentials"]
    for denied in (other, Role(guarded)):
        assert refused(sts.assume_role, RoleArn=denied.arn, RoleSessionName="deploys")[0] == "AccessDenied"


def test_a_role_created_by_cloudformation_has_its_permissions_boundary(guarded: LocalCloud) -> None:
    properties = {
        "AssumeRolePolicyDocument": json.loads(document(allow("sts:AssumeRole", None, Principal={"AWS": ACCOUNT}))),
        "PermissionsBoundary": "arn:aws:iam::aws:policy/ReadOnlyAccess",
    }
    template = {"Resources": {"Role": {"Type": "AWS::IAM::Role", "Properties": properties}}}
    cloudformation = guarded.client("cloudformation")
    given = {"StackName": "Bounded", "Capabilities": ["CAPABILITY_IAM"]}
    cloudformation.create_stack(TemplateBody=json.dumps(template), **given)
    cloudformation.get_waiter("stack_create_complete").wait(StackName="Bounded", WaiterConfig={"Delay": 1})
    assert boundaries(guarded) == ["arn:aws:iam::aws:policy/ReadOnlyAccess"]
    properties["PermissionsBoundary"] = "arn:aws:iam::aws:policy/PowerUserAccess"
    cloudformation.update_stack(TemplateBody=json.dumps(template), **given)
    cloudformation.get_waiter("stack_update_complete").wait(StackName="Bounded", WaiterConfig={"Delay": 1})
    assert boundaries(guarded) == ["arn:aws:iam::aws:policy/PowerUserAccess"]


def boundaries(cloud: LocalCloud) -> list[str]:
    iam = cloud.client("iam")
    names = [role["RoleName"] for role in iam.list_roles()["Roles"] if role["RoleName"].startswith("Bounded-")]
    return [iam.get_role(RoleName=name)["Role"]["PermissionsBoundary"]["PermissionsBoundaryArn"] for name in names]


@pytest.mark.parametrize("trusted", [False, True])
def test_sagemaker_assumes_a_role_only_for_the_account_in_its_trust_policy(guarded: LocalCloud, trusted: bool) -> None:
    role = Role(guarded, account=ACCOUNT if trusted else "111122223333")
    create = guarded.client("sagemaker").create_optimization_job
    asked = request(f"trusted-{trusted}", RoleArn=role.arn)
    if trusted:
        create(**asked)
    else:
        code, message = refused(create, **asked)
        assert code == "ValidationException"
        assert message.startswith(f"Could not assume role {role.arn}.")
    assert role.decisions[0] == ("sts:AssumeRole", "Allow" if trusted else "ImplicitDeny")


READ = [
    allow("s3:ListBucket", f"arn:aws:s3:::{BUCKET}"),
    allow("s3:GetObject", f"arn:aws:s3:::{BUCKET}/models/*"),
]
WRITE = [allow("s3:PutObject", f"arn:aws:s3:::{BUCKET}/out/*")]
PULLING = [allow("ecr:GetAuthorizationToken", "*"), allow(PULL, REPOSITORY)]


@pytest.mark.parametrize(
    ("statements", "missing"),
    [
        ([*READ, *WRITE], "ecr:GetAuthorizationToken"),
        ([*READ, *WRITE, PULLING[0]], "ecr:BatchCheckLayerAvailability"),
        ([*READ[1:], *WRITE, *PULLING], "s3:ListBucket"),
        ([*READ[:1], *WRITE, *PULLING], "s3:GetObject"),
        ([*READ, *PULLING], "s3:PutObject"),
    ],
)
def test_an_optimization_job_fails_when_its_role_lacks_a_permission(
    guarded: LocalCloud, statements: list[dict[str, Any]], missing: str
) -> None:
    job = run_job(guarded, Role(guarded, *statements))
    assert job["OptimizationJobStatus"] == "FAILED"
    assert job["FailureReason"].startswith("ClientError: User: arn:aws:sts::000000000000:assumed-role/role-")
    assert f"/SageMaker is not authorized to perform: {missing} on resource: " in job["FailureReason"]


def test_an_optimization_job_completes_when_its_role_has_every_permission(guarded: LocalCloud) -> None:
    role = Role(guarded, *READ, *WRITE, *PULLING)
    assert run_job(guarded, role)["OptimizationJobStatus"] == "COMPLETED"
    assert {decision for _, decision in role.decisions} == {"Allow"}


def test_encrypted_job_output_needs_permission_on_its_kms_key(guarded: LocalCloud) -> None:
    key = guarded.client("kms").create_key()["KeyMetadata"]["Arn"]
    role = Role(guarded, *READ, *WRITE, *PULLING, allow("kms:GenerateDataKey", key))
    job = run_job(guarded, role, KmsKeyId=key)
    assert "kms:Decrypt" in job["FailureReason"], "the parts of a large file are decrypted to be put together"


def run_job(cloud: LocalCloud, role: Role, **output: str) -> dict[str, Any]:
    name, sagemaker = f"job-{uuid.uuid4().hex[:8]}", cloud.client("sagemaker")
    sagemaker.create_optimization_job(
        **request(
            name,
            RoleArn=role.arn,
            ModelSource={"S3": {"S3Uri": f"s3://{BUCKET}/models/mine/"}},
            OutputConfig={"S3OutputLocation": f"s3://{BUCKET}/out/{name}/", **output},
        )
    )
    return ended(sagemaker, name)


def make_model(cloud: LocalCloud, role: Role) -> str:
    name = f"model-{uuid.uuid4().hex[:8]}"
    data = {"S3Uri": f"s3://{BUCKET}/models/mine/", "S3DataType": "S3Prefix", "CompressionType": "None"}
    cloud.client("sagemaker").create_model(
        ModelName=name,
        ExecutionRoleArn=role.arn,
        PrimaryContainer={"Image": IMAGE, "ModelDataSource": {"S3DataSource": data}},
    )
    return name


def test_a_model_whose_role_cannot_read_its_files_is_refused(guarded: LocalCloud) -> None:
    role = Role(guarded, READ[0])
    code, message = refused(make_model, guarded, role)
    assert code == "ValidationException"
    assert message.startswith(f"Could not access model data at s3://{BUCKET}/models/mine/.")
    assert "not authorized to perform: s3:GetObject" in message


def test_an_endpoint_fails_when_its_model_s_role_cannot_pull_the_image(guarded: LocalCloud) -> None:
    role = Role(guarded, *READ, PULLING[0], allow(["ecr:BatchCheckLayerAvailability"], REPOSITORY))
    name, sagemaker = make_model(guarded, role), guarded.client("sagemaker")
    make_config(sagemaker, name, name)
    sagemaker.create_endpoint(EndpointName=name, EndpointConfigName=name)
    endpoint = settled(sagemaker, name)
    assert endpoint["EndpointStatus"] == "Failed"
    assert f"The role '{role.arn}' does not have GetDownloadUrlForLayer permission" in endpoint["FailureReason"]


def test_an_inference_component_fails_when_its_model_s_role_cannot_pull_the_image(guarded: LocalCloud) -> None:
    name, sagemaker = make_model(guarded, Role(guarded, *READ)), guarded.client("sagemaker")
    make_config(sagemaker, f"{name}-config", None, ExecutionRoleArn=Role(guarded).arn)
    sagemaker.create_endpoint(EndpointName=name, EndpointConfigName=f"{name}-config")
    settled(sagemaker, name)
    sagemaker.create_inference_component(
        InferenceComponentName=name,
        EndpointName=name,
        VariantName="AllTraffic",
        Specification={"ModelName": name, "ComputeResourceRequirements": {"MinMemoryRequiredInMb": 1024}},
        RuntimeConfig={"CopyCount": 1},
    )
    component = until(
        lambda: sagemaker.describe_inference_component(InferenceComponentName=name),
        lambda found: found["InferenceComponentStatus"] != "Creating",
    )
    assert component["InferenceComponentStatus"] == "Failed"
    assert "ecr:GetAuthorizationToken" in component["FailureReason"]


def test_a_bucket_policy_that_requires_tls_allows_loopback_requests(guarded: LocalCloud) -> None:
    deny = {
        "Effect": "Deny",
        "Principal": "*",
        "Action": "s3:*",
        "Resource": [f"arn:aws:s3:::{BUCKET}", f"arn:aws:s3:::{BUCKET}/*"],
        "Condition": {"Bool": {"aws:SecureTransport": "false"}},
    }
    s3 = guarded.client("s3")
    s3.put_bucket_policy(Bucket=BUCKET, Policy=document(deny))
    role = Role(guarded, *READ, *WRITE, *PULLING)
    try:
        role.client("s3").list_objects_v2(Bucket=BUCKET)
        assert run_job(guarded, role)["OptimizationJobStatus"] == "COMPLETED"
    finally:
        s3.delete_bucket_policy(Bucket=BUCKET)


OUTPUT = f"arn:aws:s3:::{BUCKET}/benchmarks/*"
ENDPOINT = f"arn:aws:sagemaker:us-west-2:{ACCOUNT}:endpoint"
INVOKE = "sagemaker:InvokeEndpointWithResponseStream"
TRAINING_JOBS = f"arn:aws:sagemaker:us-west-2:{ACCOUNT}:training-job/*"
# What a role of AI jobs is asked for, by the action that a refusal names first.
RUNS = {
    "servicequotas:GetServiceQuota": allow(
        "servicequotas:GetServiceQuota", f"arn:aws:servicequotas:us-west-2:{ACCOUNT}:sagemaker/*"
    ),
    "sagemaker:CreateTrainingJob": allow("sagemaker:CreateTrainingJob", TRAINING_JOBS),
    "sagemaker:AddTags": allow("sagemaker:AddTags", TRAINING_JOBS),
    "sagemaker:DescribeTrainingJob": allow("sagemaker:DescribeTrainingJob", TRAINING_JOBS),
    "sagemaker:StopTrainingJob": allow("sagemaker:StopTrainingJob", TRAINING_JOBS),
    "iam:PassRole": {
        **allow("iam:PassRole", f"arn:aws:iam::{ACCOUNT}:role/*"),
        "Condition": {"StringEquals": {"iam:PassedToService": "sagemaker.amazonaws.com"}},
    },
}


@pytest.fixture(scope="module")
def answering(guarded: LocalCloud) -> str:
    """Deploy an endpoint; returns its name."""
    name, sagemaker = make_model(guarded, Role(guarded, *READ, *PULLING)), guarded.client("sagemaker")
    make_config(sagemaker, name, name)
    sagemaker.create_endpoint(EndpointName=name, EndpointConfigName=name)
    assert settled(sagemaker, name)["EndpointStatus"] == "InService"
    return name


@pytest.mark.parametrize(
    ("missing", "said"),
    [
        (None, None),
        *one_in(len(RUNS), [(action, action) for action in RUNS]),
        ("sagemaker:InvokeEndpoint", "sagemaker:InvokeEndpoint"),
        (INVOKE, INVOKE),
        ("write", "s3:PutObject"),
        ("read", "s3:ListBucket"),
    ],
)
def test_a_benchmark_job_fails_when_its_role_lacks_a_permission(
    guarded: LocalCloud, answering: str, missing: str | None, said: str | None
) -> None:
    statements = {
        **{action: [statement] for action, statement in RUNS.items()},
        **{action: [allow(action, f"{ENDPOINT}/{answering}")] for action in ("sagemaker:InvokeEndpoint", INVOKE)},
        "write": [allow("s3:PutObject", OUTPUT)],
        "read": READ,
    }
    role = Role(guarded, *(item for name, given in statements.items() if name != missing for item in given))
    sagemaker, name = guarded.client("sagemaker"), f"job-{uuid.uuid4().hex[:8]}"
    source = {"S3DataSource": {"S3Uri": f"s3://{BUCKET}/models/mine/"}}
    sagemaker.create_ai_workload_config(
        AIWorkloadConfigName=name,
        AIWorkloadConfigs={"WorkloadSpec": {"Inline": '{"benchmark": {"type": "aiperf"}}'}},
        DatasetConfig={"InputDataConfig": [{"ChannelName": "prompts", "DataSource": source}]},
    )
    sagemaker.create_ai_benchmark_job(
        AIBenchmarkJobName=name,
        AIWorkloadConfigIdentifier=name,
        BenchmarkTarget={"Endpoint": {"Identifier": answering}},
        OutputConfig={"S3OutputLocation": f"s3://{BUCKET}/benchmarks/"},
        RoleArn=role.arn,
    )
    job = until(
        lambda: sagemaker.describe_ai_benchmark_job(AIBenchmarkJobName=name),
        lambda found: found["AIBenchmarkJobStatus"] != "InProgress",
    )
    if said is None:
        assert job["AIBenchmarkJobStatus"] == "Completed", job
    else:
        assert job["AIBenchmarkJobStatus"] == "Failed"
        assert f"is not authorized to perform: {said} on resource" in job["FailureReason"]


@pytest.mark.parametrize(
    ("missing", "optimized"),
    [
        (None, True),
        (None, False),
        ("sagemaker:CreateEndpoint", False),
        ("sagemaker:CreateOptimizationJob", True),
        ("sagemaker:CreateTrainingJob", False),
        ("iam:PassRole", False),
    ],
)
def test_a_recommendation_job_fails_when_its_role_lacks_a_permission(
    guarded: LocalCloud, missing: str | None, optimized: bool
) -> None:
    of_account = f"arn:aws:sagemaker:us-west-2:{ACCOUNT}"
    statements = {
        **RUNS,
        "sagemaker:CreateEndpoint": allow("sagemaker:CreateEndpoint", f"{of_account}:endpoint/*"),
        "read": READ[0],
        "get": READ[1],
        "write": WRITE[0],
    }
    if optimized:
        jobs = f"{of_account}:optimization-job/*"
        statements["sagemaker:CreateOptimizationJob"] = allow("sagemaker:CreateOptimizationJob", jobs)
    role = Role(guarded, *(statement for name, statement in statements.items() if name != missing))
    sagemaker, name = guarded.client("sagemaker"), f"job-{uuid.uuid4().hex[:8]}"
    sagemaker.create_ai_workload_config(
        AIWorkloadConfigName=name,
        AIWorkloadConfigs={"WorkloadSpec": {"Inline": '{"benchmark": {"type": "aiperf"}}'}},
    )
    sagemaker.create_ai_recommendation_job(
        AIRecommendationJobName=name,
        AIWorkloadConfigIdentifier=name,
        ModelSource={"S3": {"S3Uri": f"s3://{BUCKET}/models/mine/"}},
        PerformanceTarget={"Constraints": [{"Metric": "throughput"}]},
        OptimizeModel=optimized,
        OutputConfig={"S3OutputLocation": f"s3://{BUCKET}/out/"},
        RoleArn=role.arn,
    )
    # Ten minutes, by a hundredth of the time.
    guarded.advance(6)
    job = until(
        lambda: sagemaker.describe_ai_recommendation_job(AIRecommendationJobName=name),
        lambda found: found["AIRecommendationJobStatus"] != "InProgress",
    )
    if missing is None:
        assert job["AIRecommendationJobStatus"] == "Completed", job
    else:
        assert f"is not authorized to perform: {missing} on resource" in job["FailureReason"]


def test_a_benchmark_job_whose_role_sagemaker_cannot_assume_is_refused(guarded: LocalCloud, answering: str) -> None:
    role, name = Role(guarded, account="111122223333"), f"job-{uuid.uuid4().hex[:8]}"
    sagemaker = guarded.client("sagemaker")
    sagemaker.create_ai_workload_config(
        AIWorkloadConfigName=name,
        AIWorkloadConfigs={"WorkloadSpec": {"Inline": '{"benchmark": {"type": "aiperf"}}'}},
    )
    _, message = refused(
        sagemaker.create_ai_benchmark_job,
        AIBenchmarkJobName=name,
        AIWorkloadConfigIdentifier=name,
        BenchmarkTarget={"Endpoint": {"Identifier": answering}},
        OutputConfig={"S3OutputLocation": f"s3://{BUCKET}/benchmarks/"},
        RoleArn=role.arn,
    )
    assert "Could not assume role" in message


def test_invoking_needs_permission_per_endpoint_and_for_response_streams(guarded: LocalCloud, answering: str) -> None:
    role = Role(guarded, allow("sagemaker:InvokeEndpoint", f"{ENDPOINT}/{answering}"))
    runtime, body = role.client("sagemaker-runtime"), b'{"inputs": "Why?"}'
    assert runtime.invoke_endpoint(EndpointName=answering, Body=body)["Body"].read()
    code, message = refused(runtime.invoke_endpoint_with_response_stream, EndpointName=answering, Body=body)
    assert code == "AccessDeniedException"
    assert f"is not authorized to perform: {INVOKE} on resource: {ENDPOINT}/{answering}" in message
    assert refused(runtime.invoke_endpoint, EndpointName="another", Body=body)[0] == "AccessDeniedException"


def test_querying_the_price_list_needs_permission(guarded: LocalCloud) -> None:
    allowed, denied = Role(guarded, allow("pricing:GetProducts", "*")), Role(guarded)
    assert allowed.client("pricing").get_products(ServiceCode="AmazonSageMaker", MaxResults=1)["PriceList"]
    code, _ = refused(denied.client("pricing").get_products, ServiceCode="AmazonSageMaker")
    assert code == "AccessDeniedException"


@pytest.mark.parametrize("home", [ACCOUNT, "444455556666"])
def test_a_schedule_starts_only_executions_its_role_allows(guarded: LocalCloud, home: str) -> None:
    states, iam, scheduler = (guarded.client(service, home) for service in ("stepfunctions", "iam", "scheduler"))
    definition = '{"StartAt": "Done", "States": {"Done": {"Type": "Pass", "End": true}}}'
    machines: dict[str, str] = {}
    for name, allowed in (("may", True), ("may-not", False)):
        made = states.create_state_machine(name=name, definition=definition, roleArn=Role(guarded, home=home).arn)
        machines[name] = made["stateMachineArn"]
        role = Role(guarded, *([allow("states:StartExecution", machines[name])] if allowed else []), home=home)
        trust = allow("sts:AssumeRole", None, Principal={"Service": "scheduler.amazonaws.com"})
        iam.update_assume_role_policy(RoleName=role.name, PolicyDocument=document(trust))
        scheduler.create_schedule(
            Name=name,
            ScheduleExpression="rate(1 minute)",
            FlexibleTimeWindow={"Mode": "OFF"},
            Target={"Arn": machines[name], "RoleArn": role.arn},
        )

    def started(name: str) -> int:
        return len(states.list_executions(stateMachineArn=machines[name])["executions"])

    until(lambda: started("may"), lambda count: count >= 2)
    assert started("may-not") == 0
    for name in machines:
        scheduler.delete_schedule(Name=name)


def test_without_iam_enforcement_everything_is_allowed_and_no_authorization_is_recorded(
    cloud: LocalCloud, sagemaker: Any
) -> None:
    sagemaker.create_optimization_job(**request("free"))
    assert ended(sagemaker, "free")["OptimizationJobStatus"] == "COMPLETED"
    assert cloud.authorizations() == []
