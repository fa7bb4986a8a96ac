"""A model and the source of its weights."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from .catalog.lock import NO_COMMIT
from .compute import TrainingCompute
from .settings import Settings, Takes
from .tasks import TaskName
from .tokens import is_token

COMMIT = re.compile("[0-9a-f]{40}")
COPY_COMPUTE = ("instance_type", "volume_size_gb", "environment")
"""The settings of a copy job's compute."""
_S3 = "s3://"


class Model(Settings):
    """A model to serve, created by ``huggingface``, ``jumpstart`` or ``s3``."""

    kind: Literal["hub", "s3", "huggingface"]
    model_id: str = ""
    version: str | None = None
    revision: str | None = None
    uri: str = ""
    accept_eula: bool = False
    encryption_key_arn: str | None = None
    manifest_uri: str | None = None
    manifest_etag: str | None = None
    token_secret_arn: str | None = None
    allow_pickle: bool = False
    allow_code: bool = False
    compute: Annotated[TrainingCompute | None, Takes(COPY_COMPUTE)] = None
    task: TaskName | None = None

    @staticmethod
    def huggingface(
        model_id: str,
        *,
        revision: str | None = None,
        token_secret_arn: str | None = None,
        encryption_key_arn: str | None = None,
        allow_pickle: bool = False,
        allow_code: bool = False,
        compute: TrainingCompute | None = None,
        task: TaskName | None = None,
    ) -> Model:
        """A Hugging Face model, which a job copies into the artifact store once.

        Args:
            model_id: the model's ID, for example ``Qwen/Qwen3-32B``.
            revision: the commit, 40 hexadecimal digits. Default: the commit in the app's lock file, which
                ``constructs-optim lock --model`` records.
            token_secret_arn: for a gated or private model, the ARN of a Secrets Manager secret that contains a Hugging
                Face token; only the copy job reads it. May be a CDK token. Default: none.
            encryption_key_arn: the customer managed KMS key of that secret. Default: the AWS managed key.
            allow_pickle: whether to allow pickle files as weights, which run code when they are loaded. Default: no.
            allow_code: whether to copy the model's own Python files, which the server then runs
                (``--trust-remote-code``). Default: no.
            compute: the copy job's instance type, storage and environment variables, for example ``HF_ENDPOINT`` for a
                mirror. Default: one ml.m5.2xlarge, with storage for the model's files.
            task: what the model does: ``generate`` text, ``embed``, ``rerank`` documents for a query, ``classify``, or
                ``pool`` (other outputs of vLLM's pooling models). Default: what its architecture is for, and ``embed``
                if ``constructs-optim lock --model`` found a Sentence Transformers model.

        Raises:
            RecipeError: if an argument has the wrong type.
        """
        return Model(
            kind="huggingface",
            model_id=model_id,
            revision=revision,
            token_secret_arn=token_secret_arn,
            encryption_key_arn=encryption_key_arn,
            allow_pickle=allow_pickle,
            allow_code=allow_code,
            compute=compute,
            task=task,
        )

    @staticmethod
    def jumpstart(model_id: str, *, version: str | None = None, accept_eula: bool = False) -> Model:
        """A SageMaker JumpStart model, which the deployment looks up in the public hub.

        Args:
            model_id: the model's ID, for example ``meta-textgeneration-llama-3-70b-instruct``.
            version: the model's version, for example ``2.25.0``. Default: the newest version when the stack is first
                deployed. Pin it so that every stack builds the same artifact.
            accept_eula: whether you have read and accept the model's license. Default: no.

        Raises:
            RecipeError: if an argument has the wrong type.
        """
        return Model(kind="hub", model_id=model_id, version=version, accept_eula=accept_eula)

    @staticmethod
    def s3(
        uri: str,
        *,
        accept_eula: bool = False,
        encryption_key_arn: str | None = None,
        manifest_uri: str | None = None,
        manifest_etag: str | None = None,
        task: TaskName | None = None,
    ) -> Model:
        """Uncompressed model files (Hugging Face layout) under an S3 prefix.

        Args:
            uri: the prefix, for example ``s3://bucket/models/llama/``; may contain a token.
            accept_eula: whether SageMaker passes on your acceptance of the license. Default: no.
            encryption_key_arn: the customer managed KMS key that encrypts the files; may be a token. Default: S3
                managed keys.
            manifest_uri: the CSV file in S3 that lists the model's files, for a model that is served without a job; may
                be a token. Default: the model consists of all files under the prefix.
            manifest_etag: the ETag of that file, so that no other version of it is used. Default: any version.
            task: as for ``huggingface``.

        Raises:
            RecipeError: if an argument has the wrong type.
        """
        return Model(
            kind="s3",
            uri=uri,
            accept_eula=accept_eula,
            encryption_key_arn=encryption_key_arn,
            manifest_uri=manifest_uri,
            manifest_etag=manifest_etag,
            task=task,
        )

    @classmethod
    def of_text(cls, text: str) -> Model:
        """Parse a model: Hugging Face ``owner/name[@<commit>]``, ``s3://bucket/prefix/``, or a JumpStart ID."""
        if text.startswith(_S3):
            return Model.s3(text)
        model_id, at, revision = text.partition("@")
        if "/" in model_id:
            return Model.huggingface(model_id, revision=revision if at else None)
        return Model.jumpstart(text)

    @classmethod
    def example(cls, value: object) -> str:
        """Return how to write a model in code, if ``value`` names one."""
        if isinstance(value, str) and "/" in value:
            return f'Model.s3("{value}")' if value.startswith(_S3) else f'Model.huggingface("{value}")'
        if isinstance(value, str) and re.fullmatch(r"[a-z][\w-]*", value):
            return f'Model.jumpstart("{value}")'
        return 'Model.huggingface("<owner>/<name>")'

    @property
    def name(self) -> str:
        """The model's ID, or its URI."""
        return self.model_id or self.uri

    @property
    def served_name(self) -> str | None:
        """The model's name in requests: its ID, or the last folder of its prefix; None for a token."""
        name = self.model_id or self.uri.rstrip("/").rpartition("/")[2]
        return name if name and not is_token(self.uri) else None

    def __str__(self) -> str:
        if self.kind == "s3":
            return "a model in S3" if is_token(self.uri) else str(self.uri)
        if self.kind == "huggingface":
            return f"{self.model_id} {self.revision}" if self.revision not in (None, NO_COMMIT) else self.model_id
        return f"{self.model_id} {self.version}" if self.version else f"{self.model_id} (newest version)"
