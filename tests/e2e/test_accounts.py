"""One store for the teams of two accounts, in a third: each deployed with its own credentials, and IAM enforced."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from constructs_optim_local.cloud import LocalCloud

from ..support.deployed_stack import DeployedStack
from ..support.hub_documents import write_document
from ..support.shared_stores import manifest_of
from ..support.template_stack import part_of
from ..support.waiting import until

pytestmark = pytest.mark.exhaustive

PLATFORM, SEARCH, SUPPORT, OUTSIDER = "111122223333", "444455556666", "777788889999", "999900001111"
TEAMS = {"Search": SEARCH, "Support": SUPPORT}
STORE = f"artifacts-of-all-teams-{PLATFORM}-us-west-2"


@dataclass(frozen=True)
class Example:
    """The example in its three accounts."""

    platform: DeployedStack
    search: DeployedStack
    support: DeployedStack

    @property
    def teams(self) -> tuple[DeployedStack, DeployedStack]:
        return self.search, self.support

    @property
    def cloud(self) -> LocalCloud:
        return self.platform.cloud

    @property
    def s3(self) -> Any:
        return self.platform.client("s3")

    def claim(self, key: str) -> dict[str, Any]:
        return self.record(f"artifacts/{key}/claim.json")

    def record(self, name: str) -> dict[str, Any]:
        """A JSON object of the store, as its owner sees it."""
        return json.loads(self.s3.get_object(Bucket=STORE, Key=name)["Body"].read())

    def names(self, prefix: str) -> list[str]:
        """The objects of the store below a prefix, as its owner sees them."""
        return [item["Key"] for item in self.s3.list_objects_v2(Bucket=STORE, Prefix=prefix).get("Contents", [])]

    def references(self, stack: DeployedStack) -> set[str]:
        """What the stacks of an account refer to, by its records."""
        return {key for name in self.names(f"owners/{stack.account}/") for key in self.record(name)["keys"]}


@dataclass(frozen=True)
class Deployed(Example):
    """The example after its deployment, and what the CLI said to a fourth account, which the store does not name."""

    outsider: DeployedStack
    refusal: Future[str]


@contextmanager
def bootstrapped(folders: pytest.TempPathFactory, accounts: Iterable[str]) -> Iterator[LocalCloud]:
    """A local cloud that enforces IAM, of which each account is bootstrapped."""
    hub = folders.mktemp("hub")
    write_document(hub / "meta-textgeneration-llama-3-1-8b", ("2.6.0",))
    with LocalCloud(
        job_seconds=(0.3, 0.3), endpoint_seconds=0.2, time_scale=0.01, hub_folders=[hub], enforce_iam=True
    ) as running:

        def bootstrap(account: str) -> None:
            stack = DeployedStack(running, folders.mktemp("bootstrap"), "Bootstrap", account=account)
            stack.cdk("bootstrap", f"aws://{account}/{running.region}")

        with ThreadPoolExecutor() as threads:
            list(threads.map(bootstrap, accounts))
        yield running


@pytest.fixture(scope="module")
def accounts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCloud]:
    """The four accounts that most tests share."""
    with bootstrapped(tmp_path_factory, (PLATFORM, SEARCH, SUPPORT, OUTSIDER)) as running:
        yield running


def stack(cloud: LocalCloud, output: Path, name: str, account: str, **context: str) -> DeployedStack:
    """A stack of the example in an account."""
    given = {"platform": PLATFORM, "search": SEARCH, "support": SUPPORT, **context}
    return DeployedStack(cloud, output, name, bucket=STORE, example="shared_store.py", context=given, account=account)


def with_platform(cloud: LocalCloud, output: Path) -> Example:
    """The example, of which the platform's stack is deployed."""
    platform = stack(cloud, output, "Platform", PLATFORM)
    platform.deploy()
    key_arn = platform.outputs["KeyArn"]
    search, support = (stack(cloud, output, name, account, key_arn=key_arn) for name, account in TEAMS.items())
    return Example(platform, search, support)


