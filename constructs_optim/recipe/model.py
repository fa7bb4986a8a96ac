"""A model: where its weights come from."""

from __future__ import annotations

import re
from typing import Literal

from .catalog.lock import NO_COMMIT
from .compute import TrainingCompute
from .settings import Settings
from .tokens import is_token

COMMIT = re.compile("[0-9a-f]{40}")
_S3 = "s3://"


class Model(Settings):
    """A model to serve, created by :meth:`huggingface`, :meth:`jumpstart` or :meth:`s3`."""

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
    compute: TrainingCompute | None = None

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
    ) -> Model:
        """A model of Hugging Face, which a job copies into the artifact store once.

        Args:
            model_id: for instance ``Qwen/Qwen3-32B``.
            revision: the commit, of 40 hexadecimal digits. Default: the one that the app's lock file records, where
                ``constructs-optim lock --model`` has looked it up.
            token_secret_arn: the ARN of the Secrets Manager secret whose text is a Hugging Face token, for a gated or
                private model; only the copying job reads it. May be a token of the CDK. Default: none.
            encryption_key_arn: the customer managed KMS key of that secret. Default: Secrets Manager's own.
            allow_pickle: whether weights may be pickle files, which run code when they are loaded. Default: no.
            allow_code: whether the model's own Python files are copied, and run by the server
                (``--trust-remote-code``). Default: no.
            compute: the copying job's instance type and storage, and its environment, for instance ``HF_ENDPOINT`` of
                a mirror. Default: one ml.m5.2xlarge, with storage for the model's files.

        Raises:
            RecipeError: for an argument of another type.
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
        )

    @staticmethod
    def jumpstart(model_id: str, *, version: str | None = None, accept_eula: bool = False) -> Model:
        """A model of SageMaker JumpStart, resolved in the public hub when the stack is deployed.

        Args:
            model_id: for instance ``meta-textgeneration-llama-3-70b-instruct``.
            version: for instance ``2.25.0``. Default: the newest when the stack is first deployed; pin it, so that
                every stack builds the same artifact.
            accept_eula: whether you have read and accept the model's licence. Default: you do not.

        Raises:
            RecipeError: for an argument of another type.
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
    ) -> Model:
        """Uncompressed model files (Hugging Face layout) under an S3 prefix.

        Args:
            uri: for instance ``s3://bucket/models/llama/``; may be or contain a token.
            accept_eula: passed on for sources that demand it. Default: it is not.
            encryption_key_arn: the customer managed KMS key that the files are encrypted with; may be a token. Default:
                S3's own keys.
            manifest_uri: the CSV file in S3 that says where the files are, of a model that is served as it is; may be a
                token. Default: the model is all files under the prefix.
            manifest_etag: the ETag of that file, so that no other version of it is served. Default: any version.

        Raises:
            RecipeError: for an argument of another type.
        """
        return Model(
            kind="s3",
            uri=uri,
            accept_eula=accept_eula,
            encryption_key_arn=encryption_key_arn,
            manifest_uri=manifest_uri,
            manifest_etag=manifest_etag,
        )

    @classmethod
    def of_text(cls, text: str) -> Model:
        """The model of a text: ``owner/name[@<commit>]`` of Hugging Face, ``s3://bucket/prefix/``, or a JumpStart
        id.
        """
        if text.startswith(_S3):
            return Model.s3(text)
        model_id, at, revision = text.partition("@")
        if "/" in model_id:
            return Model.huggingface(model_id, revision=revision if at else None)
        return Model.jumpstart(text)

    @staticmethod
    def example(value: object) -> str:
        """How a model is written in code, where ``value`` stands for one."""
        if isinstance(value, str) and "/" in value:
            return f'Model.s3("{value}")' if value.startswith(_S3) else f'Model.huggingface("{value}")'
        return 'Model.huggingface("<owner>/<name>")'

    @property
    def name(self) -> str:
        """Its id, or its URI."""
        return self.model_id or self.uri

    @property
    def served_name(self) -> str | None:
        """The name by which requests may name it: its id, or the last folder of its prefix; None for a token."""
        name = self.model_id or self.uri.rstrip("/").rpartition("/")[2]
        return name if name and not is_token(self.uri) else None

    def __str__(self) -> str:
        if self.kind == "s3":
            return "a model in S3" if is_token(self.uri) else str(self.uri)
        if self.kind == "huggingface":
            return f"{self.model_id} {self.revision}" if self.revision not in (None, NO_COMMIT) else self.model_id
        return f"{self.model_id} {self.version}" if self.version else f"{self.model_id} (newest version)"
