"""Pruning: removed and kept artifacts, and that no concurrent deployment loses its artifact."""

from __future__ import annotations

import datetime as dt
import itertools
import json
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from constructs_optim.operations import pruning as pruning_module
from constructs_optim.operations.artifacts import ArtifactInventory, State
from constructs_optim.operations.pruning import Pruner, Pruning
from constructs_optim.operations.stacks import Stacks
from constructs_optim.runtime.errors import DeploymentError
from constructs_optim.runtime.store.artifact_store import ArtifactStore, Owner
from constructs_optim.runtime.store.json_records import JsonRecords
from constructs_optim.runtime.store.owner_records import OwnerRecord, OwnerRecords, Reference
from constructs_optim_local.cloud import LocalCloud

from ..support.operator_stores import ACCOUNT, Store, artifact_key, client, owner
from ..support.sampling import one_in

KEY, OTHER = artifact_key("one"), artifact_key("other")
LATER = dt.timedelta(days=40)


def pruner(store: Store, *, s3: Any = None, later: dt.timedelta = LATER, cloudformation: Any = None) -> Pruner:
    """A pruner to which everything is 40 days old, and which keeps artifacts used within 30 days."""
    chosen = s3 or store.s3
    return Pruner(
        chosen,
        ArtifactInventory(chosen, store.sagemaker, store.bucket, account=ACCOUNT),
        Stacks(ACCOUNT, lambda region: cloudformation or client(store.cloud, "cloudformation")),
        older_than=dt.timedelta(days=30),
        now=dt.datetime.now(dt.UTC) + later,
    )


def pruned(store: Store, **how: Any) -> Pruning:
    one = pruner(store, **how)
    return one.remove(one.survey())


def removed(result: Pruning) -> list[str]:
    return [removal.artifact.key for removal in result.removals if removal.removed]


def stack(cloud: LocalCloud, name: str) -> Owner:
    """An owner in a stack that exists."""
    handle = json.dumps({"Resources": {"Handle": {"Type": "AWS::CloudFormation::WaitConditionHandle"}}})
    stack_id = client(cloud, "cloudformation").create_stack(StackName=name, TemplateBody=handle)["StackId"]
    return Owner(stack_id, "Llama70BJob")


def test_an_unreferenced_artifact_is_removed_and_its_claim_keeps_the_attempt_number(store: Store) -> None:
    store.made(KEY)
    store.s3.put_object(Bucket=store.bucket, Key=f"artifacts/{KEY}/tensorboard/events.out", Body=b"loss")
    assert removed(pruned(store)) == [KEY]
    assert store.names() == [f"artifacts/{KEY}/claim.json"]
    assert store.claimed(KEY, owner("New")).attempt == 2


def test_an_artifact_whose_manifest_a_newer_release_wrote_is_kept(store: Store) -> None:
    store.made(KEY)
    name = f"artifacts/{KEY}/manifest.json"
    manifest = json.loads(store.s3.get_object(Bucket=store.bucket, Key=name)["Body"].read())
    store.put(name, json.dumps({**manifest, "schema": 2}).encode())
    result = pruned(store)
    assert removed(result) == []
    assert result.kept == {KEY: "a newer release of constructs-optim wrote its records: upgrade, then prune"}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("manifest.json", b'{"schema": 2}'),
        ("claim.json", b'{"schema": 2, "owners": 3}'),
        ("claim.json", b"damaged"),
    ],
)
def test_an_unreadable_artifact_is_kept_and_does_not_stop_other_removals(
    store: Store, name: str, content: bytes
) -> None:
    store.made(KEY, by=owner("Gone"))
    store.made(OTHER, by=owner("AlsoGone"))
    records = OwnerRecords(store.s3, store.bucket)
    records.begin(owner("Gone"), "request")
    records.refer(owner("Gone"), "request", KEY)
    store.put(f"artifacts/{KEY}/{name}", content)
    claim = store.s3.get_object(Bucket=store.bucket, Key=f"artifacts/{KEY}/claim.json")["Body"].read()
    result = pruned(store)
    assert (removed(result), [*result.kept]) == ([OTHER], [KEY])
    assert store.s3.get_object(Bucket=store.bucket, Key=f"artifacts/{KEY}/claim.json")["Body"].read() == claim
    assert records.get(owner("Gone")).wants(KEY)


