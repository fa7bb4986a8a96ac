"""Whether rules refuse what vLLM refuses of models of other people, and only that."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache

import pytest

from constructs_optim.recipe.catalog import models

from .real_configurations import BUILDS, HOSTS, RELEASE, Configuration, answered, recorded

LEAST = 60
CONFIGURATIONS = recorded()


def differing(configurations: list[Configuration]) -> Iterator[tuple[Configuration, str]]:
    """The configurations, with the instance types, of which rules and vLLM say otherwise."""
    for each in configurations:
        yield from ((each, host) for host in HOSTS if bool(each.rules[host]) != (each.vllm[host] != BUILDS))


@cache
def answers() -> list[Configuration]:
    return [*answered(CONFIGURATIONS)]


@pytest.mark.parametrize("configuration", CONFIGURATIONS, ids=lambda each: each.name)
def test_rules_say_of_a_real_configuration_what_they_did(configuration: Configuration) -> None:
    assert {host: configuration.refusing(host) for host in HOSTS} == configuration.rules


def test_the_configurations_are_many_and_not_those_of_the_catalog() -> None:
    assert len({each.name for each in CONFIGURATIONS}) == len(CONFIGURATIONS) >= LEAST
    assert {each.name for each in CONFIGURATIONS}.isdisjoint(models.of_hugging_face())


def test_rules_refuse_what_vllm_refuses_and_only_that() -> None:
    assert [(each.name, host) for each, host in differing(CONFIGURATIONS) if each.unlike is None] == []


def test_every_reason_to_differ_is_needed() -> None:
    differ = {each.name for each, _ in differing(CONFIGURATIONS)}
    others = {each.name for each in CONFIGURATIONS if each.recipe(HOSTS[0]).engine != RELEASE}
    assert {each.name for each in CONFIGURATIONS if each.unlike is not None} <= differ | others


@pytest.mark.engine
@pytest.mark.timeout(1800)
def test_vllm_says_of_real_configurations_what_it_did(capsys: pytest.CaptureFixture[str]) -> None:
    found = Counter(each.vllm[host] == BUILDS for each in answers() for host in HOSTS)
    differ = [(each, host) for each, host in differing(answers())]
    with capsys.disabled():
        sys.stdout.write(
            f"\nOf {len(CONFIGURATIONS)} configurations of other people on {len(HOSTS)} instance types each, vLLM "
            f"{RELEASE} builds {found[True]} and refuses {found[False]}; rules say the same of "
            f"{found.total() - len(differ)}\n"
        )
        for reason, number in Counter(each.unlike for each, _ in differ).items():
            sys.stdout.write(f"{number} differ: {reason}\n")
    assert {each.name: each.vllm for each in answers()} == {each.name: each.vllm for each in CONFIGURATIONS}
    assert [each.name for each, _ in differ if each.unlike is None] == []
