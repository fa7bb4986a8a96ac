"""A platform team's policy for apps, as a CDK policy validation plugin."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from aws_cdk import (
    Acknowledgment,
    App,
    CfnParameter,
    CfnResource,
    LegacyStackSynthesizer,
    NestedStack,
    Stack,
    Stage,
    Validations,
)
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_sagemaker as sagemaker
from constructs import Construct

from constructs_optim import (
    Model,
    NetworkOptions,
    OptimizationJob,
    OptimizedEndpoint,
    PlatformPolicy,
    PolicyValidation,
    Quantization,
    SpeculativeDecoding,
)

from ..support.construct_stacks import ENVIRONMENT, endpoint

NVME_TYPES_ONLY = PlatformPolicy(allowed_instance_types=["ml.p5.*"])
STRICT = PlatformPolicy(
    allowed_instance_types=["ml.p5.*"],
    allowed_job_instance_types=["ml.p5.*"],
    max_price_per_hour=5,
    max_monthly_cost=10_000,
    instance_prices={"ml.g5.12xlarge": 7.09},
    required_techniques=["speculative_decoding"],
    forbidden_techniques=["quantization=awq"],
    accepted_licenses=["Gemma Terms of Use"],
    pinned_model_versions=True,
    kms_required=True,
    vpc_required=True,
    network_isolation_required=True,
    autoscaling_required=True,
    alarm_actions_required=True,
    evaluation_gate_required=True,
    severities={"POL040": "warning", "POL020": "fatal"},
    reasons={"POL001": "reserved until June"},
)


class Found(NamedTuple):
    """A finding in a report; ``reason`` is set if it was acknowledged."""

    rule: str
    severity: str
    construct: str
    text: str
    reason: str | None


def findings(app: App, policy: PlatformPolicy) -> set[Found]:
    Validations.of(app).add_plugins(PolicyValidation(policy))
    # With a finding that fails synthesis, the CDK raises its report.
    with contextlib.suppress(RuntimeError):
        app.synth()
    report = Path(app.outdir, "validation-report.json")
    reports = json.loads(report.read_text())["pluginReports"] if report.exists() else []
    found = set[Found]()
    for one in reports:
        assert not (one.get("metadata") or {}).get("error"), one
        for violation in [*one["violations"], *one.get("suppressedViolations", [])]:
            for construct in violation["violatingConstructs"]:
                text = f"{violation['description']}. What works: {violation['suggestedFix']}"
                # An acknowledged finding does not stop a deployment, whatever its rule's severity.
                reason = violation.get("reason")
                severity = "acknowledged" if reason else violation["severity"]
                found.add(Found(violation["ruleName"], severity, construct["constructPath"], text, reason))
    return found


@pytest.fixture
def app(tmp_path: Path) -> App:
    # The CDK's own rules take seconds and are not under test here.
    return App(outdir=str(tmp_path / "out"), builtin_cloud_formation_validation=False)


def stack_of(app: Construct, name: str = "Chat", **options: Any) -> Stack:
    return Stack(app, name, env=ENVIRONMENT, **options)


def broken(found: set[Found]) -> set[str]:
    return {one.rule for one in found if one.severity != "acknowledged"}


def test_stages_and_nested_stacks_are_validated_and_the_closest_acknowledgement_counts(app: App) -> None:
    stack = stack_of(app)
    first = endpoint(stack)
    PolicyValidation.acknowledge(first, "POL031", reason="no VPC in the sandbox")
    # A license is a fatal rule here: this does not let it pass.
    PolicyValidation.acknowledge(first, "POL020", reason="we asked nicely")
    PolicyValidation.acknowledge(stack, "POL040", reason="a demo")
    PolicyValidation.acknowledge(first, "POL040", reason="a smaller demo")
    inner = NestedStack(stack, "Inner")
    endpoint(inner, "Nested").auto_scale(max_capacity=4).on_concurrency(target=8)
    endpoint(NestedStack(inner, "Innermost"), "Nested")
    endpoint(stack_of(Stage(app, "Prod"), "Later"), "Staged")
    shared = OptimizedEndpoint(stack_of(app, "Shared"), "Shared", instance_type="ml.g5.12xlarge")
    shared.add_component("A", model=Model.s3("s3://mine/a/"), techniques=[Quantization.awq(tensor_parallel_degree=2)])

    found = findings(app, STRICT)
    assert {one.construct for one in found if one.rule == "POL001"} == {
        "Chat/Llama70B/Config",
        "Chat/Inner/Nested/Config",
        "Chat/Inner/Innermost/Nested/Config",
        "Prod/Later/Staged/Config",
        "Shared/Shared/Config",
    }
    of_the_first = {one.rule: one for one in found if one.construct.startswith("Chat/Llama70B")}
    assert of_the_first["POL031"].reason == "no VPC in the sandbox"
    assert of_the_first["POL040"].reason == "a smaller demo"
    assert of_the_first["POL020"].severity == "fatal"
    assert of_the_first["POL020"].reason is None


def test_a_compliant_endpoint_has_no_findings(app: App) -> None:
    created = endpoint(stack_of(app))
    created.auto_scale(max_capacity=2).on_concurrency(target=8)
    policy = PlatformPolicy(
        allowed_instance_types=["ml.g5.*"],
        allowed_job_instance_types=["ml.g5.12xlarge"],
        required_techniques=["quantization=awq"],
        forbidden_techniques=["speculative_decoding"],
        accepted_licenses=["Meta Llama 3*"],
        max_price_per_hour=7.09,
        max_monthly_cost=10_352,
        instance_prices={"ml.g5.12xlarge": 7.09},
        pinned_model_versions=True,
        network_isolation_required=True,
        autoscaling_required=True,
    )
    assert findings(app, policy) == set()


def test_a_finding_names_the_value_the_reason_and_a_fix(app: App) -> None:
    endpoint(stack_of(app))
    policy = PlatformPolicy(allowed_instance_types=["ml.p5.*", "ml.g6.*"], reasons={"POL001": "reserved until June"})
    assert findings(app, policy) == {
        Found(
            "POL001",
            "error",
            "Chat/Llama70B/Config",
            "Properties.ProductionVariants.0.InstanceType is 'ml.g5.12xlarge': the policy does not allow this instance "
            "type (reserved until June). What works: one of ml.p5.*, ml.g6.*",
            None,
        )
    }


def test_an_acknowledged_finding_stays_in_the_report_with_its_reason(app: App) -> None:
    stack = stack_of(app)
    PolicyValidation.acknowledge(endpoint(stack), "POL001", reason="a trial until May")
    endpoint(stack, "Other")
    found = {(one.construct, one.severity, one.reason) for one in findings(app, NVME_TYPES_ONLY)}
    assert found == {
        ("Chat/Llama70B/Config", "acknowledged", "a trial until May"),
        ("Chat/Other/Config", "error", None),
    }


def test_the_cdks_own_acknowledgement_has_the_same_effect(app: App) -> None:
    stack = stack_of(app)
    endpoint(stack)
    Validations.of(stack).acknowledge(Acknowledgment(id="constructs-optim-policy::POL001", reason="a trial"))
    assert {(one.severity, one.reason) for one in findings(app, NVME_TYPES_ONLY)} == {("acknowledged", "a trial")}


def test_an_acknowledgement_requires_a_known_rule_and_a_reason(app: App) -> None:
    stack = stack_of(app)
    with pytest.raises(ValueError, match=r"there is no policy rule 'POL999'.*POL001"):
        PolicyValidation.acknowledge(stack, "POL999", reason="why not")
    with pytest.raises(ValueError, match="POL001 at Chat has no reason"):
        PolicyValidation.acknowledge(stack, "POL001", reason=" ")


def test_property_overrides_are_validated_against_the_policy(app: App) -> None:
    created = endpoint(stack_of(app), instance_type="ml.p5.48xlarge", techniques=[Quantization.fp8()])
    config = created.node.find_child("Config")
    assert isinstance(config, CfnResource)
    config.add_property_override("ProductionVariants.0.InstanceType", "ml.g5.48xlarge")
    assert {"'ml.g5.48xlarge'" in one.text for one in findings(app, NVME_TYPES_ONLY)} == {True}


def test_endpoints_declared_with_l1_constructs_are_validated(app: App) -> None:
    stack = stack_of(app)
    instance_type = CfnParameter(stack, "Type").value_as_string
    sagemaker.CfnModel(stack, "Model", execution_role_arn="arn:aws:iam::111122223333:role/x")
    sagemaker.CfnEndpointConfig(
        stack,
        "Config",
        production_variants=[
            {"variantName": "A", "modelName": "m", "instanceType": instance_type, "initialInstanceCount": 1}  # type: ignore[list-item]
        ],
    )
    policy = PlatformPolicy(
        allowed_instance_types=["ml.p5.*"], required_techniques=["quantization"], accepted_licenses=[]
    )
    found = {one.rule: one.text for one in findings(app, policy)}
    assert set(found) == {"POL001", "POL010", "POL020"}
    assert "known only at deployment" in found["POL001"]
    assert "has no constructs-optim metadata" in found["POL010"]


def test_a_job_without_an_endpoint_is_validated_for_its_recipe(app: App) -> None:
    stack = stack_of(app)
    OptimizationJob(
        stack,
        "Job",
        model=Model.jumpstart("meta-textgeneration-llama-3-70b-instruct", accept_eula=True),
        techniques=[Quantization.awq()],
        instance_type="ml.g5.12xlarge",
        wait=False,
    )
    policy = PlatformPolicy(required_techniques=["sharding"], pinned_model_versions=True, vpc_required=True)
    found = findings(app, policy)
    assert {one.rule for one in found} == {"POL010", "POL021", "POL031"}
    assert {one.construct for one in found} == {"Chat/Job/Resource"}


def test_the_license_of_a_draft_model_is_validated(app: App) -> None:
    endpoint(
        stack_of(app),
        techniques=[
            Quantization.awq(),
            SpeculativeDecoding.jumpstart_draft(model_id="meta-textgeneration-llama-3-8b-instruct", accept_eula=True),
        ],
    )
    found = findings(app, PlatformPolicy(accepted_licenses=["meta-textgeneration-llama-3-70b-*"]))
    assert {"llama-3-8b" in one.text for one in found} == {True}


def test_an_endpoint_in_a_vpc_meets_the_vpc_requirement(app: App) -> None:
    stack = stack_of(app)
    endpoint(stack, network=NetworkOptions(vpc=ec2.Vpc(stack, "Vpc", max_azs=2)))
    assert findings(app, PlatformPolicy(vpc_required=True)) == set()


def test_a_warning_does_not_fail_synthesis(app: App) -> None:
    endpoint(stack_of(app))
    policy = PlatformPolicy(autoscaling_required=True, severities={"POL040": "warning"})
    Validations.of(app).add_plugins(PolicyValidation(policy))
    app.synth()
    report = json.loads(Path(app.outdir, "validation-report.json").read_text())
    assert [(one["conclusion"], len(one["violations"])) for one in report["pluginReports"]] == [("success", 1)]


def test_leftover_templates_of_an_earlier_synthesis_are_not_validated(tmp_path: Path) -> None:
    for nested in (True, False):
        app = App(outdir=str(tmp_path / "out"), builtin_cloud_formation_validation=False)
        stack = stack_of(app)
        endpoint(NestedStack(stack, "Inner") if nested else stack, techniques=[Quantization.awq()])
        found = {one.construct for one in findings(app, NVME_TYPES_ONLY)}
        assert found == {"Chat/Inner/Llama70B/Config" if nested else "Chat/Llama70B/Config"}
        assert list((tmp_path / "out").glob("*.nested.template.json"))


def test_nested_stacks_of_the_legacy_synthesizer_are_resolved_by_asset_metadata(tmp_path: Path) -> None:
    app = App(
        outdir=str(tmp_path / "out"),
        builtin_cloud_formation_validation=False,
        context={"aws:cdk:enable-asset-metadata": True},
    )
    stack = stack_of(app, synthesizer=LegacyStackSynthesizer())
    sagemaker.CfnEndpointConfig(
        NestedStack(stack, "Inner"),
        "Config",
        production_variants=[
            {"variantName": "A", "modelName": "m", "instanceType": "ml.g5.xlarge", "initialInstanceCount": 1}  # type: ignore[list-item]
        ],
    )
    assert {one.construct for one in findings(app, NVME_TYPES_ONLY)} == {"Chat/Inner/Config"}


def test_a_policy_has_the_rules_that_it_enables() -> None:
    assert PolicyValidation(NVME_TYPES_ONLY).rule_ids == ["POL001"]
    policy = PlatformPolicy(allowed_instance_types=["ml.p5.*"], kms_required=True, alarm_actions_required=True)
    assert PolicyValidation(policy).rule_ids == ["POL001", "POL030", "POL041"]
