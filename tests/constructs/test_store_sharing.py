"""Access to a shared store: its evaluated policies, and the arguments that sharing refuses."""

from __future__ import annotations

import json
from typing import Any

import pytest
from aws_cdk import CfnParameter, Environment, RemovalPolicy, Stack
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3

from constructs_optim import ArtifactStore

from ..support.construct_stacks import KEY_OF_THE_HEADLINE, endpoint, resource, resources, stack, template_of
from .policy_evaluation import Call, allowed_across_accounts, allows, is_public, resolved

OURS, READER, WRITER, MEMBER, STRANGER = "111122223333", "444455556666", "777788889999", "123412341234", "999900009999"
ORGANIZATION = "o-a1b2c3d4e5"
BUCKET, KMS_KEY = "arn:aws:s3:::shared", "arn:aws:kms:us-west-2:111122223333:key/1234"
MANIFEST, CLAIM = f"{BUCKET}/artifacts/{'a' * 64}/manifest.json", f"{BUCKET}/artifacts/{'a' * 64}/claim.json"
THROUGH_S3 = {"kms:ViaService": "s3.us-west-2.amazonaws.com"}


def shared(scope: Stack) -> ArtifactStore:
    store = ArtifactStore(scope, "Artifacts", encryption_key=kms.Key(scope, "Key", enable_key_rotation=True))
    store.share_with_account(READER)
    store.share_with_account(WRITER, read_only=False)
    store.share_with_organization(ORGANIZATION)
    return store


def bucket_policy(scope: Stack) -> list[dict[str, Any]]:
    return statements_of(scope, resource(template_of(scope), "AWS::S3::BucketPolicy")["PolicyDocument"])


def key_policy(scope: Stack) -> list[dict[str, Any]]:
    return statements_of(scope, resource(template_of(scope), "AWS::KMS::Key")["KeyPolicy"])


def statements_of(scope: Stack, document: dict[str, Any]) -> list[dict[str, Any]]:
    """The statements with the ARN of the one bucket or key of the template."""
    kinds = {"AWS::S3::Bucket": BUCKET, "AWS::KMS::Key": KMS_KEY}
    arns = {name: kinds.get(r["Type"], "") for name, r in template_of(scope)["Resources"].items()}
    return resolved(document, OURS, arns)["Statement"]


@pytest.fixture(scope="module")
def policy() -> list[dict[str, Any]]:
    scope = stack()
    shared(scope)
    return bucket_policy(scope)


@pytest.fixture(scope="module")
def policy_of_key() -> list[dict[str, Any]]:
    scope = stack()
    shared(scope)
    return key_policy(scope)


def by(account: str, action: str, resource: str = BUCKET, **context: str) -> Call:
    organization = {"aws:PrincipalOrgID": ORGANIZATION} if account in (MEMBER, OURS) else {}
    renamed = {key.replace("_", ":"): value for key, value in context.items()}
    return Call(account, action, resource, {**organization, **renamed})


CONSUMERS = pytest.mark.parametrize("account", [READER, WRITER, MEMBER])


@CONSUMERS
def test_a_consumer_account_may_read_artifacts_and_locate_the_bucket(
    policy: list[dict[str, Any]], account: str
) -> None:
    for call in (
        by(account, "s3:GetObject", MANIFEST),
        by(account, "s3:GetBucketLocation"),
        by(account, "s3:ListBucket", s3_prefix="artifacts/abc/model/1/"),
        by(account, "s3:ListBucket", s3_prefix="artifacts/abc/claim.json"),  # for a GetObject of a missing key
    ):
        assert allows(policy, call) is True, call


@CONSUMERS
def test_a_consumer_cannot_list_the_whole_bucket(policy: list[dict[str, Any]], account: str) -> None:
    assert not allows(policy, by(account, "s3:ListBucket"))


@CONSUMERS
def test_a_consumer_account_reads_and_writes_only_its_own_references(
    policy: list[dict[str, Any]], account: str
) -> None:
    for action in ("s3:GetObject", "s3:PutObject"):
        assert allows(policy, by(account, action, f"{BUCKET}/owners/{account}/0123.json")) is True
        for other in (OURS, STRANGER, "unknown"):
            assert allows(policy, by(account, action, f"{BUCKET}/owners/{other}/0123.json")) is None
    assert allows(policy, by(account, "s3:ListBucket", s3_prefix=f"owners/{account}/0123.json")) is True
    for prefix in ("owners/", f"owners/{OURS}/", ""):
        assert allows(policy, by(account, "s3:ListBucket", s3_prefix=prefix)) is None