def test_a_pruning_survey_changes_nothing(store: Store) -> None:
    store.made(KEY, by=owner("Gone"))
    OwnerRecords(store.s3, store.bucket).begin(owner("Gone"), "request")

    def everything() -> list[tuple[str, str, dt.datetime]]:
        objects = store.s3.list_objects_v2(Bucket=store.bucket)["Contents"]
        return [(item["Key"], item["ETag"], item["LastModified"]) for item in objects]

    before = everything()
    found = pruner(store).survey()
    assert [removal.artifact.key for removal in found.removals] == [KEY]
    assert found.freed_bytes > 0
    assert [gone.owner for gone in found.gone_owners] == [owner("Gone")]
    assert everything() == before


def test_an_artifact_owned_by_an_existing_stack_is_kept(store: Store) -> None:
    store.made(KEY, by=stack(store.cloud, "Owning"))
    result = pruned(store)
    assert (removed(result), result.kept[KEY]) == ([], "1 owner")


def test_an_artifact_referenced_by_a_stack_in_deployment_is_kept(store: Store) -> None:
    store.made(KEY)
    referring = stack(store.cloud, "Referring")
    records = OwnerRecords(store.s3, store.bucket)
    records.begin(referring, "request")
    records.refer(referring, "request", KEY)
    assert removed(pruned(store)) == []
    assert store.records.manifest(KEY) is not None


@pytest.mark.parametrize("stopping", [False, True])
def test_an_artifact_whose_job_is_running_is_kept(store: Store, stopping: bool) -> None:
    name = store.running(KEY, by=owner("Gone"))
    if stopping:
        store.sagemaker.stop_optimization_job(OptimizationJobName=name)
    found = pruner(store).survey()
    assert found.removals == ()
    assert found.gone_owners == (), "the owner of a running job is kept"
    assert "job" in found.kept[KEY]


def test_a_job_of_another_account_is_assumed_running_until_its_deadline(store: Store) -> None:
    away = owner("Elsewhere", account="111122223333")
    due = dt.datetime.now(dt.UTC) + dt.timedelta(days=50)
    store.records.join(KEY, away, due=int(due.timestamp()))
    store.put(f"artifacts/{KEY}/model/1/model.safetensors", b"partial")
    store.records.leave(KEY, away, finished=True)
    assert "might still run" in pruner(store).survey().kept[KEY]
    assert removed(pruned(store, later=dt.timedelta(days=51))) == [KEY]


def test_a_recently_used_artifact_is_kept(store: Store) -> None:
    store.made(KEY)
    result = pruned(store, later=dt.timedelta(days=29))
    assert (removed(result), result.kept[KEY]) == ([], "unused for only 29 days")


def test_the_files_of_a_failed_attempt_are_removed(store: Store) -> None:
    store.cloud.inject("job_fails")
    store.claimed(KEY, owner("Gone"))
    store.job(KEY)
    store.ended(KEY)
    store.put(f"artifacts/{KEY}/model/1/half.safetensors", b"half")
    assert removed(pruned(store)) == [KEY]
    assert [name for name in store.names() if "/model/" in name] == []


def test_owners_whose_stack_was_deleted_are_removed_with_their_records(store: Store) -> None:
    living, gone = stack(store.cloud, "Living"), owner("Gone")
    store.made(KEY, by=gone)
    store.made(OTHER, by=gone)
    store.claimed(OTHER, living)
    records = OwnerRecords(store.s3, store.bucket)
    records.begin(gone, "request")
    records.refer(gone, "request", KEY)
    assert removed(pruned(store)) == [KEY]
    claim = store.records.claim(OTHER)
    assert claim is not None
    assert (claim.owners, claim.released) == ((living,), False)
    assert store.records.manifest(OTHER) is not None
    assert [record.owner for record in records.all() if isinstance(record, OwnerRecord)] == []


