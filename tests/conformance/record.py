"""What the SageMaker SDK's ``ModelBuilder.optimize()`` asks for: run by ``make conformance``, never imported.

    python tests/conformance/record.py tests/conformance/recorded/sagemaker-2.json

Runs in an environment of its own that has the SDK. No call leaves the process: every client answers from here, and
JumpStart's specification of the model is the file beside this one.
"""

from __future__ import annotations

import datetime as dt
import json
import logging
import os
import sys
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

HERE = Path(__file__).resolve().parent
os.environ |= {
    "AWS_ACCESS_KEY_ID": "nobody",
    "AWS_SECRET_ACCESS_KEY": "nothing",
    "AWS_DEFAULT_REGION": "us-west-2",
    "AWS_JUMPSTART_MANIFEST_LOCAL_ROOT_DIR_OVERRIDE": str(HERE / "jumpstart"),
    "AWS_JUMPSTART_SPECS_LOCAL_ROOT_DIR_OVERRIDE": str(HERE / "jumpstart"),
    "SAGEMAKER_TELEMETRY_OPT_OUT": "true",
}

LLAMA_31, LLAMA_2 = "meta-textgeneration-llama-3-1-70b", "meta-textgeneration-llama-2-7b"
ROLE = "arn:aws:iam::111122223333:role/execution"
ENGINE = {
    "OverrideEnvironment": {
        "OPTION_MAX_INPUT_LEN": "1024",
        "OPTION_MAX_OUTPUT_LEN": "512",
        "OPTION_MAX_ROLLING_BATCH_SIZE": "64",
        "OPTION_ROLLING_BATCH": "trtllm",
        "OPTION_TENSOR_PARALLEL_DEGREE": "4",
    }
}
CASES: dict[str, dict[str, Any]] = {
    "awq": {
        "instance_type": "ml.g5.48xlarge",
        "quantization_config": {"OverrideEnvironment": {"OPTION_QUANTIZE": "awq"}},
    },
    "fp8": {
        "instance_type": "ml.p5.48xlarge",
        "quantization_config": {"OverrideEnvironment": {"OPTION_QUANTIZE": "fp8"}},
    },
    "sharding": {
        "instance_type": "ml.p4d.24xlarge",
        "sharding_config": {"OverrideEnvironment": {"OPTION_TENSOR_PARALLEL_DEGREE": "8"}},
    },
    "custom_draft": {
        "instance_type": "ml.p4d.24xlarge",
        "speculative_decoding_config": {"ModelProvider": "Custom", "ModelSource": "s3://drafts/one/"},
    },
    "awq_and_custom_draft": {
        "instance_type": "ml.p4d.24xlarge",
        "quantization_config": {"OverrideEnvironment": {"OPTION_QUANTIZE": "awq"}},
        "speculative_decoding_config": {"ModelProvider": "Custom", "ModelSource": "s3://drafts/one/"},
    },
    "tensorrt_llm": {"model": LLAMA_2, "instance_type": "ml.g5.12xlarge", "compilation_config": ENGINE},
    "smoothquant_and_tensorrt_llm": {
        "model": LLAMA_2,
        "instance_type": "ml.g5.12xlarge",
        "quantization_config": {"OverrideEnvironment": {"OPTION_QUANTIZE": "smoothquant"}},
        "compilation_config": ENGINE,
    },
    # What the SDK refuses, and with which words.
    "smoothquant_alone": {
        "instance_type": "ml.p4d.24xlarge",
        "quantization_config": {"OverrideEnvironment": {"OPTION_QUANTIZE": "smoothquant"}},
    },
    "tensorrt_llm_of_llama_3_1": {
        "instance_type": "ml.p4d.24xlarge",
        "compilation_config": {"OverrideEnvironment": {"OPTION_TENSOR_PARALLEL_DEGREE": "8"}},
    },
    "sharding_and_awq": {
        "instance_type": "ml.p4d.24xlarge",
        "quantization_config": {"OverrideEnvironment": {"OPTION_QUANTIZE": "awq"}},
        "sharding_config": {"OverrideEnvironment": {"OPTION_TENSOR_PARALLEL_DEGREE": "8"}},
    },
}

calls: list[dict[str, Any]] = []


def answer(model: Any, params: dict[str, Any], **_: Any) -> tuple[Any, dict[str, Any]]:
    """Stand in for the service, for every operation."""
    body = params.get("body")
    request = json.loads(body) if isinstance(body, bytes | str) and body[:1] in (b"{", "{") else {}
    # A name with the time of day in it would make every recording another one.
    name = request.pop("ModelName", None)
    calls.append({"operation": model.name, "request": request})
    parsed: dict[str, Any] = {"ResponseMetadata": {"HTTPStatusCode": 200}}
    if model.name == "GetCallerIdentity":
        parsed |= {"Account": "111122223333", "Arn": ROLE}
    if model.name in ("CreateModel", "DescribeModel"):
        asked = next(c["request"] for c in reversed(calls) if c["operation"] == "CreateModel")
        arn = f"arn:aws:sagemaker:us-west-2:111122223333:model/{name}"
        parsed |= {**asked, "ModelName": name, "ModelArn": arn, "CreationTime": dt.datetime.now(dt.UTC)}
    if model.name == "ListBuckets":
        parsed |= {"Buckets": [{"Name": "sdk-bucket", "CreationDate": dt.datetime.now(dt.UTC)}]}
    if model.name == "GetRole":
        parsed |= {"Role": {"Arn": ROLE}}
    if model.name == "DescribeOptimizationJob":
        asked = next(c["request"] for c in reversed(calls) if c["operation"] == "CreateOptimizationJob")
        config = next(iter(asked["OptimizationConfigs"][0].values()))
        parsed |= {
            **asked,
            "OptimizationJobStatus": "COMPLETED",
            "OptimizationOutput": {"RecommendedInferenceImage": config.get("Image", "")},
        }
    return SimpleNamespace(status_code=200), parsed


