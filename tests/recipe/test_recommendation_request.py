"""What a recommendation job can be asked, and the rules about it."""

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


def asked(**given: Any) -> RecommendationRequest:
    return RecommendationRequest(**{"model": MODEL, **given})


GOOD: dict[str, list[RecommendationRequest]] = {
    "OPT150": [asked(), asked(model=Model.s3("s3://models")), asked(model=Model.s3("${Token[Models.7]}/llama"))],
    "OPT151": [asked(optimize_for=goal) for goal in ("cost", "latency", "throughput")],
    "OPT152": [
        asked(instance_types=["ml.g6e.12xlarge"]),
        asked(instance_types=("ml.g5.xlarge", "ml.p5.48xlarge", "ml.p3.2xlarge")),
        asked(instance_types=["${Token[Type.7]}"]),
    ],
    "OPT153": [asked(framework="LMI"), asked(framework="VLLM")],
    "OPT154": [asked(region="us-west-2"), asked(region=None)],
    "OPT155": [
        asked(capacity_reservations=[CapacityReservation(arn=RESERVATION)]),
        asked(capacity_reservations=(CapacityReservation(arn="${Token[Plan.3]}"),)),
    ],
}
BAD: list[tuple[str, RecommendationRequest, str, str]] = [
    ("OPT150", asked(model="s3://models/llama/"), "model", "Model.s3("),
    ("OPT150", asked(model=Model.jumpstart("meta-textgeneration-llama-3-8b")), "model", "in a bucket of yours"),
    ("OPT150", asked(model=Model.s3("https://models/llama")), "model.uri", "prefix of uncompressed files"),
    ("OPT150", asked(model=Model.s3("s3://models/llama.tar.gz")), "model.uri", "prefix of uncompressed files"),
    ("OPT151", asked(optimize_for="ttft-ms"), "optimize_for", "latency"),
    ("OPT151", asked(optimize_for=["cost", "latency"]), "optimize_for", "one of cost, latency, throughput"),
    ("OPT152", asked(instance_types=[]), "instance_types", "one to 3"),
    ("OPT152", asked(instance_types="ml.g5.xlarge"), "instance_types", "a list"),
    ("OPT152", asked(instance_types=[f"ml.g5.{size}xlarge" for size in ("", 2, 4, 8)]), "instance_types", "one to 3"),
    ("OPT152", asked(instance_types=["ml.g5.12xlage"]), "instance_types[0]", "did you mean ml.g5.12xlarge"),
    ("OPT152", asked(instance_types=["ml.g5.xlarge", "ml.inf2.xlarge"]), "instance_types[1]", "did you mean"),
    ("OPT152", asked(instance_types=["ml.g5.xlarge", "ml.g5.xlarge"]), "instance_types[1]", "distinct types"),
    ("OPT153", asked(framework="vllm"), "framework", "LMI or VLLM"),
    ("OPT154", asked(region="eu-north-1"), "region", "eu-central-1"),
    ("OPT155", asked(capacity_reservations=[RESERVATION]), "capacity_reservations[0]", "CapacityReservation(arn="),
    (
        "OPT155",
        asked(capacity_reservations=[CapacityReservation(arn="llama")]),
        "capacity_reservations[0].arn",
        "arn:aws",
    ),
]


def test_every_rule_about_recommendations_has_a_case_on_either_side() -> None:
    rules = {rule.id for rule in all_rules(RecommendationRequest)}
    assert rules == set(GOOD) == {rule for rule, *_ in BAD}


@pytest.mark.parametrize(("rule", "request_"), [(rule, each) for rule, cases in GOOD.items() for each in cases])
def test_what_keeps_a_rule_is_not_refused(rule: str, request_: RecommendationRequest) -> None:
    assert rule not in {violation.rule for violation in check(request_)}


@pytest.mark.parametrize(("rule", "request_", "location", "told"), BAD)
def test_what_breaks_a_rule_is_refused_with_its_place_and_a_way_out(
    rule: str, request_: RecommendationRequest, location: str, told: str
) -> None:
    found = [violation for violation in check(request_) if violation.rule == rule]
    assert location in {violation.location for violation in found}
    assert any(told in violation.suggestion for violation in found)


def test_all_that_is_wrong_is_told_at_once() -> None:
    wrong = asked(model="llama", optimize_for="speed", instance_types=[], framework="TGI", region="mars-north-1")
    assert [violation.rule for violation in check(wrong)] == ["OPT150", "OPT151", "OPT152", "OPT153", "OPT154"]


def test_the_catalog_has_what_the_api_knows() -> None:
    model = botocore.session.get_session().get_service_model("sagemaker")
    shape: Any = model.operation_model("CreateAIRecommendationJob").input_shape
    types = shape.members["ComputeSpec"].members["InstanceTypes"]
    metric = shape.members["PerformanceTarget"].members["Constraints"].member.members["Metric"]
    assert list(recommendations().instance_types) == types.member.enum
    assert recommendations().most_instance_types == types.metadata["max"]
    assert set(recommendations().metrics.values()) == set(metric.enum)
    assert list(recommendations().frameworks) == shape.members["InferenceSpecification"].members["Framework"].enum
    assert set(recommendations().regions) <= set(botocore.session.get_session().get_available_regions("sagemaker"))


def test_what_was_left_out_is_left_to_the_service() -> None:
    assert asked(optimize_for="latency").properties == {"ModelUri": "s3://models/llama/", "Metric": "ttft-ms"}
