"""A valid file of a recommendation, for tests that change one property of it."""

from __future__ import annotations

from typing import Any

from constructs_optim.recipe.evaluation.recommendation import Recommendation

PREFIX = "arn:aws:sagemaker:us-west-2:111122223333"


def recommendation(**changed: Any) -> Recommendation:
    """The file of a recommendation with changes."""
    settings: dict[str, Any] = {
        "schema_version": 1,
        "job_arn": f"{PREFIX}:ai-recommendation-job/chat",
        "chosen": 1,
        "recommended": 2,
        "reason": "the cheapest",
        "optimized_for": "cost",
        "model_package_arn": f"{PREFIX}:model-package/chat/1",
        "inference_specification_name": "recommendation-1",
        "instance_type": "ml.g5.12xlarge",
        "instance_types": ["ml.g5.12xlarge"],
        "instance_count": 1,
        "copies_per_instance": 1,
        "model_uris": ["s3://models/chat/"],
    }
    return Recommendation(**{**settings, **changed})
