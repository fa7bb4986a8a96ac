"""A part of the suite, run on the wheel with the lowest and the newest allowed dependency versions."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import boto3
import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from tests.support.documents import CHECKOUT

from .environments import BASE, Environment

# What decides and what translates it: each of the base packages but boto3 is at work. The newest of the CDK's resources
# is CfnAIWorkloadConfig, of evaluations.
TRIED = (
    "recipe/test_plan.py",
    "recipe/test_rules.py",
    "recipe/test_keys.py",
    "constructs/test_optimized_endpoint.py",
    "constructs/test_endpoint_evaluation.py",
)
PACKAGE = CHECKOUT / "constructs_optim"
TEST_TOOLS = ("hypothesis", "pytest", "pytest-timeout", "syrupy")
# Text that looks like a client call or a paginator's operation in the code that calls AWS.
CALLED = re.compile(r'[."]([a-z]+_[a-z0-9_]+)[("]')
SERVICES = (
    "application-autoscaling", "cloudformation", "cloudwatch", "pricing", "s3", "sagemaker", "sagemaker-runtime",
    "stepfunctions", "sts",
)  # fmt: skip
MISSING = """
import json, sys
import boto3
names, services = json.load(sys.stdin)
clients = [boto3.client(service, region_name="us-west-2") for service in services]
print(json.dumps([name for name in names if not any(hasattr(client, name) for client in clients)]))
"""


def lowest(requirement: Requirement) -> str:
    """The lowest release that a requirement allows."""
    (bound,) = [bound.version for bound in requirement.specifier if bound.operator == ">="]
    return bound


def operations() -> set[str]:
    """The methods of the installed boto3's clients that the package calls."""
    clients = [boto3.client(service, region_name="us-west-2") for service in SERVICES]
    files = [path for room in ("operations", "evaluator", "cli") for path in (PACKAGE / room).rglob("*.py")]
    names = {name for path in files for name in CALLED.findall(path.read_text())}
    return {name for name in names if any(hasattr(client, name) for client in clients)}


def missing(environment: Environment, names: set[str]) -> list[str]:
    """The methods that the environment's boto3 does not have."""
    completed = environment.run(
        environment.python, "-c", MISSING, cwd=environment.folder, text=json.dumps([[*names], SERVICES])
    )
    return json.loads(completed.stdout)


def try_suite(environment: Environment, tmp_path: Path) -> None:
    """Run a part of the suite in a folder without a checkout to import."""
    suite = tmp_path / "suite"
    shutil.copytree(CHECKOUT / "tests", suite / "tests", ignore=shutil.ignore_patterns("__pycache__"))
    for file in ("pyproject.toml", "cdk.json", "CONTRIBUTING.md"):
        shutil.copy(CHECKOUT / file, suite)
    environment.install(*TEST_TOOLS)
    ran = environment.run(
        environment.python, "-m", "pytest", "--quiet", "-p", "no:cacheprovider", "-m", "not exhaustive",
        *(f"tests/{file}" for file in TRIED), cwd=suite,
    )  # fmt: skip
    assert " passed" in ran.stdout
    assert "failed" not in ran.stdout


def base_requirements(environment: Environment) -> dict[str, Requirement]:
    """The installed wheel's requirements without extras, by name."""
    requirements = map(Requirement, environment.distributions["constructs-optim"].requires or ())
    return {each.name: each for each in requirements if each.name in BASE}


@pytest.mark.exhaustive
def test_the_wheel_works_with_the_lowest_allowed_dependency_versions(
    wheel: Path, environment: Callable[[str], Environment], tmp_path: Path
) -> None:
    oldest = environment("3.11")
    oldest.install(wheel, "--no-deps")
    bounds = {name: lowest(requirement) for name, requirement in base_requirements(oldest).items()}
    assert set(bounds) == set(BASE)
    oldest.install(*(f"{name}=={version}" for name, version in bounds.items()))
    called = operations()
    assert {"describe_endpoint", "get_paginator", "list_objects_v2", "list_optimization_jobs"} <= called
    assert missing(oldest, called | {"fly_endpoint"}) == ["fly_endpoint"]
    try_suite(oldest, tmp_path)
    versions = {name: Version(oldest.distributions[name].version) for name in BASE}
    assert versions == {name: Version(bound) for name, bound in bounds.items()}, "the test tools changed no version"


@pytest.mark.exhaustive
def test_the_wheel_works_with_the_newest_allowed_dependency_versions(
    wheel: Path, environment: Callable[[str], Environment], tmp_path: Path
) -> None:
    newest = environment("3.13")
    newest.install("--upgrade", wheel)
    try_suite(newest, tmp_path)
    for name, requirement in base_requirements(newest).items():
        assert requirement.specifier.contains(newest.distributions[name].version)
