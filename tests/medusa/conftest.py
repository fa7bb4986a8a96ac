"""Tests of what runs in a training container. They need PyTorch: `make test` runs them in `.venv-models`."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

if importlib.util.find_spec("torch") is None:
    collect_ignore_glob = ["test_*.py"]
else:
    from .jobs import Trained, train
    from .models import corpus_of

FAMILIES = ("llama", "mistral")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the tests of a family on one worker, so that its model is trained once."""
    for item in items:
        if "families" in getattr(item, "fixturenames", ()):
            family = item.callspec.params["trained"] if "trained" in item.fixturenames else "llama"  # type: ignore[attr-defined]
            item.add_marker(pytest.mark.xdist_group(family))


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """training.jsonl, validation.jsonl and test.jsonl of the sample corpus."""
    return corpus_of(tmp_path_factory.mktemp("corpus"))


@pytest.fixture(scope="session")
def families(tmp_path_factory: pytest.TempPathFactory, corpus: Path) -> Callable[[str], Trained]:
    """A family's small model, fine-tuned by one job, with heads trained by another; made once."""
    return cache(lambda family: train(family, tmp_path_factory.mktemp(family), corpus))


@pytest.fixture(scope="session", params=FAMILIES)
def trained(request: pytest.FixtureRequest, families: Callable[[str], Trained]) -> Trained:
    """Each family's."""
    return families(request.param)


@pytest.fixture(scope="session")
def llama(families: Callable[[str], Trained]) -> Trained:
    """For tests that need one family only."""
    return families("llama")
