"""Whether an artifact's files are still what its manifest says.

The quick check reads no bytes: it compares names, sizes, ETags and the checksums that S3 keeps with each object. The
deep one downloads every file and computes what the manifest states.

Sources: Amazon S3 user guide, "Checking object integrity": ETags (an MD5 only for objects that are not encrypted with
KMS or customer keys; of a multipart upload, the MD5 of the parts' MD5s), full-object and composite checksums.
"""

from __future__ import annotations

import base64
import hashlib
import importlib
import importlib.util
import re
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Protocol

from botocore.exceptions import ClientError, FlexibleChecksumError

from constructs_optim.runtime.errors import code_of, message_of
from constructs_optim.runtime.store.artifact_integrity import (
    Damage,
    Finding,
    differences,
    misplaced,
)

if TYPE_CHECKING:
    from constructs_optim.runtime.store.artifact_store import ArtifactStore

    from .artifacts import Artifact

_CHUNK = 1 << 20
_MD5 = re.compile(r"[0-9a-f]{32}(?:-(\d+))?")
_ETAG = "ETag"


@dataclass(frozen=True)
class DeepCheck:
    """What came of one file's bytes: by what they were found right, or why that could not be told."""

    file: str
    by: tuple[str, ...] = ()
    impossible: str | None = None

    def to_json(self) -> dict[str, Any]:
        """The check as ``artifacts verify --deep --format json`` prints it."""
        return {**asdict(self), "by": list(self.by)}


@dataclass(frozen=True)
class Verification:
    """What came of one artifact. ``not_checked`` says why there was nothing to check, where there was not."""

    artifact_key: str
    file_count: int = 0
    findings: tuple[Finding, ...] = ()
    deep: tuple[DeepCheck, ...] = ()
    not_checked: str | None = None

    @property
    def is_sound(self) -> bool:
        """Whether it was checked and found without damage."""
        return self.not_checked is None and not self.findings

    def to_json(self) -> dict[str, Any]:
        """The artifact as ``artifacts verify --format json`` prints it."""
        return {
            "artifact_key": self.artifact_key,
            "sound": self.is_sound,
            "not_checked": self.not_checked,
            "file_count": self.file_count,
            "findings": [finding.to_json() for finding in self.findings],
            "deep": [check.to_json() for check in self.deep],
        }


def verify(s3: Any, store: ArtifactStore, artifact: Artifact, *, deep: bool = False) -> Verification:
    """Compare an artifact's files with its manifest.

    Args:
        s3: an S3 client.
        store: the store.
        artifact: what the inventory found.
        deep: whether to download every file. Default: names, sizes, ETags and S3's checksums are compared.
    """
    if artifact.unreadable:
        findings = [Finding(name, Damage.unreadable, "it is no JSON of its kind") for name in artifact.unreadable]
        return Verification(artifact.key, findings=tuple(findings))
    if artifact.manifest is None or artifact.state not in ("ready", "damaged"):
        return Verification(artifact.key, not_checked=f"{artifact.state}: {artifact.detail}")
    uri, expected = artifact.manifest["model_data_uri"], artifact.manifest["files"]
    if strays := misplaced(store, artifact.key, artifact.manifest):
        return Verification(artifact.key, findings=tuple(strays))
    place = f"s3://{store.bucket}/"
    findings = differences(expected, store.files(uri, checksums=True))
    checks: list[DeepCheck] = []
    if deep:
        wrong = {finding.file for finding in findings}
        for file in expected:
            if file["name"] not in wrong:
                result = deep_check(s3, store.bucket, uri.removeprefix(place), file)
                if isinstance(result, Finding):
                    findings.append(result)
                else:
                    checks.append(result)
    return Verification(artifact.key, len(expected), tuple(findings), tuple(checks))