@pytest.fixture(scope="module")
def deployed(accounts: LocalCloud, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployed]:
    output = tmp_path_factory.mktemp("cloud-assemblies")
    example = with_platform(accounts, output)
    key_arn = example.platform.outputs["KeyArn"]
    outsider = stack(accounts, output, "Support", OUTSIDER, support=OUTSIDER, key_arn=key_arn)
    with ThreadPoolExecutor() as threads:
        # It waits for permissions that may be on their way, and disturbs nobody meanwhile.
        refusal = threads.submit(outsider.deploy, fails=True)
        accounts.inject("job_never_finishes")
        try:
            deployments = [started(threads, team) for team in example.teams]
        finally:
            accounts.clear_faults()
        for deployment in deployments:
            deployment.result()
        yield Deployed(example.platform, *example.teams, outsider, refusal)


def started(threads: ThreadPoolExecutor, stack: DeployedStack) -> Future[str]:
    """The deployment of a stack that waits for its artifact by now."""
    deployment = threads.submit(stack.deploy)
    until(lambda: deployment.done() or is_waiting(stack), bool, seconds=120)
    assert not deployment.done(), deployment.result()
    return deployment


def is_waiting(stack: DeployedStack) -> bool:
    """Whether a stack waits for its artifact, which its handler has seen to."""
    try:
        events = stack.events
    except ClientError:
        return False
    statuses = {(event["ResourceType"], event["ResourceStatus"]) for event in events}
    assert "CREATE_FAILED" not in {status for _, status in statuses}, stack.reasons
    return ("Custom::OptimizationJob", "CREATE_COMPLETE") in statuses


def refused(call: Any, **given: Any) -> str:
    """The code of the error that a call must end in."""
    with pytest.raises(ClientError) as raised:
        call(**given)
    return raised.value.response.get("Error", {}).get("Code", "")


def test_each_account_has_its_own_endpoint_in_service(deployed: Deployed) -> None:
    for team in deployed.teams:
        (listed,) = team.client("sagemaker").list_endpoints()["Endpoints"]
        assert listed["EndpointStatus"] == "InService"
        assert listed["EndpointArn"].split(":")[4] == team.account
        assert listed["EndpointName"] == team.outputs["EndpointName"]
    assert deployed.platform.client("sagemaker").list_endpoints()["Endpoints"] == []


def test_the_first_account_runs_the_job_in_the_platforms_bucket_and_the_other_follows_it(
    deployed: Deployed,
) -> None:
    key = deployed.search.artifact_key
    jobs = {stack.account: jobs_of(stack, key) for stack in (deployed.platform, *deployed.teams)}
    assert {account: len(found) for account, found in jobs.items()} == {PLATFORM: 0, SEARCH: 1, SUPPORT: 0}
    assert jobs[SEARCH][0]["OptimizationJobStatus"] == "COMPLETED"
    assert deployed.support.artifact_key == key
    assert {team.name: followed(team) for team in deployed.teams} == {"Search": False, "Support": True}
    manifest = deployed.platform.manifest(key)
    assert manifest["job_name"] == jobs[SEARCH][0]["OptimizationJobName"]
    written = deployed.names(f"artifacts/{key}/model/1/")
    assert [name.rpartition("/")[2] for name in written] == [file["name"] for file in manifest["files"]]
    owned = {
        stack.account: {bucket["Name"] for bucket in stack.client("s3").list_buckets()["Buckets"]} & {STORE}
        for stack in (deployed.platform, *deployed.teams)
    }
    assert owned == {PLATFORM: {STORE}, SEARCH: set(), SUPPORT: set()}


def jobs_of(stack: DeployedStack, key: str) -> list[dict[str, Any]]:
    """The optimization jobs of a stack's account that make an artifact."""
    return stack.client("sagemaker").list_optimization_jobs(NameContains=key[:32])["OptimizationJobSummaries"]


def followed(stack: DeployedStack) -> bool:
    """Whether the stack's handler said that it follows another account's job."""
    (group,) = (name for name in stack.resources["AWS::Logs::LogGroup"] if "ServiceHandler" in name)
    events = stack.client("logs").filter_log_events(logGroupName=group)["events"]
    return any('"follows"' in event["message"] for event in events)