@pytest.mark.parametrize("account", [READER, MEMBER])
def test_a_read_only_account_may_not_write_claims_or_artifacts(policy: list[dict[str, Any]], account: str) -> None:
    for resource_arn in (MANIFEST, CLAIM, f"{BUCKET}/anything"):
        assert allows(policy, by(account, "s3:PutObject", resource_arn)) is None


def test_an_account_with_write_access_may_write_claims_and_artifacts(policy: list[dict[str, Any]]) -> None:
    for action in ("s3:PutObject", "s3:AbortMultipartUpload", "s3:GetObject"):
        assert allows(policy, by(WRITER, action, CLAIM)) is True


@pytest.mark.parametrize("folder", ["restarts", "scaling"])
def test_an_account_with_write_access_changes_only_the_records_of_its_own_endpoints(
    policy: list[dict[str, Any]], folder: str
) -> None:
    for action in ("s3:GetObject", "s3:PutObject"):
        assert allows(policy, by(WRITER, action, f"{BUCKET}/{folder}/{WRITER}/us-west-2/chat.json")) is True
        for other in (OURS, READER, STRANGER):
            assert allows(policy, by(WRITER, action, f"{BUCKET}/{folder}/{other}/us-west-2/chat.json")) is None
    assert allows(policy, by(WRITER, "s3:ListBucket", s3_prefix=f"{folder}/{WRITER}/us-west-2/chat.json")) is True
    assert allows(policy, by(WRITER, "s3:ListBucket", s3_prefix=f"{folder}/{OURS}/us-west-2/chat.json")) is None


@pytest.mark.parametrize("account", [READER, WRITER, MEMBER, STRANGER])
def test_no_other_account_may_delete_objects_or_change_the_bucket(policy: list[dict[str, Any]], account: str) -> None:
    for action, arn in (
        ("s3:DeleteObject", MANIFEST),
        ("s3:DeleteObject", f"{BUCKET}/owners/{account}/0123.json"),
        ("s3:DeleteObjectVersion", MANIFEST),
        ("s3:PutBucketPolicy", BUCKET),
        ("s3:PutObject", f"{BUCKET}/owners"),
    ):
        assert allows(policy, by(account, action, arn)) is None


def test_unknown_accounts_and_members_of_other_organizations_have_no_access(policy: list[dict[str, Any]]) -> None:
    other = {"aws:PrincipalOrgID": "o-zzzzzzzzzz"}
    for action, arn in (("s3:GetObject", MANIFEST), ("s3:ListBucket", BUCKET), ("s3:GetBucketLocation", BUCKET)):
        assert allows(policy, Call(STRANGER, action, arn)) is None
        assert allows(policy, Call(STRANGER, action, arn, other)) is None


def test_sharing_with_an_organization_grants_nothing_to_the_owning_account(policy: list[dict[str, Any]]) -> None:
    assert allows(policy, by(OURS, "s3:GetObject", MANIFEST)) is None, "its roles' own policies decide"


def test_a_consumer_request_without_tls_is_denied(policy: list[dict[str, Any]]) -> None:
    plain = Call(READER, "s3:GetObject", MANIFEST, {"aws:SecureTransport": "false"})
    assert allows(policy, plain) is False


def test_no_bucket_policy_statement_is_public_to_block_public_access(policy: list[dict[str, Any]]) -> None:
    assert [statement for statement in policy if is_public(statement)] == []
    everybody = [s for s in policy if s["Effect"] == "Allow" and s["Principal"] == {"AWS": "*"}]
    assert len(everybody) == 3, "the organization's, which a condition holds to it"
    for statement in everybody:
        assert is_public({**statement, "Condition": {}})


@CONSUMERS
def test_consumer_accounts_may_use_the_kms_key_only_through_s3(
    policy_of_key: list[dict[str, Any]], account: str
) -> None:
    context = {"aws:PrincipalOrgID": ORGANIZATION} if account == MEMBER else {}
    for action in ("kms:Decrypt", "kms:GenerateDataKey"):
        assert allows(policy_of_key, Call(account, action, KMS_KEY, {**context, **THROUGH_S3})) is True
        assert allows(policy_of_key, Call(account, action, KMS_KEY, context)) is None
    assert allows(policy_of_key, Call(account, "kms:ScheduleKeyDeletion", KMS_KEY, {**context, **THROUGH_S3})) is None
    assert allows(policy_of_key, Call(STRANGER, "kms:Decrypt", KMS_KEY, THROUGH_S3)) is None


