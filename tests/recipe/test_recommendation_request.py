"""The requests of recommendation jobs and their rules."""

from __future__ import annotations

from typing import Any

import botocore.session
import pytest

from constructs_optim.recipe import Model
from constructs_optim.recipe.catalog.availability import recommendations
from constructs_optim.recipe.evaluation import RecommendationRequest
from constructs_optim.recipe.hosting import CapacityReservation
from constructs_optim.recipe.rules import all_rules, check

RESERVATION = "arn:aws:sagemaker:us-west-2:111122223333:training-plan/llama"
MODEL = Model.s3("s3://models/llama/")


def requested(**overrides: Any) -> RecommendationRequest:
    return RecommendationRequest(**{"model": MODEL, **overrides})


GOOD: dict[str, list[RecommendationRequest]] = {
    "OPT150": [
        requested(),
        requested(model=Model.s3("s3://models")),
        requested(model=Model.s3("${Token[Models.7]}/llama")),
    ],
    "OPT151": [requested(optimize_for=goal) for goal in ("cost", "latency", "throughput")],
    "OPT152": [
        requested(),
        requested(instance_types=["ml.g6e.12xlarge"]),
        requested(instance_types=("ml.g5.xlarge", "ml.p5.48xlarge", "ml.p3.2xlarge")),
        requested(instance_types=["${Token[Type.7]}"]),
    ],
    "OPT153": [requested(framework="LMI"), requested(framework="VLLM")],
    "OPT154": [requested(region="us-west-2"), requested(region=None)],
    "OPT155": [
        requested(capacity_reservations=[CapacityReservation(arn=RESERVATION)]),
        requested(capacity_reservations=(CapacityReservation(arn="${Token[Plan.3]}"),)),
    ],
}
BAD: list[tuple[str, RecommendationRequest, str, str]] = [
    ("OPT150", requested(model="s3://models/llama/"), "model", "Model.s3("),
    ("OPT150", requested(model=Model.jumpstart("meta-textgeneration-llama-3-8b")), "model", "in your own bucket"),
    ("OPT150", requested(model=Model.s3("https://models/llama")), "model.uri", "prefix with uncompressed files"),
    ("OPT150", requested(model=Model.s3("s3://models/llama.tar.gz")), "model.uri", "prefix with uncompressed files"),
    ("OPT151", requested(optimize_for="ttft-ms"), "optimize_for", "latency"),
    ("OPT151", requested(optimize_for=["cost", "latency"]), "optimize_for", "one of cost, latency, throughput"),
    ("OPT152", requested(instance_types=[]), "instance_types", "one to 3"),
    ("OPT152", requested(instance_types="ml.g5.xlarge"), "instance_types", "a list"),
    (
        "OPT152",
        requested(instance_types=[f"ml.g5.{size}xlarge" for size in ("", 2, 4, 8)]),
        "instance_types",
        "one to 3",
    ),
    ("OPT152", requested(instance_types=["ml.g5.12xlage"]), "instance_types[0]", "did you mean ml.g5.12xlarge"),
    ("OPT152", requested(instance_types=["ml.g5.xlarge", "ml.inf2.xlarge"]), "instance_types[1]", "did you mean"),
    ("OPT152", requested(instance_types=["ml.g5.xlarge", "ml.g5.xlarge"]), "instance_types[1]", "distinct types"),
    ("OPT153", requested(framework="vllm"), "framework", "LMI or VLLM"),
    ("OPT154", requested(region="eu-north-1"), "region", "eu-central-1"),
    ("OPT155", requested(capacity_reservations=[RESERVATION]), "capacity_reservations[0]", "CapacityReservation(arn="),
    (
        "OPT155",
        requested(capacity_reservations=[CapacityReservation(arn="llama")]),
        "capacity_reservations[0].arn",
        "arn:aws",
    ),
]


def test_every_recommendation_rule_has_valid_and_invalid_cases() -> None:
    rules = {rule.id for rule in all_rules(RecommendationRequest)}
    assert rules == set(GOOD) == {rule for rule, *_ in BAD}


@pytest.mark.parametrize(("rule", "request_"), [(rule, each) for rule, cases in GOOD.items() for each in cases])
def test_valid_cases_do_not_violate_their_rule(rule: str, request_: RecommendationRequest) -> None:
    assert rule not in {violation.rule for violation in check(request_)}


@pytest.mark.parametrize(("rule", "request_", "location", "message"), BAD)
def test_invalid_cases_are_refused_with_their_location_and_a_suggestion(
    rule: str, request_: RecommendationRequest, location: str, message: str
) -> None:
    found = [violation for violation in check(request_) if violation.rule == rule]
    assert location in {violation.location for violation in found}
    assert any(message in violation.suggestion for violation in found)


def test_all_violations_of_a_request_are_reported_together() -> None:
    wrong = requested(model="llama", optimize_for="speed", instance_types=[], framework="TGI", region="mars-north-1")
    assert [violation.rule for violation in check(wrong)] == ["OPT150", "OPT151", "OPT152", "OPT153", "OPT154"]


def test_the_catalog_matches_the_enums_of_the_recommendation_api() -> None:
    model = botocore.session.get_session().get_service_model("sagemaker")
    shape: Any = model.operation_model("CreateAIRecommendationJob").input_shape
    types = shape.members["ComputeSpec"].members["InstanceTypes"]
    metric = shape.members["PerformanceTarget"].members["Constraints"].member.members["Metric"]
    assert list(recommendations().instance_types) == types.member.enum
    assert recommendations().most_instance_types == types.metadata["max"]
    assert set(recommendations().metrics.values()) == set(metric.enum)
    assert list(recommendations().frameworks) == shape.members["InferenceSpecification"].members["Framework"].enum
    assert set(recommendations().regions) <= set(botocore.session.get_session().get_available_regions("sagemaker"))


def test_unset_options_are_omitted_from_the_request() -> None:
    assert requested(optimize_for="latency").properties == {"ModelUri": "s3://models/llama/", "Metric": "ttft-ms"}


def test_the_request_has_every_option_under_its_name() -> None:
    options = requested(
        instance_types=("ml.g5.xlarge",),
        framework="VLLM",
        capacity_reservations=[CapacityReservation(arn=RESERVATION)],
    )
    assert options.properties == {
        "ModelUri": "s3://models/llama/",
        "Metric": recommendations().metrics["cost"],
        "InstanceTypes": ["ml.g5.xlarge"],
        "Framework": "VLLM",
        "ReservationArns": [RESERVATION],
    }
