"""Concurrent writers of a claim, on the local cloud's S3: it checks a condition and writes in one step, as S3 does.

(moto's does so in two, with room for another writer between them.)
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from constructs_optim.runtime.store.artifact_store import ArtifactStore, Owner
from constructs_optim_local.cloud import LocalCloud

from ..support.local_cloud import BUCKET

KEY = "c" * 64
OWNERS = [Owner(f"stack/{number}", "Job") for number in range(8)]


def test_stacks_that_join_concurrently_share_one_attempt_and_all_own_the_claim(cloud: LocalCloud) -> None:
    store = ArtifactStore(cloud.client("s3"), BUCKET)
    with ThreadPoolExecutor(len(OWNERS)) as threads:
        joined = list(threads.map(lambda owner: store.join(KEY, owner), OWNERS))
    claim = store.claim(KEY)
    assert claim is not None
    assert {each.attempt for each in joined} == {claim.attempt}
    assert claim.owners == tuple(OWNERS)


def test_when_all_stacks_leave_concurrently_exactly_one_releases_the_job(cloud: LocalCloud) -> None:
    store = ArtifactStore(cloud.client("s3"), BUCKET)
    key = "d" * 64
    for owner in OWNERS:
        store.join(key, owner)
    with ThreadPoolExecutor(len(OWNERS)) as threads:
        left = list(threads.map(lambda owner: store.leave(key, owner, finished=False), OWNERS))
    assert [claim is not None and claim.released for claim in left].count(True) == 1
