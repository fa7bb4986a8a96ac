"""A large store takes one request per record, sent concurrently, and no more memory than a small one."""

from __future__ import annotations

import datetime as dt
import tracemalloc
from typing import Any

import pytest

from constructs_optim.operations.artifacts import REQUESTS_AT_ONCE, ArtifactInventory, State
from constructs_optim.operations.pruning import Pruner
from constructs_optim.operations.stacks import Stacks
from constructs_optim.runtime.store.json_records import CALLS_A_THREAD

from ..support.waiting import until
from .memory_store import ACCOUNT, BUCKET, FILES, MemoryS3, MemoryStacks, fill

ARTIFACTS, UNUSED = 400, 100
# Claim and manifest beside the files.
OBJECTS = ARTIFACTS * (FILES + 2)


@pytest.fixture
def s3() -> MemoryS3:
    made = MemoryS3(seconds=0.005)
    fill(made, ARTIFACTS, UNUSED, stacks=20)
    return made


def inventory(s3: MemoryS3) -> ArtifactInventory:
    return ArtifactInventory(s3, None, BUCKET, account=ACCOUNT)


def test_a_listing_reads_each_record_once_and_concurrently(s3: MemoryS3) -> None:
    artifacts = list(inventory(s3).all())
    assert [artifact.state for artifact in artifacts] == [State.ready] * ARTIFACTS
    assert sum(len(artifact.owners) for artifact in artifacts) == ARTIFACTS - UNUSED
    # A claim, a manifest and an owner's record each; a page a thousand objects, and the last one of each listing.
    assert s3.calls["GetObject"] == 3 * ARTIFACTS
    assert s3.calls["ListObjectsV2"] <= OBJECTS // 1000 + ARTIFACTS // 1000 + 2
    assert s3.most_at_once > REQUESTS_AT_ONCE // 2


def test_pruning_removes_unreferenced_artifacts_concurrently(s3: MemoryS3) -> None:
    cloudformation: Any = MemoryStacks()
    looked_up = Stacks(ACCOUNT, lambda region: cloudformation)
    pruner = Pruner(s3, inventory(s3), looked_up, older_than=dt.timedelta(0), now=dt.datetime.now(dt.UTC))
    surveyed = pruner.survey()
    s3.most_at_once = 0
    s3.calls.clear()
    removals = pruner.remove(surveyed).removals
    assert [removal.removed for removal in removals] == [True] * UNUSED
    assert s3.most_at_once > REQUESTS_AT_ONCE // 2
    # One reading of the owner records, and a dozen calls an artifact.
    assert s3.calls.total() < ARTIFACTS + 12 * UNUSED
    left = {name.split("/")[1] for name in s3.names() if name.endswith("manifest.json")}
    assert left == set(surveyed.kept)
    assert len(left) == ARTIFACTS - UNUSED


@pytest.mark.exhaustive
def test_a_listing_is_streamed_and_not_held_in_memory() -> None:
    held = REQUESTS_AT_ONCE * CALLS_A_THREAD

    def peak(artifacts: int) -> int:
        s3 = MemoryS3()
        fill(s3, artifacts, unused=artifacts, stacks=1)
        found = inventory(s3)
        _ = found.owner_records
        s3.calls.clear()
        tracemalloc.start()
        listed = found.all()
        next(listed)
        # All that may be held has been read, however busy the machine is: a claim and a manifest each.
        until(lambda: s3.calls["GetObject"], lambda calls: calls == 2 * held)
        assert 1 + sum(1 for _ in listed) == artifacts
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most

    assert peak(6 * held) < 1.5 * peak(held)
