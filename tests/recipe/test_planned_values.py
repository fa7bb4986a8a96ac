"""What the plans of the rules' valid cases ask of containers, jobs and instances: a change shows in a file.

``pytest tests/recipe/test_planned_values.py --snapshot-update`` writes it. Images and keys change with each release and
have tests of their own (test_catalog.py, test_keys.py).
"""

from __future__ import annotations

import contextlib
import json
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.json import JSONSnapshotExtension

from constructs_optim.recipe import Recipe, RecipeError
from constructs_optim.recipe.plan_data import Plan
from constructs_optim.recipe.planning import plan

from .test_rules import GOOD, recipe


def plans() -> Iterator[Plan]:
    for given in GOOD.values():
        for each in given:
            # A case is valid for its own rule.
            with contextlib.suppress(RecipeError):
                yield plan(Recipe(**recipe(**each)))


def planned_values() -> dict[str, list[str]]:
    """The distinct values, as JSON, each in a line."""
    found: dict[str, set[str]] = defaultdict(set)
    for planned in plans():
        described: dict[str, Any] = planned.model_dump(mode="json", exclude_none=True)
        jobs, container = described["jobs"], described["container"]
        named = " + ".join(each["label"] for each in described["techniques"]) or "as published"
        found["memory"].add(f"{planned.instance_type}, {named}: {json.dumps(described.get('memory'))}")
        found["copies"].add(f"{planned.instance_type}: {json.dumps(described.get('copy_requirements'))}")
        found["containers"].add(json.dumps({**container, "image": "", "inference_ami_version": ""}))
        for job in jobs:
            request = job["request"]
            # Its code is that of the release.
            request.get("AlgorithmSpecification", {}).pop("ContainerEntrypoint", None)
            keys = ("artifact_key", "recipe_key", "deployment_hash", "image")
            found["jobs"].add(json.dumps({name: value for name, value in job.items() if name not in keys}))
    return {name: sorted(values) for name, values in found.items()}


def test_each_plan_asks_for_what_it_did(snapshot: SnapshotAssertion) -> None:
    assert planned_values() == snapshot.use_extension(JSONSnapshotExtension)
