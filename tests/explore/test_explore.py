"""A sample of the lives of ``make explore``, and a check that it detects known bugs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from constructs_optim.runtime.handlers import job_handler, job_watcher
from constructs_optim.runtime.handlers.job_handler import _DECISIVE, _Deployment
from constructs_optim.runtime.store.owner_records import OwnerRecords

from .actors import Chances
from .binding import bound
from .exploration import explore
from .life import live

SAMPLE = 30_000
LONGEST_SEARCH = 400_000


def test_a_sample_of_interleavings_violates_no_invariant() -> None:
    found = explore(first=1_000_000, step=1, calls=SAMPLE)
    assert found.violations == []


def test_the_same_seed_replays_the_same_life() -> None:
    with bound() as binding:
        one, again = (live(7, binding, trace=True) for _ in range(2))
    assert one.lines
    assert list(one.lines) == list(again.lines)


def _keeps_only_what_is_unchanged(event: Any, wanted: Any, record: Any, digest: str) -> str | None:
    old, new = event.get("OldResourceProperties", {}), event["ResourceProperties"]
    same = all(old.get(name) == new.get(name) for name in _DECISIVE)
    return event.get("PhysicalResourceId") if same else None


def _undoes_without_a_look_at_earlier_attempts(self: _Deployment, key: str) -> None:
    self.records.withdraw(self.owner, self.request, key)
    self.abandon(key)


def _leaves_without_looking_again(self: _Deployment, key: str) -> Any:
    return None if self.records.get(self.owner).wants(key) else self._left(key)


def _writes_whatever_is_there(s3: Any, bucket: str, prefix: str, name: str, *_: object) -> None:
    key = f"{prefix}serving.properties"
    if any(each["Key"] == key for each in s3.list_objects_v2(Bucket=bucket, Prefix=key).get("Contents", ())):
        lines = s3.get_object(Bucket=bucket, Key=key)["Body"].read().splitlines(keepends=True)
        kept = [line for line in lines if not line.startswith(name.encode())]
        if kept != lines:
            s3.put_object(Bucket=bucket, Key=key, Body=b"".join(kept))


def _forgets_whoever_refers(self: OwnerRecords, owner: Any, request: str, key: str) -> Any:
    return self.forget(owner, key)


def _does_nothing(*_: Any) -> None:
    pass


@dataclass(frozen=True)
class Unmended:
    """The handlers as they were before a fix, the chances of the life, and the expected violation."""

    patches: tuple[tuple[Any, str, Any], ...]
    chances: Chances
    says: str


UNMENDED = {
    "a rollback goes by the model's files": Unmended(
        ((job_handler, "_kept", _keeps_only_what_is_unchanged),),
        Chances(source=0.5, quota=1.0),
        "got another artifact by its rollback",
    ),
    "a job that was created too late runs on": Unmended(
        (
            (_Deployment, "undo", _undoes_without_a_look_at_earlier_attempts),
            (OwnerRecords, "check_latest", _does_nothing),
        ),
        Chances(cancel=1.0),
        "runs without an owner",
    ),
    "a late deletion takes an owner off a claim": Unmended(
        ((_Deployment, "_agreed", _leaves_without_looking_again),),
        Chances(duplicate=1.0, quota=1.0),
        "does not own its artifact's claim",
    ),
    "a late deletion takes a reference out": Unmended(
        ((OwnerRecords, "left", _forgets_whoever_refers),),
        Chances(duplicate=1.0, quota=1.0),
        "its record does not refer to its artifact",
    ),
    "serving.properties is written whatever has become of it": Unmended(
        ((job_watcher, "remove_setting", _writes_whatever_is_there),),
        Chances(encrypted=True, job_fails=0.0, prune=True),
        "serves what was removed or changed",
    ),
}


@pytest.mark.exhaustive
@pytest.mark.parametrize("fault", UNMENDED)
def test_the_explorer_detects_each_reintroduced_bug(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    unmended = UNMENDED[fault]
    for place, name, before in unmended.patches:
        monkeypatch.setattr(place, name, before)
    found = explore(first=1, step=1, calls=LONGEST_SEARCH, chances=unmended.chances, until=unmended.says)
    assert any(unmended.says in sentence for _, sentences in found.violations for sentence in sentences)
