"""Who may do what with a shared store: its policies, evaluated, and what sharing refuses."""

from __future__ import annotations

import json
from typing import Any

import pytest
from aws_cdk import CfnParameter, Environment, RemovalPolicy, Stack
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3

from constructs_optim import ArtifactStore

from .policy_evaluation import Call, allowed_across_accounts, allows, is_public, resolved
from .stacks import KEY_OF_THE_HEADLINE, endpoint, resource, resources, stack, template_of

OURS, READER, MAKER, MEMBER, STRANGER = "111122223333", "444455556666", "777788889999", "123412341234", "999900009999"
ORGANIZATION = "o-a1b2c3d4e5"
BUCKET, KMS_KEY = "arn:aws:s3:::shared", "arn:aws:kms:us-west-2:111122223333:key/1234"
MANIFEST, CLAIM = f"{BUCKET}/artifacts/{'a' * 64}/manifest.json", f"{BUCKET}/artifacts/{'a' * 64}/claim.json"
THROUGH_S3 = {"kms:ViaService": "s3.us-west-2.amazonaws.com"}


def shared(scope: Stack) -> ArtifactStore:
    store = ArtifactStore(scope, "Artifacts", encryption_key=kms.Key(scope, "Key", enable_key_rotation=True))
    store.share_with_account(READER)
    store.share_with_account(MAKER, read_only=False)
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


CONSUMERS = pytest.mark.parametrize("account", [READER, MAKER, MEMBER])


@CONSUMERS
def test_a_consumer_reads_artifacts_and_finds_the_store(policy: list[dict[str, Any]], account: str) -> None:
    for call in (
        by(account, "s3:GetObject", MANIFEST),
        by(account, "s3:GetBucketLocation"),
        by(account, "s3:ListBucket", s3_prefix="artifacts/abc/model/1/"),
        by(account, "s3:ListBucket", s3_prefix="artifacts/abc/claim.json"),  # behind a GetObject of what is not there
    ):
        assert allows(policy, call) is True, call


@CONSUMERS
def test_a_consumer_cannot_list_the_whole_bucket(policy: list[dict[str, Any]], account: str) -> None:
    assert not allows(policy, by(account, "s3:ListBucket"))


@CONSUMERS
def test_a_consumer_keeps_its_own_references_and_sees_nobody_elses(policy: list[dict[str, Any]], account: str) -> None:
    for action in ("s3:GetObject", "s3:PutObject"):
        assert allows(policy, by(account, action, f"{BUCKET}/owners/{account}/0123.json")) is True
        for other in (OURS, STRANGER, "unknown"):
            assert allows(policy, by(account, action, f"{BUCKET}/owners/{other}/0123.json")) is None
    assert allows(policy, by(account, "s3:ListBucket", s3_prefix=f"owners/{account}/0123.json")) is True
    for prefix in ("owners/", f"owners/{OURS}/", ""):
        assert allows(policy, by(account, "s3:ListBucket", s3_prefix=prefix)) is None


@pytest.mark.parametrize("account", [READER, MEMBER])
def test_a_reader_writes_neither_claims_nor_artifacts(policy: list[dict[str, Any]], account: str) -> None:
    for resource_arn in (MANIFEST, CLAIM, f"{BUCKET}/anything"):
        assert allows(policy, by(account, "s3:PutObject", resource_arn)) is None


def test_a_maker_writes_claims_and_artifacts(policy: list[dict[str, Any]]) -> None:
    for action in ("s3:PutObject", "s3:AbortMultipartUpload", "s3:GetObject"):
        assert allows(policy, by(MAKER, action, CLAIM)) is True


@pytest.mark.parametrize("account", [READER, MAKER, MEMBER, STRANGER])
def test_nobody_else_removes_anything_or_changes_the_bucket(policy: list[dict[str, Any]], account: str) -> None:
    for action, arn in (
        ("s3:DeleteObject", MANIFEST),
        ("s3:DeleteObject", f"{BUCKET}/owners/{account}/0123.json"),
        ("s3:DeleteObjectVersion", MANIFEST),
        ("s3:PutBucketPolicy", BUCKET),
        ("s3:PutObject", f"{BUCKET}/owners"),
    ):
        assert allows(policy, by(account, action, arn)) is None