def test_deleted_owners_of_one_artifact_are_removed_from_its_claim_in_one_write(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.made(KEY, by=stack(store.cloud, "StillThere"))
    for number in range(8):
        store.claimed(KEY, owner(f"Gone{number}"))
    swapped: list[str] = []
    swap = JsonRecords.swap

    def counted(self: JsonRecords, name: str, change: Any) -> Any:
        swapped.append(name)
        return swap(self, name, change)

    monkeypatch.setattr(JsonRecords, "swap", counted)
    assert len(pruned(store).gone_owners) == 8
    assert swapped.count(f"artifacts/{KEY}/claim.json") == 1
    claim = store.records.claim(KEY)
    assert claim is not None
    assert len(claim.owners) == 1


def test_the_record_of_a_deleted_stack_is_kept_while_late_events_may_arrive(store: Store) -> None:
    records = OwnerRecords(store.s3, store.bucket)
    records.begin(owner("Gone"), "request")
    found = pruner(store, later=dt.timedelta(hours=23))
    found._older_than = dt.timedelta()
    found.remove(found.survey())
    assert [record.owner for record in records.all() if isinstance(record, OwnerRecord)] == [owner("Gone")]


def test_a_stack_of_another_account_is_assumed_to_exist(store: Store) -> None:
    away = owner("Elsewhere", account="111122223333")
    store.made(KEY, by=away)
    result = pruned(store)
    assert (removed(result), result.kept[KEY]) == ([], "1 owner")
    assert "111122223333" in result.notes[0]


class Refusing:
    """CloudFormation for someone who may not use it."""

    def describe_stacks(self, StackName: str) -> Any:  # noqa: N803
        raise ClientError({"Error": {"Code": "AccessDenied", "Message": f"{StackName} does not exist for you"}}, "D")


def test_a_stack_that_cannot_be_looked_up_is_assumed_to_exist(store: Store) -> None:
    store.made(KEY, by=owner("Hidden"))
    result = pruned(store, cloudformation=Refusing())
    assert removed(result) == []
    assert result.notes == ("stacks in us-west-2 cannot be looked up: AccessDenied",)


class Deleted:
    """CloudFormation that remembers when a stack was deleted."""

    def __init__(self, at: dt.datetime) -> None:
        self._at = at

    def describe_stacks(self, StackName: str) -> Any:  # noqa: N803
        return {"Stacks": [{"StackId": StackName, "StackStatus": "DELETE_COMPLETE", "DeletionTime": self._at}]}


def test_an_artifact_counts_as_unused_since_its_last_stack_was_deleted(store: Store) -> None:
    store.made(KEY, by=owner("Gone"))
    of_late = Deleted(dt.datetime.now(dt.UTC) + dt.timedelta(days=20))
    assert pruner(store, cloudformation=of_late).survey().kept[KEY] == "unused for only 20 days"
    long_ago = Deleted(dt.datetime.now(dt.UTC))
    assert removed(pruned(store, cloudformation=long_ago)) == [KEY]


@pytest.mark.parametrize("claim", [None, b"{"])
def test_files_without_a_readable_claim_are_left_for_manual_removal(store: Store, claim: bytes | None) -> None:
    store.put(f"artifacts/{KEY}/model/1/model.safetensors", b"weights")
    if claim is not None:
        store.put(f"artifacts/{KEY}/claim.json", claim)
    result = pruned(store)
    assert removed(result) == []
    assert "by hand" in result.kept[KEY]


@pytest.mark.parametrize("record", one_in(3, [b"{", b"[]", b'{"keys": {}}']))
def test_nothing_is_removed_while_an_owner_record_cannot_be_read(store: Store, record: bytes) -> None:
    store.made(KEY)
    store.put(f"owners/{ACCOUNT}/unreadable.json", record)
    with pytest.raises(DeploymentError, match="owners/"):
        pruned(store)
    assert store.records.manifest(KEY) is not None


_NO_REFERENCES = OwnerRecord.of(Owner("arn:aws:cloudformation:us-west-2:444455556666:stack/A/1", "Job"))
JUNK = {
    "no JSON": b"hello",
    "another form": b'{"x": 1}',
    "nested": b"[" * 200_000,
    "nested objects": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    "a newer schema": json.dumps(
        {
            **_NO_REFERENCES.to_record(),
            "schema": 2,
        }
    ).encode(),
    "too large": b'{"keys": "' + b"x" * 1_000_001 + b'"}',
    **{
        f"a {name} of another kind": json.dumps({**_NO_REFERENCES.to_record(), name: value}).encode()
        for name, value in {
            "stack_id": 5,
            "logical_id": [],
            "request": None,
            "issued": "now",
            "superseded": [[]],
            "keys": {OTHER: {"request": {}}},
            "chosen": {"1": 2},
        }.items()
    },
    "the name of another account": json.dumps(
        OwnerRecord.of(owner("Chat")).updated(request="1", keys={OTHER: Reference(request="1")}).to_record()
    ).encode(),
}


@pytest.mark.parametrize("junk", one_in(6, JUNK))
def test_an_invalid_record_of_another_account_is_a_warning_and_keeps_all_artifacts(store: Store, junk: str) -> None:
    for key in (KEY, OTHER):
        store.made(key)
    name = f"owners/444455556666/{'0' * 32}.json"
    store.put(name, JUNK[junk])
    result = pruned(store)
    assert removed(result) == []
    assert result.kept == dict.fromkeys(sorted((KEY, OTHER)), f"{name} cannot be read, and might refer to it")
    (warning,) = result.warnings
    assert name in warning
    assert "444455556666" in warning
    assert result.to_json()["warnings"] == (warning,)
    store.delete(name)
    assert removed(pruned(store)) == sorted((KEY, OTHER))


def test_an_invalid_record_written_during_pruning_undoes_the_release(store: Store) -> None:
    store.made(KEY)
    one = pruner(store)
    surveyed = one.survey()
    assert [removal.artifact.key for removal in surveyed.removals] == [KEY]
    store.put(f"owners/444455556666/{'0' * 32}.json", b"hello")
    (removal,) = one.remove(surveyed).removals
    assert removal.skipped is not None
    assert "cannot be read" in removal.skipped
    claim = store.records.claim(KEY)
    assert claim is not None
    assert not claim.released
    assert store.records.manifest(KEY) is not None


def test_files_of_a_pruned_artifact_are_deleted_in_batches(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pruning_module, "_BATCH", 2)
    store.made(KEY)
    pruned(store)
    assert store.names() == [f"artifacts/{KEY}/claim.json"]


def test_files_of_attempts_unknown_to_the_claim_are_kept(store: Store) -> None:
    store.made(KEY)
    store.put(f"artifacts/{KEY}/model/2/model.safetensors", b"of somebody")
    pruned(store)
    assert f"artifacts/{KEY}/model/2/model.safetensors" in store.names()


def test_a_claim_left_by_pruning_is_neither_removed_nor_counted(store: Store) -> None:
    store.made(KEY)
    pruned(store)
    again = pruner(store).survey()
    assert (again.removals, again.kept) == ((), {})


def test_pruned_records_keep_their_kms_encryption(store: Store) -> None:
    key_arn = client(store.cloud, "kms").create_key()["KeyMetadata"]["Arn"]
    encrypted = ArtifactStore(store.s3, store.bucket, key_arn)
    store.made(KEY)
    encrypted.join(KEY, owner("Gone"))
    assert removed(pruned(store)) == [KEY]
    head = store.s3.head_object(Bucket=store.bucket, Key=f"artifacts/{KEY}/claim.json")
    assert head["SSEKMSKeyId"] == key_arn


# --- beside deployments -------------------------------------------------------------------------------------------


class Hooked:
    """An S3 client that calls ``before(number of the call)`` ahead of every request, once armed."""

    def __init__(self, s3: Any) -> None:
        self._s3 = s3
        self.before: Callable[[int], None] | None = None
        self._numbers = itertools.count()
        # Pruning reads several records at a time; a deployment takes one step after the other.
        self._turn = threading.Lock()

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._s3, name)
        if not callable(found):
            return found

        def called(*arguments: Any, **named: Any) -> Any:
            if self.before is not None:
                with self._turn:
                    self.before(next(self._numbers))
            return found(*arguments, **named)

        return called


