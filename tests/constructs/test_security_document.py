from __future__ import annotations

from typing import Any

import pytest
from aws_cdk import App, Stack
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sns as sns

from constructs_optim import (
    AnswerCheck,
    ArtifactStore,
    Compilation,
    DataCapture,
    Model,
    MonitoringOptions,
    NetworkOptions,
    Quantization,
    ShadowCandidate,
    SpeculationCure,
    SpeculativeDecoding,
)

from ..support.construct_stacks import ENVIRONMENT, STACKS, endpoint, template_of
from ..support.security_document import permissions_under
from ..support.template_stack import allowed
from .conftest import Synthesized


def _draft_of_my_own(scope: Stack) -> None:
    small = Model.jumpstart("meta-textgeneration-llama-3-8b", version="2.24.0", accept_eula=True)
    endpoint(scope, model=small, techniques=[SpeculativeDecoding.custom_draft(uri="s3://models/draft/")])


def _gated(scope: Stack) -> None:
    model = Model.huggingface(
        "meta-llama/Llama-3.1-8B-Instruct",
        revision="c" * 40,
        token_secret_arn="arn:aws:secretsmanager:us-west-2:111122223333:secret:hub-AbCdEf",
        encryption_key_arn="arn:aws:kms:us-west-2:111122223333:key/1",
    )
    store = ArtifactStore(scope, "Store", encryption_key=kms.Key(scope, "Key"))
    endpoint(scope, model=model, techniques=[], artifact_store=store, network=NetworkOptions(vpc=ec2.Vpc(scope, "Vpc")))


def _shadowed(scope: Stack) -> None:
    capture = DataCapture(bucket=s3.Bucket(scope, "Captures", encryption_key=kms.Key(scope, "CaptureKey")))
    store = ArtifactStore(scope, "Store", encryption_key=kms.Key(scope, "Key"))
    judge = "arn:aws:lambda:us-west-2:111122223333:function:judge"
    endpoint(
        scope, model=Model.s3("s3://models/llama/"), techniques=[], artifact_store=store, data_capture=capture
    ).shadow(
        candidate=ShadowCandidate(techniques=[Quantization.awq()]),
        checks=[AnswerCheck.reference("s3://answers/golden.jsonl"), AnswerCheck.judge(judge)],
        margin=0.05,
        topic=sns.Topic(scope, "Verdicts"),
    )


def _shadowed_on_encrypted_volumes(scope: Stack) -> None:
    compiled = [Compilation.neuron()]
    capture = DataCapture(bucket=s3.Bucket(scope, "Captures"))
    served = endpoint(
        scope,
        model=Model.s3("s3://models/llama/"),
        techniques=compiled,
        instance_type="ml.inf2.24xlarge",
        encryption_key=kms.Key(scope, "VolumeKey"),
        data_capture=capture,
    )
    served.shadow(
        candidate=ShadowCandidate(techniques=[Compilation.neuron(maximum_batch_size=4)]),
        checks=[AnswerCheck.answered()],
    )


def _restarted(scope: Stack) -> None:
    store = ArtifactStore(scope, "Store", encryption_key=kms.Key(scope, "Key"))
    monitoring = MonitoringOptions(speculation_cure=SpeculationCure.restart())
    techniques = [Quantization.awq(), SpeculativeDecoding.ngram()]
    drafting = endpoint(scope, techniques=techniques, artifact_store=store, monitoring=monitoring)
    drafting.evaluate()


def _scaled(scope: Stack) -> None:
    store = ArtifactStore(scope, "Store", encryption_key=kms.Key(scope, "Key"))
    endpoint(scope, artifact_store=store).auto_scale(max_capacity=2)


@pytest.fixture(scope="module")
def templates(synthesized: Synthesized) -> list[dict[str, Any]]:
    created = [synthesized(name) for name in STACKS]
    for build in (_draft_of_my_own, _gated, _shadowed, _shadowed_on_encrypted_volumes, _restarted, _scaled):
        stack = Stack(App(), "Chat", env=ENVIRONMENT)
        build(stack)
        created.append(template_of(stack))
    return created


def test_the_security_document_lists_exactly_the_permissions_in_the_templates(templates: list[dict[str, Any]]) -> None:
    assert permissions_under("What each role may do") == set().union(*map(allowed, templates))


def test_the_untested_permissions_are_a_subset_of_the_role_permissions() -> None:
    assert permissions_under("What no test sees") < permissions_under("What each role may do")
