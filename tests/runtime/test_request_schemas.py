"""What functions accept and keep: members of requests and records with their bounds; a change shows in a file.

``pytest tests/runtime/test_request_schemas.py --snapshot-update`` writes it.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from pydantic import BaseModel
from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.json import JSONSnapshotExtension

from constructs_optim.runtime import requests, store
from constructs_optim.runtime.requests.properties import Properties
from constructs_optim.runtime.store.json_records import StoredRecord

from ..support.members import members_of


def kinds_of(cls: type[BaseModel], package: ModuleType) -> Iterator[type[BaseModel]]:
    for each in cls.__subclasses__():
        if each.__module__.startswith(package.__name__):
            yield each
        yield from kinds_of(each, package)


def schemas(cls: type[BaseModel], package: ModuleType) -> dict[str, Any]:
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{package.__name__}.{module.name}")
    kinds = sorted(set(kinds_of(cls, package)), key=lambda each: each.__name__)
    return members_of(*kinds)


def test_functions_accept_what_they_did(snapshot: SnapshotAssertion) -> None:
    assert schemas(Properties, requests) == snapshot.use_extension(JSONSnapshotExtension)


def test_records_are_read_as_they_were(snapshot: SnapshotAssertion) -> None:
    assert schemas(StoredRecord, store) == snapshot.use_extension(JSONSnapshotExtension)