def test_a_stranger_and_the_member_of_another_organization_may_nothing(policy: list[dict[str, Any]]) -> None:
    other = {"aws:PrincipalOrgID": "o-zzzzzzzzzz"}
    for action, arn in (("s3:GetObject", MANIFEST), ("s3:ListBucket", BUCKET), ("s3:GetBucketLocation", BUCKET)):
        assert allows(policy, Call(STRANGER, action, arn)) is None
        assert allows(policy, Call(STRANGER, action, arn, other)) is None


def test_sharing_with_the_organization_gives_the_stores_own_account_nothing(policy: list[dict[str, Any]]) -> None:
    assert allows(policy, by(OURS, "s3:GetObject", MANIFEST)) is None, "its roles' own policies decide"


def test_a_consumer_comes_by_tls_or_not_at_all(policy: list[dict[str, Any]]) -> None:
    plain = Call(READER, "s3:GetObject", MANIFEST, {"aws:SecureTransport": "false"})
    assert allows(policy, plain) is False


def test_no_statement_is_public_in_the_eyes_of_the_public_access_block(policy: list[dict[str, Any]]) -> None:
    assert [statement for statement in policy if is_public(statement)] == []
    everybody = [s for s in policy if s["Effect"] == "Allow" and s["Principal"] == {"AWS": "*"}]
    assert len(everybody) == 3, "the organization's, which a condition holds to it"
    for statement in everybody:
        assert is_public({**statement, "Condition": {}})


@CONSUMERS
def test_consumers_decrypt_and_encrypt_through_s3_alone(policy_of_key: list[dict[str, Any]], account: str) -> None:
    context = {"aws:PrincipalOrgID": ORGANIZATION} if account == MEMBER else {}
    for action in ("kms:Decrypt", "kms:GenerateDataKey"):
        assert allows(policy_of_key, Call(account, action, KMS_KEY, {**context, **THROUGH_S3})) is True
        assert allows(policy_of_key, Call(account, action, KMS_KEY, context)) is None
    assert allows(policy_of_key, Call(account, "kms:ScheduleKeyDeletion", KMS_KEY, {**context, **THROUGH_S3})) is None
    assert allows(policy_of_key, Call(STRANGER, "kms:Decrypt", KMS_KEY, THROUGH_S3)) is None


def test_what_a_makers_jobs_do_with_the_key_both_sides_allow_and_no_reader_encrypts(
    policy_of_key: list[dict[str, Any]],
) -> None:
    scope = stack("Maker", Environment(account=MAKER, region="us-west-2"))
    key = kms.Key.from_key_arn(scope, "Key", KMS_KEY)
    bucket = s3.Bucket.from_bucket_name(scope, "Shared", "shared")
    endpoint(scope, artifact_store=ArtifactStore.from_bucket(bucket, encryption_key=key))
    template = template_of(scope)
    (statement,) = [
        statement
        for role in resolved(resources(template, "AWS::IAM::Role"), MAKER, dict.fromkeys(template["Resources"], ""))
        for policy in role.get("Policies", ())
        for statement in policy["PolicyDocument"]["Statement"]
        if "kms:Encrypt" in statement["Action"]
    ]
    for action in statement["Action"]:
        call = Call(MAKER, action, KMS_KEY, THROUGH_S3)
        assert allowed_across_accounts([statement], policy_of_key, call), action
        assert not allows(policy_of_key, Call(READER, "kms:Encrypt", KMS_KEY, THROUGH_S3))


def test_of_an_imported_key_a_maker_is_said_to_encrypt_as_well() -> None:
    scope = stack()
    store = ArtifactStore(scope, "Artifacts", encryption_key=kms.Key.from_key_arn(scope, "Key", KMS_KEY))
    store.share_with_account(READER)
    store.share_with_account(READER, read_only=False)
    told = [entry.data for entry in store.node.metadata if "warning" in entry.type]
    assert f"must allow kms:Encrypt to the account {READER}" in told[1]


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


