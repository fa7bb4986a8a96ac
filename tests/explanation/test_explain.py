"""Apps synthesized before and after a change, and what is said of deploying it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import App, Duration, Environment, NestedStack, Stack, Stage
from aws_cdk import aws_s3 as s3

from constructs_optim import (
    Model,
    OptimizedEndpoint,
    Quantization,
    Sharding,
    SpeculativeDecoding,
    UpdatePolicy,
    VariantOptions,
)
from constructs_optim.explanation.assembly import ExplanationError, StackTemplate, read_assembly
from constructs_optim.explanation.explain import explain
from constructs_optim.explanation.jobs import Prices, StackEvidence, StoreContents
from constructs_optim.explanation.report import EndpointReport, RecipeChange, Report, ResourceReport
from constructs_optim.explanation.text import markdown, text_lines
from constructs_optim.recipe.catalog.lock import RecordedChoice, RecordedPool
from constructs_optim.templates.resource_types import CHOICE_KEY

from ..support.choices import CHOICE
from ..support.construct_stacks import ENVIRONMENT, KEY_OF_THE_HEADLINE, endpoint
from ..support.handwritten_templates import KEY, OTHER_KEY, chat, job, role, scaled, stack, tracking, written

Build = Callable[[Stack], object]
PRICES = StackEvidence(Prices({"ml.g5.12xlarge": 7.09, "ml.p5.48xlarge": 63.3}, source="prices of a test"))


def headline(scope: Stack, *, most: int = 4, **changed: Any) -> OptimizedEndpoint:
    made = endpoint(scope, **changed)
    made.auto_scale(max_capacity=most).on_concurrency(target=8)
    return made


class Synthesis:
    """Synthesizes each app once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._made: dict[Build, list[StackTemplate]] = {}

    def of(self, build: Build) -> list[StackTemplate]:
        if build not in self._made:
            folder = self._folder / str(len(self._made))
            app = App(outdir=str(folder))
            build(Stack(app, "Chat", env=ENVIRONMENT))
            app.synth()
            self._made[build] = read_assembly(folder)
        return self._made[build]

    def change(self, before: Build, after: Build) -> Report:
        return explain(self.of(after), self.of(before), against="main", evidence_of=lambda each: PRICES)


@pytest.fixture(scope="module")
def synthesis(tmp_path_factory: pytest.TempPathFactory) -> Synthesis:
    return Synthesis(tmp_path_factory.mktemp("apps"))


def said(report: Report) -> list[str]:
    """The paragraphs of the report."""
    return [line.strip() for line in text_lines(report, 10_000)]


def outcomes(found: EndpointReport) -> list[str]:
    return [job.outcome for job in found.jobs]


def on_another_instance(scope: Stack) -> None:
    changed = {
        "techniques": [Quantization.fp8()],
        "instance_type": "ml.p5.48xlarge",
        "update_policy": UpdatePolicy.rolling(percent=25, bake_time=Duration.minutes(5)),
    }
    headline(scope, **changed)


def with_more_instances(scope: Stack) -> None:
    headline(scope, most=8)


def with_another_name(scope: Stack) -> None:
    headline(scope, endpoint_name="chat-of-next-year")


def with_a_bucket_to_read(scope: Stack) -> None:
    s3.Bucket.from_bucket_name(scope, "Prompts", "prompts").grant_read(headline(scope))


def beside_another(scope: Stack) -> None:
    headline(scope)
    endpoint(scope, "Second", techniques=[Quantization.awq(group_size=64)])


def sharded(scope: Stack) -> None:
    endpoint(scope, techniques=[Quantization.awq(), Sharding.fast_load()])


def with_a_draft(scope: Stack) -> None:
    headline(scope, techniques=[Quantization.awq(), SpeculativeDecoding.sagemaker_draft()])


def of_components(scope: Stack) -> None:
    shared = OptimizedEndpoint(
        scope, "Shared", instance_type="ml.g5.12xlarge", variant=VariantOptions(max_instance_count=2)
    )
    awq = Quantization.awq(tensor_parallel_degree=2)
    shared.add_component("Assistant", model=Model.s3("s3://models/assistant/"), techniques=[awq])