def deep_check(s3: Any, bucket: str, prefix: str, file: Mapping[str, Any]) -> DeepCheck | Finding:
    """Download one file and compute what the manifest states of it.

    Args:
        s3: an S3 client.
        bucket: the store's bucket.
        prefix: the key below which the artifact's files are, with its slash.
        file: the manifest's entry: ``{"name", "size", "etag"}``, and ``"checksums"`` where they were known.
    """
    name, etag = file["name"], _MD5.fullmatch(file["etag"])
    parts = int(etag[1]) if etag and etag[1] else None
    stated: dict[str, str] = dict(file.get("checksums") or {})
    checks = [_Check(what, what, value) for what, value in stated.items() if _is_computable(what, value, parts)]
    if etag:
        checks.append(_Check(_ETAG, "MD5", file["etag"]))
    try:
        size, encrypted = _read(s3, {"Bucket": bucket, "Key": prefix + name, "IfMatch": file["etag"]}, parts, checks)
    except ClientError as error:
        code, message = code_of(error), message_of(error)
        if code in ("PreconditionFailed", "412"):
            return Finding(name, Damage.changed, "it was written again during the check")
        if code in ("NoSuchKey", "404", "InvalidObjectState", "InvalidPartNumber"):
            return Finding(name, Damage.unreadable, message or code)
        raise
    except FlexibleChecksumError as error:
        return Finding(name, Damage.changed, str(error))
    if encrypted:
        checks = [check for check in checks if check.what != _ETAG]
    wrong = [f"{check.what} {check.value()}, was {check.stated}" for check in checks if check.value() != check.stated]
    if size != file["size"]:
        wrong.insert(0, f"size {size}, was {file['size']}")
    if wrong:
        return Finding(name, Damage.changed, "; ".join(wrong))
    if checks:
        return DeepCheck(name, by=tuple(sorted(check.what for check in checks)))
    return DeepCheck(name, impossible=_why_not(stated, encrypted))


def _read(s3: Any, wanted: Mapping[str, str], parts: int | None, checks: Sequence[_Check]) -> tuple[int, bool]:
    """Pass an object's bytes through ``checks``; its size, and whether KMS encrypts it."""
    size, encrypted = 0, False
    for number in range(1, (parts or 1) + 1):
        answer = s3.get_object(**wanted, **({"PartNumber": number} if parts else {}))
        encrypted = str(answer.get("ServerSideEncryption", "")).startswith("aws:kms")
        for chunk in answer["Body"].iter_chunks(_CHUNK):
            size += len(chunk)
            for check in checks:
                check.update(chunk)
        for check in checks:
            check.end_part()
    return size, encrypted


class _Check:
    """One stated value, computed anew: of all bytes, or in the form ``value-<parts>`` of the parts' digests."""

    def __init__(self, what: str, algorithm: str, stated: str) -> None:
        self.what, self.stated = what, stated
        self._new: Callable[[], _Digest] = _ALGORITHMS.get(algorithm) or _runtime_crc(algorithm)
        self._digest, self._parts, self._number = self._new(), self._new(), 0

    def update(self, chunk: bytes) -> None:
        self._digest.update(chunk)

    def end_part(self) -> None:
        if "-" in self.stated:
            self._parts.update(self._digest.digest())
            self._digest, self._number = self._new(), self._number + 1

    def value(self) -> str:
        digest = (self._parts if self._number else self._digest).digest()
        text = digest.hex() if self.what == _ETAG else base64.b64encode(digest).decode()
        return f"{text}-{self._number}" if self._number else text


class _Digest(Protocol):
    def update(self, data: bytes, /) -> None: ...
    def digest(self) -> bytes: ...


class _Crc:
    """A cyclic redundancy check with the interface of hashlib's digests."""

    def __init__(self, function: Callable[[bytes, int], int], size: int) -> None:
        self._function, self._size, self._value = function, size, 0

    def update(self, data: bytes, /) -> None:
        self._value = self._function(data, self._value)

    def digest(self) -> bytes:
        return self._value.to_bytes(self._size, "big")


_ALGORITHMS: dict[str, Callable[[], _Digest]] = {
    "CRC32": lambda: _Crc(zlib.crc32, 4),
    "MD5": lambda: hashlib.md5(usedforsecurity=False),
    "SHA1": lambda: hashlib.sha1(usedforsecurity=False),
    "SHA256": hashlib.sha256,
    "SHA512": hashlib.sha512,
}
_RUNTIME_CRCS = {"CRC32C": 4, "CRC64NVME": 8}


def _is_computable(algorithm: str, value: str, parts: int | None) -> bool:
    if "-" in value and parts is None:
        return False
    if algorithm in _RUNTIME_CRCS:
        return importlib.util.find_spec("awscrt") is not None
    return algorithm in _ALGORITHMS


def _runtime_crc(algorithm: str) -> Callable[[], _Digest]:
    """From the AWS Common Runtime, which boto3 can be installed with: the standard library has neither."""
    function = getattr(importlib.import_module("awscrt.checksums"), algorithm.lower())
    return lambda: _Crc(function, _RUNTIME_CRCS[algorithm])


def _why_not(stated: Mapping[str, str], encrypted: bool) -> str:
    why = "its ETag is no MD5, as of all that KMS encrypts" if encrypted else "its ETag is no MD5"
    if not stated:
        return f"{why}, and S3 keeps no checksum of it"
    named = ", ".join(sorted(stated))
    if stated.keys() <= _RUNTIME_CRCS.keys():
        return f'{why}, and {named} needs the AWS Common Runtime: pip install "boto3[crt]"'
    return f"{why}, and {named} cannot be computed here"
