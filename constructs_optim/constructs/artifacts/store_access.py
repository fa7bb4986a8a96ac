"""What roles may do in an artifact store, and with the KMS key that encrypts it: a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from constructs_optim.constructs.stack.permissions import JOB_KEY_ACTIONS, KEY_ACTIONS, KNOWN_LATER, Statement
from constructs_optim.constructs.stack.stack_context import PSEUDO

from .artifact_store import IArtifactStore

Use = Literal[
    "keep records", "read artifacts", "write models", "write models and metrics", "keep checkpoints", "keep references"
]
_LIST, _LOCATE = ("s3:ListBucket",), ("s3:GetBucketLocation",)
_READ_WRITE = ("s3:GetObject", "s3:PutObject")
_UPLOAD = ("s3:PutObject", "s3:AbortMultipartUpload")
_READ_ARTIFACTS = ("ReadArtifacts", ("s3:GetObject",), "artifacts/*")
_LIST_ARTIFACTS = ("ListArtifacts", _LIST, "artifacts/*")
_OUTPUT_KEY = ("EncryptArtifacts", JOB_KEY_ACTIONS, "")

_Row = tuple[str, tuple[str, ...], str]
# A statement's id, its actions, and the objects it is about, or the prefix that is listed; actions of KMS are about the
# store's key, and left out where it has none. A job writes models and logs, and neither a claim nor a manifest.
_ROWS: Mapping[Use, Sequence[_Row]] = {
    "keep records": [
        ("Artifacts", _READ_WRITE, "artifacts/*"),
        _LIST_ARTIFACTS,
        ("EncryptArtifacts", KEY_ACTIONS, ""),
    ],
    "read artifacts": [_READ_ARTIFACTS, _LIST_ARTIFACTS, ("DecryptArtifacts", ("kms:Decrypt",), "")],
    "write models": [
        _READ_ARTIFACTS,
        ("WriteArtifacts", _UPLOAD, "artifacts/*/model/*"),
        _LIST_ARTIFACTS,
        _OUTPUT_KEY,
    ],
    "write models and metrics": [
        _READ_ARTIFACTS,
        ("WriteArtifacts", _UPLOAD, "artifacts/*/model/* artifacts/*/tensorboard/*"),
        _LIST_ARTIFACTS,
        _OUTPUT_KEY,
    ],
    "keep checkpoints": [
        ("Checkpoints", (*_READ_WRITE, "s3:AbortMultipartUpload"), "checkpoints/*"),
        ("ListCheckpoints", _LIST, "checkpoints/*"),
    ],
    # Of what this account's stacks refer to.
    "keep references": [
        ("Owners", _READ_WRITE, "owners/{account}/*"),
        ("ListOwners", _LIST, "owners/{account}/*"),
        ("LocateStore", _LOCATE, ""),
        ("EncryptArtifacts", KEY_ACTIONS, ""),
    ],
}
_ARTIFACT_KEYS = "artifact keys are known only when the stack is deployed"
_WILDCARDS = {
    "artifacts": _ARTIFACT_KEYS,
    "checkpoints": _ARTIFACT_KEYS,
    "owners": "an owner's record is named after its stack, known when the stack is deployed",
    "evaluations": f"an evaluation's key follows from what is served, {KNOWN_LATER}",
    "recommendations": f"a recommendation's key follows from what is asked, {KNOWN_LATER}",
}


def store_statements(store: IArtifactStore, use: Use) -> list[Statement]:
    """The statements of one use of a store."""
    return _statements(store, _ROWS[use])


def result_statements(
    store: IArtifactStore, folder: Literal["evaluations", "recommendations"], by: Literal["job", "handler", "writer"]
) -> list[Statement]:
    """The statements of whoever keeps results below a folder of a store.

    A job reads, writes and looks up the store's region; a handler reads and writes; a writer only writes.
    """
    name = folder.title()
    if by == "writer":
        return _statements(
            store, [(name, ("s3:PutObject",), f"{folder}/*"), (f"Encrypt{name}", ("kms:GenerateDataKey",), "")]
        )
    # GetObject of an absent object returns 403 instead of 404 to whoever may not list it.
    listed: list[_Row] = [(f"Encrypt{name}", KEY_ACTIONS, ""), (f"List{name}", _LIST, f"{folder}/*")]
    if by == "handler":
        return _statements(store, [(name, _READ_WRITE, f"{folder}/*"), *listed])
    uploads = ("s3:AbortMultipartUpload", *_READ_WRITE)
    return _statements(store, [(name, uploads, f"{folder}/*"), *listed, ("LocateStore", _LOCATE, "")])


def _statements(store: IArtifactStore, rows: Sequence[_Row]) -> list[Statement]:
    statements: list[Statement] = []
    for sid, actions, paths in rows:
        below = [path.format(account=PSEUDO.account) for path in paths.split()]
        if actions[0].startswith("kms:"):
            if store.encryption_key_arn is not None:
                statements.append(Statement(sid, actions, (store.encryption_key_arn,)))
        elif actions in (_LIST, _LOCATE):
            statements.append(Statement(sid, actions, (store.bucket_arn,), prefixes=tuple(below)))
        else:
            arns = tuple(f"{store.bucket_arn}/{path}" for path in below)
            statements.append(Statement(sid, actions, arns, wildcard=_WILDCARDS[paths.partition("/")[0]]))
    return statements