def of_two_components(scope: Stack) -> None:
    shared = OptimizedEndpoint(
        scope, "Shared", instance_type="ml.g5.12xlarge", variant=VariantOptions(max_instance_count=3)
    )
    awq = Quantization.awq(tensor_parallel_degree=2)
    shared.add_component("Assistant", model=Model.s3("s3://models/assistant-2/"), techniques=[awq])
    night = shared.add_component("Night", model=Model.s3("s3://models/night/"), techniques=[awq])
    night.auto_scale(min_capacity=0, max_capacity=2).on_concurrency()


def test_an_unchanged_app_is_reported_in_one_line(synthesis: Synthesis) -> None:
    report = synthesis.change(headline, headline)
    assert not report.has_changes
    assert not report.may_run_jobs
    assert said(report) == ["Compared with main.", "Nothing changes."]


def test_every_optimized_resource_has_recipe_and_artifact_key_in_its_metadata(synthesis: Synthesis) -> None:
    (made,) = synthesis.of(headline)
    # Models and techniques are there as well, for policies.
    told = {
        resource["Type"]: {
            name: value
            for name, value in resource["Metadata"]["constructs-optim"].items()
            if name in ("Recipe", "ArtifactKey", "Job")
        }
        for resource in made.template["Resources"].values()
        if "constructs-optim" in resource.get("Metadata", {})
    }
    recipe = (
        "meta-textgeneration-llama-3-70b-instruct 2.25.0: AWQ INT4 (group size 128), ml.g5.12xlarge, "
        "tensor parallel degree 4"
    )
    served = {"Recipe": recipe, "ArtifactKey": KEY_OF_THE_HEADLINE}
    assert told == {
        "Custom::OptimizationJob": {**served, "Job": "awq"},
        "AWS::SageMaker::Model": served,
        "AWS::SageMaker::EndpointConfig": served,
        "AWS::SageMaker::Endpoint": served,
    }


def test_a_changed_recipe_changes_artifact_and_model_behind_the_same_endpoint(
    synthesis: Synthesis,
) -> None:
    report = synthesis.change(headline, on_another_instance)
    (found,) = report.endpoints
    assert (found.change, outcomes(found), found.is_interrupted) == ("changed", ["decided_at_deployment"], False)
    assert found.jobs[0].artifact_key_before == KEY_OF_THE_HEADLINE
    assert found.jobs[0].artifact_key not in (None, KEY_OF_THE_HEADLINE)
    assert found.jobs[0].max_cost == 633
    assert report.may_run_jobs
    lines = said(report)
    model = "meta-textgeneration-llama-3-70b-instruct 2.25.0"
    for line in (
        f"recipe: {model}: AWQ INT4 (group size 128), ml.g5.12xlarge, tensor parallel degree 4 becomes "
        f"{model}: FP8, ml.p5.48xlarge, tensor parallel degree 8",
        "capacity: 1 to 4 instances of ml.p5.48xlarge (scaling); before: 1 to 4 instances of ml.g5.12xlarge (scaling)",
        "cost: $46,209 to $184,836 per month (730 hours on demand, prices of a test); before: $5,176 to $20,703",
    ):
        assert line in lines, lines
    assert any(line.startswith("update: rolling, 25% at a time, 5 min between steps; ") for line in lines)
    artifact = next(line for line in lines if line.startswith("artifact: "))
    assert "Another artifact than before (artifact 048a185ba32c). Decided at deployment: artifact " in artifact
    assert (
        "At most 10 h and $633, by the hosting price of ml.p5.48xlarge, because the job's own price is unknown."
        in artifact
    )
    replaced = next(line for line in lines if line.startswith("resources replaced: "))
    assert "Llama70BModel (PrimaryContainer)" in replaced
    assert "Llama70BConfig (ProductionVariants)" in replaced
    assert not any(
        resource.action == "replace" and resource.type.endswith("::Endpoint") for resource in found.resources
    )


