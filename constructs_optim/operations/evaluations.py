"""The evaluations and artifacts in a store that recommendations build on."""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError

from constructs_optim.runtime.errors import code_of

_RESULT = re.compile(r"evaluations/[0-9a-f]{64}/result\.json")
_MANIFEST = re.compile(r"artifacts/([0-9a-f]{64})/manifest\.json")
_ABSENT = ("ValidationException", "ResourceNotFound", "AccessDeniedException", "AccessDenied")


@dataclass(frozen=True)
class StoredEvaluation:
    """The result of an evaluation.

    Attributes:
        document: the stored JSON, not validated.
        with_channels: whether a draft or heads were beside the model; None where the endpoint is gone, has changed
            since, or cannot be described.
    """

    document: Mapping[str, Any]
    with_channels: bool | None


def evaluations(s3: Any, sagemaker: Any, bucket: str) -> list[StoredEvaluation]:
    """Every evaluation of a store that came to a result; one that cannot be read is left out.

    Raises:
        botocore.exceptions.ClientError: where the account may not read the store.
    """
    stored: list[StoredEvaluation] = []
    for name in _names(s3, bucket, "evaluations/", _RESULT):
        try:
            document = json.loads(s3.get_object(Bucket=bucket, Key=name)["Body"].read())
        except ValueError:
            continue
        if isinstance(document, dict):
            stored.append(StoredEvaluation(document, _with_channels(sagemaker, document)))
    return stored


def artifact_keys(s3: Any, bucket: str) -> frozenset[str]:
    """The keys of the artifacts that are ready: those that have a manifest.

    Raises:
        botocore.exceptions.ClientError: where the account may not list the store.
    """
    names = _names(s3, bucket, "artifacts/", _MANIFEST)
    return frozenset(match[1] for name in names if (match := _MANIFEST.fullmatch(name)))


def _names(s3: Any, bucket: str, prefix: str, wanted: re.Pattern[str]) -> Iterator[str]:
    for page in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix):
        yield from (item["Key"] for item in page.get("Contents", []) if wanted.fullmatch(item["Key"]))


def _with_channels(sagemaker: Any, document: Mapping[str, Any]) -> bool | None:
    """Whether what an endpoint serves has files beside it, where it still serves what was evaluated."""
    subject = document.get("subject")
    subject = subject if isinstance(subject, dict) else {}
    try:
        started = dt.datetime.fromisoformat(str(document.get("started")))
        models, changed = _served(sagemaker, subject)
        if changed > started or not models:
            return None
        described = [sagemaker.describe_model(ModelName=name) for name in models]
    except ClientError as error:
        if code_of(error) not in _ABSENT:
            raise
        return None
    except (KeyError, TypeError, ValueError):
        return None
    return any(model.get("PrimaryContainer", {}).get("AdditionalModelDataSources") for model in described)


def _served(sagemaker: Any, subject: Mapping[str, Any]) -> tuple[list[str], dt.datetime]:
    """The models that are served now, and since when."""
    if component := subject.get("inference_component_name"):
        described = sagemaker.describe_inference_component(InferenceComponentName=component)
        items = [
            *described.get("Specifications", []),
            *([described["Specification"]] if "Specification" in described else []),
        ]
        return [item["ModelName"] for item in items if item.get("ModelName")], described["LastModifiedTime"]
    endpoint = sagemaker.describe_endpoint(EndpointName=subject["endpoint_name"])
    config = sagemaker.describe_endpoint_config(EndpointConfigName=endpoint["EndpointConfigName"])
    wanted = subject.get("variant_name")
    variants = [item for item in config["ProductionVariants"] if wanted in (None, item["VariantName"])]
    # The models of a configuration never change: it is the configuration's age that counts, not that of a scaling.
    return [item["ModelName"] for item in variants if item.get("ModelName")], config["CreationTime"]
