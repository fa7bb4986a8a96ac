"""What a deployment does for an artifact, by what is known of it."""

from __future__ import annotations

from typing import Any

import pytest

from constructs_optim.explanation.jobs import (
    ArtifactJob,
    JobKind,
    PastJob,
    Prices,
    StackEvidence,
    StoreContents,
    StoredArtifact,
    report_job,
)
from constructs_optim.explanation.report import JobReport, Outcome
from constructs_optim.templates.template import Resource

from ..support.handwritten_templates import KEY, OTHER_KEY, job, resource

PRICES = Prices({"ml.g5.12xlarge": 7.0}, source="a list")
KIND = JobKind("llama", ("AWQ INT4",), frozenset({"ModelQuantizationConfig"}), "ml.g5.12xlarge")
PAST = PastJob(KIND, 4320)


def facts(key: str | None = KEY, **changed: Any) -> ArtifactJob:
    return ArtifactJob(Resource("Job", job(key=key, **changed)["Job"]))


def reference(key: str = KEY) -> ArtifactJob:
    made = resource("Custom::OptimizedArtifact", ArtifactKey=key, RecipeKey="r", Bucket="store")
    return ArtifactJob(
        Resource("Job", {**made, "Metadata": {"constructs-optim": {"Recipe": "llama", "ArtifactKey": key}}})
    )


def with_store(state: str | None, *past: PastJob, detail: str = "so it is", prices: Prices = PRICES) -> StackEvidence:
    found = {KEY: StoredArtifact(state, detail, "2026-11-20T10:12:00+00:00")} if state is not None else {}
    return StackEvidence(prices, {"Job": StoreContents("ml-artifacts", found, past)})


def looked(after: ArtifactJob, evidence: StackEvidence, before: ArtifactJob | None = None) -> JobReport:
    return report_job(before, after, evidence)


@pytest.mark.parametrize(
    ("state", "outcome", "said"),
    [
        (
            "ready",
            "reuse",
            "Reused: artifact aaaaaaaaaaaa is in the store since 2026-11-20 10:12 UTC. No job runs.",
        ),
        ("in progress", "join_running_job", "the deployment waits for it."),
        ("failed", "new_job", "A new job runs: artifact aaaaaaaaaaaa is failed (so it is)."),
        ("damaged", "new_job", "A new job runs: artifact aaaaaaaaaaaa is damaged"),
        ("incomplete", "new_job", "A new job runs"),
        ("released", "new_job", "A new job runs"),
        (None, "new_job", "A new job runs: artifact aaaaaaaaaaaa is not in the store ml-artifacts."),
    ],
)
def test_the_store_decides_between_reuse_and_a_new_job(state: str | None, outcome: Outcome, said: str) -> None:
    found = looked(facts(), with_store(state))
    assert found.outcome == outcome
    assert said in found.sentences[0]
    assert (len(found.sentences) == 2) == (outcome == "new_job")


def test_without_a_store_the_job_is_decided_at_deployment() -> None:
    found = looked(facts(), StackEvidence())
    assert found.outcome == "decided_at_deployment"
    assert "Decided at deployment" in found.sentences[0]
    assert "aaaaaaaaaaaa" in found.sentences[0]


def test_an_unchanged_artifact_needs_no_job_unless_it_is_missing() -> None:
    assert looked(facts(), StackEvidence(), facts()).outcome == "stays"
    assert looked(facts(), with_store("ready"), facts()).outcome == "stays"
    # That it was made does not mean that it is still there, when CloudFormation asks for it anew.
    assert looked(facts(), with_store(None), facts()).outcome == "new_job"


def test_a_resource_without_a_new_request_runs_no_job() -> None:
    there = report_job(facts(), facts(), with_store("ready"), is_requested=False)
    assert (there.outcome, there.sentences[0]) == ("stays", "Artifact aaaaaaaaaaaa stays as it is: no job runs.")
    gone = report_job(facts(), facts(), with_store(None), is_requested=False)
    assert gone.outcome == "lost"
    assert "is not in the store ml-artifacts, and no job runs" in gone.sentences[0]
    lost = report_job(reference(), reference(), with_store("damaged"), is_requested=False)
    assert lost.outcome == "lost"
    assert "is damaged (so it is), and no job runs" in lost.sentences[0]


def test_a_changed_artifact_names_the_previous_one() -> None:
    found = looked(facts(OTHER_KEY), StackEvidence(), facts())
    assert found.outcome == "decided_at_deployment"
    assert found.sentences[0].startswith("Another artifact than before (artifact aaaaaaaaaaaa).")


def test_an_artifact_in_another_store_is_decided_at_deployment() -> None:
    found = looked(facts(bucket="other"), StackEvidence(), facts())
    assert found.outcome == "decided_at_deployment"


def test_an_artifact_key_that_depends_on_files_is_left_unknown() -> None:
    found = looked(facts(None), with_store("ready"))
    assert found.outcome == "decided_at_deployment"
    assert "depends on the files below s3://models/llama/" in found.sentences[0]
    assert looked(facts(None), with_store("ready"), facts(None)).outcome == "stays"