def test_more_instances_change_the_cost_but_neither_artifact_nor_fleet(synthesis: Synthesis) -> None:
    report = synthesis.change(headline, with_more_instances)
    (found,) = report.endpoints
    assert (found.change, outcomes(found), found.updates) == ("changed", ["stays"], ())
    assert "artifact: Artifact 048a185ba32c stays as it is: no job runs." in said(report)
    assert "resources updated: Llama70BScalingTarget (MaxCapacity)" in said(report)
    assert "1 to 8 instances of ml.g5.12xlarge (scaling); before: 1 to 4" in "\n".join(said(report))
    assert not report.permissions


def test_a_changed_endpoint_name_replaces_the_endpoint(synthesis: Synthesis) -> None:
    report = synthesis.change(headline, with_another_name)
    (found,) = report.endpoints
    assert found.is_interrupted
    assert found.endpoint_name == "chat-of-next-year"
    assert any("Llama70B (EndpointName)" in line for line in said(report))
    assert "Chat/Llama70B: changed, interrupted in us-west-2" in said(report)


def test_a_grant_is_a_gained_permission(synthesis: Synthesis) -> None:
    report = synthesis.change(headline, with_a_bucket_to_read)
    roles = ("OptimizationServiceExecutionRole", "OptimizationServiceJobRole")
    assert {(each.owner, each.grants_more) for each in report.permissions} == {(owner, True) for owner in roles}
    assert all("s3:GetObject*" in each.gained[0] for each in report.permissions)
    assert said(report)[-1].endswith("2 policies grant new permissions.")
    lost = synthesis.change(with_a_bucket_to_read, headline).permissions
    assert {(each.gained, each.grants_more) for each in lost} == {((), False)}


def test_adding_and_removing_an_endpoint_leaves_the_other_unchanged(synthesis: Synthesis) -> None:
    report = synthesis.change(headline, beside_another)
    assert [(each.name, each.change) for each in report.endpoints] == [
        ("Chat/Llama70B", "unchanged"),
        ("Chat/Second", "new"),
    ]
    assert "Unchanged: Chat/Llama70B." in said(report)
    report = synthesis.change(beside_another, headline)
    _, gone = report.endpoints
    assert (gone.change, gone.is_interrupted, outcomes(gone)) == ("removed", True, ["removed"])
    assert "Chat/Second: removed, interrupted in us-west-2" in said(report)


def test_each_artifact_of_a_chain_is_reported(synthesis: Synthesis) -> None:
    report = synthesis.change(headline, sharded)
    (found,) = report.endpoints
    # What the first job makes is what the endpoint served until now.
    assert outcomes(found) == ["stays", "decided_at_deployment"]
    assert found.jobs[0].artifact_key == KEY_OF_THE_HEADLINE
    assert ("create", "AWS::SageMaker::InferenceComponent") in {(each.action, each.type) for each in found.resources}


def test_components_are_distinguished_with_their_recipes_copies_and_updates(synthesis: Synthesis) -> None:
    report = synthesis.change(of_components, of_two_components)
    lines = said(report)
    assert any("recipe: Assistant: s3://models/assistant/" in line and "becomes" in line for line in lines)
    assert any(line.startswith("recipe: Night: s3://models/night/") for line in lines)
    assert any(line.startswith("update: Assistant: ") and "rolling, 25% at a time" in line for line in lines)
    assert any("resources created: " in line and "SharedNight" in line for line in lines)
    assert any("The artifact's key depends on the files below s3://models/night/" in line for line in lines)


def test_without_a_baseline_every_endpoint_is_new(synthesis: Synthesis) -> None:
    report = explain(synthesis.of(headline), evidence_of=lambda each: PRICES)
    (found,) = report.endpoints
    assert (found.change, report.against) == ("new", None)
    assert "Without --against" in report.notes[0]
    assert found.updates == ()
    assert any(line.startswith("resources created: ") for line in said(report))


