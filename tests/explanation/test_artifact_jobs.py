"""What a deployment does for an artifact, by what is known of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from constructs_optim.explanation.artifact_jobs import Outcome, Outlook, outlook
from constructs_optim.explanation.evidence import (
    PastJob,
    Prices,
    StackEvidence,
    StoreContents,
    Stored,
    StoredArtifact,
)
from constructs_optim.explanation.job_facts import JobFacts
from constructs_optim.recipe.keys import artifact_key
from constructs_optim.templates.template import Resource

from .templates import KEY, OTHER_KEY, job, resource

PRICES = Prices({"ml.g5.12xlarge": 7.0}, source="a list")
PAST = PastJob("llama", ("AWQ INT4",), frozenset({"ModelQuantizationConfig"}), "ml.g5.12xlarge", 4320)


def facts(key: str | None = KEY, **changed: Any) -> JobFacts:
    return JobFacts(Resource("Job", job(key=key, **changed)["Job"]))


def reference(key: str = KEY) -> JobFacts:
    made = resource("Custom::OptimizedArtifact", ArtifactKey=key, RecipeKey="r", Bucket="store")
    return JobFacts(
        Resource("Job", {**made, "Metadata": {"constructs-optim": {"Recipe": "llama", "ArtifactKey": key}}})
    )


def with_store(
    state: Stored | None, *past: PastJob, detail: str = "so it is", prices: Prices = PRICES
) -> StackEvidence:
    found = {KEY: StoredArtifact(state, detail, "2026-11-20T10:12:00+00:00")} if state is not None else {}
    return StackEvidence(prices, {"Job": StoreContents("ml-artifacts", found, past)})


def looked(after: JobFacts, evidence: StackEvidence, before: JobFacts | None = None) -> Outlook:
    return outlook(before, after, evidence)


@pytest.mark.parametrize(
    ("state", "outcome", "said"),
    [
        (
            Stored.ready,
            Outcome.reuse,
            "Reused: artifact aaaaaaaaaaaa is in the store since 2026-11-20 10:12 UTC. No job runs.",
        ),
        (Stored.being_made, Outcome.join_running_job, "the deployment waits for that and starts no job of its own"),
        (Stored.failed, Outcome.new_job, "A new job runs: artifact aaaaaaaaaaaa is failed (so it is)."),
        (Stored.damaged, Outcome.new_job, "A new job runs: artifact aaaaaaaaaaaa is damaged"),
        (Stored.half_made, Outcome.new_job, "A new job runs"),
        (Stored.released, Outcome.new_job, "A new job runs"),
        (None, Outcome.new_job, "A new job runs: artifact aaaaaaaaaaaa is not in the store ml-artifacts."),
    ],
)
def test_the_store_decides_between_reuse_and_a_new_job(state: Stored | None, outcome: Outcome, said: str) -> None:
    found = looked(facts(), with_store(state))
    assert found.outcome is outcome
    assert said in found.sentence
    assert (found.estimate is not None) == (outcome is Outcome.new_job)


def test_without_a_store_the_deployment_finds_out() -> None:
    found = looked(facts(), StackEvidence())
    assert found.outcome is Outcome.decided_at_deployment
    assert "Decided at deployment" in found.sentence
    assert "aaaaaaaaaaaa" in found.sentence


def test_an_artifact_that_is_as_it_was_needs_no_job() -> None:
    assert looked(facts(), StackEvidence(), facts()).outcome is Outcome.stays
    assert looked(facts(), with_store(Stored.ready), facts()).outcome is Outcome.stays
    # That it was made does not mean that it is still there, when CloudFormation asks for it anew.
    assert looked(facts(), with_store(None), facts()).outcome is Outcome.new_job


def test_what_nobody_asks_for_anew_runs_no_job_whatever_the_store_has() -> None:
    there = outlook(facts(), facts(), with_store(Stored.ready), is_asked_for=False)
    assert (there.outcome, there.sentence) == (Outcome.stays, "Artifact aaaaaaaaaaaa stays as it is: no job runs.")
    gone = outlook(facts(), facts(), with_store(None), is_asked_for=False)
    assert gone.outcome is Outcome.lost
    assert "is not there in the store ml-artifacts, and no job runs" in gone.sentence
    lost = outlook(reference(), reference(), with_store(Stored.damaged), is_asked_for=False)
    assert lost.outcome is Outcome.lost
    assert "is damaged (so it is) in the store ml-artifacts" in lost.sentence


def test_another_artifact_names_the_one_before() -> None:
    found = looked(facts(OTHER_KEY), StackEvidence(), facts())
    assert found.outcome is Outcome.decided_at_deployment
    assert found.sentence.startswith("Another one than before (artifact aaaaaaaaaaaa).")


def test_the_same_artifact_in_another_store_is_another_question() -> None:
    found = looked(facts(bucket="other"), StackEvidence(), facts())
    assert found.outcome is Outcome.decided_at_deployment


def test_a_key_that_the_files_decide_is_not_made_up() -> None:
    found = looked(facts(None), with_store(Stored.ready))
    assert found.outcome is Outcome.decided_at_deployment
    assert "follows from the files below s3://models/llama/" in found.sentence
    assert looked(facts(None), with_store(Stored.ready), facts(None)).outcome is Outcome.stays


@pytest.mark.parametrize(
    ("properties", "said"),
    [
        ({"Source": {"Kind": "hub", "ModelId": "llama"}}, "the newest version of llama."),
        ({"Source": {"Kind": "artifact", "S3Uri": {"Ref": "Other"}}}, "the artifact of the job before it."),
        ({"Source": {"Kind": "s3", "S3Uri": {"Ref": "Other"}}}, "what is before it in the deployment."),
        (
            {
                "Source": {"Kind": "hub", "ModelId": "llama", "Version": "1"},
                "Reads": [{"S3Uri": "s3://train/"}, {"S3Uri": "s3://validation/"}],
            },
            "the files below s3://train/ and s3://validation/.",
        ),
    ],
)
def test_what_the_key_follows_from_is_named(properties: dict[str, Any], said: str) -> None:
    found = looked(facts(None, **properties), StackEvidence())
    assert found.outcome is Outcome.decided_at_deployment
    assert f"follows from {said}" in found.sentence


def test_a_template_without_metadata_has_its_key_and_recipe_all_the_same() -> None:
    source = {"Kind": "hub", "HubName": "SageMakerPublicHub", "ModelId": "llama", "Version": "1.0.0"}
    declared = job(RecipeKey="r", Source=source)["Job"]
    del declared["Metadata"]
    found = JobFacts(Resource("Job", declared))
    assert found.artifact_key == artifact_key("r", "hub:SageMakerPublicHub/llama@1.0.0")
    assert found.recipe == "llama 1.0.0: AWQ INT4, ml.g5.12xlarge"


def test_jobs_of_the_same_kind_say_how_long_it_takes_and_what_it_costs() -> None:
    found = looked(facts(), with_store(None, PAST, replace(PAST, seconds=6000), replace(PAST, model_id="mistral")))
    assert found.estimate is not None
    assert found.estimate.words == (
        "About 1 h 12 min to 1 h 40 min, for $8.40 to $11.67, as 2 jobs of the same kind took; at most 10 h and "
        "$70.00, by the hosting price of ml.g5.12xlarge, which stands in for the job's own."
    )


def test_a_chains_other_job_is_not_of_the_same_kind() -> None:
    sharding = replace(PAST, parts=frozenset({"ModelShardingConfig"}))
    found = looked(facts(), with_store(None, sharding))
    assert found.estimate is not None
    assert found.estimate.based_on == 0
    assert found.estimate.words.startswith("At most 10 h and $70.00")


def test_a_price_that_is_not_among_those_given_is_said_to_be_missing() -> None:
    took = "About 1 h 12 min, as 1 job of the same kind took; at most 10 h."
    for prices, said in (
        (Prices(), took),
        (Prices({"ml.p5.48xlarge": 63.3}, source="a test"), f"{took} There is no price of ml.g5.12xlarge."),
    ):
        found = looked(facts(), with_store(None, PAST, prices=prices))
        assert found.estimate is not None
        assert found.estimate.words == said


def test_a_price_of_jobs_goes_before_that_of_hosting() -> None:
    prices = Prices({"ml.g5.12xlarge": 7.0}, optimization={"ml.g5.12xlarge": 5.0})
    found = looked(facts(), StackEvidence(prices))
    assert found.estimate is not None
    assert (found.estimate.price_per_hour, found.estimate.price_basis) == (5.0, "price of jobs on ml.g5.12xlarge")


def test_a_training_job_is_priced_as_one_by_all_its_instances() -> None:
    request = {
        "ResourceConfig": {"InstanceType": "ml.p5.48xlarge", "InstanceCount": 2},
        "StoppingCondition": {"MaxRuntimeInSeconds": 3600},
    }
    prices = Prices({"ml.p5.48xlarge": 60.0}, training={"ml.p5.48xlarge": 50.0})
    declared = {**job(Request={**request, "EnableManagedSpotTraining": True})["Job"], "Type": "Custom::TrainingJob"}
    found = looked(JobFacts(Resource("Job", declared)), StackEvidence(prices))
    assert found.estimate is not None
    assert found.estimate.cost(3600) == 100
    assert "training job" in found.sentence
    assert "At most 1 h and $100, by the training price of ml.p5.48xlarge; spot capacity" in found.estimate.words


@pytest.mark.parametrize(
    ("evidence", "outcome", "said"),
    [
        (with_store(Stored.ready), Outcome.reuse, "is in the store: no job runs"),
        (with_store(Stored.failed), Outcome.missing, "is failed (so it is): the deployment fails"),
        (with_store(None), Outcome.missing, "is not in the store ml-artifacts: the deployment fails"),
        (StackEvidence(), Outcome.decided_at_deployment, "fails where the store has it not"),
    ],
)
def test_what_is_referred_to_by_its_key_must_be_there(evidence: StackEvidence, outcome: Outcome, said: str) -> None:
    found = looked(reference(), evidence)
    assert (found.outcome, found.estimate) == (outcome, None)
    assert said in found.sentence


def test_a_reference_that_stays_needs_nothing() -> None:
    assert looked(reference(), StackEvidence(), reference()).outcome is Outcome.stays
    assert looked(reference(OTHER_KEY), StackEvidence(), reference()).outcome is Outcome.decided_at_deployment


def test_an_artifact_that_nothing_uses_any_more_stays_in_its_store() -> None:
    found = outlook(facts(), None, StackEvidence())
    assert found.outcome is Outcome.removed
    assert "stays in its store" in found.sentence
