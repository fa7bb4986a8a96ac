"""Every rule: a recipe that keeps it, and recipes that break it, with what the user is told."""

from __future__ import annotations

from typing import Any

import pytest

from constructs_optim.recipe import Model, Quantization, Violation, violations
from constructs_optim.recipe.recipe import Recipe
from constructs_optim.recipe.rules import all_rules, warnings

from .recipes import LLAMA_70B, recipe

GOOD: dict[str, list[dict[str, Any]]] = {
    "OPT001": [{"model": Model.s3("s3://models/mine/")}],
    "OPT002": [{"model": Model.jumpstart("huggingface-llm-mistral-7b", version="2.0.0")}],
    "OPT003": [{"model": Model.jumpstart(LLAMA_70B, accept_eula=True)}],
    "OPT004": [{"model": Model.jumpstart("huggingface-llm-mistral-7b")}],
    "OPT005": [
        {"model": Model.s3("s3://models/mine")},
        {"model": Model.s3("s3://models")},
        {"model": Model.s3("${Token[TOKEN.1]}")},
        {"model": Model.s3("s3://${Token[Bucket.Name.12]}/mine/")},
    ],
    "OPT010": [{"instance_type": "ml.p5.48xlarge"}],
    "OPT011": [{"instance_type": "ml.g6.48xlarge"}],
    "OPT012": [{"instance_type": "ml.p4d.24xlarge"}],
    "OPT014": [{"region": "eu-central-1"}],
    "OPT020": [{"techniques": (Quantization.awq(),)}],
    "OPT021": [{"techniques": [Quantization.awq(group_size=32, ignored_layers=["lm_head"])]}],
    "OPT022": [{"techniques": [Quantization.awq()]}],
    "OPT023": [{"model": Model.jumpstart("huggingface-llm-mistral-7b")}],
    "OPT024": [{"techniques": [Quantization.awq(tensor_parallel_degree=2)]}],
    "OPT030": [{}],
    "OPT031": [{"environment": {"OPTION_MAX_MODEL_LEN": "8192"}}, {"environment": {"A": "${Token[T.1]}" + "x" * 2000}}],
    "OPT032": [{"techniques": [Quantization.awq(ignored_layers=["lm_head", "mlp.gate"])]}],
    "OPT033": [{"environment": {"OPTION_TENSOR_PARALLEL_DEGREE": "4"}}],
}

# rule, what is changed, where the violation is, what the reason or suggestion says
_awq = Quantization.awq
_GIVEN_DEGREE = {"environment": {"OPTION_TENSOR_PARALLEL_DEGREE": "2"}}
BAD: list[tuple[str, dict[str, Any], str, str]] = [
    ("OPT001", {"model": LLAMA_70B}, "model", "Model.jumpstart"),
    ("OPT001", {"model": None}, "model", "Model.s3"),
    ("OPT002", {"model": Model.jumpstart("meta-textgeneration-lama-3-70b-instruct")}, "model", LLAMA_70B),
    ("OPT002", {"model": Model.jumpstart("no-such-thing")}, "model", "Model.s3"),
    ("OPT002", {"model": Model.jumpstart(42)}, "model", "Model.s3"),  # type: ignore[arg-type]
    ("OPT003", {"model": Model.jumpstart(LLAMA_70B, version="latest", accept_eula=True)}, "model.version", "2.16.2"),
    ("OPT003", {"model": Model.jumpstart(LLAMA_70B, version="*", accept_eula=True)}, "model.version", "list-hub"),
    ("OPT004", {"model": Model.jumpstart(LLAMA_70B)}, "model.accept_eula", "accept_eula=True"),
    ("OPT004", {"model": Model.jumpstart(LLAMA_70B, accept_eula="yes")}, "model.accept_eula", "Llama"),  # type: ignore[arg-type]
    ("OPT005", {"model": Model.s3("https://example.com/model")}, "model.uri", "s3://"),
    ("OPT005", {"model": Model.s3("s3://My_Bucket/model/")}, "model.uri", "My_Bucket"),
    ("OPT005", {"model": Model.s3("s3:///model/")}, "model.uri", "bucket"),
    ("OPT005", {"model": Model.s3("s3://models/llama/model.tar.gz")}, "model.uri", "unpack"),
    ("OPT005", {"model": Model.s3("s3://models/" + "x" * 1100)}, "model.uri", "1024"),
    ("OPT005", {"model": Model.s3(7)}, "model.uri", "s3://"),  # type: ignore[arg-type]
    ("OPT010", {"instance_type": "ml.g5.12xlage"}, "instance_type", "ml.g5.12xlarge"),
    ("OPT010", {"instance_type": "g5.12xlarge"}, "instance_type", "ml.g5.12xlarge"),
    ("OPT010", {"instance_type": 12}, "instance_type", "ml."),
    ("OPT011", {"instance_type": "ml.m5.xlarge"}, "instance_type", "ml.g5.12xlarge"),
    ("OPT012", {"instance_type": "ml.inf2.48xlarge"}, "instance_type", "g5"),
    ("OPT014", {"region": "us-wset-2"}, "region", "us-west-2"),
    ("OPT014", {"region": "the-moon"}, "region", "us-west-2"),
    ("OPT020", {"techniques": []}, "techniques", "Quantization.awq()"),
    ("OPT020", {"techniques": Quantization.awq()}, "techniques", "list"),
    ("OPT020", {"techniques": "awq"}, "techniques", "list"),
    ("OPT020", {"techniques": ["awq"]}, "techniques[0]", "Quantization.awq()"),
    ("OPT021", {"techniques": [Quantization.awq(group_size=100)]}, "techniques[0].group_size", "32, 64 or 128"),  # type: ignore[arg-type]
    ("OPT021", {"techniques": [Quantization.awq(ignored_layers=[1])]}, "techniques[0].ignored_layers.0", "string"),  # type: ignore[list-item]
    ("OPT021", {"techniques": [Quantization.awq(ignored_layers="lm_head")]}, "techniques[0].ignored_layers", "tuple"),  # type: ignore[arg-type]
    ("OPT021", {"techniques": [_awq(tensor_parallel_degree=0)]}, "techniques[0].tensor_parallel_degree", "1"),
    ("OPT022", {"techniques": [Quantization.awq(), Quantization.awq(group_size=64)]}, "techniques[1]", "techniques[0]"),
    ("OPT023", {"model": Model.jumpstart("huggingface-llm-falcon-180b-bf16")}, "techniques[0]", "matrix"),
    ("OPT024", {"techniques": [_awq(tensor_parallel_degree=3)]}, "techniques[0].tensor_parallel_degree", "1, 2, 4"),
    ("OPT031", {"environment": ["A"]}, "environment", "mapping"),
    ("OPT031", {"environment": {"A-B": "c"}}, "environment", "OPTION_MAX_MODEL_LEN"),
    ("OPT031", {"environment": {"A": 1}}, "environment.A", "'1'"),
    ("OPT031", {"environment": {"A": "x" * 1025}}, "environment.A", "1024"),
    ("OPT031", {"environment": {f"A{n}": "" for n in range(99)}}, "environment", "98"),
    ("OPT032", {"techniques": [Quantization.awq(ignored_layers=["x" * 257])]}, "techniques[0].ignored_layers", "256"),
    ("OPT033", _GIVEN_DEGREE, "environment.OPTION_TENSOR_PARALLEL_DEGREE", "tensor_parallel_degree"),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "changed"), [(rule, changed) for rule, cases in GOOD.items() for changed in cases])