def test_stages_and_nested_stacks_are_read_with_the_stacks_they_are_in(tmp_path: Path) -> None:
    app = App(outdir=str(tmp_path))
    outer = Stack(Stage(app, "Prod", env=ENVIRONMENT), "Chat")
    headline(NestedStack(outer, "Inner"))  # type: ignore[arg-type]
    app.synth()
    outermost, nested = read_assembly(tmp_path)
    assert (outermost.path, outermost.stack_name, outermost.region) == ("Prod/Chat", "Prod-Chat", "us-west-2")
    assert nested.parents[0].startswith("InnerNestedStack")
    assert (nested.path, nested.stack_name) == (f"Prod/Chat/{nested.parents[0]}", "Prod-Chat")
    (found,) = explain([outermost, nested]).endpoints
    assert found.jobs[0].artifact_key == KEY_OF_THE_HEADLINE
    gone = explain([outermost], [outermost, nested], against="main")
    assert [each.change for each in gone.endpoints] == ["removed"]


def test_a_nested_stack_of_an_undeployed_parent_is_not_reported_separately() -> None:
    nested = StackTemplate("Old/Inner", "Old", {"Resources": chat()}, parents=("Inner",))
    report = explain([stack(chat())], [stack(chat()), stack({}, path="Old"), nested], against="main")
    assert [each.name for each in report.stacks] == ["Chat"]
    assert len(report.notes) == 1


def test_a_job_is_reported_with_the_endpoint_that_now_serves_it() -> None:
    report = explain([stack(chat())], [stack(job())], against="main")
    assert report.stacks[0].artifacts == ()
    assert [each.outcome for each in report.endpoints[0].jobs] == ["stays"]


def test_a_stack_removed_from_the_app_is_noted_as_left_deployed() -> None:
    report = explain([stack(chat())], [stack(chat()), stack(chat(), path="Old")], against="main")
    assert not report.endpoints[0].is_interrupted
    assert any("The stack Old is only in main. A deployment does not change it" in note for note in report.notes)


def test_skipped_lookups_are_noted_once_for_all_endpoints() -> None:
    report = explain([stack(chat(Target=scaled(1, 4))), stack(chat(), path="Other")])
    assert not any(line.startswith("cost: ") for line in said(report))
    (note,) = (note for note in report.notes if "--prices" in note)
    assert note == (
        "Not looked up: costs (--prices aws, or a file) and whether jobs run, and for how long (--store deployed)."
    )


def test_prices_that_were_asked_for_are_not_said_to_be_missing() -> None:
    report = explain([stack(chat(Target=scaled(1, 4)))], with_prices=True)
    assert [note for note in report.notes if "Not looked up" in note] == [
        "Not looked up: whether jobs run, and for how long (--store deployed)."
    ]


def test_an_instance_type_without_a_price_is_reported() -> None:
    others = StackEvidence(Prices({"ml.p5.48xlarge": 63.3}, source="prices of a test"))
    report = explain([stack(chat(Target=scaled(1, 4)))], evidence_of=lambda each: others)
    assert "cost: unknown, because the price list has no ml.g5.12xlarge" in said(report)
    assert "The price list has no ml.g5.12xlarge." in report.jobs[0].sentences[-1]


def on_other_instances(made: dict[str, Any]) -> dict[str, Any]:
    made["Config"]["Properties"]["ProductionVariants"][0]["InstanceType"] = "ml.g6.12xlarge"
    return made


def test_changing_the_instance_type_of_a_scaled_variant_is_refused() -> None:
    before = chat(Target=scaled(1, 4))
    for after in (chat(Target=scaled(1, 4)), chat()):
        report = explain([stack(on_other_instances(after))], [stack(before)], against="main")
        (refusal,) = report.refusals
        assert "the instance type of AllTraffic changes from ml.g5.12xlarge to ml.g6.12xlarge" in refusal
        assert "Deploy twice: first without auto_scale(...)" in refusal
        assert said(report)[0] == refusal
        assert "> AWS refuses this deployment." in markdown(report)


