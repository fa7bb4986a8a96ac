"""Where a model's weights come from."""

from __future__ import annotations

from typing import Literal

from .settings import Settings
from .tokens import is_token


class Model(Settings):
    """A model to optimize. Made by :meth:`jumpstart` or :meth:`s3`."""

    kind: Literal["hub", "s3"]
    model_id: str = ""
    version: str | None = None
    uri: str = ""
    accept_eula: bool = False
    encryption_key_arn: str | None = None

    @staticmethod
    def jumpstart(model_id: str, *, version: str | None = None, accept_eula: bool = False) -> Model:
        """A model of SageMaker JumpStart, looked up in the public hub when the stack is deployed.

        Args:
            model_id: for instance ``meta-textgeneration-llama-3-70b-instruct``.
            version: for instance ``2.25.0``. Default: the newest when the stack is first deployed; pin it, so
                that the next deployment elsewhere makes the same artifact.
            accept_eula: whether you have read and accept the model's licence. Default: you do not.

        Raises:
            RecipeError: for an argument of another type.
        """
        return Model(kind="hub", model_id=model_id, version=version, accept_eula=accept_eula)

    @staticmethod
    def s3(uri: str, *, accept_eula: bool = False, encryption_key_arn: str | None = None) -> Model:
        """Uncompressed model files (Hugging Face layout) under an S3 prefix.

        Args:
            uri: for instance ``s3://bucket/models/llama/``; may be or contain a token.
            accept_eula: passed on for sources that demand it. Default: it is not.
            encryption_key_arn: the KMS key that the files are encrypted with, where it is a customer's own; may be a
                token. Default: S3's own keys.

        Raises:
            RecipeError: for an argument of another type.
        """
        return Model(kind="s3", uri=uri, accept_eula=accept_eula, encryption_key_arn=encryption_key_arn)

    def __str__(self) -> str:
        if self.kind == "s3":
            return "a model in S3" if is_token(self.uri) else str(self.uri)
        return f"{self.model_id} {self.version}" if self.version else f"{self.model_id} (newest version)"
