"""The catalog's data, against what else is known: the service's own enums, and its own look-ups."""

from __future__ import annotations

import re
from typing import Any

import botocore.session
import pytest

from constructs_optim.recipe import Quantization
from constructs_optim.recipe.catalog import images, instances, models
from constructs_optim.recipe.catalog.files import load
from constructs_optim.recipe.catalog.matching import close_matches


def enum(operation: str, *path: str) -> set[str]:
    shape: Any = botocore.session.get_session().get_service_model("sagemaker").operation_model(operation).input_shape
    for member in path:
        shape = shape.member if member == "*" else shape.members[member]
    return set(shape.enum)


@pytest.mark.parametrize("name", ["models", "instances", "images"])
def test_every_file_says_where_it_comes_from_and_from_when(name: str) -> None:
    assert load(name)["source"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", load(name)["date"])


def test_endpoint_instance_types_are_exactly_those_of_the_api() -> None:
    hosting = {row.name for row in instances.by_name().values() if row.hosts_endpoints} | instances.other_names()
    assert hosting == enum("CreateEndpointConfig", "ProductionVariants", "*", "InstanceType")


def test_optimization_instance_types_are_exactly_those_of_the_api() -> None:
    optimizing = {row.name for row in instances.by_name().values() if row.runs_optimization}
    assert optimizing == enum("CreateOptimizationJob", "DeploymentInstanceType")


def test_every_instance_type_has_plausible_accelerators() -> None:
    for row in instances.by_name().values():
        assert row.name.startswith(f"ml.{row.family}."), row
        assert 1 <= row.accelerator_count <= 16, row
        assert 8_192 <= row.accelerator_memory_mib <= 300_000, row


def test_every_family_a_technique_names_exists() -> None:
    families = {row.family for row in instances.by_name().values()}
    awq = Quantization.awq()
    assert awq.tested_families | awq.other_families <= families
    assert not awq.tested_families & awq.other_families


def test_every_column_a_technique_names_exists() -> None:
    column = Quantization.awq().catalog_column
    assert {row.supports(column) for row in models.by_id().values()} == {True, False}


def test_a_model_that_is_known_to_be_gated_has_a_licence_with_an_address() -> None:
    gated = [row for row in models.by_id().values() if row.gated]
    assert gated
    for row in gated:
        assert row.license is not None, row.model_id
        assert row.license.name
        assert row.license.url.startswith("https://"), row.model_id


def test_every_registry_has_an_account_and_a_host() -> None:
    for region, account in images.registry_accounts().items():
        assert re.fullmatch(r"\d{12}", account), region
        host = images.registry_host(region)
        assert host is not None
        assert host.startswith(f"{account}.dkr.ecr.{region}.")
    assert images.registry_host("us-west-2") == "763104351884.dkr.ecr.us-west-2.amazonaws.com"
    assert images.registry_host("nowhere-1") is None


def test_the_first_image_with_all_capabilities_is_chosen() -> None:
    chosen = images.select({"awq"})
    assert chosen is images.rows()[0]
    assert images.select({"awq", "speculative_config"}) not in (None, chosen)
    assert images.select({"time_travel"}) is None


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("meta-textgeneration-llama3-70b-instruct", "meta-textgeneration-llama-3-70b-instruct"),
        ("META-TextGeneration-Llama-3-70B", "meta-textgeneration-llama-3-70b"),
        ("  huggingface-llm-mistral-7b ", "huggingface-llm-mistral-7b"),
    ],
)
def test_a_mistyped_model_id_finds_what_was_meant(given: str, meant: str) -> None:
    assert close_matches(given, models.by_id())[0] == meant


def test_a_name_like_no_other_finds_nothing() -> None:
    assert close_matches("zzzzzzzz" * 100, models.by_id()) == []
