"""The wheels and the source distributions of both packages, built once."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.documents import CHECKOUT
from tests.support.made_once import folder_of_run, made_once

from .environments import UV, Environment, run

DISTRIBUTIONS = CHECKOUT / "dist"


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``dist``, with the source distributions of this checkout and the wheels that are built from them.

    They are built once for all processes of a run of pytest.
    """
    made_once(folder_of_run(tmp_path_factory) / "built", _build)
    return DISTRIBUTIONS


def _build(record: Path) -> None:
    shutil.rmtree(DISTRIBUTIONS, ignore_errors=True)
    run(
        UV,
        "build",
        "--quiet",
        "--all-packages",
        "--no-build-isolation",
        "--python",
        sys.executable,
        "--out-dir",
        DISTRIBUTIONS,
        cwd=CHECKOUT,
    )
    record.touch()


@pytest.fixture(scope="session")
def wheel(built: Path) -> Path:
    """The wheel of constructs-optim."""
    (found,) = built.glob("constructs_optim-*.whl")
    return found


@pytest.fixture(scope="session")
def local_wheel(built: Path) -> Path:
    """The wheel of constructs-optim-local, installed together with the other: no index has this version yet."""
    (found,) = built.glob("constructs_optim_local-*.whl")
    return found


@pytest.fixture(scope="session")
def source_distribution(built: Path) -> Path:
    """The source distribution of constructs-optim."""
    (found,) = built.glob("constructs_optim-*.tar.gz")
    return found


@pytest.fixture(scope="session")
def local_source_distribution(built: Path) -> Path:
    """The source distribution of constructs-optim-local."""
    (found,) = built.glob("constructs_optim_local-*.tar.gz")
    return found


@pytest.fixture
def environment(tmp_path: Path) -> Iterator[Callable[[str], Environment]]:
    """Creates environments and deletes them afterwards: each takes some 600 MB."""
    created: list[Environment] = []

    def make(version: str) -> Environment:
        created.append(Environment(tmp_path / f"python{version}-{len(created)}", version))
        return created[-1]

    yield make
    for each in created:
        shutil.rmtree(each.folder)
