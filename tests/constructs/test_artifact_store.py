from __future__ import annotations

from typing import Any

from aws_cdk import RemovalPolicy
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3

from constructs_optim import ArtifactStore, IArtifactStore

from .stacks import endpoint, resource, resources, stack, template_of


def bucket(**given: Any) -> dict[str, Any]:
    scope = stack()
    ArtifactStore(scope, "Artifacts", **given)
    (found,) = [r for r in template_of(scope)["Resources"].values() if r["Type"] == "AWS::S3::Bucket"]
    return found


def test_a_store_is_encrypted_versioned_and_private() -> None:
    properties = bucket()["Properties"]
    assert properties["VersioningConfiguration"] == {"Status": "Enabled"}
    assert set(properties["PublicAccessBlockConfiguration"].values()) == {True}
    (rule,) = properties["BucketEncryption"]["ServerSideEncryptionConfiguration"]
    assert rule["ServerSideEncryptionByDefault"]["SSEAlgorithm"] == "AES256"


def test_a_store_refuses_what_does_not_come_by_a_recent_tls() -> None:
    scope = stack()
    ArtifactStore(scope, "Artifacts")
    denied = resource(template_of(scope), "AWS::S3::BucketPolicy")["PolicyDocument"]["Statement"]
    assert [statement["Effect"] for statement in denied] == ["Deny", "Deny"]
    assert denied[0]["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}
    assert denied[1]["Condition"] == {"NumericLessThan": {"s3:TlsVersion": 1.2}}


def test_a_store_outlives_its_stack_unless_told_otherwise() -> None:
    assert bucket()["DeletionPolicy"] == "Retain"
    assert bucket(removal_policy=RemovalPolicy.DESTROY)["DeletionPolicy"] == "Delete"


def test_a_key_of_ones_own_encrypts_what_jobs_write_and_their_roles_may_use_it() -> None:
    scope = stack()
    key = kms.Key(scope, "Key", enable_key_rotation=True)
    endpoint(scope, artifact_store=ArtifactStore(scope, "Artifacts", encryption_key=key))
    template = template_of(scope)
    arn = scope.resolve(key.key_arn)
    assert resource(template, "Custom::OptimizationJob")["KmsKeyArn"] == arn
    users = [
        role
        for role in resources(template, "AWS::IAM::Role")
        for policy in role["Policies"]
        for statement in policy["PolicyDocument"]["Statement"]
        if {"kms:Decrypt", "kms:GenerateDataKey"} <= set(statement["Action"]) and statement["Resource"] == arn
    ]
    assert len(users) == 3, "the jobs' role, the handler's and the watcher's"


def test_a_bucket_that_exists_is_a_store_without_a_resource() -> None:
    scope = stack()
    store = ArtifactStore.from_bucket(s3.Bucket.from_bucket_name(scope, "Bucket", "ml-artifacts"))
    assert isinstance(store, IArtifactStore)
    endpoint(scope, artifact_store=store)
    template = template_of(scope)
    assert not resources(template, "AWS::S3::Bucket")
    assert resource(template, "Custom::OptimizationJob")["Bucket"] == "ml-artifacts"


def test_a_bucket_that_knows_its_key_brings_it_along() -> None:
    scope = stack()
    key = kms.Key.from_key_arn(scope, "Key", "arn:aws:kms:us-west-2:111122223333:key/1234")
    known = s3.Bucket.from_bucket_attributes(scope, "Bucket", bucket_name="ml-artifacts", encryption_key=key)
    assert ArtifactStore.from_bucket(known).encryption_key_arn == key.key_arn


def test_access_logs_go_where_they_are_told_to() -> None:
    scope = stack()
    logs = s3.Bucket(scope, "Logs")
    ArtifactStore(scope, "Artifacts", server_access_logs_bucket=logs, server_access_logs_prefix="artifacts/")
    store = resources(template_of(scope), "AWS::S3::Bucket")[1]
    assert store["LoggingConfiguration"]["LogFilePrefix"] == "artifacts/"