@pytest.mark.parametrize(
    ("properties", "said"),
    [
        ({"Source": {"Kind": "hub", "ModelId": "llama"}}, "the newest version of llama."),
        ({"Source": {"Kind": "artifact", "S3Uri": {"Ref": "Other"}}}, "the artifact of the job before it."),
        ({"Source": {"Kind": "s3", "S3Uri": {"Ref": "Other"}}}, "resources that are created before it."),
        (
            {
                "Source": {"Kind": "hub", "ModelId": "llama", "Version": "1"},
                "Reads": [{"S3Uri": "s3://train/"}, {"S3Uri": "s3://validation/"}],
            },
            "the files below s3://train/ and s3://validation/.",
        ),
    ],
)
def test_the_inputs_of_an_unknown_artifact_key_are_named(properties: dict[str, Any], said: str) -> None:
    found = looked(facts(None, **properties), StackEvidence())
    assert found.outcome == "decided_at_deployment"
    assert f"depends on {said}" in found.sentences[0]


def test_past_jobs_of_the_same_kind_estimate_duration_and_cost() -> None:
    found = looked(
        facts(), with_store(None, PAST, PastJob(KIND, 6000), PastJob(KIND._replace(model_id="mistral"), 4320))
    )
    assert found.sentences[1] == (
        "About 1 h 12 min to 1 h 40 min, for $8.40 to $11.67, as 2 jobs of the same kind took; at most 10 h and "
        "$70.00, by the hosting price of ml.g5.12xlarge, because the job's own price is unknown."
    )


def test_past_jobs_on_spot_capacity_cost_what_they_were_billed() -> None:
    found = looked(facts(), with_store(None, PAST._replace(billed_seconds=1440)))
    assert found.sentences[1].startswith("About 1 h 12 min, for $2.80, as 1 job of the same kind took")


def test_a_job_with_other_steps_is_not_of_the_same_kind() -> None:
    sharding = PastJob(KIND._replace(steps=frozenset({"ModelShardingConfig"})), 4320)
    found = looked(facts(), with_store(None, sharding))
    assert found.estimate_based_on == 0
    assert found.sentences[1].startswith("At most 10 h and $70.00")


def test_an_instance_type_without_a_job_price_is_reported() -> None:
    took = "About 1 h 12 min, as 1 job of the same kind took; at most 10 h."
    for prices, said in (
        (Prices(), took),
        (Prices({"ml.p5.48xlarge": 63.3}, source="a test"), f"{took} The price list has no ml.g5.12xlarge."),
    ):
        found = looked(facts(), with_store(None, PAST, prices=prices))
        assert found.sentences[1] == said


def test_a_job_price_takes_precedence_over_the_hosting_price() -> None:
    prices = Prices({"ml.g5.12xlarge": 7.0}, optimization={"ml.g5.12xlarge": 5.0})
    found = looked(facts(), StackEvidence(prices))
    assert (found.price_per_hour, found.price_basis) == (5.0, "price of jobs on ml.g5.12xlarge")


def test_a_training_job_is_priced_by_its_training_price_and_instance_count() -> None:
    request = {
        "ResourceConfig": {"InstanceType": "ml.p5.48xlarge", "InstanceCount": 2},
        "StoppingCondition": {"MaxRuntimeInSeconds": 3600},
    }
    prices = Prices({"ml.p5.48xlarge": 60.0}, training={"ml.p5.48xlarge": 50.0})
    declared = {**job(Request={**request, "EnableManagedSpotTraining": True})["Job"], "Type": "Custom::TrainingJob"}
    found = looked(ArtifactJob(Resource("Job", declared)), StackEvidence(prices))
    assert found.max_cost == 100
    assert "training job" in found.sentences[0]
    assert "At most 1 h and $100, by the training price of ml.p5.48xlarge; Spot Instances" in found.sentences[1]


@pytest.mark.parametrize(
    ("evidence", "outcome", "said"),
    [
        (with_store("ready"), "reuse", "is in the store: no job runs"),
        (with_store("failed"), "missing", "is failed (so it is): the deployment fails"),
        (with_store(None), "missing", "is not in the store ml-artifacts: the deployment fails"),
        (StackEvidence(), "decided_at_deployment", "fails if it is not in the store"),
    ],
)
def test_a_referenced_artifact_must_exist_in_the_store(evidence: StackEvidence, outcome: Outcome, said: str) -> None:
    found = looked(reference(), evidence)
    assert (found.outcome, len(found.sentences)) == (outcome, 1)
    assert said in found.sentences[0]


def test_an_unchanged_artifact_reference_needs_no_job() -> None:
    assert looked(reference(), StackEvidence(), reference()).outcome == "stays"
    assert looked(reference(OTHER_KEY), StackEvidence(), reference()).outcome == "decided_at_deployment"


def test_an_unused_artifact_is_kept_in_its_store() -> None:
    found = report_job(facts(), None, StackEvidence())
    assert found.outcome == "removed"
    assert "stays in its store" in found.sentences[0]
