"""What runs in training containers: ``constructs_optim.training`` as an asset of the app, one for each stack."""

from __future__ import annotations

from pathlib import Path

from aws_cdk import IgnoreMode
from aws_cdk import aws_s3_assets as s3_assets
from constructs import Construct

from constructs_optim.constructs.stack.permissions import Statement

_FOLDER = Path(__file__).parent.parent.parent / "training"


class TrainingCode(Construct):
    """The folder as one zip archive. ``uri`` is its object's ``s3://`` URI (a token)."""

    def __init__(self, scope: Construct, id: str) -> None:
        super().__init__(scope, id)
        asset = s3_assets.Asset(
            self, "Asset", path=str(_FOLDER), exclude=["__pycache__", "*.pyc"], ignore_mode=IgnoreMode.GIT
        )
        self._bucket, self._key = asset.s3_bucket_name, asset.s3_object_key
        self.uri: str = f"s3://{self._bucket}/{self._key}"

    def statements(self) -> list[Statement]:
        """What an execution role needs for the archive as an input channel, whose objects SageMaker lists."""
        bucket = ["arn:", {"Ref": "AWS::Partition"}, ":s3:::", self._bucket]
        return [
            Statement("ReadTrainingCode", ("s3:GetObject",), ({"Fn::Join": ["", [*bucket, f"/{self._key}"]]},)),
            Statement(
                "ListTrainingCode",
                ("s3:ListBucket",),
                ({"Fn::Join": ["", bucket]},),
                {"StringLike": {"s3:prefix": f"{self._key}*"}},
            ),
        ]