def test_what_the_readers_handler_and_sagemaker_do_both_sides_allow(
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


def test_the_readers_roles_ask_for_no_more_than_they_get() -> None:
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


def test_sharing_twice_is_sharing_once() -> None:
    assert policy_after((READER, True), (ORGANIZATION, True)) == policy_after(
        (READER, True), (READER, True), (ORGANIZATION, True), (ORGANIZATION, True)
    )


def test_one_more_account_is_one_more_name_in_the_statements_there_are() -> None:
    one, two = (json.loads(policy_after(*steps)) for steps in ([(READER, True)], [(READER, True), (MAKER, True)]))
    assert [s.get("Sid") for s in one] == [s.get("Sid") for s in two]
    assert two[-1]["Principal"]["AWS"] == [f"arn:aws:iam::{account}:root" for account in (READER, MAKER)]


def test_a_maker_stays_one_when_it_is_shared_with_for_reading_as_well() -> None:
    maker = policy_after((MAKER, False))
    assert policy_after((MAKER, False), (MAKER, True)) == maker
    assert policy_after((MAKER, True), (MAKER, False)) == maker
    assert "AccountsMakeArtifacts" in maker


def test_each_statement_has_an_id_of_its_own() -> None:
    ids = [s["Sid"] for s in json.loads(policy_after((READER, False), (ORGANIZATION, False))) if s["Effect"] == "Allow"]
    assert ids == [
        f"{kind}{grant}"
        for kind in ("Accounts", "Organizations")
        for grant in ("FindArtifacts", "ReadArtifacts", "KeepReferences", "MakeArtifacts")
    ]


def test_a_hundred_accounts_fit_into_a_bucket_policy() -> None:
    accounts = [(f"{number:012}", False) for number in range(100)]
    assert len(json.dumps(json.loads(policy_after(*accounts)), separators=(",", ":"))) < 20_480


def test_two_stores_may_have_one_key() -> None:
    scope = stack()
    key = kms.Key(scope, "Key", enable_key_rotation=True)
    for name in ("One", "Two"):
        ArtifactStore(scope, name, encryption_key=key).share_with_account(READER)
    ids = [s["Sid"] for s in key_policy(scope) if "Sid" in s]
    assert len(set(ids)) == len(ids) == 2


def test_an_accounts_id_may_be_a_parameter() -> None:
    scope = stack()
    ArtifactStore(scope, "Artifacts").share_with_account(CfnParameter(scope, "Consumer").value_as_string)
    text = json.dumps(resource(template_of(scope), "AWS::S3::BucketPolicy"))
    assert '":iam::", {"Ref": "Consumer"}, ":root"' in text


@pytest.mark.parametrize("account", ["11112222333", "1111-2222-3333", "", "*", 111122223333, "arn:aws:iam::1:root"])
def test_what_is_no_account_is_refused_with_the_value_and_what_works(account: Any) -> None:
    with pytest.raises(ValueError, match="an account's id is 12 digits, as text: '111122223333'") as caught:
        ArtifactStore(stack(), "Artifacts").share_with_account(account)
    assert repr(account) in str(caught.value)


@pytest.mark.parametrize(
    "organization", ["*", "o-*", "", "r-ab12", "ou-ab12-11112222", "o-SHOUTING12", "o-short", None]
)
def test_what_is_no_organization_is_refused_before_the_store_is_open_to_everybody(organization: Any) -> None:
    scope = stack()
    store = ArtifactStore(scope, "Artifacts")
    with pytest.raises(ValueError, match="describe-organization` prints") as caught:
        store.share_with_organization(organization)
    assert repr(organization) in str(caught.value)
    assert "Allow" not in {statement["Effect"] for statement in bucket_policy(scope)}


def test_of_an_imported_key_is_said_what_its_owner_must_allow_to_whom() -> None:
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


def test_of_a_key_of_the_app_nothing_is_said() -> None:
    scope = stack()
    assert [entry for entry in shared(scope).node.metadata if "warning" in entry.type] == []


@pytest.mark.parametrize("removal", [RemovalPolicy.RETAIN, RemovalPolicy.DESTROY])
def test_consumers_can_still_read_a_store_that_outlives_its_stack(removal: RemovalPolicy) -> None:
    scope = stack()
    ArtifactStore(scope, "Artifacts", removal_policy=removal).share_with_account(READER)
    found = template_of(scope)["Resources"].values()
    kinds = ("AWS::S3::Bucket", "AWS::S3::BucketPolicy")
    assert len({r["DeletionPolicy"] for r in found if r["Type"] in kinds}) == 1