def test_changing_the_instance_type_is_allowed_unscaled_or_on_replacement() -> None:
    assert not explain([stack(on_other_instances(chat()))], [stack(chat())]).refusals
    renamed = on_other_instances(chat(Target=scaled(1, 4)))
    renamed["Endpoint"]["Properties"]["EndpointName"] = "another"
    assert not explain([stack(renamed)], [stack(chat(Target=scaled(1, 4)))]).refusals


def test_changing_a_scaled_variant_is_allowed_where_both_templates_make_way() -> None:
    way = {
        "Type": "Custom::VariantScaling",
        "Properties": {"EndpointName": chat()["Endpoint"]["Properties"]["EndpointName"]},
    }
    before, after = chat(Target=scaled(1, 4), Way=way), on_other_instances(chat(Target=scaled(1, 4), Way=way))
    assert not explain([stack(after)], [stack(before)]).refusals
    (refusal,) = explain([stack(after)], [stack(chat(Target=scaled(1, 4)))]).refusals
    assert "Deploy twice: first without other changes, which adds a resource that deregisters the variant" in refusal
    (refusal,) = explain([stack(on_other_instances(chat()))], [stack(before)]).refusals
    assert "Deploy twice: first without auto_scale(...)" in refusal


def test_removing_a_scaled_variant_is_refused_by_sagemaker() -> None:
    after = chat(Target=scaled(1, 4))
    after["Config"]["Properties"]["ProductionVariants"][0]["VariantName"] = "Other"
    (refusal,) = explain([stack(after)], [stack(chat(Target=scaled(1, 4)))]).refusals
    assert "the variant AllTraffic is removed while Application Auto Scaling scales it" in refusal


def test_a_draft_replaces_the_model_by_one_of_another_type(synthesis: Synthesis) -> None:
    lines = said(synthesis.change(headline, with_a_draft))
    assert any("resources created: " in line and "Llama70BOptimizedModel" in line for line in lines)
    assert any("resources deleted: " in line and "Llama70BModel" in line for line in lines)


def test_a_logical_id_with_another_type_is_refused_by_cloudformation() -> None:
    after = chat()
    after["Model"]["Type"] = "Custom::OptimizedModel"
    (refusal,) = explain([stack(after)], [stack(chat())]).refusals
    assert refusal.startswith(
        "CloudFormation refuses the deployment: Model changes its type from AWS::SageMaker::Model to "
        "Custom::OptimizedModel. Give the construct another ID"
    )


def test_a_changed_job_time_limit_keeps_the_artifact() -> None:
    after = chat()
    after["Job"]["Properties"]["Request"]["StoppingCondition"] = {"MaxRuntimeInSeconds": 7200}
    report = explain([stack(after)], [stack(chat())], against="main")
    assert "artifact: Artifact aaaaaaaaaaaa stays as it is: no job runs." in said(report)
    assert "resources updated: Job (Request)" in said(report)


def test_a_lost_artifact_of_an_unchanged_endpoint_is_reported() -> None:
    lost = StackEvidence(stores={"Job": StoreContents("ml-artifacts", {})})
    report = explain([stack(chat())], [stack(chat())], against="what is deployed", evidence_of=lambda each: lost)
    assert not report.has_changes
    text = "\n".join(said(report))
    assert "Chat/Endpoint: unchanged" in text
    assert "is not in the store ml-artifacts, and no job runs" in text


def test_a_changed_stack_output_is_a_change() -> None:
    after = StackTemplate("Chat", "Chat", {"Resources": chat(), "Outputs": {"Key": {"Value": "a"}}})
    report = explain([after], [stack(chat())], against="main")
    assert report.has_changes
    assert report.endpoints[0].change == "unchanged"