def test_both_accounts_serve_the_artifact_from_the_platform_store(deployed: Deployed) -> None:
    manifest = deployed.platform.manifest(deployed.search.artifact_key)
    assert manifest["model_data_uri"].startswith(f"s3://{STORE}/artifacts/")
    for team in deployed.teams:
        served = team.served_container["ModelDataSource"]["S3DataSource"]
        assert served["S3Uri"] == manifest["model_data_uri"]


def test_every_store_object_is_encrypted_with_the_platform_account_s_key(deployed: Deployed) -> None:
    names = [*deployed.names("artifacts/"), *deployed.names("owners/")]
    keys = {deployed.s3.head_object(Bucket=STORE, Key=name).get("SSEKMSKeyId") for name in names}
    assert keys == {deployed.platform.outputs["KeyArn"]}


def test_each_account_keeps_its_own_references_and_the_claim_names_both(deployed: Deployed) -> None:
    key = deployed.search.artifact_key
    for team in deployed.teams:
        assert deployed.references(team) == {key}
    claim = deployed.claim(key)
    assert {owner["stack_id"].split(":")[4] for owner in claim["owners"]} == {SEARCH, SUPPORT}
    assert (claim["maker"], claim["attempt"], claim["released"]) == (SEARCH, 1, False)


def test_no_account_reads_the_references_of_another_or_removes_anything(deployed: Deployed) -> None:
    (reference,) = deployed.names(f"owners/{SUPPORT}/")
    search = deployed.search.client("s3")
    assert refused(search.get_object, Bucket=STORE, Key=reference) == "AccessDenied"
    assert refused(search.list_objects_v2, Bucket=STORE, Prefix="owners/") == "AccessDenied"
    manifest = f"artifacts/{deployed.search.artifact_key}/manifest.json"
    assert search.get_object(Bucket=STORE, Key=manifest)["Body"].read()
    assert refused(search.delete_object, Bucket=STORE, Key=manifest) == "AccessDenied"


def test_every_request_of_the_team_roles_was_allowed(deployed: Deployed) -> None:
    asked = [found for found in deployed.cloud.authorizations() if found["account"] in TEAMS.values()]
    assert [found for found in asked if found["decision"] != "Allow"] == []
    key_arn = deployed.platform.outputs["KeyArn"]
    for account in TEAMS.values():
        own = [found for found in asked if found["account"] == account]
        assert all(f":{account}:role/" in found["resource"] for found in own if found["action"] == "sts:AssumeRole")
        of_the_store = {
            (part_of(found["role"]), found["action"])
            for found in own
            if found["resource"] == key_arn or found["resource"].startswith(f"arn:aws:s3:::{STORE}")
        }
        makes = {("Job", "kms:GenerateDataKey"), ("Job", "s3:PutObject")}
        assert of_the_store >= {
            ("Handler", "kms:GenerateDataKey"),
            ("Handler", "s3:PutObject"),
            ("Execution", "kms:Decrypt"),
            ("Execution", "s3:GetObject"),
        }
        assert not {("Execution", "kms:GenerateDataKey"), ("Execution", "s3:PutObject")} & of_the_store
        assert (of_the_store >= makes) == (account == SEARCH), "the second account makes nothing"


