"""Several accounts of one local cloud: separate resources, and cross-account access."""

from __future__ import annotations

import textwrap
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from constructs_optim_local.cloud import LocalCloud

from ..support.endpoint_updates import serving
from ..support.iam import ACCOUNT, PULL, Role, allow, document, refused
from ..support.local_cloud import ROLE
from ..support.optimization_jobs import ended, request
from ..support.scaled_variants import alarm, causes, instances, step_policy, variant
from ..support.waiting import until
from .training import Training, started
from .training import request as training_request

OTHER = "444455556666"
IMAGES = [allow("ecr:GetAuthorizationToken", "*"), allow(PULL, "*")]
OF_THE_OTHER = {"AWS": f"arn:aws:iam::{OTHER}:root"}

Bucket = Callable[..., str]


@pytest.fixture(scope="module")
def guarded() -> Iterator[LocalCloud]:
    """A local cloud that enforces IAM."""
    running = started(enforce_iam=True)
    yield running
    running.stop()


@pytest.fixture
def bucket(guarded: LocalCloud) -> Bucket:
    """Creates a bucket of the first account with an object in it, and the statements of its bucket policy."""

    def made(*statements: dict[str, Any], cloud: LocalCloud = guarded) -> str:
        s3, name = cloud.client("s3"), f"bucket-{uuid.uuid4().hex[:8]}"
        s3.create_bucket(Bucket=name, CreateBucketConfiguration={"LocationConstraint": cloud.region})
        s3.put_object(Bucket=name, Key="models/weights", Body=b"weights")
        if statements:
            s3.put_bucket_policy(Bucket=name, Policy=document(*(on(statement, name) for statement in statements)))
        return name

    return made


def on(statement: dict[str, Any], bucket: str) -> dict[str, Any]:
    """A statement whose resource is a path in the bucket, or the bucket itself where it has none."""
    return {**statement, "Resource": f"arn:aws:s3:::{bucket}{statement.get('Resource', '')}"}


def of_bucket(bucket: str, *actions: str) -> dict[str, Any]:
    return allow(list(actions), [f"arn:aws:s3:::{bucket}", f"arn:aws:s3:::{bucket}/*"])


@pytest.mark.parametrize(("at_home", "abroad"), [(True, True), (True, False), (False, True)])
def test_cross_account_access_needs_the_roles_policy_and_the_bucket_policy_to_allow(
    guarded: LocalCloud, bucket: Bucket, at_home: bool, abroad: bool
) -> None:
    name = bucket(*([allow("s3:GetObject", "/models/*", Principal=OF_THE_OTHER)] if abroad else []))
    role = Role(guarded, *([of_bucket(name, "s3:GetObject")] if at_home else []), home=OTHER)
    get = role.client("s3").get_object
    if at_home and abroad:
        assert get(Bucket=name, Key="models/weights")["Body"].read() == b"weights"
    else:
        code, message = refused(get, Bucket=name, Key="models/weights")
        assert code == "AccessDenied"
        assert (message == "Access Denied") == at_home, "S3 gives those of another account no reason"
    (found,) = guarded.authorizations(role.name)
    assert (found["account"], found["decision"]) == (OTHER, "Allow" if at_home and abroad else "ImplicitDeny")


def test_a_request_that_expects_another_owner_of_the_bucket_is_denied(guarded: LocalCloud, bucket: Bucket) -> None:
    name, s3 = bucket(), guarded.client("s3")
    for call, parameters in (
        (s3.get_bucket_location, {}),
        (s3.get_object, {"Key": "models/weights"}),
        (s3.put_object, {"Key": "mine", "Body": b""}),
    ):
        assert call(Bucket=name, ExpectedBucketOwner=ACCOUNT, **parameters)
        code, message = refused(call, Bucket=name, ExpectedBucketOwner=OTHER, **parameters)
        assert (code, message) == ("AccessDenied", "Access Denied")


