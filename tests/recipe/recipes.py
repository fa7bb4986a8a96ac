"""Valid recipes, for tests that change one property of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from constructs_optim.recipe import (
    Model,
    Plan,
    Quantization,
    Recipe,
    plan,
)
from constructs_optim.recipe.rules import check

LLAMA_70B = "meta-textgeneration-llama-3-70b-instruct"


def recipe(**changed: Any) -> dict[str, Any]:
    """The headline recipe, as the arguments of ``plan``."""
    return {
        "model": Model.jumpstart(LLAMA_70B, version="2.25.0", accept_eula=True),
        "techniques": [Quantization.awq()],
        "instance_type": "ml.g5.12xlarge",
        "region": "us-west-2",
        **changed,
    }


def planned(*, registry: str | None = None, identity: Callable[[str], str] = str, **changed: Any) -> Plan:
    """The plan of the headline recipe with changes."""
    return plan(
        Recipe(**recipe(**changed)), registry=(lambda: registry) if registry is not None else None, identity=identity
    )


def broken_rules(**changed: Any) -> list[str]:
    """The ids of the rules that the changed recipe breaks."""
    return [violation.rule for violation in check(Recipe(**recipe(**changed)))]
