from __future__ import annotations

from typing import Any

from aws_cdk import RemovalPolicy
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3

from constructs_optim import ArtifactStore, IArtifactStore

from ..support.construct_stacks import endpoint, resource, resources, stack, template_of


def bucket(**overrides: Any) -> dict[str, Any]:
    scope = stack()
    ArtifactStore(scope, "Artifacts", **overrides)
    (found,) = [r for r in template_of(scope)["Resources"].values() if r["Type"] == "AWS::S3::Bucket"]
    return found


def test_a_store_is_encrypted_versioned_and_private() -> None:
    properties = bucket()["Properties"]
    assert properties["VersioningConfiguration"] == {"Status": "Enabled"}
    assert set(properties["PublicAccessBlockConfiguration"].values()) == {True}
    (rule,) = properties["BucketEncryption"]["ServerSideEncryptionConfiguration"]
    assert rule["ServerSideEncryptionByDefault"]["SSEAlgorithm"] == "AES256"


def test_a_store_denies_requests_over_http_or_below_tls_1_2() -> None:
    scope = stack()
    ArtifactStore(scope, "Artifacts")
    denied = resource(template_of(scope), "AWS::S3::BucketPolicy")["PolicyDocument"]["Statement"]
    assert [statement["Effect"] for statement in denied] == ["Deny", "Deny"]
    assert denied[0]["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}
    assert denied[1]["Condition"] == {"NumericLessThan": {"s3:TlsVersion": 1.2}}


def test_a_store_is_retained_unless_its_removal_policy_is_destroy() -> None:
    assert bucket()["DeletionPolicy"] == "Retain"
    assert bucket(removal_policy=RemovalPolicy.DESTROY)["DeletionPolicy"] == "Delete"


def test_a_custom_kms_key_encrypts_job_outputs_and_their_roles_may_use_it() -> None:
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


def test_an_existing_bucket_is_used_as_a_store_without_a_new_bucket() -> None:
    scope = stack()
    store = ArtifactStore.from_bucket(s3.Bucket.from_bucket_name(scope, "Bucket", "ml-artifacts"))
    assert isinstance(store, IArtifactStore)
    endpoint(scope, artifact_store=store)
    template = template_of(scope)
    assert not resources(template, "AWS::S3::Bucket")
    assert resource(template, "Custom::OptimizationJob")["Bucket"] == "ml-artifacts"


def test_a_store_uses_the_encryption_key_of_its_imported_bucket() -> None:
    scope = stack()
    key = kms.Key.from_key_arn(scope, "Key", "arn:aws:kms:us-west-2:111122223333:key/1234")
    known = s3.Bucket.from_bucket_attributes(scope, "Bucket", bucket_name="ml-artifacts", encryption_key=key)
    assert ArtifactStore.from_bucket(known).encryption_key_arn == key.key_arn


def test_server_access_logs_use_the_configured_prefix() -> None:
    scope = stack()
    logs = s3.Bucket(scope, "Logs")
    ArtifactStore(scope, "Artifacts", server_access_logs_bucket=logs, server_access_logs_prefix="artifacts/")
    store = resources(template_of(scope), "AWS::S3::Bucket")[1]
    assert store["LoggingConfiguration"]["LogFilePrefix"] == "artifacts/"
