"""An endpoint moves from any recipe to any other: resources keep their types, and the endpoint stays in service."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from constructs_optim_local.cloud import LocalCloud

from ..support.movable_recipes import COMPONENT, MODELS, RECIPES, declare
from ..support.template_stack import ASSETS, TemplateStack, endpoint_of, made
from ..support.uploaded_models import upload_model

NAMES = [*RECIPES, COMPONENT]
# SageMaker keeps the instance type of a scaled variant, and the component's stack does not scale it (docs/hosting.md).
REFUSED = {(name, COMPONENT) for name in ("on_another_type", "quantized_with_a_draft", "on_pools")}
# Technique and draft, server, pools and components.
SAMPLE = [COMPONENT, "with_a_draft", "on_pools", "by_another_server"]


@pytest.fixture(scope="module")
def cloud() -> Iterator[LocalCloud]:
    with LocalCloud(job_seconds=(0.1, 0.2), endpoint_seconds=0.1, time_scale=0.005) as running:
        s3 = running.client("s3")
        for bucket in (ASSETS, MODELS):
            s3.create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": "us-west-2"})
        for name in ("llama", "mistral", "draft"):
            upload_model(s3, MODELS, name, name.encode())
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


@pytest.fixture
def moving(stacks: dict[str, TemplateStack]) -> Iterator[Moving]:
    found = Moving(stacks)
    yield found
    assert stacks[NAMES[0]].delete() == "DELETE_COMPLETE"


class Moving:
    """The endpoint, as it moves."""

    def __init__(self, stacks: dict[str, TemplateStack]) -> None:
        self.stacks, self.at = stacks, NAMES[0]
        assert stacks[self.at].deploy() == "CREATE_COMPLETE", stacks[self.at].reasons
        self._arn = endpoint_of(stacks[self.at])["EndpointArn"]

    def to(self, name: str) -> None:
        """Deploy another recipe; what SageMaker refuses leaves the endpoint as it is."""
        stack, move = self.stacks[name], (self.at, name)
        status = stack.deploy()
        if move in REFUSED:
            assert status == "UPDATE_ROLLBACK_COMPLETE", move
            assert "must be deregistered as scalable targets" in stack.reasons
        else:
            assert status == "UPDATE_COMPLETE", (move, stack.reasons)
            self.at = name
        after = endpoint_of(stack)
        assert (after["EndpointStatus"], after["EndpointArn"]) == ("InService", self._arn), move


def test_an_endpoint_moves_between_kinds_of_recipes(moving: Moving) -> None:
    for name in SAMPLE:
        moving.to(name)
    assert moving.at == SAMPLE[-1]


@pytest.mark.exhaustive
@pytest.mark.timeout(3600)
def test_an_endpoint_moves_from_any_recipe_to_any_other(moving: Moving) -> None:
    for first, second in itertools.permutations(NAMES, 2):
        # By way of one that every other may move to and from.
        for name in (NAMES[0], first):
            if moving.at != first and moving.at != name:
                moving.to(name)
        moving.to(second)
