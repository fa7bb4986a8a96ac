"""A local cloud with all that the examples refer to."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from constructs_optim_local.cloud import LocalCloud

from .hub_documents import write_document
from .uploaded_models import upload_model

HUB = {
    "huggingface-llm-mistral-7b": ("2.0.0",),
    "meta-textgeneration-llama-3-1-8b": ("2.6.0",),
    "meta-textgeneration-llama-3-70b-instruct": ("2.25.0",),
    "meta-textgeneration-llama-3-8b": ("2.24.0",),
}
GATES = ("GatedBucket", "HostingEulaUri")
# Where the hub's document of the local cloud says that the model is.
PREPACKED = "meta-textgeneration/meta-textgeneration-llama-2-70b/artifacts/inference-prepack/v1.0.0"
# What the examples take for granted.
OBJECTS = {
    "models-of-mine": ("adapters/sql.tar.gz",),
    "my-models": (),
    "my-prompts": ("chat.jsonl",),
    "prompts-of-mine": ("quality.jsonl",),
    "sql-of-mine": ("train/train.jsonl", "validation/validation.jsonl"),
    "chat-captures": (),
    "jumpstart-cache-prod-us-west-2": (f"{PREPACKED}/model.safetensors",),
}
MODELS = (("models-of-mine", "assistant"), ("models-of-mine", "batch"), ("my-models", "chat-12b"))
# Stands for a training job's image: the real training code is in tests/e2e/test_medusa.py.
IMAGE = """#!/bin/sh
case "$1" in -m) ;; *) echo weights >model/model.safetensors ;; esac
"""


@contextmanager
def example_cloud(folder: Path) -> Iterator[LocalCloud]:
    """One in which a day passes in minutes, and that is not bootstrapped; ``folder`` is empty."""
    hub, image = folder / "hub", folder / "image"
    hub.mkdir()
    image.mkdir()
    for model_id, versions in HUB.items():
        write_document(hub / model_id, versions)
    # Mistral's license asks for nothing; the document that stands for all is Llama's.
    for path in (hub / "huggingface-llm-mistral-7b").iterdir():
        document = json.loads(path.read_text())
        path.write_text(json.dumps({name: value for name, value in document.items() if name not in GATES}))
    (image / "python").write_text(IMAGE)
    (image / "python").chmod(0o755)
    with LocalCloud(
        job_seconds=(0.3, 0.3), endpoint_seconds=0.2, time_scale=0.01, hub_folders=[hub], training_path=image
    ) as running:
        s3 = running.client("s3")
        for bucket, keys in OBJECTS.items():
            s3.create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": "us-west-2"})
            for key in keys:
                body = json.dumps({"prompt": "How many?"}) if key.endswith("jsonl") else key
                s3.put_object(Bucket=bucket, Key=key, Body=body.encode())
        for bucket, folder in MODELS:
            upload_model(s3, bucket, folder)
        running.client("sns").create_topic(Name="pages")
        trust = {"Statement": [{"Effect": "Allow", "Principal": {"Service": "sagemaker.amazonaws.com"}}]}
        running.client("iam").create_role(
            RoleName="chat-recommendations", AssumeRolePolicyDocument=json.dumps(trust), Path="/"
        )
        yield running
