from __future__ import annotations

from typing import Any

import pytest
from aws_cdk import App, Stack

from constructs_optim import Model, SpeculativeDecoding

from ..support.construct_stacks import ENVIRONMENT, STACKS, endpoint, template_of
from ..support.security_document import permissions_under
from ..support.template_stack import allowed


def _draft_of_my_own(scope: Stack) -> None:
    small = Model.jumpstart("meta-textgeneration-llama-3-8b", version="2.24.0", accept_eula=True)
    endpoint(scope, model=small, techniques=[SpeculativeDecoding.custom_draft(uri="s3://models/draft/")])


@pytest.fixture(scope="module")
def templates() -> list[dict[str, Any]]:
    created: list[dict[str, Any]] = []
    for build in (*STACKS.values(), _draft_of_my_own):
        stack = Stack(App(), "Chat", env=ENVIRONMENT)
        build(stack)
        created.append(template_of(stack))
    return created


def test_the_security_document_lists_exactly_the_permissions_in_the_templates(templates: list[dict[str, Any]]) -> None:
    assert permissions_under("What each role may do") == set().union(*map(allowed, templates))


def test_the_untested_permissions_are_a_subset_of_the_role_permissions() -> None:
    assert permissions_under("What no test sees") < permissions_under("What each role may do")