class Deployment:
    """What job_handler.py does with the store, a step at a time; jobs are over at once and write two files."""

    FILES = ("config.json", "model.safetensors")

    def __init__(self, store: Store, by: Owner, done: set[int]) -> None:
        self._store, self._owner, self._done = store, by, done
        self._artifacts, self._records = store.records, OwnerRecords(store.s3, store.bucket)
        self.attempt = 0
        self._steps = self._run()

    def step(self) -> bool:
        """Run the next step; False when none remains."""
        return next(self._steps, None) is not None

    def finish(self) -> None:
        while self.step():
            pass

    def _run(self) -> Iterator[str]:
        self._records.begin(self._owner, "request")
        yield "begun"
        self._records.refer(self._owner, "request", KEY)
        yield "referred"
        claim = self._artifacts.join(KEY, self._owner)
        yield "joined"
        while self._artifacts.manifest(KEY, claim.attempt) is None:
            uri = self._artifacts.model_uri(KEY, claim.attempt)
            present = self._artifacts.files(uri)
            yield "looked"
            if claim.attempt in self._done:
                written = self._artifacts.written_manifest(KEY)
                if (written is not None and written["model_data_uri"] == uri) or not present:
                    claim = self._artifacts.next_attempt(KEY, claim)
                    yield "moved on"
                    continue
            else:
                self._done.add(claim.attempt)
                for name in self.FILES:
                    self._store.put(f"{uri.removeprefix(f's3://{self._store.bucket}/')}{name}", b"content")
                    yield "written"
            write_manifest(self._artifacts, claim.attempt)
            yield "completed"
        self.attempt = claim.attempt
        self._records.settle(self._owner, "request", KEY)

    def holds(self) -> bool:
        """Whether the artifact it deployed exists and is intact."""
        manifest = self._artifacts.manifest(KEY, self.attempt)
        return manifest is not None and [file["name"] for file in manifest["files"]] == list(self.FILES)


