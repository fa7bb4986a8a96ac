"""The pools of an endpoint and of its components, and the recipe of each."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import pytest

from constructs_optim import Quantization, Server
from constructs_optim.constructs.artifacts.planned_recipe import (
    Pool,
    pools_of,
    pools_of_choice,
    pools_of_component,
    recipes_of,
)
from constructs_optim.recipe.catalog.lock import RecordedPool
from constructs_optim.recipe.hosting import Hosting

from ..support.choices import CHOICE
from ..support.construct_stacks import llama

G5, P5 = "ml.g5.12xlarge", "ml.p5.48xlarge"
AWQ = [Quantization.awq()]


def test_without_pools_an_endpoint_has_one_of_its_instance_type() -> None:
    assert pools_of(llama(), AWQ, G5, None, "a" * 64) == (Pool(G5, AWQ, "a" * 64),)
    assert pools_of(llama(), None, G5, None, None) == (Pool(G5, []),)


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ({"techniques": AWQ}, "techniques and instance_pools are set"),
        ({"techniques": []}, "techniques and instance_pools are set"),
        ({"instance_type": G5, "artifact_key": "a"}, "instance_type and artifact_key and instance_pools are set"),
    ],
)
def test_what_each_pool_has_is_not_set_for_all(given: dict[str, Any], names: str) -> None:
    arguments = {"techniques": None, "instance_type": None, "artifact_key": None, **given}
    with pytest.raises(ValueError, match=names):
        pools_of(llama(), instance_pools=[Pool(G5, AWQ)], **arguments)


@pytest.mark.parametrize(
    ("of_endpoint", "of_pool", "merged"),
    [
        (None, None, None),
        ({}, {}, None),
        ({"A": "1"}, None, {"A": "1"}),
        (None, {"B": "2"}, {"B": "2"}),
        ({"A": "1", "B": "1"}, {"B": "2"}, {"A": "1", "B": "2"}),
        (MappingProxyType({"A": "1"}), {"B": "2"}, {"A": "1", "B": "2"}),
        # The rules refuse it.
        (["A=1"], {"B": "2"}, ["A=1"]),
        ({"A": "1"}, "B=2", "B=2"),
    ],
)
def test_the_environment_of_a_pool_overrides_the_endpoints(of_endpoint: Any, of_pool: Any, merged: Any) -> None:
    (recipe,) = recipes_of(llama(), [Pool(G5, AWQ, environment=of_pool)], of_endpoint, None, pooled=False)
    assert recipe.environment == merged


def test_each_pool_has_its_own_recipe_and_its_place_in_violations() -> None:
    pools = [Pool(P5, [Quantization.fp8()], "a" * 64, server=Server.lmi()), Pool(G5, AWQ)]
    first, second = recipes_of(llama(), pools, None, Server.vllm(), pooled=True, partition="mig-1g.18gb")
    assert (first.techniques, first.instance_type, first.artifact_key) == ([Quantization.fp8()], P5, "a" * 64)
    assert (first.server, second.server) == (Server.lmi(), Server.vllm())
    assert (second.techniques, second.instance_type, second.artifact_key) == (AWQ, G5, None)
    assert [each.location for each in (first, second)] == ["instance_pools[0].", "instance_pools[1]."]
    assert {each.accelerator_partition for each in (first, second)} == {"mig-1g.18gb"}
    (alone,) = recipes_of(llama(), pools[1:], None, None, pooled=False)
    assert (alone.location, alone.server, alone.accelerator_partition) == ("", None, None)


@pytest.mark.parametrize(
    ("pools", "environment", "server", "names"),
    [
        ([Pool(G5, AWQ)], None, None, "techniques"),
        ([Pool(G5), Pool(P5, artifact_key="a")], None, None, "artifact_key"),
        ([Pool(G5)], {"A": "1"}, Server.vllm(), "environment and server"),
        ([Pool(G5, environment={"A": "1"})], None, None, "environment"),
    ],
)
def test_without_a_model_there_is_nothing_to_set(pools: Any, environment: Any, server: Any, names: str) -> None:
    with pytest.raises(ValueError, match=f"^{names} cannot be set without a model"):
        recipes_of(None, pools, environment, server, pooled=True)
    assert recipes_of(None, [Pool(G5)], None, None, pooled=False) == []


def test_a_choice_of_several_types_has_no_single_artifact() -> None:
    two = (RecordedPool(instance_type=P5), RecordedPool(instance_type=G5, techniques=("quantization=awq",)))
    choice = CHOICE.model_copy(update={"pools": two})
    with pytest.raises(ValueError, match="artifact_key is a single key, and the choice has 2 instance types"):
        pools_of_choice(choice, None, "a" * 64)
    first, second = pools_of_choice(choice, None, None)
    assert (first.instance_type, first.techniques, second.techniques) == (P5, [], AWQ)
    (only,) = pools_of_choice(choice.model_copy(update={"pools": two[:1]}), None, "a" * 64)
    assert only.artifact_key == "a" * 64


def test_a_component_has_the_pools_of_its_endpoint() -> None:
    alone = Hosting(instance_types=(G5,))
    assert pools_of_component(alone, llama(), AWQ, None, None) == (Pool(G5, AWQ),)
    with pytest.raises(ValueError, match="instance_pools require an endpoint with instance pools"):
        pools_of_component(alone, llama(), None, [Pool(G5)], None)
    pooled = Hosting(instance_types=(P5, G5), pooled=True)
    pools = [Pool(P5, AWQ), Pool(G5, AWQ)]
    assert pools_of_component(pooled, llama(), None, pools, None) == tuple(pools)
    for given, of in ((pools[::-1], f"{G5}, {P5}"), (pools[:1], P5), (None, "no type")):
        expected = f"instance_pools are of {of}, and the endpoint's are of {P5}, {G5}: set one for each"
        with pytest.raises(ValueError, match=expected):
            pools_of_component(pooled, llama(), None, given, None)
