"""docs/upgrades.md is kept: against the templates of the last minor release, nothing is replaced without a word.

``released/<major>.<minor>.json`` has what the examples synthesized with that release. ``python -m
tests.constructs.upgrade_policy`` records it, when a minor release is made.
"""

from __future__ import annotations

import hashlib
import json
import re
import tempfile
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tests.support.documents import CHECKOUT

MINOR = ".".join(version("constructs-optim").split(".")[:2])
RECORD = Path(__file__).parent / "released" / f"{MINOR}.json"
# Other properties of these types replace instances, or make an artifact again.
REPLACING = (
    "AWS::SageMaker::EndpointConfig",
    "AWS::SageMaker::InferenceComponent",
    "AWS::SageMaker::Model",
    "Custom::OptimizationJob",
    "Custom::OptimizedEndpointConfig",
    "Custom::OptimizedModel",
)

GRANTING = ("AWS::IAM::Policy", "AWS::IAM::ManagedPolicy", "AWS::IAM::Role")

Summary = dict[str, list[str]]
"""By logical ID: the type, and for types in ``REPLACING`` a digest of the properties, in ``GRANTING`` the actions."""


def summary(template: dict[str, Any]) -> Summary:
    found: Summary = {}
    for logical_id, resource in template["Resources"].items():
        found[logical_id] = [resource["Type"]]
        if resource["Type"] in REPLACING:
            properties = json.dumps(resource["Properties"], sort_keys=True)
            found[logical_id].append(hashlib.sha256(properties.encode()).hexdigest()[:12])
        elif resource["Type"] in GRANTING:
            found[logical_id] += sorted({*_actions(resource["Properties"])})
    return found


def _actions(value: Any) -> Iterator[str]:
    """The actions that a policy's statements allow."""
    if isinstance(value, dict):
        if value.get("Effect") == "Allow":
            actions = value.get("Action", [])
            yield from [actions] if isinstance(actions, str) else actions
        value = list(value.values())
    for member in value if isinstance(value, list) else ():
        yield from _actions(member)


def announced() -> str:
    """The template changes that the changelog announces for the next release."""
    unreleased = (CHECKOUT / "CHANGELOG.md").read_text().split("\n## [")[1]
    section = re.search(r"### Template changes\n(.*?)(?=\n### |\Z)", unreleased, flags=re.DOTALL)
    return section[1] if section is not None else ""


def broken(released: Summary, now: Summary) -> list[str]:
    """The logical IDs of a release that are gone, have another type, are replaced, or allow further actions."""
    return [logical_id for logical_id, was in released.items() if not _kept(was, now.get(logical_id, []))]


def _kept(was: list[str], is_now: list[str]) -> bool:
    return was == is_now or (was[0] in GRANTING and was[:1] == is_now[:1] and {*is_now} <= {*was})


def unannounced(name: str, created: dict[str, dict[str, Any]]) -> set[str]:
    """The resources of an example that the release had, and that an upgrade changes without a word."""
    released: dict[str, Summary] = json.loads(RECORD.read_text())[name]
    found = {
        (stack, logical_id)
        for stack, of_release in released.items()
        for logical_id in broken(of_release, summary(created.get(stack, {"Resources": {}})))
    }
    said = announced()
    return {f"{stack}/{logical_id}" for stack, logical_id in found if f"`{logical_id}`" not in said}


def main() -> None:
    """Record what the examples synthesize."""
    from .test_examples import NAMES, templates_of

    recorded: dict[str, dict[str, Summary]] = {}
    for name in NAMES:
        with tempfile.TemporaryDirectory() as out:
            recorded[name] = {stack: summary(each) for stack, each in sorted(templates_of(name, Path(out)).items())}
    lines = json.dumps(recorded, indent=1)
    RECORD.write_text(re.sub(r"\[\s+([^\[\]]+?)\s+\]", lambda each: f"[{' '.join(each[1].split())}]", lines) + "\n")


if __name__ == "__main__":
    main()
