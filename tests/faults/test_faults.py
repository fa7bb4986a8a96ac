"""The harness itself, on few faults. ``make faults`` tries all of them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from constructs_optim_local.cloud import LocalCloud

from . import trial
from .__main__ import Log, conclude, written
from .guarantees import overdue
from .scenarios import SCENARIOS
from .scenarios.registry import files_of
from .stacks import KINDS, STORE, FaultStack, local_cloud
from .state_machine import state_machine
from .trial import Outcome, Step, Strike, Trial, Trials

PAGE = Path(__file__).parent.parent.parent / "docs" / "reliability.md"


@pytest.fixture(scope="module")
def cloud() -> Iterator[LocalCloud]:
    running = local_cloud()
    yield running
    running.stop()


@pytest.fixture(scope="module")
def trials(cloud: LocalCloud) -> Trials:
    return Trials(cloud)


def test_a_deployment_recovers_from_a_fault_in_the_middle(trials: Trials) -> None:
    dies = Trial("update", (Strike("function_dies_after", Step("update", "CreateOptimizationJob")),))
    assert trials.run(dies).problems == ()


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ["deletion_fails", "quota_exceeded"])
def test_a_deployment_recovers_from_a_scenario_beside_it(trials: Trials, name: str) -> None:
    assert trials.judge(name, lambda: SCENARIOS[name](trials)).problems == ()


def test_an_injected_fault_that_never_strikes_is_reported(trials: Trials, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "LONGEST_SECONDS", 1)
    never = Trial("create", (Strike("throttled", Step("create", "DeleteModel")),))
    assert "did not strike" in " ".join(trials.run(never).problems)


@pytest.mark.parametrize(
    ("attempts", "made", "problem"),
    [
        (["idle", "survived"], 2, ""),
        (["idle"] * 5, 3, "did not strike"),
        (["broken", "survived"], 1, "something is broken"),
        (["idle and broken", "survived"], 1, "something is broken"),
    ],
)
def test_a_trial_is_repeated_only_if_nothing_but_a_fault_that_did_not_strike_went_wrong(
    cloud: LocalCloud, monkeypatch: pytest.MonkeyPatch, attempts: list[str], made: int, problem: str
) -> None:
    left = list(attempts)

    def create(on: Trials, *_: object) -> None:
        became = left.pop(0)
        if "broken" in became:
            on.problem("something is broken")
        if "idle" in became:
            cloud.inject("throttled", operation="DeleteModel")
        on.end_faults()

    monkeypatch.setattr(trial, "LONGEST_SECONDS", 0)
    monkeypatch.setitem(trial.PHASES, "create", create)
    problems = Trials(cloud).run(Trial("create", (Strike("throttled", Step("create", "DeleteModel")),))).problems
    assert len(attempts) - len(left) == made
    assert problem in " ".join(problems) if problem else problems == ()


def test_the_guarantees_detect_an_orphaned_job_and_a_lost_artifact(trials: Trials, cloud: LocalCloud) -> None:
    s3 = cloud.client("s3")
    cloud.inject("job_never_finishes", count=None)
    orphan = trials.stack("unwaited")
    orphan.deploy()
    claim = f"artifacts/{orphan.artifact_key}/claim.json"
    body = s3.get_object(Bucket=STORE, Key=claim)["Body"].read()
    s3.delete_object(Bucket=STORE, Key=claim)
    assert trials.guarantees.orphaned_jobs()
    s3.put_object(Bucket=STORE, Key=claim, Body=body)
    assert not trials.guarantees.orphaned_jobs()
    orphan.destroy()
    cloud.clear_faults()

    lost = trials.stack()
    lost.deploy()
    s3.delete_object(Bucket=STORE, Key=files_of(trials, lost)[0])
    assert trials.guarantees.lost_artifacts() == [lost.artifact_key]
    lost.destroy()


def test_each_guarantee_has_its_own_time_until_it_must_hold() -> None:
    reads = iter([{"lost": 0.0, "orphaned": 60.0}, {"orphaned": 60.0}, {}])
    assert overdue(lambda: next(reads)) == ["lost"]
    assert list(reads) == [], "what may take longer was waited for"
    assert overdue(lambda: {"orphaned": 0.1}) == ["orphaned"]
    assert overdue(dict) == []


def test_the_same_kind_of_stack_is_deployed_again(trials: Trials, monkeypatch: pytest.MonkeyPatch) -> None:
    deployed: list[str] = []

    def deploy(stack: FaultStack) -> str:
        deployed.append(stack.kind)
        return "CREATE_COMPLETE"

    monkeypatch.setattr(FaultStack, "deploy", deploy)
    for kind in KINDS:
        trials.again(trials.stack(kind))
    assert deployed == [*KINDS]


def test_two_stacks_of_a_kind_give_no_resource_the_same_name(trials: Trials) -> None:
    names = [
        {
            (resource["Type"], name)
            for resource in json.loads(trials.stack().body)["Resources"].values()
            for key, name in resource.get("Properties", {}).items()
            if isinstance(name, str) and resource["Type"].endswith(key.removesuffix("Name"))
        }
        for _ in range(2)
    ]
    assert names[0], "names that the template chooses"
    assert not names[0] & names[1]


@pytest.mark.parametrize(
    ("problems", "status", "verdict"),
    [((), 0, "all survived"), (("job x runs without an owner",), 1, "1 of 2 did not survive, see above")],
)
def test_the_last_line_and_the_exit_status_tell_whether_all_survived(
    tmp_path: Path, problems: tuple[str, ...], status: int, verdict: str
) -> None:
    log = tmp_path / "faults.log"
    outcomes = [Outcome("one", ("throttled", "server_error"), problems=problems), Outcome("two")]
    assert conclude(outcomes, 61, Log(log), "End") == status
    *lines, last = log.read_text().splitlines()
    assert last == f"Verdict: {verdict}. End"
    assert [" ".join(line.split()) for line in lines if "throttled" in line] == [
        f"│ throttled │ {1 - status} of 1 survived │"
    ]


def test_a_whole_run_writes_its_figures_into_the_page() -> None:
    page = PAGE.read_text()
    first = Outcome("first", faults=("throttled", "died"), steps=frozenset({"job create 1", "job create 2"}))
    second = Outcome("second", faults=("died",), steps=frozenset({"job create 2"}))
    new = written(page, [first, second])
    assert "3 pairs of a fault and a step, 2 steps, and 2 life cycles of stacks" in new
    figures = r"\d+ pairs of a fault and a step, \d+ steps, and \d+ life cycles of stacks"
    assert re.sub(figures, "", new) == re.sub(figures, "", page)


@pytest.mark.exhaustive
def test_stacks_sharing_a_store_survive_random_operations_and_faults(cloud: LocalCloud) -> None:
    few = settings(
        max_examples=2,
        stateful_step_count=8,
        deadline=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(state_machine(lambda: cloud), settings=few)


def test_the_reliability_table_lists_exactly_the_existing_scenarios() -> None:
    named = set(re.findall(r"`faults: ([a-z_]+)`", PAGE.read_text()))
    assert named == set(SCENARIOS)


def test_every_test_listed_in_the_reliability_table_exists() -> None:
    checkout = PAGE.parent.parent
    for file, name in re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", PAGE.read_text()):
        assert f"def {name}" in (checkout / file).read_text(), f"{file}::{name}"
