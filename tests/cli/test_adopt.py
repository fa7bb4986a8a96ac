"""``constructs-optim adopt`` refuses what cannot be declared, all of it at once, and writes nothing then."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner, Result

from constructs_optim.cli.adoption import adopt
from constructs_optim.cli.adoption.adopter import Adoption
from constructs_optim.cli.main import app

from ..support.hosting import settled
from ..support.local_cloud import ROLE
from ..support.operator_stores import Store, client

pytestmark = pytest.mark.local

_IMAGE = "111122223333.dkr.ecr.us-west-2.amazonaws.com/own-server:1"


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["adopt", *arguments])


def made(store: Store, name: str, *, variants: int = 1, container: dict[str, Any], **config: Any) -> None:
    sagemaker = client(store.cloud, "sagemaker")
    sagemaker.create_model(ModelName=name, ExecutionRoleArn=ROLE, PrimaryContainer=container)
    sagemaker.create_endpoint_config(
        EndpointConfigName=name,
        ProductionVariants=[
            {
                "VariantName": f"Variant{number}",
                "ModelName": name,
                "InstanceType": "ml.g5.12xlarge",
                "InitialInstanceCount": 1,
                "InitialVariantWeight": 1,
            }
            for number in range(variants)
        ],
        **config,
    )
    sagemaker.create_endpoint(EndpointName=name, EndpointConfigName=name)
    settled(sagemaker, name)


def test_an_endpoint_of_two_variants_is_refused(store: Store, tmp_path: Path) -> None:
    made(store, "adopt-two", variants=2, container={"Image": _IMAGE})
    refused = run("adopt-two", "--output", str(tmp_path / "two"))
    assert refused.exit_code == 2
    assert "it has 2 production variants, but an OptimizedEndpoint has one" in refused.output
    assert not (tmp_path / "two").exists()


def test_a_model_that_is_not_served_like_this_is_refused(store: Store, tmp_path: Path) -> None:
    archive = {"Image": _IMAGE, "ModelDataUrl": "s3://outputs/model.tar.gz"}
    made(store, "adopt-archive", container=archive, KmsKeyId="alias/volumes")
    refused = run("adopt-archive", "--output", str(tmp_path / "archive"))
    assert refused.exit_code == 2
    for part in (_IMAGE, "s3://outputs/model.tar.gz", "the KMS key alias/volumes without its ARN"):
        assert part in refused.output, "all of it at once"
    assert not (tmp_path / "archive").exists()


def test_what_breaks_a_rule_of_endpoints_is_no_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = """
from aws_cdk import App, Size, Stack
from constructs_optim import Model, OptimizedEndpoint, VariantOptions

variant = VariantOptions(volume_size=Size.gibibytes(256), min_instance_count=5)
model = Model.s3("s3://models/chat/")
OptimizedEndpoint(Stack(App(), "Chat"), "Chat", model=model, instance_type="ml.g5.12xlarge", variant=variant)
"""
    with pytest.raises(typer.Exit):
        adopt._synthesized(Adoption(source), tmp_path)
    said = capsys.readouterr().err
    assert "Traceback" not in said
    assert said.startswith("The declaration does not synthesize, so no file was written: the recipe breaks")
    assert "OPT107 variant.volume_size" in said


def test_files_that_are_there_stay(store: Store, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("mine")
    refused = run("anything", "--output", str(tmp_path))
    assert (refused.exit_code, "already contains app.py" in refused.output) == (2, True)
    assert (tmp_path / "app.py").read_text() == "mine"


def test_an_endpoint_that_does_not_exist(store: Store, tmp_path: Path) -> None:
    refused = run("adopt-missing", "--output", str(tmp_path / "missing"))
    assert refused.exit_code == 2
    assert "Could not find" in refused.output


def test_a_region_whose_cloudformation_does_not_import_endpoints(capsys: pytest.CaptureFixture[str]) -> None:
    class CloudFormation:
        def get_template_summary(self, TemplateBody: str) -> dict[str, Any]:  # noqa: N803
            assert "AWS::SageMaker::Endpoint" in TemplateBody
            return {"ResourceIdentifierSummaries": [{"ResourceType": "AWS::SageMaker::Model"}]}

    template = {"Resources": {"Endpoint": {"Type": "AWS::SageMaker::Endpoint"}}}
    with pytest.raises(typer.Exit) as ended:
        adopt._check_importable(CloudFormation(), template, ["Endpoint"])
    assert ended.value.exit_code == 2
    assert "CloudFormation does not import AWS::SageMaker::Endpoint in this Region" in capsys.readouterr().err