def test_updating_a_wait_condition_is_refused_by_cloudformation() -> None:
    after = chat()
    after["Ready1"]["Properties"]["Timeout"] = "3600"
    report = explain([stack(after)], [stack(chat())], against="main")
    (refusal,) = report.refusals
    assert "it cannot update wait conditions, but Timeout of Ready1 changes" in refusal


def test_a_retained_endpoint_is_reported_as_left_in_the_account() -> None:
    before = chat()
    before["Endpoint"]["DeletionPolicy"] = "Retain"
    report = explain([stack({})], [stack(before)], against="main")
    assert not report.endpoints[0].is_interrupted
    assert "resources left in the account (DeletionPolicy): Endpoint" in said(report)


def test_jobs_without_an_endpoint_in_the_stack_are_reported_separately() -> None:
    report = explain([stack(job(key=OTHER_KEY, generation="2"))], [stack(job())], against="main")
    (only,) = report.stacks
    assert [each.outcome for each in only.artifacts] == ["decided_at_deployment"]
    assert only.artifacts[0].artifact_key_before == KEY
    assert "Artifacts of Chat that other stacks serve" in said(report)


def test_a_comment_stays_within_the_github_length_limit() -> None:
    many = [{"Effect": "Allow", "Action": "s3:GetObject", "Resource": f"{number}-{'a' * 200}"} for number in range(400)]
    report = explain([stack({**chat(), "Role": role(*many)})], [stack(chat())], against="main")
    text = markdown(report)
    assert "400 added" in text
    assert "390 more: `explain --json` lists them" in text
    report = report.model_copy(update={"notes": ("a note of some length " * 4_000,)})
    assert 60_000 < len(markdown(report)) <= 65_536
    assert markdown(report).endswith("\n(Truncated, because a comment has at most 65,536 characters.)\n```\n")


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, "run `cdk synth` first"),
        ({"manifest.json": "{"}, "manifest.json is not a file of the CDK: Invalid JSON"),
        ({"manifest.json": "[]"}, "manifest.json is not a file of the CDK: Input should be an object"),
    ],
)
def test_an_invalid_cloud_assembly_is_refused_with_an_error_message(
    files: dict[str, str], message: str, tmp_path: Path
) -> None:
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    with pytest.raises(ExplanationError, match=message):
        read_assembly(tmp_path)


def test_a_missing_template_is_reported_by_name(tmp_path: Path) -> None:
    folder = written(tmp_path, stack(chat()))
    (folder / "Chat.template.json").unlink()
    with pytest.raises(ExplanationError, match=r"Chat\.template\.json does not exist: synthesize the app again"):
        read_assembly(folder)


def by_choice(choice: RecordedChoice | None) -> StackTemplate:
    resources = chat()
    if choice is not None:
        resources["Endpoint"]["Metadata"][CHOICE_KEY] = choice.model_dump(mode="json")
    return stack(resources)


def objectives_of(before: RecordedChoice | None, after: RecordedChoice | None) -> str | None:
    report = explain([by_choice(after)], [by_choice(before)], against="main")
    (found,) = report.endpoints
    assert (f"objectives: {found.choice}" in said(report)) is (found.choice is not None)
    return found.choice


def test_a_choice_for_objectives_and_its_changes_are_described_in_a_sentence() -> None:
    pool = RecordedPool(instance_type="ml.p5.4xlarge", techniques=("quantization=fp8",), price_per_hour=20.64)
    other = CHOICE.model_copy(update={"pools": (pool,), "copies": 3, "instances": 3})
    assert objectives_of(CHOICE, CHOICE) is None
    assert objectives_of(CHOICE, other) == (
        "3 x ml.p5.4xlarge, FP8 instead of 2 x ml.p5.48xlarge, FP8; $20.64 an hour instead of an unknown price"
    )
    new = objectives_of(None, CHOICE)
    assert new is not None
    assert new.startswith("chosen for Qwen/Qwen3-32B")
    assert objectives_of(CHOICE, None) == "the endpoint no longer has objectives"


