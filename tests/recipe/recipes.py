"""Recipes that work, for tests that change one thing about them."""

from __future__ import annotations

from typing import Any

from constructs_optim.recipe import (
    Model,
    Plan,
    Quantization,
    violations,
)
from constructs_optim.recipe.planning.plan import plan

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


def planned(**changed: Any) -> Plan:
    """The plan of the headline recipe, changed."""
    return plan(**recipe(**changed))


def broken_rules(**changed: Any) -> list[str]:
    """The ids of the rules that the changed recipe breaks."""
    return [violation.rule for violation in violations(**recipe(**changed))]
