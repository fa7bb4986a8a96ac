"""An endpoint moves from any recipe to any other: resources keep their types, and the endpoint stays in service."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from constructs_optim_local.cloud import LocalCloud

from ..support.movable_recipes import COMPONENT, MODELS, RECIPES, declare
from ..support.template_stack import ASSETS, TemplateStack, endpoint_of, made

NAMES = [*RECIPES, COMPONENT]
# SageMaker keeps the instance type of a scaled variant, and the component's stack does not scale it (docs/hosting.md).
REFUSED = {(name, COMPONENT) for name in ("on_another_type", "quantized_with_a_draft", "on_pools")}
# Technique and draft, server, pools and components.
SAMPLE = ["as_it_is", COMPONENT, "with_a_draft", "on_pools", "by_another_server"]


@pytest.fixture(scope="module")
def cloud() -> Iterator[LocalCloud]:
    with LocalCloud(job_seconds=(0.1, 0.2), endpoint_seconds=0.1, time_scale=0.005) as running:
        s3 = running.client("s3")
        for bucket in (ASSETS, MODELS):
            s3.create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": "us-west-2"})
        for name in ("llama", "mistral", "draft"):
            s3.put_object(Bucket=MODELS, Key=f"{name}/model.safetensors", Body=name.encode())
        yield running


@pytest.fixture(scope="module")
def stacks(cloud: LocalCloud, tmp_path_factory: pytest.TempPathFactory) -> dict[str, TemplateStack]:
    """One stack by each recipe, under one name."""
    folder = tmp_path_factory.mktemp("recipes")
    return {name: made(cloud, folder / name, "Moves", lambda scope, name=name: declare(scope, name)) for name in NAMES}


def test_no_logical_id_has_two_types(stacks: dict[str, TemplateStack]) -> None:
    types: dict[str, str] = {}
    for name, stack in stacks.items():
        for logical_id, resource in stack.template["Resources"].items():
            assert types.setdefault(logical_id, resource["Type"]) == resource["Type"], (name, logical_id)


def test_an_endpoint_moves_between_kinds_of_recipes(stacks: dict[str, TemplateStack]) -> None:
    moves(stacks, SAMPLE)


@pytest.mark.exhaustive
@pytest.mark.timeout(3600)
def test_an_endpoint_moves_from_any_recipe_to_any_other(stacks: dict[str, TemplateStack]) -> None:
    walk = [NAMES[0]]
    for first, second in itertools.permutations(NAMES, 2):
        walk += [second] if walk[-1] == first else [first, second]
    assert moves(stacks, walk) == set(itertools.permutations(NAMES, 2))


def moves(stacks: dict[str, TemplateStack], walk: list[str]) -> set[tuple[str, str]]:
    """Deploy one recipe after the other; what SageMaker refuses leaves the endpoint as it is. Returns all moves."""
    tried: set[tuple[str, str]] = set()
    serving = stacks[walk[0]]
    assert serving.deploy() == "CREATE_COMPLETE", serving.reasons
    first, at = endpoint_of(serving), walk[0]
    for name in walk[1:]:
        if name == at:
            continue
        tried.add((at, name))
        status = stacks[name].deploy()
        if (at, name) in REFUSED:
            assert status == "UPDATE_ROLLBACK_COMPLETE"
            assert "must be deregistered as scalable targets" in stacks[name].reasons
        else:
            assert status == "UPDATE_COMPLETE", (at, name, stacks[name].reasons)
            at = name
        after = endpoint_of(serving)
        assert (after["EndpointStatus"], after["EndpointArn"]) == ("InService", first["EndpointArn"]), (at, name)
    assert serving.delete() == "DELETE_COMPLETE", serving.reasons
    return tried