def test_the_key_policy_lets_writing_but_not_reading_accounts_encrypt(
    policy_of_key: list[dict[str, Any]],
) -> None:
    scope = stack("Writer", Environment(account=WRITER, region="us-west-2"))
    key = kms.Key.from_key_arn(scope, "Key", KMS_KEY)
    bucket = s3.Bucket.from_bucket_name(scope, "Shared", "shared")
    endpoint(scope, artifact_store=ArtifactStore.from_bucket(bucket, encryption_key=key))
    template = template_of(scope)
    (statement,) = [
        statement
        for role in resolved(resources(template, "AWS::IAM::Role"), WRITER, dict.fromkeys(template["Resources"], ""))
        for policy in role.get("Policies", ())
        for statement in policy["PolicyDocument"]["Statement"]
        if "kms:Encrypt" in statement["Action"]
    ]
    for action in statement["Action"]:
        call = Call(WRITER, action, KMS_KEY, THROUGH_S3)
        assert allowed_across_accounts([statement], policy_of_key, call), action
        assert not allows(policy_of_key, Call(READER, "kms:Encrypt", KMS_KEY, THROUGH_S3))


def test_the_imported_key_warning_includes_encrypt_for_write_access() -> None:
    scope = stack()
    store = ArtifactStore(scope, "Artifacts", encryption_key=kms.Key.from_key_arn(scope, "Key", KMS_KEY))
    store.share_with_account(READER)
    store.share_with_account(READER, read_only=False)
    warnings = [entry.data for entry in store.node.metadata if "warning" in entry.type]
    assert f"must allow kms:Encrypt to the account {READER}" in warnings[1]


def roles_of_a_reader() -> dict[str, list[dict[str, Any]]]:
    """The statements of the roles of a stack in the reader's account, by the roles' descriptions."""
    scope = stack("Consumer", Environment(account=READER, region="us-west-2"))
    store = ArtifactStore.from_bucket(
        s3.Bucket.from_bucket_name(scope, "Shared", "shared"),
        encryption_key=kms.Key.from_key_arn(scope, "Key", KMS_KEY),
        read_only=True,
    )
    endpoint(scope, artifact_store=store, artifact_key=KEY_OF_THE_HEADLINE)
    return {
        role["Description"].split()[0]: [
            statement
            for policy in resolved(role["Policies"], READER, dict.fromkeys(template_of(scope)["Resources"], ""))
            for statement in policy["PolicyDocument"]["Statement"]
        ]
        for role in resources(template_of(scope), "AWS::IAM::Role")
    }


READS = [by(READER, "s3:GetObject", MANIFEST), by(READER, "s3:ListBucket", s3_prefix="artifacts/abc/")]
REFERS = [
    by(READER, "s3:GetBucketLocation"),
    by(READER, "s3:GetObject", CLAIM),
    by(READER, "s3:ListBucket", s3_prefix=f"owners/{READER}/0123.json"),
    by(READER, "s3:GetObject", f"{BUCKET}/owners/{READER}/0123.json"),
    by(READER, "s3:PutObject", f"{BUCKET}/owners/{READER}/0123.json"),
]


def test_both_accounts_allow_the_calls_of_a_readers_handler_and_endpoint(
    policy: list[dict[str, Any]], policy_of_key: list[dict[str, Any]]
) -> None:
    roles = roles_of_a_reader()
    handler, execution = roles["Finds"], roles["What"]
    for call in (*READS, *REFERS):
        assert allowed_across_accounts(handler, policy, call), call
    for call in READS:
        assert allowed_across_accounts(execution, policy, call), call
    for role, action in ((handler, "kms:Decrypt"), (handler, "kms:GenerateDataKey"), (execution, "kms:Decrypt")):
        assert allowed_across_accounts(role, policy_of_key, Call(READER, action, KMS_KEY, THROUGH_S3)), action


def test_a_readers_roles_may_not_write_claims_or_foreign_references() -> None:
    for statements in roles_of_a_reader().values():
        for call in (by(READER, "s3:PutObject", CLAIM), by(READER, "s3:PutObject", f"{BUCKET}/owners/{OURS}/0.json")):
            assert allows(statements, call) is None


def policy_after(*steps: tuple[str, bool]) -> str:
    scope = stack()
    store = ArtifactStore(scope, "Artifacts")
    for consumer, read_only in steps:
        share = store.share_with_organization if consumer.startswith("o-") else store.share_with_account
        share(consumer, read_only=read_only)
    return json.dumps(bucket_policy(scope), indent=1)


def test_sharing_twice_with_the_same_consumer_changes_nothing() -> None:
    assert policy_after((READER, True), (ORGANIZATION, True)) == policy_after(
        (READER, True), (READER, True), (ORGANIZATION, True), (ORGANIZATION, True)
    )


def test_another_shared_account_is_added_to_the_existing_statements() -> None:
    one, two = (json.loads(policy_after(*steps)) for steps in ([(READER, True)], [(READER, True), (WRITER, True)]))
    assert [s.get("Sid") for s in one] == [s.get("Sid") for s in two]
    assert two[-1]["Principal"]["AWS"] == [f"arn:aws:iam::{account}:root" for account in (READER, WRITER)]