def test_a_missing_object_is_no_such_key_with_list_permission_and_access_denied_without(
    guarded: LocalCloud, bucket: Bucket
) -> None:
    name = bucket(
        allow("s3:GetObject", "/*", Principal=OF_THE_OTHER),
        allow("s3:ListBucket", None, Principal=OF_THE_OTHER, Condition={"StringLike": {"s3:prefix": "models/*"}}),
    )
    s3 = Role(guarded, of_bucket(name, "s3:GetObject", "s3:ListBucket"), home=OTHER).client("s3")
    assert refused(s3.get_object, Bucket=name, Key="models/none")[0] == "NoSuchKey"
    assert refused(s3.get_object, Bucket=name, Key="elsewhere/none")[0] == "AccessDenied"


def test_a_bucket_policy_may_allow_one_role_of_another_account(guarded: LocalCloud, bucket: Bucket) -> None:
    roles = [Role(guarded, allow("s3:GetObject", "*"), home=OTHER) for _ in range(2)]
    name = bucket(allow("s3:GetObject", "/*", Principal={"AWS": roles[0].arn}))
    named, another = (role.client("s3").get_object for role in roles)
    assert named(Bucket=name, Key="models/weights")["Body"].read() == b"weights"
    assert refused(another, Bucket=name, Key="models/weights") == ("AccessDenied", "Access Denied")


def test_a_bucket_policy_resolves_the_principal_account_of_the_caller(guarded: LocalCloud, bucket: Bucket) -> None:
    name = bucket(allow("s3:PutObject", "/owners/${aws:PrincipalAccount}/*", Principal=OF_THE_OTHER))
    s3 = Role(guarded, of_bucket(name, "s3:PutObject"), home=OTHER).client("s3")
    s3.put_object(Bucket=name, Key=f"owners/{OTHER}/mine", Body=b"")
    assert refused(s3.put_object, Bucket=name, Key=f"owners/{ACCOUNT}/mine", Body=b"")[0] == "AccessDenied"


def test_block_public_access_keeps_a_public_bucket_policy_from_allowing_another_account(
    guarded: LocalCloud, bucket: Bucket
) -> None:
    name, s3 = bucket(), guarded.client("s3")
    block = {"BlockPublicPolicy": False, "RestrictPublicBuckets": False}
    s3.put_public_access_block(Bucket=name, PublicAccessBlockConfiguration=block)
    s3.put_bucket_policy(Bucket=name, Policy=document(on(allow("s3:GetObject", "/*", Principal="*"), name)))
    get = Role(guarded, of_bucket(name, "s3:GetObject"), home=OTHER).client("s3").get_object
    assert get(Bucket=name, Key="models/weights")["Body"].read() == b"weights"
    s3.put_public_access_block(Bucket=name, PublicAccessBlockConfiguration={**block, "RestrictPublicBuckets": True})
    assert refused(get, Bucket=name, Key="models/weights")[0] == "AccessDenied"