def test_a_read_only_account_waits_for_another_accounts_artifact_and_serves_it_by_key(
    accounts: LocalCloud, tmp_path: Path
) -> None:
    bucket = f"optimized-artifacts-{PLATFORM}-us-west-2"
    training, serving = (
        DeployedStack(
            accounts,
            tmp_path,
            name,
            bucket=bucket,
            example="eagle_in_two_stacks.py",
            context={"maker": PLATFORM, "consumer": SUPPORT},
            account=account,
        )
        for name, account in (("Training", PLATFORM), ("Serving", SUPPORT))
    )
    accounts.inject("job_never_finishes")
    training.deploy()
    key = training.outputs["ArtifactKey"]
    serving.deploy(fails=True)
    promise = f"account {PLATFORM} is making it for the stack Training, by "
    assert f"the artifact {key} is not in the store {bucket}: {promise}" in serving.reasons
    accounts.clear_faults()
    manifest = manifest_of(training, key)
    serving.deploy()
    assert serving.endpoint["EndpointStatus"] == "InService"
    assert serving.endpoint["EndpointArn"].split(":")[4] == SUPPORT
    (heads,) = serving.served_container["AdditionalModelDataSources"]
    assert heads["S3DataSource"]["S3Uri"] == f"{manifest['model_data_uri']}draft/"
    assert jobs_of(serving, key) == []
    reader = serving.client("s3")
    name = f"artifacts/{key}/manifest.json"
    assert reader.get_object(Bucket=bucket, Key=name)["Body"].read()
    assert refused(reader.put_object, Bucket=bucket, Key=name, Body=b"{}") == "AccessDenied"
    serving.destroy()
    training.destroy()
    asked = [found for found in accounts.authorizations() if found["role"].startswith(("Serving-", "Training-"))]
    assert {found["account"] for found in asked} == {PLATFORM, SUPPORT}
    assert [found for found in asked if found["decision"] != "Allow"] == []


def test_an_account_the_store_is_not_shared_with_is_refused_with_a_remedy(deployed: Deployed) -> None:
    for said in (deployed.refusal.result(), deployed.outsider.reasons):
        words = " ".join(said.split())
        assert (
            f"If another account owns the store {STORE}, that account must share it with this one, {OUTSIDER}" in words
        )
    assert deployed.outsider.status == "ROLLBACK_COMPLETE", "what it made is taken down again"
    assert deployed.references(deployed.outsider) == set()
    assert OUTSIDER not in json.dumps(deployed.claim(deployed.search.artifact_key))
    assert deployed.outsider.client("sagemaker").list_optimization_jobs()["OptimizationJobSummaries"] == []
    denied = [found for found in deployed.cloud.authorizations() if found["account"] == OUTSIDER]
    refused = {
        (found["action"].partition(":")[0], found["resource"]) for found in denied if found["decision"] != "Allow"
    }
    assert {resource.partition("/")[0] for service, resource in refused if service == "s3"} == {f"arn:aws:s3:::{STORE}"}
    # The preflight asks whether the key is enabled, which only advises where it may not.
    assert {resource for service, resource in refused if service != "s3"} == {deployed.platform.outputs["KeyArn"]}


def test_deploying_a_teams_stack_again_changes_nothing(deployed: Deployed) -> None:
    assert "no changes" in deployed.support.deploy()


def test_leaving_teams_release_their_references_and_a_returning_team_reuses_the_artifact(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    # In a cloud of its own: other tests need what leaves here.
    with bootstrapped(tmp_path_factory, (PLATFORM, SEARCH, SUPPORT)) as cloud:
        example = with_platform(cloud, tmp_path_factory.mktemp("cloud-assemblies"))
        for team in example.teams:
            team.deploy()
        key, kept = example.search.artifact_key, example.names("artifacts/")
        example.search.destroy()
        assert (example.references(example.search), example.references(example.support)) == (set(), {key})
        claim = example.claim(key)
        assert [owner["stack_id"].split(":")[4] for owner in claim["owners"]] == [SUPPORT]
        assert not claim["released"], "the artifact is whole, and the other account serves it"
        example.search.deploy()
        assert example.references(example.search) == {key}, "it found the artifact"
        assert len(jobs_of(example.search, key)) == 1
        example.search.destroy()
        # The bucket, its policy and its key are retained: who has a share left goes on, and can leave.
        example.platform.destroy()
        assert example.support.endpoint["EndpointStatus"] == "InService"
        example.support.destroy()
        assert example.references(example.support) == set()
        assert example.claim(key)["owners"] == []
        assert example.names("artifacts/") == kept, "artifacts stay until somebody prunes them"
        left = [found for found in cloud.authorizations() if found["account"] in TEAMS.values()]
        assert [found for found in left if found["decision"] != "Allow"] == []
