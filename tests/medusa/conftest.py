"""Tests of what runs in a training container. They need PyTorch: `make test` runs them in `.venv-models`."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

if importlib.util.find_spec("torch") is None:
    collect_ignore_glob = ["test_*.py"]
else:
    from .jobs import Trained, train
    from .models import corpus_of

FAMILIES = ("llama", "mistral")


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """training.jsonl, validation.jsonl and test.jsonl of the sample corpus."""
    return corpus_of(tmp_path_factory.mktemp("corpus"))


@pytest.fixture(
    scope="session", params=[pytest.param(family, marks=pytest.mark.xdist_group(family)) for family in FAMILIES]
)
def trained(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, corpus: Path) -> Trained:
    """A small model of each family, fine-tuned by one job, with heads trained by another."""
    return train(request.param, tmp_path_factory.mktemp(request.param), corpus)


@pytest.fixture(scope="session")
def llama(tmp_path_factory: pytest.TempPathFactory, corpus: Path) -> Trained:
    """As ``trained``, for tests that need one family only."""
    return train("llama", tmp_path_factory.mktemp("llama"), corpus)