def test_sharing_read_only_does_not_remove_an_accounts_write_access() -> None:
    writer = policy_after((WRITER, False))
    assert policy_after((WRITER, False), (WRITER, True)) == writer
    assert policy_after((WRITER, True), (WRITER, False)) == writer
    assert "AccountsMakeArtifacts" in writer


def test_each_sharing_statement_has_a_unique_sid() -> None:
    ids = [s["Sid"] for s in json.loads(policy_after((READER, False), (ORGANIZATION, False))) if s["Effect"] == "Allow"]
    assert ids == [
        f"{kind}{grant}"
        for kind in ("Accounts", "Organizations")
        for grant in ("FindArtifacts", "ReadArtifacts", "KeepReferences", "MakeArtifacts", "FindRecords")
    ]


def test_a_hundred_accounts_fit_into_a_bucket_policy() -> None:
    accounts = [(f"{number:012}", False) for number in range(100)]
    assert len(json.dumps(json.loads(policy_after(*accounts)), separators=(",", ":"))) < 20_480


def test_two_stores_may_share_one_kms_key() -> None:
    scope = stack()
    key = kms.Key(scope, "Key", enable_key_rotation=True)
    for name in ("One", "Two"):
        ArtifactStore(scope, name, encryption_key=key).share_with_account(READER)
    ids = [s["Sid"] for s in key_policy(scope) if "Sid" in s]
    assert len(set(ids)) == len(ids) == 4


def test_the_consumer_account_id_may_be_a_cloudformation_parameter() -> None:
    scope = stack()
    ArtifactStore(scope, "Artifacts").share_with_account(CfnParameter(scope, "Consumer").value_as_string)
    text = json.dumps(resource(template_of(scope), "AWS::S3::BucketPolicy"))
    assert '":iam::", {"Ref": "Consumer"}, ":root"' in text


@pytest.mark.parametrize("account", ["11112222333", "1111-2222-3333", "", "*", 111122223333, "arn:aws:iam::1:root"])
def test_an_invalid_account_id_is_refused_with_the_expected_format(account: Any) -> None:
    with pytest.raises(ValueError, match="an account ID is text of 12 digits: '111122223333'") as caught:
        ArtifactStore(stack(), "Artifacts").share_with_account(account)
    assert repr(account) in str(caught.value)


@pytest.mark.parametrize(
    "organization", ["*", "o-*", "", "r-ab12", "ou-ab12-11112222", "o-SHOUTING12", "o-short", None]
)
def test_an_invalid_organization_id_is_refused_without_opening_the_store(organization: Any) -> None:
    scope = stack()
    store = ArtifactStore(scope, "Artifacts")
    with pytest.raises(ValueError, match="describe-organization` prints") as caught:
        store.share_with_organization(organization)
    assert repr(organization) in str(caught.value)
    assert "Allow" not in {statement["Effect"] for statement in bucket_policy(scope)}


def test_sharing_with_an_imported_key_warns_about_required_key_permissions() -> None:
    scope = stack()
    key = kms.Key.from_key_arn(scope, "Key", KMS_KEY)
    store = ArtifactStore(scope, "Artifacts", encryption_key=key)
    store.share_with_account(READER)
    store.share_with_account(READER)
    store.share_with_organization(ORGANIZATION)
    warnings = [entry.data for entry in store.node.metadata if "warning" in entry.type]
    assert [f"to the account {READER}" in warnings[0], f"to the organization {ORGANIZATION}" in warnings[1]] == [
        True
    ] * 2
    assert len(warnings) == 2
    for warning in warnings:
        assert KMS_KEY in warning
        assert "must allow kms:Decrypt, kms:GenerateDataKey to the" in warning
        assert "constructs-optim:StoreKeyPolicy" in warning


def test_sharing_with_a_key_of_the_app_gives_no_warning() -> None:
    scope = stack()
    assert [entry for entry in shared(scope).node.metadata if "warning" in entry.type] == []


@pytest.mark.parametrize("removal", [RemovalPolicy.RETAIN, RemovalPolicy.DESTROY])
def test_the_bucket_policy_has_the_removal_policy_of_its_bucket(removal: RemovalPolicy) -> None:
    scope = stack()
    ArtifactStore(scope, "Artifacts", removal_policy=removal).share_with_account(READER)
    found = template_of(scope)["Resources"].values()
    kinds = ("AWS::S3::Bucket", "AWS::S3::BucketPolicy")
    assert len({r["DeletionPolicy"] for r in found if r["Type"] in kinds}) == 1