@pytest.mark.parametrize("shared", [True, False])
def test_a_kms_key_of_another_account_needs_its_key_policy_to_allow(
    guarded: LocalCloud, bucket: Bucket, shared: bool
) -> None:
    through_s3 = {"StringEquals": {"kms:ViaService": "s3.us-west-2.amazonaws.com"}}
    theirs = allow(["kms:Decrypt", "kms:GenerateDataKey"], "*", Principal=OF_THE_OTHER, Condition=through_s3)
    own = allow("kms:*", "*", Principal={"AWS": f"arn:aws:iam::{ACCOUNT}:root"})
    seen = allow("kms:DescribeKey", "*", Principal=OF_THE_OTHER)
    policy = document(own, *([theirs, seen] if shared else []))
    key = guarded.client("kms").create_key(Policy=policy)["KeyMetadata"]["Arn"]
    name = bucket(allow(["s3:GetObject", "s3:PutObject"], "/*", Principal=OF_THE_OTHER))
    by_default = {"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": key}
    guarded.client("s3").put_bucket_encryption(
        Bucket=name,
        ServerSideEncryptionConfiguration={"Rules": [{"ApplyServerSideEncryptionByDefault": by_default}]},
    )
    guarded.client("s3").put_object(Bucket=name, Key="secret", Body=b"secret")
    use = allow(["kms:Decrypt", "kms:DescribeKey", "kms:GenerateDataKey"], key)
    role = Role(guarded, of_bucket(name, "s3:GetObject", "s3:PutObject"), use, home=OTHER)
    s3 = role.client("s3")
    if shared:
        s3.put_object(Bucket=name, Key="mine", Body=b"mine")
        assert s3.get_object(Bucket=name, Key="secret")["Body"].read() == b"secret"
        assert s3.head_object(Bucket=name, Key="mine")["SSEKMSKeyId"] == key
        assert role.client("kms").describe_key(KeyId=key)["KeyMetadata"]["KeyState"] == "Enabled"
        code, message = refused(role.client("kms").generate_data_key, KeyId=key, KeySpec="AES_256")
        assert (code, "kms:GenerateDataKey" in message) == ("AccessDeniedException", True), "not without S3"
    else:
        assert refused(role.client("kms").describe_key, KeyId=key)[0] == "AccessDeniedException"
        for call, given, action in (
            (s3.put_object, {"Key": "mine", "Body": b""}, "kms:GenerateDataKey"),
            (s3.get_object, {"Key": "secret"}, "kms:Decrypt"),
        ):
            _, message = refused(call, Bucket=name, **given)
            assert message.endswith(f"on resource: {key} because no resource-based policy allows the {action} action")


@pytest.mark.parametrize("shared", [True, False])
def test_an_optimization_job_of_another_account_writes_only_where_the_bucket_policy_allows(
    guarded: LocalCloud, bucket: Bucket, shared: bool
) -> None:
    name = bucket(
        allow(["s3:GetObject"], "/*", Principal=OF_THE_OTHER),
        allow("s3:ListBucket", None, Principal=OF_THE_OTHER),
        *([allow("s3:PutObject", "/out/*", Principal=OF_THE_OTHER)] if shared else []),
    )
    may = of_bucket(name, "s3:GetObject", "s3:ListBucket", "s3:PutObject")
    job = run_job(guarded, name, Role(guarded, *IMAGES, may, home=OTHER).arn)
    if shared:
        assert job["OptimizationJobStatus"] == "COMPLETED", job
        assert written(guarded, name)
    else:
        said = "because no resource-based policy allows the s3:PutObject action"
        assert (job["OptimizationJobStatus"], said in job["FailureReason"]) == ("FAILED", True)
        assert not written(guarded, name)
    assert guarded.client("sagemaker").list_optimization_jobs()["OptimizationJobSummaries"] == []
    assert guarded.function_calls() == [], "SageMaker's own calls are not recorded as calls of a function"


@pytest.mark.parametrize("shared", [True, False])
def test_without_iam_enforcement_cross_account_access_still_needs_the_bucket_policy(
    cloud: LocalCloud, bucket: Bucket, shared: bool
) -> None:
    name = bucket(*([allow("s3:*", "/*", Principal=OF_THE_OTHER)] if shared else []), cloud=cloud)
    job = run_job(cloud, name, ROLE.replace(ACCOUNT, OTHER))
    assert (job["OptimizationJobStatus"] == "COMPLETED") == shared == bool(written(cloud, name))


def run_job(cloud: LocalCloud, bucket: str, role_arn: str) -> dict[str, Any]:
    """An optimization job of the other account, from the bucket to the bucket."""
    sagemaker = cloud.client("sagemaker", OTHER)
    sagemaker.create_optimization_job(
        **request(
            bucket,
            RoleArn=role_arn,
            ModelSource={"S3": {"S3Uri": f"s3://{bucket}/models/"}},
            OutputConfig={"S3OutputLocation": f"s3://{bucket}/out/"},
        )
    )
    return ended(sagemaker, bucket)


def written(cloud: LocalCloud, bucket: str) -> list[Any]:
    return cloud.client("s3").list_objects_v2(Bucket=bucket, Prefix="out/").get("Contents", [])