def test_a_choice_of_another_release_is_described_as_far_as_it_is_known() -> None:
    pool = RecordedPool(instance_type="ml.p5.4xlarge", techniques=("quantization=of_the_next_release",))
    sentence = objectives_of(CHOICE, CHOICE.model_copy(update={"pools": (pool,)}))
    assert sentence is not None
    assert "ml.p5.4xlarge, quantization=of_the_next_release instead of" in sentence


def scaled_endpoints(target: float, count: int) -> list[StackTemplate]:
    """A synthesized stack of endpoints that are scaled on concurrency."""
    app = App()
    scope = Stack(app, "Chat", env=Environment(account="111122223333", region="us-west-2"))
    for number in range(count):
        endpoint(scope, f"E{number}").auto_scale(max_capacity=4).on_concurrency(target=target)
    return read_assembly(Path(app.synth().directory))


def test_a_changed_scaling_target_is_reported_once_for_all_its_endpoints() -> None:
    before, after = scaled_endpoints(8, 4), scaled_endpoints(6, 4)
    report = explain(after, before)
    text = "\n".join(text_lines(report, width=200))
    assert text.count("scaling: OnConcurrency: target 8 becomes 6") == 1
    assert "4 endpoints of Chat (E0, E1, E2, E3): changed" in text
    assert "PolicyName" not in text
    assert "may be replaced" not in text
    assert "of 4 endpoints" in text
    assert max(map(len, text.splitlines())) <= 200
    assert len(text.splitlines()) < 20
    assert {change for each in report.endpoints for change in each.scaling} == {"OnConcurrency: target 8 becomes 6"}


@pytest.mark.parametrize(
    ("models", "heading"),
    [
        (("Qwen/Coder", "Qwen/Instruct"), "Chat/Coder: changed"),
        (("Qwen/Coder", "Qwen/Coder"), "2 endpoints of Chat (Coder, Instruct): changed"),
    ],
)
def test_endpoints_are_reported_together_only_if_they_serve_the_same_model(
    models: tuple[str, str], heading: str
) -> None:
    made = explain([stack(chat())], [stack(chat())])
    part: dict[str, Any] = {"logical_id": "Config", "type": "AWS::SageMaker::EndpointConfig", "action": "update"}
    served = tuple(
        made.endpoints[0].model_copy(
            update={
                "name": f"Chat/{name}",
                "change": "changed",
                "recipes": (RecipeChange(of="", before=None, after=model),),
                "resources": (ResourceReport(name=f"{name}Config", certain=True, properties=("Tags",), **part),),
            }
        )
        for name, model in zip(("Coder", "Instruct"), models, strict=True)
    )
    report = made.model_copy(update={"stacks": (made.stacks[0].model_copy(update={"endpoints": served}),)})
    text = "\n".join(text_lines(report, width=200))
    assert heading in text
    assert all(f"recipe: {model}" in text for model in models)


def test_added_and_removed_policies_are_reported() -> None:
    before, after = chat(Target=scaled(1, 4)), chat(Target=scaled(1, 4), Policy=None, Other=tracking(5))
    (endpoint,) = explain([stack(after)], [stack(before)]).endpoints
    assert set(endpoint.scaling) == {"Policy is removed", "Other is new, target 5"}


def test_endpoints_that_change_differently_are_reported_one_by_one() -> None:
    before, after = scaled_endpoints(8, 2), scaled_endpoints(6, 1)
    text = "\n".join(text_lines(explain(after, before), width=200))
    assert "Chat/E0: changed" in text
    assert "Chat/E1: removed" in text


def test_the_number_of_created_resources_is_that_of_the_template() -> None:
    (new,) = scaled_endpoints(8, 1)
    report = explain([new])
    created = [each for one in report.stacks for each in one.resources if each.action == "create"]
    created += [each for one in report.endpoints for each in one.resources if each.action == "create"]
    types = [each["Type"] for each in new.template["Resources"].values() if each["Type"] != "AWS::CDK::Metadata"]
    assert sorted(each.type for each in created) == sorted(types)
    assert "AWS::CloudFormation::WaitCondition" in types
