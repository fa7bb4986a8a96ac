from __future__ import annotations

import pytest

from constructs_optim.operations.artifacts import ArtifactInventory

from ..support.operator_fixtures import cloud, store
from ..support.operator_stores import ACCOUNT, Store

__all__ = ["cloud", "store"]


@pytest.fixture
def inventory(store: Store) -> ArtifactInventory:
    return ArtifactInventory(store.s3, store.sagemaker, store.bucket, account=ACCOUNT)
