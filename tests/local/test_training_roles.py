"""Training jobs with IAM enforced: permissions of their roles and of the caller that creates them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from constructs_optim_local.cloud import LocalCloud

from ..support.iam import ACCOUNT, PULL, Role, allow, refused
from .training import BUCKET, IMAGE, Training, request, started


@pytest.fixture(scope="module")
def guarded() -> Iterator[LocalCloud]:
    running = started(enforce_iam=True)
    yield running
    running.stop()


EVERYTHING = f"arn:aws:s3:::{BUCKET}/*"
REPOSITORY = IMAGE.partition("/")[2].partition(":")[0]
STEPS = {
    "list": allow("s3:ListBucket", f"arn:aws:s3:::{BUCKET}"),
    "get": allow("s3:GetObject", EVERYTHING),
    "put": allow("s3:PutObject", f"arn:aws:s3:::{BUCKET}/out/*"),
    "checkpoints": allow("s3:PutObject", f"arn:aws:s3:::{BUCKET}/checkpoints/*"),
    "token": allow("ecr:GetAuthorizationToken", "*"),
    "pull": allow(PULL, f"arn:aws:ecr:us-west-2:763104351884:repository/{REPOSITORY}"),
}
WRITING = "open('model/answer', 'w').write('42')"


def as_role(cloud: LocalCloud, role: Role, code: str = WRITING, **changed: Any) -> Training:
    """A job with a role that has the minimal permissions."""
    checkpoints = {"S3Uri": f"s3://{BUCKET}/checkpoints/{role.name}/"}
    return Training(cloud, code, RoleArn=role.arn, CheckpointConfig=checkpoints, **changed)


@pytest.mark.parametrize(
    ("missing", "said"),
    [
        (None, None),
        ("get", "ClientError: Data download failed:User: arn:aws:sts::000000000000:assumed-role/role-"),
        ("put", "not authorized to perform: s3:PutObject on resource: arn:aws:s3:::training/out/"),
        ("checkpoints", "not authorized to perform: s3:PutObject on resource: arn:aws:s3:::training/checkpoints/"),
        ("token", "not authorized to perform: ecr:GetAuthorizationToken"),
        ("pull", "not authorized to perform: ecr:BatchCheckLayerAvailability"),
    ],
)
def test_a_training_job_fails_when_its_role_lacks_a_permission(
    guarded: LocalCloud, missing: str | None, said: str | None
) -> None:
    role = Role(guarded, *(statement for name, statement in STEPS.items() if name != missing))
    job = as_role(guarded, role).ended()
    if said is None:
        assert job["TrainingJobStatus"] == "Completed", job
        assert {decision for _, decision in role.decisions} == {"Allow"}
    else:
        assert job["TrainingJobStatus"] == "Failed"
        assert said in job["FailureReason"]


def test_a_training_job_whose_role_cannot_list_inputs_or_be_assumed_is_refused(guarded: LocalCloud) -> None:
    unable = Role(guarded, *(statement for name, statement in STEPS.items() if name != "list"))
    assert '"s3:ListBucket" permissions on bucket "training"' in refused(as_role, guarded, unable)[1]
    others = Role(guarded, *STEPS.values(), account="111122223333")
    assert refused(as_role, guarded, others)[1].startswith(f"Could not assume role {others.arn}.")


def test_an_encrypted_model_needs_permission_on_its_kms_key(guarded: LocalCloud) -> None:
    key = guarded.client("kms").create_key()["KeyMetadata"]["Arn"]
    output = {"KmsKeyId": key}
    job = as_role(guarded, Role(guarded, *STEPS.values()), OutputDataConfig=output).ended()
    assert f"not authorized to perform: kms:GenerateDataKey on resource: {key}" in job["FailureReason"]
    able = Role(guarded, *STEPS.values(), allow(["kms:GenerateDataKey", "kms:Decrypt"], key))
    training = as_role(guarded, able, OutputDataConfig=output)
    training.completed()
    head = guarded.client("s3").head_object(Bucket=BUCKET, Key=f"out/{training.name}/output/model/answer")
    assert (head["ServerSideEncryption"], head["SSEKMSKeyId"]) == ("aws:kms", key)


ASKING = """
    import boto3
    from botocore.exceptions import ClientError
    s3 = boto3.client("s3")
    s3.put_object(Bucket="training", Key="out/mine", Body=b"")
    try:
        s3.put_object(Bucket="training", Key="elsewhere/mine", Body=b"")
    except ClientError as error:
        open("model/answer", "w").write(error.response["Error"]["Code"])
"""


def test_training_code_runs_with_the_credentials_of_the_job_role(guarded: LocalCloud) -> None:
    training = as_role(guarded, Role(guarded, *STEPS.values()), ASKING)
    training.completed()
    assert training.model("answer") == "AccessDenied"


def test_creating_a_training_job_needs_create_add_tags_and_pass_role(guarded: LocalCloud) -> None:
    role = Role(guarded, *STEPS.values())
    jobs = f"arn:aws:sagemaker:us-west-2:{ACCOUNT}:training-job/mine-*"
    create, tag = allow("sagemaker:CreateTrainingJob", jobs), allow("sagemaker:AddTags", jobs)
    pass_role = allow("iam:PassRole", role.arn)
    for given, lacking in (
        ((tag, pass_role), "sagemaker:CreateTrainingJob"),
        ((create, pass_role), "sagemaker:AddTags"),
        ((create, tag), "iam:PassRole"),
    ):
        client = Role(guarded, *given).client("sagemaker")
        asked = request("mine-1", RoleArn=role.arn, Tags=[{"Key": "team", "Value": "chat"}])
        code, message = refused(client.create_training_job, **asked)
        assert code == "AccessDeniedException"
        assert f"not authorized to perform: {lacking}" in message
