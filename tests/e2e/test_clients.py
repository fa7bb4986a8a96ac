"""Unmodified clients of endpoints each get the answer of a model that the local cloud serves."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from botocore.credentials import Credentials

from constructs_optim.evaluator.bearer_token import bearer_token
from constructs_optim_local.cloud import LocalCloud
from constructs_optim_local.light_server.application import Application
from constructs_optim_local.light_server.tiny_model import write

from ..support.deployed_stack import CHECKOUT
from ..support.hosting import settled
from ..support.light_server import complete
from ..support.local_cloud import ROLE
from .clients_of_endpoints import MOST_TOKENS, chat

PYTHON = CHECKOUT / ".venv-clients" / "bin" / "python"
PROGRAM = Path(__file__).parent / "clients_of_endpoints.py"
QUESTION = "Why is a small model fast?"
CLIENTS = ["openai", "openai_stream", "boto3", "boto3_stream", "langchain_openai", "langchain_aws", "sagemaker"]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LocalCloud, str]]:
    """A local cloud that serves, and the answer that its endpoint ``chat`` is to give."""
    folder = write(tmp_path_factory.mktemp("model"))
    with LocalCloud(serve=True, endpoint_seconds=0.1) as cloud:
        s3, sagemaker = cloud.client("s3"), cloud.client("sagemaker")
        s3.create_bucket(Bucket="models", CreateBucketConfiguration={"LocationConstraint": cloud.region})
        for path in folder.iterdir():
            s3.upload_file(str(path), "models", f"tiny/{path.name}")
        source = {"S3Uri": "s3://models/tiny/", "S3DataType": "S3Prefix", "CompressionType": "None"}
        sagemaker.create_model(
            ModelName="chat",
            ExecutionRoleArn=ROLE,
            PrimaryContainer={"Image": "vllm", "ModelDataSource": {"S3DataSource": source}},
        )
        variant = {"VariantName": "AllTraffic", "ModelName": "chat", "InstanceType": "ml.g6.xlarge"}
        sagemaker.create_endpoint_config(
            EndpointConfigName="chat", ProductionVariants=[{**variant, "InitialInstanceCount": 1}]
        )
        sagemaker.create_endpoint(EndpointName="chat", EndpointConfigName="chat")
        assert settled(sagemaker, "chat")["EndpointStatus"] == "InService"
        expected = complete(Application(folder, "chat"), chat(QUESTION))["choices"][0]["message"]["content"]
        assert len(expected.split()) > MOST_TOKENS / 3
        yield cloud, expected


@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_gets_the_models_answer(client: str, served: tuple[LocalCloud, str]) -> None:
    cloud, expected = served
    given = cloud.environment()
    credentials = Credentials(given["AWS_ACCESS_KEY_ID"], given["AWS_SECRET_ACCESS_KEY"])
    environment = {
        **cloud.child_environment(),
        "BEARER_TOKEN": bearer_token(credentials, cloud.region, 900),
        "HOME": os.devnull,
    }
    ran = subprocess.run(
        [PYTHON, PROGRAM, client, "chat", QUESTION], env=environment, capture_output=True, text=True, check=False
    )
    # The SageMaker SDK logs to standard output.
    assert ran.stdout.splitlines()[-1:] == [expected], ran.stderr