def test_a_recipe_that_keeps_the_rule_is_not_accused_of_breaking_it(rule: str, changed: dict[str, Any]) -> None:
    assert rule not in [violation.rule for violation in violations(**recipe(**changed))]


@pytest.mark.parametrize(("rule", "changed", "location", "told"), BAD)
def test_a_recipe_that_breaks_the_rule_is_told_where_and_what_would_work(
    rule: str, changed: dict[str, Any], location: str, told: str
) -> None:
    found = [violation for violation in violations(**recipe(**changed)) if violation.rule == rule]
    assert [violation.location for violation in found] == [location]
    assert told in f"{found[0].reason} {found[0].suggestion}"
    assert found[0].link.startswith("https://")


def test_every_rule_that_refuses_has_a_case_on_either_side() -> None:
    ids = {rule.id for rule in all_rules() if not rule.advisory}
    # No image lacks what AWQ needs: the rule guards techniques to come, and is tried with one that asks for the moon.
    assert ids == set(GOOD) == {rule for rule, *_ in BAD} | {"OPT030"}


def test_techniques_that_no_image_has_together_are_refused() -> None:
    from constructs_optim.recipe.techniques import AwqQuantization

    class Moonshot(AwqQuantization):
        capabilities = frozenset({"moon"})

    found = [v for v in violations(**recipe(techniques=[Moonshot()])) if v.rule == "OPT030"]
    assert [v.location for v in found] == ["techniques"]


def test_an_unpinned_version_is_advised_against() -> None:
    given = recipe(model=Model.jumpstart(LLAMA_70B, accept_eula=True))
    assert not violations(**given)
    (advice,) = warnings(Recipe(given["model"], given["techniques"], given["instance_type"]))
    assert advice.id == "constructs-optim:OPT006"
    assert "version=" in advice.message


def test_a_family_that_the_vendor_did_not_test_is_advised_against() -> None:
    given = recipe(instance_type="ml.g6e.12xlarge")
    assert not violations(**given)
    (advice,) = warnings(Recipe(given["model"], given["techniques"], given["instance_type"]))
    assert advice.id == "constructs-optim:OPT013"


def test_what_a_rule_cannot_look_at_is_left_to_the_rule_that_reports_it() -> None:
    found: list[Violation] = violations(model=object(), techniques=object(), instance_type=object(), region=object())
    assert {violation.rule for violation in found} == {"OPT001", "OPT010", "OPT014", "OPT020"}