def test_sagemaker_refuses_an_execution_role_of_another_account(guarded: LocalCloud, bucket: Bucket) -> None:
    # Its trust policy would let it.
    role = Role(guarded, home=ACCOUNT, account=OTHER)
    _, message = refused(run_job, guarded, bucket(), role.arn)
    assert message.startswith(f"Could not assume role {role.arn}.")


WHO = """
    import boto3
    print("asking as", boto3.client("sts").get_caller_identity()["Arn"].split("/")[0])
    open("model/answer", "w").write(boto3.client("sts").get_caller_identity()["Account"])
"""


def test_a_training_job_calls_aws_and_writes_logs_in_its_own_account(guarded: LocalCloud) -> None:
    statements = [of_bucket("training", "s3:GetObject", "s3:ListBucket", "s3:PutObject")]
    shared = {**statements[0], "Principal": OF_THE_OTHER}
    guarded.client("s3").put_bucket_policy(Bucket="training", Policy=document(shared))
    role = Role(guarded, *IMAGES, *statements, home=OTHER)
    training = Training(guarded, WHO, account=OTHER, RoleArn=role.arn)
    training.completed()
    assert training.model("answer") == OTHER
    assert training.log() == [f"asking as arn:aws:sts::{OTHER}:assumed-role"]
    assert guarded.client("logs").describe_log_groups()["logGroups"] == []
    assert {decision for _, decision in role.decisions} == {"Allow"}


def test_without_iam_enforcement_training_code_is_the_administrator_of_its_account(cloud: LocalCloud) -> None:
    s3, name = cloud.client("s3", OTHER), "code-of-the-other"
    s3.create_bucket(Bucket=name, CreateBucketConfiguration={"LocationConstraint": cloud.region})
    s3.put_object(Bucket=name, Key="code/main.py", Body=textwrap.dedent(WHO).encode())
    sagemaker = cloud.client("sagemaker", OTHER)
    output = {"S3OutputPath": f"s3://{name}/out"}
    sagemaker.create_training_job(
        **training_request("others", channels={"code": f"s3://{name}/code/"}, OutputDataConfig=output)
    )
    until(
        lambda: sagemaker.describe_training_job(TrainingJobName="others"),
        lambda job: job["TrainingJobStatus"] == "Completed",
    )
    answer = s3.get_object(Bucket=name, Key="out/others/output/model/answer")["Body"].read()
    assert answer.decode() == OTHER


def test_two_accounts_may_each_have_an_endpoint_of_the_same_name(cloud: LocalCloud) -> None:
    clients = [cloud.client("sagemaker", account) for account in (ACCOUNT, OTHER)]
    for sagemaker, count in zip(clients, (1, 2), strict=True):
        serving(sagemaker, "of-both", count=count)
    counts = [
        sagemaker.describe_endpoint(EndpointName="of-both")["ProductionVariants"][0]["CurrentInstanceCount"]
        for sagemaker in clients
    ]
    assert counts == [1, 2]
    clients[0].delete_endpoint(EndpointName="of-both")
    assert clients[1].describe_endpoint(EndpointName="of-both")["EndpointArn"].split(":")[4] == OTHER


def test_an_alarm_scales_only_the_endpoint_of_its_own_account(cloud: LocalCloud) -> None:
    accounts, of = (ACCOUNT, OTHER), variant("scaled-in-two-accounts")
    for account in accounts:
        serving(cloud.client("sagemaker", account), "scaled-in-two-accounts", count=1)
        scaling = cloud.client("application-autoscaling", account)
        scaling.register_scalable_target(**of, MinCapacity=1, MaxCapacity=4)
        alarm(cloud.client("cloudwatch", account), "busy", step_policy(scaling, of, 2))
    given = {"AlarmName": "busy", "StateValue": "ALARM", "StateReason": "a test"}
    cloud.client("cloudwatch", OTHER).set_alarm_state(**given)
    instances(cloud.client("sagemaker", OTHER), "scaled-in-two-accounts", 3)
    instances(cloud.client("sagemaker"), "scaled-in-two-accounts", 1)
    assert causes(cloud.client("application-autoscaling"), of) == []
