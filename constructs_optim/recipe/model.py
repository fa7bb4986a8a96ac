"""Where a model's weights come from."""

from __future__ import annotations

import re
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict

from .named_arguments import knows_its_arguments

# How the AWS CDK writes a value into a string that is known only when the stack is deployed.
_TOKEN = re.compile(r"\$\{Token\[[^\]]*\]\}")


def without_tokens(text: str) -> str:
    """A text in which one mark stands for every token: a token's own text changes from one synthesis to the next."""
    return _TOKEN.sub("${Token}", text)


def is_token(value: object) -> bool:
    """Whether a string holds a value that is known only at deployment (an AWS CDK token)."""
    return isinstance(value, str) and _TOKEN.search(value) is not None


def too_late(what: str) -> str:
    """Why a token cannot be ``what``: a reason for a rule that needs the value now."""
    return f"{what} is a token, known only when the stack is deployed, and what follows from it is decided at synthesis"


class Model(BaseModel):
    """A model to optimize. Made by :meth:`jumpstart` or :meth:`s3`.

    The factories keep what they are given, whatever it is: planning reports all that is wrong with a recipe at once.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True)

    kind: Literal["hub", "s3"]
    model_id: Any = None
    version: Any = None
    uri: Any = None
    accept_eula: Any = False
    encryption_key_arn: Any = None

    @staticmethod
    @knows_its_arguments
    def jumpstart(model_id: str, *, version: str | None = None, accept_eula: bool = False) -> Model:
        """A model of SageMaker JumpStart, looked up in the public hub when the stack is deployed.

        Args:
            model_id: for instance ``meta-textgeneration-llama-3-70b-instruct``.
            version: for instance ``2.25.0``. Default: the newest when the stack is first deployed; pin it, so
                that the next deployment elsewhere makes the same artifact.
            accept_eula: whether you have read and accept the model's licence. Default: you do not.
        """
        return Model(kind="hub", model_id=model_id, version=version, accept_eula=accept_eula)

    @staticmethod
    @knows_its_arguments
    def s3(uri: str, *, accept_eula: bool = False, encryption_key_arn: str | None = None) -> Model:
        """Uncompressed model files (Hugging Face layout) under an S3 prefix.

        Args:
            uri: for instance ``s3://bucket/models/llama/``; may be or contain a token.
            accept_eula: passed on for sources that demand it. Default: it is not.
            encryption_key_arn: the KMS key that the files are encrypted with, where it is a customer's own; may be a
                token. Default: S3's own keys.
        """
        return Model(kind="s3", uri=uri, accept_eula=accept_eula, encryption_key_arn=encryption_key_arn)

    def __str__(self) -> str:
        if self.kind == "s3":
            return "a model in S3" if is_token(self.uri) else str(self.uri)
        return f"{self.model_id} {self.version}" if self.version else f"{self.model_id} (newest version)"
