"""What the documents accept that users keep: results, recommendations and the lock file; a change shows in a file.

``pytest tests/recipe/test_document_schemas.py --snapshot-update`` writes it.
"""

from __future__ import annotations

from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.json import JSONSnapshotExtension

from constructs_optim.recipe.catalog.lock import Lock
from constructs_optim.recipe.evaluation.recommendation import Recommendation
from constructs_optim.recipe.evaluation.result import EvaluationResult

from ..support.members import members_of


def test_documents_accept_what_they_did(snapshot: SnapshotAssertion) -> None:
    assert members_of(EvaluationResult, Lock, Recommendation) == snapshot.use_extension(JSONSnapshotExtension)