def record(case: dict[str, Any]) -> list[dict[str, Any]]:
    """The calls of one optimization that matter."""
    import boto3

    boto_session = boto3.Session(region_name="us-west-2")
    boto_session.events.register("before-call", answer)
    calls.clear()
    of_version = _record_with_version_2 if version("sagemaker").startswith("2.") else _record_with_version_3
    try:
        of_version(boto_session, **{"model": LLAMA_31, **case})
    except Exception as error:
        # What the SDK refuses, and where it fails: version 3.27 at a draft of one's own.
        return [{"operation": "none", "error": f"{type(error).__name__}: {str(error).partition('.')[0]}"}]
    return [call for call in calls if call["operation"] in ("CreateOptimizationJob", "CreateModel")][:1]


_OPTIONS: dict[str, Any] = {"output_path": "s3://artifacts/out/", "job_name": "conformance", "accept_eula": True}
_SAMPLE = ({"inputs": "Hello", "parameters": {}}, [{"generated_text": "World"}])


def _record_with_version_2(boto_session: Any, model: str, **case: Any) -> None:
    from sagemaker.serve.builder.model_builder import ModelBuilder
    from sagemaker.serve.builder.schema_builder import SchemaBuilder
    from sagemaker.session import Session

    session = Session(boto_session=boto_session, default_bucket="sdk-bucket")
    builder = ModelBuilder(
        model=model, schema_builder=SchemaBuilder(*_SAMPLE), role_arn=ROLE, sagemaker_session=session
    )
    optimized = builder.optimize(**_OPTIONS, **case)
    if not any(call["operation"] == "CreateOptimizationJob" for call in calls):
        optimized.create(instance_type=case["instance_type"], accept_eula=True)


def _record_with_version_3(boto_session: Any, model: str, **case: Any) -> None:
    from sagemaker.core.helper.session_helper import Session
    from sagemaker.core.utils.utils import SageMakerClient
    from sagemaker.serve.builder.schema_builder import SchemaBuilder
    from sagemaker.serve.model_builder import ModelBuilder

    session = Session(boto_session=boto_session, default_bucket="sdk-bucket")
    # One client of the process's own serves the SDK's resources, whatever session they are given.
    SageMakerClient(session=boto_session, region_name="us-west-2")
    builder = ModelBuilder(
        model=model,
        schema_builder=SchemaBuilder(*_SAMPLE),
        role_arn=ROLE,
        sagemaker_session=session,
        instance_type=case["instance_type"],
    )
    builder.optimize(**_OPTIONS, **case, sagemaker_session=session, region="us-west-2")


# A token's moment, so that each run records the same signature.
MOMENT = dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC)


def bearer_token() -> str | None:
    """The token that the SDK makes of these credentials at that moment; None where it makes none."""
    try:
        from sagemaker.core.token_generator import generate_token
    except ModuleNotFoundError:
        return None
    import botocore.auth

    botocore.auth.get_current_datetime = lambda remove_tzinfo=True: MOMENT.replace(tzinfo=None)
    return str(generate_token(region="eu-central-1", expiry=dt.timedelta(minutes=5)))


def hub_document() -> dict[str, list[str]] | None:
    """The fields of JumpStart's documents that are about hosting, and those that the SDK deploys with; None without."""
    try:
        from sagemaker.core.jumpstart import models
        from sagemaker.core.jumpstart.enums import ModelSpecKwargType, NamingConventionType
        from sagemaker.core.jumpstart.hub.parsers import get_model_spec_arg_keys
    except ModuleNotFoundError:
        return None
    training = set(models.TrainingComponentsModel.model_fields)
    return {
        "deploy": sorted(get_model_spec_arg_keys(ModelSpecKwargType.DEPLOY, NamingConventionType.UPPER_CAMEL_CASE)),
        "document": sorted(set(models.HubContentDocument.model_fields) - training),
        "hosting": sorted(models.HostingComponentsModel.model_fields),
        "of_an_instance_type": sorted(models.HostingVariantPropertiesModel.model_fields),
    }


def main() -> None:
    """Write what was recorded to the file named on the command line."""
    logging.disable(logging.CRITICAL)
    recorded: dict[str, Any] = {"sagemaker": version("sagemaker")}
    recorded["cases"] = {name: record(case) for name, case in CASES.items()}
    recorded["bearer_token"] = bearer_token()
    recorded["hub_document"] = hub_document()
    Path(sys.argv[1]).write_text(json.dumps(recorded, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