def write_manifest(artifacts: ArtifactStore, attempt: int) -> None:
    uri = artifacts.model_uri(KEY, attempt)
    files = artifacts.with_checksums(uri, artifacts.files(uri))
    named = {"attempt": attempt, "model_data_uri": uri, "image": "image", "job_name": "job", "files": files}
    artifacts.write_manifest(KEY, {"schema": 1, "artifact_key": KEY, **named})


def abandoned(store: Store) -> set[int]:
    """Build an artifact that is ready and no longer referenced; returns its attempts."""
    done: set[int] = set()
    first = Deployment(store, owner("First"), done)
    first.finish()
    store.records.leave(KEY, owner("First"), finished=True)
    OwnerRecords(store.s3, store.bucket).forget(owner("First"), KEY)
    return done


def pruned_with(store: Store, before: Callable[[int], None]) -> int:
    """Prune, and call ``before`` ahead of each request that changes or decides anything; returns their number."""
    hooked = Hooked(store.s3)
    one = pruner(store, s3=hooked)
    surveyed = one.survey()
    assert [removal.artifact.key for removal in surveyed.removals] == [KEY]
    seen: list[int] = []

    def called(number: int) -> None:
        seen.append(number)
        before(number)

    hooked.before = called
    one.remove(surveyed)
    return len(seen)


_MOST_CALLS = 14
_STEPS = 12


@pytest.mark.exhaustive
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    schedule=st.lists(st.integers(0, _MOST_CALLS), min_size=_STEPS, max_size=_STEPS).map(sorted),
    late_delete=st.none() | st.integers(0, _MOST_CALLS),
)
@example(schedule=[0] * _STEPS, late_delete=None)
@example(schedule=[_MOST_CALLS] * _STEPS, late_delete=None)
@example(schedule=[9] * _STEPS, late_delete=7)
def test_no_deployment_loses_its_artifact_in_any_interleaving_with_pruning(
    cloud: LocalCloud, schedule: list[int], late_delete: int | None
) -> None:
    store = Store(cloud)
    done = abandoned(store)
    living = _living(cloud)
    deployment = Deployment(store, living, done)

    def between(number: int) -> None:
        if number == late_delete:
            # CloudFormation asks again for a deletion whose answer was lost.
            claim = store.records.claim(KEY)
            assert claim is not None
            finished = store.records.manifest(KEY, claim.attempt) is not None
            store.records.leave(KEY, owner("First"), finished=finished)
        for _ in range(schedule.count(number)):
            deployment.step()

    calls = pruned_with(store, between)
    assert calls <= _MOST_CALLS
    deployment.finish()
    assert deployment.holds()
    assert not pruner(store).survey().removals


@pytest.mark.parametrize("place", one_in(3, range(_MOST_CALLS)))
def test_a_deployment_between_two_steps_of_pruning_keeps_its_artifact(cloud: LocalCloud, place: int) -> None:
    store = Store(cloud)
    deployment = Deployment(store, _living(cloud), abandoned(store))
    pruned_with(store, lambda number: deployment.finish() if number == place else None)
    deployment.finish()
    assert deployment.holds()


@pytest.mark.parametrize("place", one_in(3, range(_MOST_CALLS)))
def test_an_interrupted_pruning_can_be_resumed_and_breaks_no_deployment(cloud: LocalCloud, place: int) -> None:
    store = Store(cloud)
    done = abandoned(store)

    class CutOff(Exception):
        pass

    def cut(number: int) -> None:
        if number == place:
            raise CutOff

    try:
        pruned_with(store, cut)
    except CutOff:
        left = pruner(store).survey()
        assert left.removals or not [name for name in store.names() if "/model/" in name]
    deployment = Deployment(store, _living(cloud), done)
    deployment.finish()
    assert deployment.holds()


def test_a_deployment_that_joins_before_the_removal_keeps_the_artifact(store: Store) -> None:
    done = abandoned(store)
    one = pruner(store)
    surveyed = one.survey()
    deployment = Deployment(store, _living(store.cloud), done)
    deployment.finish()
    (removal,) = one.remove(surveyed).removals
    assert removal.skipped == "a stack now refers to it"
    assert deployment.attempt == 1


def test_a_reference_written_after_the_release_undoes_it(store: Store) -> None:
    done = abandoned(store)
    deployment = Deployment(store, _living(store.cloud), done)
    taken: list[bool] = []

    def between(number: int) -> None:
        claim = store.records.claim(KEY)
        if claim is not None and claim.released and not taken:
            taken.extend([deployment.step(), deployment.step()])

    pruned_with(store, between)
    assert taken == [True, True]
    deployment.finish()
    assert deployment.attempt == 1, "the artifact existed throughout"


def test_a_job_started_after_the_survey_keeps_its_artifact(store: Store) -> None:
    store.claimed(KEY, owner("Gone"))
    store.put(f"artifacts/{KEY}/model/1/half.safetensors", b"half")
    one = pruner(store)
    surveyed = one.survey()
    store.cloud.inject("job_never_finishes")
    store.job(KEY)
    (removal,) = one.remove(surveyed).removals
    assert removal.skipped == "a job started to build it"


def _living(cloud: LocalCloud) -> Owner:
    """An owner in a stack that exists: the same one each time."""
    for each in client(cloud, "cloudformation").describe_stacks()["Stacks"]:
        if each["StackName"] == "Deploying":
            return Owner(each["StackId"], "Llama70BJob")
    return stack(cloud, "Deploying")


def test_an_artifact_released_by_pruning_is_not_ready(store: Store, inventory: ArtifactInventory) -> None:
    store.made(KEY)
    store.records.release(KEY)
    artifact = inventory.get(KEY)
    assert artifact is not None
    assert artifact.state is State.released
